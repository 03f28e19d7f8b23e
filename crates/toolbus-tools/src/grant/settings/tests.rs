//! Keys from settings and files, and what is wrong with them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use toolbus_config::{Environment, Settings, SettingsFile, Sources, load};

use super::*;

const KEY: &str = "0123456789abcdef0123456789abcdef";
const SIGNING_KEY: &str = "ed25519-private:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const PUBLIC_KEY: &str = "ed25519-public:A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

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
    let ended = ("accept_shared_key", "false");
    check(&[("key", KEY), ended], "grants.accept_shared_key: no key counts then");
    check(&[("key_file", "/k"), ended], "grants.accept_shared_key: no key counts then");
    check(&[("required", "true"), ended], "grants.required: grants are checked with a key");

    assert!(worker(&[]).is_ok());
    assert!(worker(&[("required", "true"), ("key_file", "/k")]).is_ok());
    assert!(worker(&[("required", "true"), ("key", KEY), ("previous_key_file", "/k")]).is_ok());
    let public = ("public_keys_file", "/p");
    assert!(worker(&[("required", "true"), public]).is_ok());
    assert!(worker(&[("required", "true"), public, ("key", KEY)]).is_ok());
    assert!(worker(&[("required", "true"), public, ("key", KEY), ended]).is_ok());
}

#[test]
fn without_a_key_nothing_is_checked() {
    let settings = GrantCheckSettings::default();
    assert_eq!(format!("{:?}", settings.load_check("bridge").unwrap()), "GrantCheck(None)");
    assert!(GrantSettings::default().load_signer().unwrap().is_none());

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
        let settings = GrantSettings { key_file: Some(path), ..GrantSettings::default() };
        settings.load_signer().map_err(|error| toolbus_config::on_one_line(&error))
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

#[test]
fn a_signing_key_is_read_from_a_file_of_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let load = |path: PathBuf| {
        let settings = GrantSettings { signing_key_file: Some(path), ..GrantSettings::default() };
        settings.load_signer().map_err(|error| toolbus_config::on_one_line(&error))
    };
    let file = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };

    assert!(load(file("key", &format!("{SIGNING_KEY}\n"), 0o600)).unwrap().is_some());
    for (path, expected) in [
        (folder.path().join("missing"), "cannot be read from"),
        (file("group", SIGNING_KEY, 0o620), "others may read or change it"),
        (file("world", SIGNING_KEY, 0o604), "others may read or change it"),
        (file("public", PUBLIC_KEY, 0o600), "expected a signing key, found a public key"),
        (file("shared", KEY, 0o600), "expected a signing key: `ed25519-private:`"),
        (file("long", &SIGNING_KEY.repeat(20), 0o600), "it is too long"),
    ] {
        let error = load(path.clone()).err().unwrap_or_default();
        assert!(error.contains(expected), "{}: {error:?}", path.display());
        assert!(!error.contains("AAEC"), "{error}");
    }
}

/// A worker that rejects the shared key does not read its file.
#[test]
fn public_keys_are_read_and_the_shared_key_only_while_it_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        Some(path)
    };
    let keys = |settings: GrantCheckSettings| {
        settings.load_keys().map_err(|error| toolbus_config::on_one_line(&error))
    };
    let both = GrantCheckSettings {
        public_keys_file: file("public", &format!("{PUBLIC_KEY}\n")),
        key_file: file("key", KEY),
        previous_key_file: file("previous", &KEY.replace('0', "1")),
        ..GrantCheckSettings::default()
    };
    assert_eq!(keys(both.clone()).unwrap().counts(), (2, 1));
    let ended = GrantCheckSettings { accept_shared_key: false, ..both };
    assert_eq!(keys(ended.clone()).unwrap().counts(), (0, 1));
    let gone = GrantCheckSettings { key_file: Some(folder.path().join("gone")), ..ended };
    assert_eq!(keys(gone).unwrap().counts(), (0, 1));

    for (text, expected) in [
        ("", "there is no public key"),
        (SIGNING_KEY, "line 1: expected a public key, found a signing key"),
        (KEY, "line 1: expected a public key"),
        (&*"x".repeat(PUBLIC_KEYS_BYTES_MAX + 9), "it is too long"),
    ] {
        let public_keys_file = file("wrong", text);
        let error = keys(GrantCheckSettings { public_keys_file, ..GrantCheckSettings::default() });
        let error = error.err().unwrap_or_default();
        assert!(error.contains(expected), "{error:?}");
        assert!(!error.contains("AAEC") && !error.contains("0123"), "{error}");
    }
}
