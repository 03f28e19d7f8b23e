//! Packages: from a folder of wheels made here, and from the real index.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use toolbus_sandbox::{Config, PackagesConfig, Sandbox};
use toolbus_scripts::conformance::honest;
use toolbus_scripts::runner::{Ending, Error, Outcome, Runner, Script};

use crate::support::{block_on, probe, processes_with, script, unwatched};

fn with_cache(directory: &Path) -> Config {
    let packages =
        PackagesConfig { directory: Some(directory.to_path_buf()), ..PackagesConfig::default() };
    Config { packages, ..Config::default() }
}

async fn run(sandbox: &Sandbox, source: &str, packages: &[&str]) -> Result<Outcome, Error> {
    let packages = packages.iter().map(|package| (*package).to_owned()).collect();
    sandbox.run(Script { packages, ..script(source) }, unwatched()).await
}

/// The folders of installed sets.
fn sets(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).expect("the cache").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.ends_with(".lock")).collect()
}

/// What tells an installed set from the same one installed again.
fn identities(directory: &Path) -> BTreeSet<(u64, i64, i64)> {
    let of = |name: &String| fs::metadata(directory.join(name)).expect("a set");
    let identity = |set: fs::Metadata| (set.ino(), set.mtime(), set.mtime_nsec());
    sets(directory).iter().map(of).map(identity).collect()
}

/// A real package of the real index: once installed, there without the network, for all at once.
#[tokio::test]
async fn a_package_is_installed_once_and_found() {
    let cache = tempfile::tempdir().expect("a folder");
    let Some(sandbox) = probe(with_cache(cache.path())).await else { return };
    let source = "import six, sys, subprocess\nprint(six.__file__)\n\
                  subprocess.run([sys.executable, '-c', 'import six; print(six.__version__)'])\n\
                  try: open('/packages/x', 'w')\nexcept OSError: print('read-only')";

    let expected = "/packages/six.py\n1.16.0\nread-only\n";
    let (one, two, three) = tokio::join!(
        run(&sandbox, source, &["six==1.16.0"]),
        run(&sandbox, source, &["SIX == 1.16.0"]),
        run(&sandbox, source, &["six==1.16.0", "six"]),
    );

    for outcome in [one, two, three] {
        let outcome = outcome.expect("it runs");
        assert_eq!((outcome.output.text.as_str(), outcome.ending), (expected, Ending::Exited(0)));
    }

    // Two ways to write the first set, and another set.
    assert_eq!(sets(cache.path()).len(), 2);

    let installed = identities(cache.path());
    let again = run(&sandbox, "import six", &["six==1.16.0"]).await.expect("it runs");
    assert_eq!(again.ending, Ending::Exited(0));
    assert_eq!(identities(cache.path()), installed, "installed again");

    let other = probe(with_cache(cache.path())).await.expect("as before");
    let without_network = run(&other, "import six\nprint(six.__version__)", &["six==1.16.0"]).await;

    assert_eq!(without_network.expect("it runs").output.text, "1.16.0\n");
}

/// Numerical packages, as scripts ask for them. Kept between runs, because installing them takes a
/// minute.
#[tokio::test]
async fn scientific_scripts_are_not_disturbed() {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(std::env::home_dir()?.join(".cache"))).expect("a cache");
    let Some(sandbox) = probe(with_cache(&cache.join("toolbus-test/packages"))).await else {
        return;
    };
    honest::scientific_scripts_are_not_disturbed(&sandbox).await;
}

#[tokio::test]
async fn a_failed_installation_says_why_and_leaves_nothing() {
    let cache = tempfile::tempdir().expect("a folder");
    let Some(sandbox) = probe(with_cache(cache.path())).await else { return };
    let missing = run(&sandbox, "print(1)", &["toolbus-no-such-package==1.0"]).await;
    let Err(Error::Packages(text)) = missing else { panic!("{missing:?}") };
    assert!(text.starts_with("pip install failed (exit 1): "), "{text}");
    assert!(text.contains("toolbus-no-such-package"), "{text}");
    assert_eq!(sets(cache.path()), [""; 0]);
    let config = with_cache(cache.path());
    let packages = PackagesConfig { install_timeout: Duration::from_millis(1), ..config.packages };
    let hasty = probe(Config { packages, ..Config::default() }).await.expect("as before");
    let late = run(&hasty, "print(1)", &["six"]).await;

    assert_eq!(late, Err(Error::Packages("pip install timed out after 0s".to_owned())));
    assert_eq!(sets(cache.path()), [""; 0]);
}

#[tokio::test]
async fn nothing_is_started_for_what_is_no_requirement() {
    let cache = tempfile::tempdir().expect("a folder");
    let Some(sandbox) = probe(with_cache(cache.path())).await else { return };
    let mark = cache.path().join("mark");

    let shell = format!("x; touch {}", mark.display());
    for package in
        [shell.as_str(), "--index-url=http://127.0.0.1", "-r/etc/passwd", "git+https://x/y", "../x"]
    {
        let refused = run(&sandbox, "print(1)", &[package]).await;
        assert!(matches!(refused, Err(Error::Invalid(_))), "{package}: {refused:?}");
    }

    assert!(!mark.exists());

    let off = probe(Config {
        packages: PackagesConfig { directory: None, ..PackagesConfig::default() },
        ..Config::default()
    });
    let refused = run(&off.await.expect("as before"), "print(1)", &["six"]).await;

    assert!(matches!(refused, Err(Error::Packages(_))), "{refused:?}");
}

/// Of an index that the operator uses.
const PASSWORD: &str = "hush-hush-word";

/// The operator's settings reach the installer by its environment, which only a process of its own
/// can have. In that process: a folder of wheels and no index, so that the source distribution in
/// it is the only `toolbus-evil` there is, and must not be built.
#[test]
fn wheels_only_and_the_settings_of_the_operator() {
    const NAME: &str = "packages::wheels_only_and_the_settings_of_the_operator";
    if std::env::var_os("TOOLBUS_TEST_WHEELS").is_none() {
        let wheels = tempfile::tempdir().expect("a folder");
        let mark = wheels.path().join("built");
        wheel(wheels.path(), "good", "value = 'from a wheel'\n", "");
        source_distribution(wheels.path(), &mark);
        let source = wheels.path().join("toolbus-evil-1.0.tar.gz");
        let requires = format!("Requires-Dist: toolbus-evil @ file://{}\n", source.display());
        wheel(wheels.path(), "lure", "", &requires);
        let own = std::env::current_exe().expect("this program");
        let mut command = Command::new(own);
        command.args(["--exact", NAME, "--nocapture"]).env("TOOLBUS_TEST_WHEELS", "1");
        command.env("PIP_FIND_LINKS", wheels.path()).env("PIP_NO_INDEX", "1");
        command.env("UV_FIND_LINKS", wheels.path()).env("UV_NO_INDEX", "1");
        let index = format!("http://me:{PASSWORD}@127.0.0.1:9/simple");
        command.env("PIP_EXTRA_INDEX_URL", &index).env("UV_EXTRA_INDEX_URL", &index);
        assert!(command.status().expect("it runs").success());
        assert!(!mark.exists(), "a source distribution was built");
        return;
    }
    block_on(async {
        let cache = tempfile::tempdir().expect("a folder");
        let Some(sandbox) = probe(with_cache(cache.path())).await else { return };
        let source = "import os, toolbus_good\nprint(toolbus_good.value, *os.environ.values())";
        let mut good = std::pin::pin!(run(&sandbox, source, &["toolbus-good"]));

        let good = loop {
            tokio::select! {
                good = &mut good => break good.expect("it runs"),
                // sleeps: looks again and again while it runs.
                () = tokio::time::sleep(Duration::from_millis(2)) => {}
            }
            assert_eq!(processes_with(PASSWORD), [0; 0], "a command line shows the password");
        };

        assert!(good.output.text.starts_with("from a wheel"), "{good:?}");
        assert!(!good.output.text.contains(PASSWORD), "the script sees the password: {good:?}");

        let evil = run(&sandbox, "print(1)", &["toolbus-evil"]).await;
        assert!(matches!(&evil, Err(Error::Packages(_))), "{evil:?}");

        // A wheel that requires a source by its address. Nothing of it is run to build it.
        let lured = run(&sandbox, "print(1)", &["toolbus-lure"]).await;
        let Err(Error::Packages(text)) = &lured else { panic!("{lured:?}") };
        assert!(text.contains("pip install failed") && !text.contains(BUILT), "{text}");

        assert_eq!(sets(cache.path()).len(), 1);
    });
}

/// What the source distribution says when it is built.
const BUILT: &str = "the source was built";

fn wheel(folder: &Path, name: &str, module: &str, requires: &str) {
    let info = format!("toolbus_{name}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: toolbus-{name}\nVersion: 1.0\n{requires}");
    let tags = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n";
    let record =
        format!("toolbus_{name}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n");

    let files = [
        (format!("toolbus_{name}.py"), module.to_owned()),
        (format!("{info}/METADATA"), metadata),
        (format!("{info}/WHEEL"), tags.to_owned()),
        (format!("{info}/RECORD"), record),
    ];

    let unpacked = folder.join(name);

    for (path, content) in &files {
        let path = unpacked.join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("made");
        fs::write(path, content).expect("written");
    }

    pack(folder, &unpacked, &format!("toolbus_{name}-1.0-py3-none-any.whl"), "zip");
}

fn source_distribution(folder: &Path, mark: &Path) {
    let unpacked = folder.join("evil");
    let inner = unpacked.join("toolbus-evil-1.0");
    fs::create_dir_all(&inner).expect("made");

    let mut setup = fs::File::create(inner.join("setup.py")).expect("made");
    let mark = mark.display();

    write!(
        setup,
        "open({:?}, 'w')\nfrom setuptools import setup\nsetup(name='toolbus-evil', version='1.0')",
        mark.to_string()
    )
    .expect("written");

    // Without anything that has to be installed before it is built.
    let project =
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n";
    fs::write(inner.join("pyproject.toml"), project).expect("written");
    fs::write(inner.join("backend.py"), format!("raise SystemExit({BUILT:?})\n")).expect("written");

    pack(folder, &unpacked, "toolbus-evil-1.0.tar.gz", "gztar");
}

/// Packs a folder by Python, the one archiver that is there for certain.
fn pack(folder: &Path, unpacked: &Path, name: &str, kind: &str) {
    let code = "import shutil, sys, os\nmade = shutil.make_archive(sys.argv[1] + '.tmp', sys.argv[3], sys.argv[2])\nos.rename(made, sys.argv[1])";

    let packed = Command::new("python3")
        .args(["-I", "-c", code])
        .arg(folder.join(name))
        .arg(unpacked)
        .arg(kind)
        .status();

    assert!(packed.expect("python3").success());
    fs::remove_dir_all(unpacked).expect("removed");
}
