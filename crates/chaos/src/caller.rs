//! `chaos caller`: an agent on the bus that makes calls and keeps a ledger of what it intended and
//! of what it was told. It never makes a call again.
//!
//! Several lanes make one call after the other. Everything that is drawn comes from the seed and
//! the caller's name, lane by lane.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolbus::{Call, CallTime, Outcome, Scope, Scripts, Toolbus};
use toolbus_rabbitmq::{Config, RabbitBus, Start};

use crate::ledger::Ledger;
use crate::random::Random;
use crate::record::{CallRecord, CallResult, Intent, OutcomeRecord, ToolKind, digest, now_ms};
use crate::script_effects::write_script;

/// The MCP server that has the effects.
pub const SERVER_NAME: &str = "effects";
/// How long the broker and the first bridge may take to be there.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a script may take: longer than any of them does.
const SCRIPT_TIMEOUT: Duration = Duration::from_secs(60);
/// How long the bus may take to close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Most calls of one caller at a time.
const IN_FLIGHT_MAX: u64 = 256;

/// What a caller is to do.
#[derive(Debug, Clone, clap::Args)]
pub struct CallerConfig {
    /// Where its ledger is
    #[arg(long)]
    pub ledger: PathBuf,
    /// The broker's URL
    #[arg(long)]
    pub broker: String,
    /// Its name, which its calls' ids begin with
    #[arg(long)]
    pub name: String,
    /// What all is drawn from
    #[arg(long)]
    pub seed: u64,
    /// Number of calls to make, unless it ends before
    #[arg(long)]
    pub calls: u64,
    /// Ends, once its open calls have ended, when this file exists
    #[arg(long)]
    pub end_file: Option<PathBuf>,
    /// How many of them at a time
    #[arg(long, default_value_t = 8)]
    pub in_flight: u64,
    /// Mean pause of a lane between two calls, in milliseconds
    #[arg(long, default_value_t = 300)]
    pub pause_ms: u64,
    /// Longest time that a call is given, in milliseconds
    #[arg(long, default_value_t = 60_000)]
    pub timeout_ms: u64,
    /// How many of a hundred calls are scripts
    #[arg(long, default_value_t = 0)]
    pub script_percent: u64,
}

/// Makes all calls.
///
/// # Errors
/// When the bus cannot be joined, the effects server is not announced in time, or the ledger cannot
/// be written.
pub async fn run(config: CallerConfig) -> anyhow::Result<()> {
    ensure!((1..=IN_FLIGHT_MAX).contains(&config.in_flight), "too many calls at a time");
    let ledger = Arc::new(Ledger::open(&config.ledger)?);
    let mut bus_config = Config::new(&config.broker)?;
    bus_config.start = Start::Within(START_TIMEOUT);
    bus_config.connection_name.clone_from(&config.name);
    let bus: Arc<dyn toolbus::Bus> = RabbitBus::connect(bus_config).await?;
    let toolbus = Toolbus::builder().bus(Arc::clone(&bus)).scripts(Scripts::remote()).open();
    let toolbus = toolbus.await?;

    let is_announced = toolbus.directory().wait_until(START_TIMEOUT, |known| {
        known.iter().any(|server| server.server_name == SERVER_NAME)
    });
    ensure!(is_announced.await, "no bridge announces the effects server");

    let mut lanes = JoinSet::new();
    for number in 0..config.in_flight {
        let share = config.calls / config.in_flight;
        let more = u64::from(number < config.calls % config.in_flight);
        let lane = Lane {
            name: format!("{}-{number}", config.name),
            random: Random::new(config.seed).fork(&config.name).fork(&number.to_string()),
            scope: toolbus.local_scope(),
            toolbus: toolbus.clone(),
            ledger: Arc::clone(&ledger),
            pause: Duration::from_millis(config.pause_ms),
            timeout_ms: config.timeout_ms,
            script_percent: config.script_percent,
            end_file: config.end_file.clone(),
        };
        lanes.spawn(lane.run(share + more));
    }

    while let Some(ended) = lanes.join_next().await {
        ended.context("a lane")??;
    }
    toolbus.close().await;
    bus.close(CLOSE_TIMEOUT).await;
    Ok(())
}

/// Makes one call after the other.
struct Lane {
    name: String,
    random: Random,
    scope: Arc<Scope>,
    toolbus: Toolbus,
    ledger: Arc<Ledger>,
    pause: Duration,
    timeout_ms: u64,
    script_percent: u64,
    end_file: Option<PathBuf>,
}

/// A call, as it was drawn.
struct DrawnCall {
    tool: ToolKind,
    sleep_ms: u64,
    reply_bytes: usize,
    timeout: Duration,
    cancel_after: Option<Duration>,
    pause: Duration,
}

impl Lane {
    async fn run(mut self, calls: u64) -> anyhow::Result<()> {
        for number in 0..calls {
            let drawn = self.draw_call();
            tokio::time::sleep(drawn.pause).await;
            if self.end_file.as_ref().is_some_and(|file| file.exists()) {
                break;
            }
            self.make_call(&format!("{}-{number}", self.name), &drawn).await?;
        }
        Ok(())
    }

    /// Most calls may not be repeated, are short and have short answers; each kind is there.
    fn draw_call(&mut self) -> DrawnCall {
        let random = &mut self.random;
        // Without scripts nothing is drawn for them, so the calls are those of earlier runs.
        let is_script = self.script_percent > 0 && random.draw_chance(self.script_percent);
        let tool = match random.draw_from(0..10) {
            _ if is_script => ToolKind::Script,
            0..6 => ToolKind::Act,
            6..8 => ToolKind::Look,
            _ => ToolKind::Put,
        };
        let sleep_ms = match random.draw_from(0..100) {
            0..60 => random.draw_from(0..20),
            60..90 => random.draw_from(20..300),
            _ => random.draw_from(300..3_000),
        };
        let reply_bytes = match random.draw_from(0..100) {
            0..90 => random.draw_from(100..2_000),
            90..99 => random.draw_from(2_000..100_000),
            _ => random.draw_from(100_000..1_000_000),
        };

        let timeout_ms = match random.draw_from(0..10) {
            0 => random.draw_from(2_000..8_000),
            1..3 => random.draw_from(8_000..30_000),
            _ => self.timeout_ms,
        };
        let cancel_after =
            random.draw_chance(5).then(|| Duration::from_millis(random.draw_from(0..400)));

        DrawnCall {
            tool,
            sleep_ms,
            reply_bytes: usize::try_from(reply_bytes).expect("it is below a million"),
            timeout: Duration::from_millis(timeout_ms.min(self.timeout_ms)),
            cancel_after,
            pause: random.draw_around(self.pause),
        }
    }

    async fn make_call(&self, id: &str, drawn: &DrawnCall) -> anyhow::Result<()> {
        let at_ms = now_ms();
        let timeout_ms = u64::try_from(drawn.timeout.as_millis()).unwrap_or(u64::MAX);
        let intent = Intent {
            id: id.to_owned(),
            tool: drawn.tool,
            at_ms,
            deadline_ms: at_ms.saturating_add(timeout_ms),
            sleep_ms: drawn.sleep_ms,
            reply_bytes: drawn.reply_bytes,
        };
        self.ledger.append(&CallRecord::Intent(intent)).await?;

        let cancelled = CancellationToken::new();
        let (tool, arguments) = write_arguments(id, drawn);
        let call = Call::by_name(&self.scope, tool, arguments)?
            .with_time(CallTime::within(drawn.timeout))
            .with_cancelled(cancelled.clone());
        let mut outcome = std::pin::pin!(self.toolbus.invoke(call));

        let cancel_after = drawn.cancel_after.unwrap_or(drawn.timeout * 2);
        let outcome = match tokio::time::timeout(cancel_after, &mut outcome).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let request = CallRecord::CancelRequest { id: id.to_owned(), at_ms: now_ms() };
                self.ledger.append(&request).await?;
                cancelled.cancel();
                outcome.await
            }
        };

        let told =
            OutcomeRecord { id: id.to_owned(), at_ms: now_ms(), result: read_outcome(&outcome) };
        self.ledger.append(&CallRecord::Outcome(told)).await
    }
}

/// The tool to invoke for a call, and its arguments.
fn write_arguments(id: &str, drawn: &DrawnCall) -> (&'static str, Value) {
    let DrawnCall { tool, sleep_ms, reply_bytes, .. } = *drawn;
    if tool == ToolKind::Script {
        let script = write_script(id, sleep_ms, reply_bytes);
        let arguments = json!({"script": script, "timeout_seconds": SCRIPT_TIMEOUT.as_secs()});
        return ("execute_python_script", arguments);
    }

    let arguments = json!({
        "server_name": SERVER_NAME,
        "tool_name": tool,
        "arguments": {"id": id, "sleep_ms": sleep_ms, "reply_bytes": reply_bytes},
    });
    ("mcp_invoke_tool", arguments)
}

fn read_outcome(outcome: &Outcome) -> CallResult {
    match outcome {
        Ok(output) if !output.is_error => {
            CallResult::Ok { digest: digest(output.content.as_deref().unwrap_or_default()) }
        }
        Ok(output) => CallResult::Failed {
            code: "tool_error".to_owned(),
            execution: "started".to_owned(),
            is_retryable: false,
            message: output.content.clone().unwrap_or_default(),
        },
        Err(error) => CallResult::Failed {
            code: error.code.as_str().to_owned(),
            execution: error.execution.as_str().to_owned(),
            is_retryable: error.is_retryable,
            message: error.message.clone(),
        },
    }
}
