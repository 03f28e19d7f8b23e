//! The program under test, and how it is started and watched.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use toolbus_config::Settings;
use toolbus_config::shared_settings::{
    BusSettings, HealthSettings, LogSettings, ShutdownSettings, TelemetrySettings,
};
use toolbus_runtime::arguments::{CommonArguments, MemberArguments, ServiceArguments};
use toolbus_runtime::health::{Need, State};
use toolbus_runtime::service::{
    BoxError, Context, Exit, FrameSettings, Program, Role, ServiceSettings, run,
};

use crate::PATIENCE;

const WORK: &str = "TEST_WORK";
const ARGUMENTS: &str = "TEST_ARGUMENTS";
/// The test that is the program when the variable above is set.
const ENTRY: &str = "a_program_prints_its_settings";

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: CommonArguments,
    #[command(flatten)]
    member: MemberArguments,
    #[command(flatten)]
    service: ServiceArguments,
}

#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct TestSettings {
    name: Option<String>,
    bus: BusSettings,
    health: HealthSettings,
    log: LogSettings,
    telemetry: TelemetrySettings,
    shutdown: ShutdownSettings,
}

impl Settings for TestSettings {}

impl ServiceSettings for TestSettings {
    fn frame(&self) -> FrameSettings<'_> {
        FrameSettings {
            name: self.name.as_deref(),
            health: &self.health,
            log: &self.log,
            telemetry: &self.telemetry,
            shutdown: &self.shutdown,
        }
    }
}

/// What this process is to do when it is the program and not the test.
pub(crate) fn work_of_this_process() -> Option<String> {
    std::env::var(WORK).ok()
}

/// The program: does the work and ends the process.
#[expect(clippy::disallowed_methods, reason = "the test harness would end with its own code")]
pub(crate) fn main(work: &str) -> ! {
    let arguments = std::env::var(ARGUMENTS).unwrap_or_default();
    let arguments = ["program"].into_iter().chain(arguments.split_whitespace());
    let Arguments { common, member, service } = Arguments::parse_from(arguments);
    let own = [member.settings(), service.settings()].concat();
    let is_command = matches!(work, "record" | "warn");
    let role = if is_command { Role::Command } else { Role::Service };
    let program =
        Program { name: "test-program", version: "1.2.3", role, aliases: &[], left_out: &[] };
    let work = work.to_owned();
    // The frame makes its own runtime, which must not be made within the test's.
    let exit = std::thread::spawn(move || {
        run(&program, &common, own, async move |_: TestSettings, context| {
            do_work(&work, context).await
        })
    });
    std::process::exit(exit.join().unwrap().0.into())
}

async fn do_work(work: &str, context: Context) -> Result<Exit, BoxError> {
    match work {
        "nothing" => {}
        "fail" => return Err(Box::new(Failure(std::io::ErrorKind::ConnectionRefused.into()))),
        "fail while serving" => {
            context.health.component("bus", Need::Required).set(State::Up);
            return Err(Box::new(Failure(std::io::ErrorKind::ConnectionRefused.into())));
        }
        "warn" => {
            tracing::info!("a line");
            tracing::warn!("mind this");
        }
        "ignore" => std::future::pending().await,
        "block" => {
            let threads = tokio::runtime::Handle::current().metrics().num_workers();
            tracing::info!("blocking every thread");
            for _ in 1..threads {
                // sleeps: it blocks until it is ended.
                context.shutdown.tasks().spawn(async { std::thread::sleep(PATIENCE * 2) });
            }
            // sleeps: as above.
            std::thread::sleep(PATIENCE * 2);
        }
        "serve" => {
            let bus = context.health.component("bus", Need::Required);
            bus.set(State::Up);
            context.shutdown.requested().cancelled().await;
            // Until the test has seen that it is not ready any more, and waits for its end.
            let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
        }
        "quote" => tracing::warn!(text = %"up\r\nWARN all is down", "quoting\nsomebody"),
        "record" => record(),
        "chat" => chat(&context).await,
        "flood" => flood(),
        other => panic!("no work {other}"),
    }
    Ok(Exit::SUCCESS)
}

/// Records something of every kind, over and over, until it is told to stop.
async fn chat(context: &Context) {
    let calls = opentelemetry::global::meter("test").u64_counter("test.calls").build();
    let stop = context.shutdown.requested();
    while !stop.is_cancelled() {
        tracing::info_span!(target: "toolbus_test", "chat").in_scope(|| tracing::info!("hello"));
        calls.add(1, &[]);
        // sleeps: the pace of the chat.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Makes far more spans than are kept, and prints the most memory that it had, in KiB.
#[expect(clippy::print_stdout, reason = "the test reads it")]
fn flood() {
    let text = "x".repeat(1 << 10);
    for _ in 0..100_000 {
        drop(tracing::info_span!(target: "toolbus_test", "flood", text));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    println!("{}", peak.trim().trim_end_matches(" kB"));
}

fn record() {
    let outer = tracing::info_span!(target: "toolbus_test", "outer").entered();
    tracing::info_span!(target: "library", "foreign").in_scope(|| {
        let inner = tracing::info_span!(target: "toolbus_test", "inner").entered();
        tracing::warn!("said within the span");
        drop(inner);
    });
    drop(outer);
    let calls = opentelemetry::global::meter("test").u64_counter("test.calls").build();
    calls.add(3, &[]);
}

#[derive(Debug, thiserror::Error)]
#[error("cannot join the bus")]
struct Failure(#[source] std::io::Error);

/// A program to be started: nothing of this process's environment is passed on.
pub(crate) struct Run(Command);

/// How a program ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    pub(crate) fn new(work: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args([ENTRY, "--exact", "--nocapture", "--quiet"])
            .env_clear()
            .env(WORK, work)
            .current_dir(std::env::temp_dir())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Self(command)
    }

    pub(crate) fn arguments(mut self, arguments: &str) -> Self {
        self.0.env(ARGUMENTS, arguments);
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.0.env(name, value);
        self
    }

    /// Gives it a standard error that nobody reads any more.
    pub(crate) fn without_stderr(mut self) -> Self {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        self.0.stderr(writer);
        self
    }

    pub(crate) fn start(mut self) -> Process {
        let mut child = self.0.spawn().unwrap();
        let stderr = Arc::new(Mutex::new(String::new()));
        let mut readers = JoinSet::new();
        if let Some(pipe) = child.stderr.take() {
            let kept = Arc::clone(&stderr);
            readers.spawn(async move {
                let mut lines = BufReader::new(pipe).lines();
                while let Some(line) = lines.next_line().await.unwrap() {
                    let mut kept = kept.lock();
                    kept.push_str(&line);
                    kept.push('\n');
                }
            });
        }
        Process { child, stderr, readers }
    }

    pub(crate) async fn done(self) -> Done {
        self.start().done().await
    }
}

/// A running program.
pub(crate) struct Process {
    child: Child,
    stderr: Arc<Mutex<String>>,
    readers: JoinSet<()>,
}

impl Process {
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        rustix::process::kill_process(pid.unwrap(), signal).unwrap();
    }

    /// Waits for a line of standard error that has `part` in it, and returns it.
    pub(crate) async fn waits_for_line(&self, part: &str) -> String {
        let started = Instant::now();
        loop {
            if let Some(line) = self.stderr.lock().lines().find(|line| line.contains(part)) {
                return line.to_owned();
            }
            assert!(started.elapsed() < PATIENCE, "no {part:?} in {}", self.stderr.lock());
            // sleeps: looks again, within a limit.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Where its health port is, as it says itself.
    pub(crate) async fn health(&self) -> HealthPort {
        let line: serde_json::Value =
            serde_json::from_str(&self.waits_for_line("started").await).unwrap();
        HealthPort(line["health_address"].as_str().unwrap().to_owned())
    }

    pub(crate) async fn done(mut self) -> Done {
        let mut stdout = String::new();
        let mut pipe = self.child.stdout.take().unwrap();
        let (read, status) = tokio::time::timeout(PATIENCE, async {
            tokio::join!(pipe.read_to_string(&mut stdout), self.child.wait())
        })
        .await
        .expect("the program ends");
        read.unwrap();
        self.readers.join_all().await;
        // The harness's own line comes before anything the program writes.
        let stdout = stdout.split_once("running 1 test\n").map_or("", |(_, own)| own).to_owned();
        let stderr = self.stderr.lock().clone();
        Done { code: status.unwrap().code(), stdout, stderr }
    }
}

/// The health port of a program.
pub(crate) struct HealthPort(String);

impl HealthPort {
    pub(crate) async fn waits_for(&self, path: &str, status: u16) {
        toolbus_runtime::tls::install();
        let started = Instant::now();
        loop {
            let answer = reqwest::get(format!("http://{}{path}", self.0)).await;
            if answer.is_ok_and(|answer| answer.status() == status) {
                return;
            }
            assert!(started.elapsed() < PATIENCE, "{path} never answers {status}");
            // sleeps: looks again, within a limit.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
