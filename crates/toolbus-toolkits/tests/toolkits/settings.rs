//! The settings of both modules, as an operator writes them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{Environment, Mistakes, Settings, SettingsFile, Sources, load, reference};
use toolbus_toolkits::files::{Access, FilesSettings};
use toolbus_toolkits::shell::{BashSettings, Isolation};

/// A program that has both.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Both {
    /// Files.
    files: FilesSettings,
    /// Commands.
    bash: BashSettings,
}

impl Settings for Both {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.files.check(mistakes);
        self.bash.check(mistakes);
    }
}

fn read(file: &str) -> Result<Both, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbus.toml");
    std::fs::write(&path, file).expect("written");
    let environment: Environment = std::iter::empty::<(String, String)>().collect();
    let sources = Sources {
        file: SettingsFile::IfPresent(path),
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    };
    load(sources).map(|loaded| loaded.settings).map_err(|errors| errors.to_string())
}

#[test]
fn defaults_are_those_of_the_contract() {
    let Both { files, bash } = read("").expect("they are right");
    assert_eq!((files.working_directory, files.access), (None, Access::ReadWrite));
    assert_eq!((bash.isolation, bash.access), (Isolation::Sandbox, Access::ReadWrite));
    assert_eq!((bash.network, bash.timeout.duration().as_secs()), (false, 30));
}

#[test]
fn settings_are_read_as_they_are_documented() {
    let written = "[files]\nworking_directory = \"/srv/work\"\naccess = \"read-only\"\n\
                   readable_paths = [\"/srv/books\"]\nfile_max = \"1 MiB\"\n\
                   [bash]\nisolation = \"none\"\nnetwork = true\ntimeout = \"2m\"\nmemory = \"2 GiB\"";
    let Both { files, bash } = read(written).expect("they are right");
    assert_eq!((files.access, files.file_max.bytes()), (Access::ReadOnly, 1 << 20));
    assert_eq!((bash.isolation, bash.network), (Isolation::None, true));
    assert_eq!((bash.timeout.duration().as_secs(), bash.memory.bytes()), (120, 2 << 30));
}

#[test]
fn every_mistake_is_told() {
    let written = "[files]\nworking_directory = \"/\"\nreadable_paths = [\"/proc/self\"]\n\
                   writable_paths = [\"work\"]\nfile_max = \"10 B\"\n\
                   [bash]\nisolation = \"none\"\naccess = \"read-only\"\ntimeout = \"1h\"\n\
                   memory = \"1 MiB\"\nreadable_paths = [\"x\"]";
    let mistakes = read(written).expect_err("they are wrong");
    for key in [
        "files.working_directory",
        "files.readable_paths",
        "files.writable_paths",
        "files.file_max",
        "bash.access",
        "bash.timeout",
        "bash.memory",
        "bash.readable_paths",
    ] {
        assert!(mistakes.contains(key), "{key}: {mistakes}");
    }

    for wrong in
        ["[bash]\nmax_concurrent = 0", "[bash]\nisolation = \"bare\"", "[files]\nroot = \"/\""]
    {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn every_setting_is_in_the_reference() {
    let page = reference::<Both>("Settings", &[]);
    for name in ["files.working_directory", "files.file_max", "bash.isolation", "bash.network"] {
        assert!(page.contains(name), "{name}: {page}");
    }
}
