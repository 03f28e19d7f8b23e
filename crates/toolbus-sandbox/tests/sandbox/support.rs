//! What the tests share: one probed sandbox, and short ways to run scripts in it.

use std::fs;
use std::time::Duration;

use tokio::sync::OnceCell;
use toolbus_sandbox::{Config, Sandbox, Unavailable};
use toolbus_scripts::runner::{Ending, Error, Outcome, Run, Runner, Script};

/// The sandbox with default settings; probed once. `None` skips the test, unless real parts are
/// required.
pub(crate) async fn sandbox() -> Option<Sandbox> {
    static SANDBOX: OnceCell<Option<Sandbox>> = OnceCell::const_new();
    SANDBOX.get_or_init(|| probe(config())).await.clone()
}

/// Probes a sandbox with these settings.
pub(crate) async fn probe(config: Config) -> Option<Sandbox> {
    real(Sandbox::probe(config).await)
}

/// Default settings, without the user's own package cache.
pub(crate) fn config() -> Config {
    let mut config = Config { max_waiting: 256, ..Config::default() };
    config.packages.directory = None;
    config
}

#[allow(clippy::print_stderr)]
fn real<T>(probed: Result<T, Unavailable>) -> Option<T> {
    let required = std::env::var_os("TOOLBUS_REQUIRE_REAL").is_some_and(|value| value == "1");
    match probed {
        Ok(runner) => Some(runner),
        Err(unavailable) if required => panic!("no sandbox, though it is required: {unavailable}"),
        Err(unavailable) => {
            eprintln!("skipped: {unavailable}");
            None
        }
    }
}

pub(crate) fn script(source: &str) -> Script {
    Script {
        source: source.to_owned(),
        input: String::new(),
        timeout: Duration::from_secs(20),
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    }
}

pub(crate) fn unwatched() -> Run {
    Run::alone("")
}

pub(crate) async fn run(runner: &impl Runner, source: &str) -> Outcome {
    runner.run(script(source), unwatched()).await.expect("the script runs")
}

pub(crate) async fn run_for(runner: &impl Runner, source: &str, timeout: Duration) -> Outcome {
    let script = Script { timeout, ..script(source) };
    runner.run(script, unwatched()).await.expect("the script runs")
}

/// Runs a script and checks its merged output and its ending.
pub(crate) async fn check(runner: &impl Runner, source: &str, output: &str, ending: Ending) {
    let outcome = run(runner, source).await;
    assert_eq!((outcome.output.text.as_str(), &outcome.ending), (output, &ending), "{source}");
}

#[track_caller]
pub(crate) fn busy(result: Result<Outcome, Error>) {
    assert!(matches!(result, Err(Error::Busy(_))), "{result:?}");
}

/// The processes out here whose command line contains this text.
pub(crate) fn processes_with(text: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

/// The direct children of this process that have not been waited for.
pub(crate) fn children() -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").expect("tasks").flatten();
    let lists = tasks.map(|task| fs::read_to_string(task.path().join("children")));
    lists
        .flatten()
        .flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

/// How many descriptors this process has open.
pub(crate) fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").expect("descriptors").count()
}

/// Runs the calling test again in a process of its own, where nothing else runs beside it; `true`
/// in that process.
pub(crate) fn is_alone(name: &str) -> bool {
    const ALONE: &str = "TOOLBUS_TEST_ALONE";
    if std::env::var_os(ALONE).is_some_and(|alone| alone == name) {
        return true;
    }
    let own = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new(own);
    let status = command.args(["--exact", name, "--nocapture"]).env(ALONE, name).status();
    assert!(status.expect("it runs").success(), "{name} failed in a process of its own");
    false
}

/// Waits for what a test does, in a runtime of its own.
pub(crate) fn block_on(work: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(work);
}
