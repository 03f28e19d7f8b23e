//! Release archives: the same bytes each time, and all that a person needs who unpacks one into an
//! empty folder. No engine is asked, and the programs are those that the tests have built.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use toolbus_testkit::process::binary;
use toolbus_testkit::tools::output;

use crate::support::repository;

const PROGRAMS: [&str; 4] = ["agent-host", "mcp-bridge", "openrouter-mcp", "scripts-manager"];

/// Packs the programs into this folder. Returns the archive's path.
fn pack(folder: &Path) -> PathBuf {
    let programs = PROGRAMS.map(|program| binary(program).unwrap());
    let mut command = Command::new(repository("docker/release"));
    command.arg(folder).arg(programs[0].parent().unwrap()).env_remove("TOOLBUS_TARGET");
    output(&mut command).unwrap();

    let name = format!(
        "toolbus-{}-{}-unknown-linux-gnu-not-for-release.tar.gz",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::ARCH,
    );
    folder.join(name)
}

/// What a command prints that knows nothing of this test's environment, in a home of its own.
fn run(home: &Path, program: impl AsRef<Path>, arguments: &[&str]) -> String {
    let mut command = Command::new(program.as_ref());
    command.args(arguments).current_dir(home).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home);
    output(&mut command).unwrap()
}

/// The names of the files in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn an_archive_has_all_that_it_needs_and_the_same_bytes_each_time() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = [&folders[0], &folders[1]].map(|folder| pack(folder.path()));
    let are_same = fs::read(&first).unwrap() == fs::read(&second).unwrap();
    assert!(are_same, "two archives of the same programs differ");

    let archives = folders[0].path();
    let checked = run(archives, "sha256sum", &["--check", "--strict", "SHA256SUMS"]);
    assert_eq!(checked, format!("{}: OK\n", first.file_name().unwrap().to_str().unwrap()));

    let home = tempfile::tempdir().unwrap();
    let prefix = home.path().join(".local");
    fs::create_dir(&prefix).unwrap();
    let places = [&first, &prefix].map(|path| path.to_str().unwrap());
    run(home.path(), "tar", &["-xzf", places[0], "--strip-components=1", "-C", places[1]]);
    assert_eq!(names(&prefix), ["bin", "share"]);
    assert_eq!(names(&prefix.join("bin")), PROGRAMS);

    check_programs(home.path(), &prefix);
    check_documents(&prefix.join("share/doc/toolbus"));
    check_pages(home.path(), &prefix.join("share/man/man1"));
}

/// Each program starts, one runs a script, and each has its completions where shells look.
fn check_programs(home: &Path, prefix: &Path) {
    let bin = prefix.join("bin");
    let script = ["invoke", "execute_python_script", "script=print(6 * 7)"];
    assert_eq!(run(home, bin.join("agent-host"), &script), "42\n");

    for program in PROGRAMS {
        let path = bin.join(program);
        let version = run(home, &path, &["--version"]);
        assert_eq!(version, format!("{program} {}\n", env!("CARGO_PKG_VERSION")));

        for (shell, file) in [
            ("bash", format!("bash-completion/completions/{program}")),
            ("zsh", format!("zsh/site-functions/_{program}")),
            ("fish", format!("fish/vendor_completions.d/{program}.fish")),
        ] {
            let found = fs::read_to_string(prefix.join("share").join(file)).unwrap();
            assert_eq!(found, run(home, &path, &["completions", shell]), "{program}, {shell}");
        }
    }
}

/// Licences, ours and those of what is linked, and for each program what that is.
fn check_documents(folder: &Path) {
    let ours = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];
    assert_eq!(names(folder), [&ours[..], &["THIRD-PARTY.txt", "sbom"]].concat());
    for file in ours {
        assert_eq!(fs::read(folder.join(file)).unwrap(), fs::read(repository(file)).unwrap());
    }
    assert_eq!(names(&folder.join("sbom")), PROGRAMS.map(|program| format!("{program}.cdx.json")));

    let others = fs::read_to_string(folder.join("THIRD-PARTY.txt")).unwrap();
    for expected in ["\ntokio 1.", "\nring 0.", "Copyright (c) Tokio Contributors", "Jason Evans"] {
        assert!(others.contains(expected), "no {expected:?} among the licences of others");
    }
    assert!(!others.contains("toolbus-testkit"), "what only tests use is not linked");
}

/// Every command has a page, and `man`, where there is one, shows it.
fn check_pages(home: &Path, folder: &Path) {
    let pages = names(folder);
    for page in PROGRAMS.map(|program| format!("{program}.1")) {
        assert!(pages.contains(&page), "no {page} in {pages:?}");
    }
    assert!(pages.contains(&"agent-host-invoke.1".to_owned()), "{pages:?}");
    if Command::new("man").arg("--version").output().is_err() {
        return;
    }

    for page in &pages {
        let path = folder.join(page);
        let shown = run(home, "man", &["--local-file", path.to_str().unwrap()]);
        let title = page.trim_end_matches(".1");
        assert!(shown.contains(title) && shown.contains("SYNOPSIS"), "{page}: {shown}");
    }
}
