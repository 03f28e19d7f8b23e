//! A working directory of a test, and an invoker with the tools.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_query::{Engine, WORKER_MODE};
use toolbus_sandbox::Unavailable;
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_toolkits::files::{self, Files, FilesSettings};
use toolbus_toolkits::shell::{self, BashSettings, Shell};
use toolbus_tools::call::{Call, Outcome, Output};
use toolbus_tools::{
    CredentialSource, Door, Invoker, Principal, Registry, Scope, UnreadableCredential,
};
use toolbus_wire::name::AgentName;

/// A working directory with a folder beside it, and what may be called there.
pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) invoker: Invoker,
}

/// A vault of a test.
#[derive(Default)]
pub(crate) struct Vault(Mutex<BTreeMap<(String, String), String>>);

impl Vault {
    pub(crate) fn set(&self, provider: &str, name: &str, value: &str) {
        self.0.lock().insert((provider.to_owned(), name.to_owned()), value.to_owned());
    }
}

impl CredentialSource for Vault {
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<zeroize::Zeroizing<String>>, UnreadableCredential>> {
        let found = self.0.lock().get(&(provider.to_owned(), name.to_owned())).cloned();
        Box::pin(std::future::ready(Ok(found.map(zeroize::Zeroizing::new))))
    }
}

/// Whom commands run as where tests are root's.
const USER: u32 = 65534;

impl Bench {
    pub(crate) fn files() -> Self {
        Self::files_with(|_| {})
    }

    /// With settings of the test's own.
    pub(crate) fn files_with(change: impl FnOnce(&mut FilesSettings)) -> Self {
        let folder = folder();
        let working_directory = Some(folder.path().canonicalize().expect("a path").join("work"));
        let mut settings = FilesSettings { working_directory, ..FilesSettings::default() };
        change(&mut settings);

        let registry = Registry::new();
        files::register(&registry, Files::open(&settings, engine()).expect("folders"))
            .expect("names");
        Self { folder, invoker: Invoker::builder(Arc::new(registry)).build() }
    }

    /// With commands, and with files. `None` skips the test.
    pub(crate) async fn shell() -> Option<Self> {
        Self::shell_with(|_| {}).await
    }

    pub(crate) async fn shell_with(change: impl FnOnce(&mut BashSettings)) -> Option<Self> {
        let mut settings = BashSettings::default();
        change(&mut settings);

        let bench = Self::files();
        let work = bench.path("work");
        let shell = Shell::start(&settings, &ScriptsSettings::default(), &work).await;
        shell::register(bench.invoker.registry(), real(shell)?).expect("the name is free");
        Some(bench)
    }

    /// A path of the test's folder, in which `work` is the working directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("a path").join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    /// Writes a file below the test's folder.
    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(&path, content).expect("written");
        path
    }

    pub(crate) fn content(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect("it is there")
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        call(&self.invoker, tool, arguments).await
    }

    pub(crate) async fn output(&self, tool: &str, arguments: Value) -> Output {
        self.call(tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    /// What a tool says, with `…` for the test's folder.
    pub(crate) async fn say(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(!output.is_error, "{tool}: {:?}", output.content);
        self.masked(output)
    }

    /// What a tool says that fails, which begins with `Error`.
    pub(crate) async fn fail(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(output.is_error, "{tool}: {:?}", output.content);
        let text = self.masked(output);
        assert!(text.starts_with("Error"), "{text}");
        text
    }

    /// What a command says, as it is.
    pub(crate) async fn run(&self, command: &str) -> Output {
        self.output("bash", json!({"command": command})).await
    }

    pub(crate) async fn run_text(&self, command: &str) -> String {
        self.run(command).await.content.expect("a text")
    }

    fn masked(&self, output: Output) -> String {
        output.content.expect("a text").replace(&self.text(""), "…/")
    }
}

/// A folder with `work` in it, which belongs to whom commands run as.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("work");
    fs::create_dir(&work).expect("a folder");
    if fs::metadata(&work).expect("it is there").uid() == 0 {
        chown(&work, Some(USER), Some(USER)).expect("it changes hands");
    }
    folder
}

pub(crate) fn engine() -> Engine {
    let own = std::env::current_exe().expect("this program");
    let programs = own.parent().and_then(Path::parent).expect("a folder");
    Engine::new(programs.join("toolbus-query-worker"), [WORKER_MODE]).expect("a thread")
}

#[allow(clippy::print_stderr)]
fn real<T>(started: Result<T, Unavailable>) -> Option<T> {
    let required = std::env::var_os("TOOLBUS_REQUIRE_REAL").is_some_and(|value| value == "1");
    match started {
        Ok(shell) => Some(shell),
        Err(unavailable) if required => panic!("no sandbox, though it is required: {unavailable}"),
        Err(unavailable) => {
            eprintln!("skipped: {unavailable}");
            None
        }
    }
}

pub(crate) fn scope_of(principal: Principal) -> Arc<Scope> {
    Arc::new(Scope::new(Door::Turn, principal, AgentName::standard()))
}

pub(crate) fn scope() -> Arc<Scope> {
    scope_of(Principal::local())
}

pub(crate) async fn call(invoker: &Invoker, tool: &str, arguments: Value) -> Outcome {
    invoker.invoke(Call::by_name(&scope(), tool, arguments).expect("a name")).await
}

/// The processes out here whose command line has this text.
pub(crate) fn processes_with(text: &str) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
    .collect()
}

/// Waits until something holds.
pub(crate) async fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    toolbus_testkit::eventually(
        Duration::from_secs(20),
        async || {
            if holds() { Ok(()) } else { Err(what) }
        },
    )
    .await;
}
