//! What `config set` does with files.

use tempfile::TempDir;
use toolbus_runtime::arguments::CommonArguments;
use toolbus_runtime::service::{Program, Role};

use super::*;

/// A file of a test's own.
struct Bench {
    folder: TempDir,
    source: SettingsSource,
}

impl Bench {
    fn new(text: Option<&str>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("made/toolbus.toml");
        if let Some(text) = text {
            std::fs::create_dir(folder.path().join("made")).expect("a folder");
            std::fs::write(&file, text).expect("a file");
        }
        let program = Program {
            name: "agent-host",
            version: "0",
            role: Role::Command,
            aliases: &[],
            left_out: &[],
        };
        let common = CommonArguments { config: Some(file), ..CommonArguments::default() };
        Self { folder, source: SettingsSource { program, common, own: Vec::new() } }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("made/toolbus.toml")
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.file()).unwrap_or_default()
    }

    fn set(&self, key: &str, value: &str) -> Exit {
        set(ConfigSet { key: key.to_owned(), value: value.to_owned() }, &self.source)
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777
    }
}

#[test]
fn cx_c2_a_file_is_made_for_its_owner_alone() {
    let bench = Bench::new(None);
    assert_eq!(bench.set("discovery.enabled", "true"), Exit::SUCCESS);
    assert_eq!(bench.text(), "[discovery]\nenabled = true\n");
    assert_eq!(Bench::mode(&bench.file()), 0o600);
    assert_eq!(Bench::mode(&bench.folder.path().join("made")), 0o700);
}

#[test]
fn cx_c2_a_file_is_replaced_as_a_whole_and_keeps_who_may_read_it() {
    let bench = Bench::new(Some("# ours\n[discovery] # d\nenabled = false # e\n"));
    std::fs::set_permissions(bench.file(), Permissions::from_mode(0o640)).expect("it is ours");
    assert_eq!(bench.set("discovery.enabled", "true"), Exit::SUCCESS);
    assert_eq!(bench.text(), "# ours\n[discovery] # d\nenabled = true # e\n");
    assert_eq!(Bench::mode(&bench.file()), 0o640);
    let names = std::fs::read_dir(bench.folder.path().join("made")).expect("a folder").count();
    assert_eq!(names, 1);
}

#[test]
fn what_is_wrong_changes_nothing() {
    let text = "[discovery]\nenabled = true\n";
    let bench = Bench::new(Some(text));
    for (key, value) in [
        ("discovery.enabld", "true"),
        ("discovery.enabled", "perhaps"),
        ("discovery.zone", "Mars/Olympus"),
        ("discovery", "{}"),
        ("discovery.split_with_model", "true"),
    ] {
        assert_eq!(bench.set(key, value), Exit::MISUSE, "{key}");
        assert_eq!(bench.text(), text, "{key}");
    }
    // Nothing is left behind of a file that would have been wrong.
    let bench = Bench::new(None);
    assert_eq!(bench.set("none", "1"), Exit::MISUSE);
    assert!(!bench.file().exists());
}

#[test]
fn a_file_that_is_wrong_is_mended_key_by_key() {
    let bench = Bench::new(Some("[discovery]\nenabled = 7\nzone = 8\n"));
    assert_eq!(bench.set("discovery.enabled", "true"), Exit::SUCCESS);
    assert_eq!(bench.set("discovery.zone", "9"), Exit::MISUSE);
    assert_eq!(bench.set("discovery.zone", "Europe/Berlin"), Exit::SUCCESS);
    assert_eq!(bench.text(), "[discovery]\nenabled = true\nzone = \"Europe/Berlin\"\n");
}

#[test]
fn a_link_stays_one() {
    let bench = Bench::new(Some(""));
    let real = bench.folder.path().join("real.toml");
    std::fs::rename(bench.file(), &real).expect("it is ours");
    std::os::unix::fs::symlink(&real, bench.file()).expect("a link");
    assert_eq!(bench.set("discovery.enabled", "true"), Exit::SUCCESS);
    assert!(bench.file().is_symlink());
    assert!(std::fs::read_to_string(&real).expect("a file").contains("enabled = true"));
}
