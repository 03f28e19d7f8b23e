//! Keys from settings and files, and what is wrong with them.

use std::path::PathBuf;

use toolbus_config::{Environment, Settings, SettingsFile, Sources, load};

use super::*;

const KEY: &str = "0123456789abcdef0123456789abcdef";

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Worker {
    grants: GrantCheckSettings,
}

impl Settings for Worker {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.grants.check(mistakes);
    }
}

fn worker(settings: &[(&str, &str)]) -> Result<GrantCheckSettings, String> {
    let variable = |(name, value): &(&str, &str)| {
        (format!("TOOLBUS_GRANTS__{}", name.to_uppercase()), (*value).to_owned())
    };
    let environment: Environment = settings.iter().map(variable).collect();
    let loaded = load::<Worker>(Sources {
        file: SettingsFile::None,
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    });
    let shown = loaded.as_ref().map(|loaded| loaded.print()).unwrap_or_default();
    assert!(!shown.contains(KEY), "{shown}");
    loaded.map(|loaded| loaded.settings.grants).map_err(|errors| errors.to_string())
}

#[test]
fn mistakes_are_named_and_no_key_is_shown() {
    let check = |settings: &[(&str, &str)], named: &str| {
        let error = worker(settings).unwrap_err();
        assert!(error.contains(named), "{settings:?} is told as {error}");
        assert!(!error.contains("0123"), "{error}");
    };
    let short = &KEY[1..];
    check(&[("required", "true")], "grants.required: grants are checked with a key");
    check(&[("key", short)], "grants.key: a key of grants has at least 32 bytes, this one has 31");
    check(&[("key", KEY), ("key_file", "/k")], "grants.key_file: grants.key is set too");
    check(&[("previous_key", KEY)], "grants.previous_key: there is none before");
    check(&[("previous_key_file", "/k")], "grants.previous_key: there is none before");
    check(&[("key", KEY), ("previous_key", short)], "grants.previous_key: a key of grants has");

    assert!(worker(&[]).is_ok());
    assert!(worker(&[("required", "true"), ("key_file", "/k")]).is_ok());
    assert!(worker(&[("required", "true"), ("key", KEY), ("previous_key_file", "/k")]).is_ok());
}

#[test]
fn without_a_key_nothing_is_checked() {
    let settings = GrantCheckSettings::default();
    assert_eq!(format!("{:?}", settings.load_check("bridge").unwrap()), "GrantCheck(None)");
    assert!(GrantSettings::default().load_key().unwrap().is_none());

    let settings = worker(&[("key", KEY)]).unwrap();
    let check = format!("{:?}", settings.load_check("bridge").unwrap());
    assert_eq!(check, "GrantCheck(Some(CheckPresent))");
    let settings = worker(&[("key", KEY), ("required", "true")]).unwrap();
    let check = format!("{:?}", settings.load_check("bridge").unwrap());
    assert_eq!(check, "GrantCheck(Some(Require))");
}

#[test]
fn grants_that_are_required_are_not_loaded_without_a_key() {
    let settings = GrantCheckSettings { required: true, ..GrantCheckSettings::default() };
    let error = settings.load_check("bridge").unwrap_err();
    assert_eq!(error.to_string(), "grants are required, and no key is set to check them with");
}

#[test]
fn a_key_is_read_from_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let load = |path: PathBuf| {
        let settings = GrantSettings { key: None, key_file: Some(path) };
        settings.load_key().map_err(|error| toolbus_config::on_one_line(&error))
    };
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };

    assert!(load(file("key", &format!("{KEY}\r\n"))).unwrap().is_some());
    for (path, expected) in [
        (folder.path().join("missing"), "cannot be read from"),
        (folder.path().to_owned(), "it is not a file"),
        (file("empty", "\n"), "this one has 0"),
        (file("short", &format!("{}\n\n\n", &KEY[1..])), "this one has 31"),
        (file("long", &"x".repeat(1025)), "it is too long"),
    ] {
        let error = load(path.clone()).err().unwrap_or_default();
        assert!(error.contains(expected), "{}: {error:?}", path.display());
        assert!(!error.contains("0123"), "{error}");
    }
}
