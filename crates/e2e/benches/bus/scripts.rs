//! Python in the local sandbox, beside bare Python.

use std::num::NonZeroU16;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Lane, Latencies, Report, Rounds, Row, one_by_one, runtime};
use toolbus_bus::requester::Requester;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::{ScriptAllowance, WorkerOptions};
use toolbus_tools::call::Call;
use toolbus_tools::{GrantCheck, Guides, Invoker, Registry, Scope};
use toolbus_wire::name::{AgentName, InstanceId};

const ROUNDS: usize = 15;
/// Scripts of a round, one by one.
const SCRIPTS: usize = 20;
const SCRIPT: &str = "print(6 * 7)";
const PRINTS: &str = "42\n";

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let interpreter = interpreter()?;
    let sandbox = Arc::new(runtime.block_on(Sandbox::probe(Config::default()))?);
    let memory = sandbox.memory_accounting();
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let (_serving, caller) = runtime.block_on(async {
        let one = NonZeroU16::MIN;
        let instance = InstanceId::random();
        let (allowance, grants) = (ScriptAllowance::default(), GrantCheck::off());
        let options = WorkerOptions { concurrency: one, allowance, grants };
        let serving = toolbus_scripts::serve(Arc::clone(&bus), &instance, sandbox, options).await?;
        anyhow::Ok((serving, Caller::start(bus).await?))
    })?;

    let [mut sandboxed, mut bare, mut without_site] = std::array::from_fn(|_| Rounds::new());
    // The first round is for the file cache to fill.
    for round in 0..=ROUNDS {
        let ours = one_by_one(&runtime, caller.clone(), SCRIPTS)?;
        let peer = run_bare(&interpreter, &["-I", "-c"])?;
        let strict = run_bare(&interpreter, &["-I", "-S", "-c"])?;
        if round > 0 {
            sandboxed.add_latencies(ours, Duration::from_millis(1));
            bare.add_latencies(peer, Duration::from_millis(1));
            without_site.add_latencies(strict, Duration::from_millis(1));
        }
    }

    let row = |what: &str, peer: Rounds| {
        Row::new(format!("script in the sandbox, peer {what}"), "ms", sandboxed.clone())
            .beside(peer)
            .with_goal(Goal::ExcessAtMost(10.0))
    };

    report.add(row("`python3 -I -c`", bare));
    report.add(row("`python3 -I -S -c`", without_site));
    report.note(format!(
        "Scripts: `execute_python_script` of `{SCRIPT}`, from the gates of the caller over the bus \
         in memory to the sandbox (memory bounded by {memory}) and back; what is left of a sandbox \
         is cleaned up while the next one starts. The peer is the same interpreter, started as a child, its output read; with `-S` it \
         does not run what is installed beside it at its start, as in the sandbox. {ROUNDS} \
         rounds, in turns, of {SCRIPTS}."
    ));

    Ok(())
}

/// What the `python3` of `PATH` really is: the sandbox starts that too, not a script around it.
fn interpreter() -> anyhow::Result<String> {
    let code = "import sys; print(sys.executable)";
    let output = Command::new("python3").args(["-I", "-c", code]).output().context("python3")?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

fn run_bare(interpreter: &str, flags: &[&str]) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::with_capacity(SCRIPTS);
    for _ in 0..SCRIPTS {
        let started = Instant::now();
        let mut command = Command::new(interpreter);
        let output = command.args(flags).arg(SCRIPT).stdin(Stdio::null()).output()?;
        latencies.add(started.elapsed());
        ensure!(output.stdout == PRINTS.as_bytes(), "{output:?}");
    }
    Ok(latencies)
}

/// The agent that has scripts run.
#[derive(Clone)]
struct Caller {
    invoker: Invoker,
}

impl Caller {
    async fn start(bus: Arc<dyn Bus>) -> anyhow::Result<Self> {
        let name = AgentName::parse("caller")?;
        let requester = Requester::start(bus, name, &InstanceId::random()).await?;
        let registry = Registry::new();
        toolbus_scripts::tool::register(
            &registry,
            &Guides::default(),
            requester,
            ScriptAllowance::default(),
        )?;
        Ok(Self { invoker: Invoker::new(Arc::new(registry)) })
    }
}

impl Lane for Caller {
    async fn call(&mut self) -> anyhow::Result<()> {
        let call = Call::by_name(
            &Scope::local(AgentName::standard()),
            toolbus_scripts::tool::NAME,
            serde_json::json!({"script": SCRIPT}),
        )
        .expect("a short name");
        let output = self.invoker.invoke(call).await?;
        let text = output.content.as_deref();
        ensure!(!output.is_error && text == Some(PRINTS), "not what it prints: {text:?}");
        Ok(())
    }
}
