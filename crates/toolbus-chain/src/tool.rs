//! `tool_chain`, as models call it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use toolbus_artifacts::Artifacts;
use toolbus_bus::{Asker, Deadline};
use toolbus_scripts::{ChannelScript, ScriptClient};
use toolbus_store::LazyStore;
use toolbus_tools::artifact::ArtifactRef;
use toolbus_tools::budget::BudgetLimits;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{ArtifactReach, ArtifactSet, Door, Executor, Guide, Scope, Tool};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::script::{ScriptInvokeResponse, ScriptQuestion, ScriptReason};
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

use crate::config::ChainPolicy;
use crate::journal::{self, Journal, JournalOwnership};
use crate::report::{ChainRunResult, ChainStatus};
use crate::session::{ChainSession, EndOnDrop, SessionDeps};

/// Name of the tool.
pub const NAME: &str = "tool_chain";
/// Its source: it runs where scripts run.
const SOURCE: &str = "script";
/// Python that is executed before a chain.
const PRELUDE: &str = include_str!("prelude.py");
/// How much longer than the chain a caller waits for its result: until its program starts, and for
/// what comes after its end.
const WAIT_BESIDE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much later than the script's own clock the host ends a chain.
const HOST_GRACE: Duration = Duration::from_secs(2);
/// Most artifacts that the text of a program may name.
const NAMED_ARTIFACTS_MAX: usize = 1_000;
/// Longest name of a journal, in bytes.
const JOURNAL_NAME_BYTES_MAX: usize = 100;

/// What chains are made with.
#[derive(Clone)]
pub struct ChainDeps {
    /// Runs scripts.
    pub scripts: ScriptClient,
    /// Keeps what is large.
    pub artifacts: Option<Artifacts>,
    /// Keeps journals, where it knows [`MIGRATIONS`](crate::MIGRATIONS).
    pub store: Option<LazyStore>,
    /// What each chain may take.
    pub policy: ChainPolicy,
}

/// The guide to chains.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: "chains".to_owned(),
        summary:
            "Call many tools in one Python program, with loops and without reading each result"
                .to_owned(),
        document: include_str!("guide.md").to_owned(),
    }
}

/// Registers the tool.
///
/// # Errors
/// When its name is taken.
pub fn register(registry: &Registry, deps: ChainDeps) -> Result<(), registry::Error> {
    let seconds = deps.policy.total_timeout.as_secs();
    registry.register(tool(seconds), ToolChain { deps })
}

fn tool(seconds: u64) -> Tool {
    Tool::new(
        NAME,
        "Runs a Python program that calls tools: tools.NAME(argument=value) returns an object with \
         .text, .structured, .ref, .files and .status, and raises where a call fails or is refused. \
         `return` a value or print() it: only that comes back, so a large result costs nothing \
         until you print it. Results pass between tools without you reading them. `await` and \
         threads work; there is no network. Each call is checked as if you made it yourself.",
        SOURCE,
    )
    .in_group("chains")
    // Each of its calls is gated by itself.
    .with_risk(Risk::Low)
    .with_timeout(Duration::from_secs(seconds) + WAIT_BESIDE_TIMEOUT)
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "Python source code"},
            "timeout": {
                "type": "integer",
                "description": format!("Seconds that the program may take, at most {seconds}"),
                "default": seconds
            },
            "dry_run": {
                "type": "boolean",
                "description": "Runs only calls that change nothing, and lists the others"
            },
            "journal": {
                "type": "string",
                "maxLength": JOURNAL_NAME_BYTES_MAX,
                "description": "Runs a program again without repeating the writes of the run that \
                                named this journal"
            }
        },
        "required": ["code"],
        "additionalProperties": false
    }))
}

struct ToolChain {
    deps: ChainDeps,
}

impl Executor for ToolChain {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(self.run(call))
    }

    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        Some(self.timeout_of(arguments) + WAIT_BESIDE_TIMEOUT)
    }
}

impl ToolChain {
    /// What was asked for, within what a chain may take: a second at least.
    fn timeout_of(&self, arguments: &Map<String, Value>) -> Duration {
        let max = self.deps.policy.total_timeout;
        let asked = arguments.get("timeout").and_then(Value::as_i64);
        let asked = asked.map_or(max, |asked| Duration::from_secs(asked.max(1).unsigned_abs()));
        asked.min(max)
    }

    async fn run(&self, call: Invocation) -> Result<Output, CallError> {
        let began = Instant::now();
        let timeout = self.timeout_of(&call.arguments);
        let session = self.open_session(&call).await?;
        let _end = EndOnDrop(session.clone());
        let asker = asker_of(&session);

        let source = call.arguments.get("code").and_then(Value::as_str).unwrap_or_default();
        let script = ChannelScript {
            source: source.to_owned(),
            prelude: PRELUDE.to_owned(),
            timeout: Duration::from_secs(timeout.as_secs_f64().ceil() as u64),
            ..ChannelScript::default()
        };
        let cancelled = call.context.cancelled.clone();
        let context = call.context.with_asker(asker);
        let running = self.deps.scripts.run(script, context, &call.permit);

        // The script's own clock is the first; this one holds also where nobody keeps that.
        let ended = tokio::select! {
            response = running => match response {
                Ok(response) => Ended::Responded(Box::new(response)),
                Err(error) if error.code == ErrorCode::Timeout => Ended::TimedOut,
                Err(error) => Ended::Failed(error),
            },
            () = time_out(&session, timeout) => Ended::TimedOut,
            () = cancelled.cancelled() => Ended::Failed(CallError::cancelled()),
        };
        session.close().await;

        let result = match ended {
            // It was not run, or nobody knows; then there may be calls to tell of.
            Ended::Failed(error)
                if error.code == ErrorCode::Cancelled || session.trace().is_empty() =>
            {
                return Err(error);
            }
            ended => result_of(ended, timeout),
        };
        let call_trace = session.trace();
        let result = ChainRunResult {
            tool_calls: call_trace.len(),
            duration_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            journal: session.journal(),
            skipped_writes: session.skipped_writes(),
            output_blocks_refs: session.made(),
            call_trace,
            ..result
        };
        Ok(result.into_output())
    }

    async fn open_session(&self, call: &Invocation) -> Result<ChainSession, CallError> {
        let deps = &self.deps;
        let scope = call.calls.scope(Door::Chain)?;
        let limits = BudgetLimits {
            calls: Some(deps.policy.tool_calls_max),
            deadline: Some(Deadline::after(self.timeout_of(&call.arguments) + WAIT_BESIDE_TIMEOUT)),
            ..BudgetLimits::default()
        };
        let budget = scope.budget.child(limits);
        let mut scope = scope.with_budget(budget);

        let given = named_artifacts(&call.arguments, &call.scope.artifacts)?;
        scope.artifacts = ArtifactReach::Only(given);

        let asked = call.arguments.get("journal").and_then(Value::as_str);
        let is_dry_run = call.arguments.get("dry_run").and_then(Value::as_bool).unwrap_or(false);
        let journal = match (&deps.store, asked) {
            (Some(store), asked) => Some(open_journal(store, &scope, asked).await?),
            (None, Some(_)) => {
                let text = "this agent keeps no state, and so no journals";
                return Err(CallError::invalid_arguments(text));
            }
            (None, None) => None,
        };

        Ok(ChainSession::new(SessionDeps {
            calls: call.calls.clone(),
            scope: Arc::new(scope),
            policy: deps.policy,
            artifacts: deps.artifacts.clone(),
            journal,
            is_dry_run,
            call: call.id.to_string(),
            progress: call.context.progress.clone(),
        }))
    }
}

/// Ends when the time of a chain is over. It counts from the start of the program, which may wait
/// for its turn or for a pod, and begins without that in time to tell the caller.
async fn time_out(session: &ChainSession, timeout: Duration) {
    let own = async {
        session.started().await;
        sleep(timeout + HOST_GRACE).await;
    };
    tokio::select! {
        () = own => {}
        () = sleep(timeout + WAIT_BESIDE_TIMEOUT - HOST_GRACE) => {}
    }
}

async fn open_journal(
    store: &LazyStore,
    scope: &Scope,
    asked: Option<&str>,
) -> Result<Journal, CallError> {
    let journal = Journal::new(store.clone(), scope, asked.map(str::to_owned));
    if asked.is_none() {
        return Ok(journal);
    }
    // First: of one that is too old, no write is known any more.
    if let Err(error) = journal::sweep(store).await {
        tracing::warn!(error = &error as &dyn std::error::Error, "old journals stay");
    }

    let ownership = journal.ownership().await.map_err(|error| {
        tracing::warn!(error = &error as &dyn std::error::Error, "a journal cannot be read");
        CallError::execution_failed("the journals of chains cannot be read")
    })?;
    let name = journal.name();
    match ownership {
        JournalOwnership::Own => Ok(journal),
        JournalOwnership::Missing => {
            Err(CallError::invalid_arguments(format!("there is no journal '{name}' here")))
        }
        JournalOwnership::OtherLineage => Err(CallError::new(
            ErrorCode::Denied,
            format!(
                "the journal '{name}' is of a program that came through other doors, or saw other \
                 tools: without it, this one would repeat what that one has changed"
            ),
        )),
    }
}

/// The artifacts that the text of a program names, of those that its caller may refer to. No other
/// argument of a chain takes a reference.
fn named_artifacts(
    arguments: &Map<String, Value>,
    reach: &ArtifactReach,
) -> Result<ArtifactSet, CallError> {
    let named = ArtifactSet::default();
    let mut count = 0;
    for word in references_in_text(arguments) {
        let Ok(reference) = ArtifactRef::parse(word) else { continue };
        if !reach.contains(&reference) || !named.insert(reference) {
            continue;
        }
        count += 1;
        if count > NAMED_ARTIFACTS_MAX {
            return Err(CallError::invalid_arguments(format!(
                "the program names more than {NAMED_ARTIFACTS_MAX} artifacts"
            )));
        }
    }
    Ok(named)
}

/// Names of artifacts in the text of a program, which the model has written there.
fn references_in_text(arguments: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let code = arguments.get("code").and_then(Value::as_str).unwrap_or_default();
    let words = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("art_"))
}

/// Answers the requests of a chain.
fn asker_of(session: &ChainSession) -> Asker {
    let session = session.clone();
    let asker = Asker::to(move |question| {
        let session = session.clone();
        async move {
            let asked: ScriptQuestion = serde_json::from_value(question.params)
                .map_err(|_| AskError::new(AskErrorCode::Unsupported, "no request of a script"))?;
            Ok(session.answer(asked.number, asked.request).await)
        }
    });
    asker.with_kinds([AskKind::Script])
}

/// How the script of a chain ended.
enum Ended {
    Responded(Box<ScriptInvokeResponse>),
    TimedOut,
    Failed(CallError),
}

/// What became of a chain, without its calls.
fn result_of(ended: Ended, timeout: Duration) -> ChainRunResult {
    let mut result = ChainRunResult {
        status: ChainStatus::Ok,
        output_text: String::new(),
        output_blocks_refs: Vec::new(),
        logs: String::new(),
        tool_calls: 0,
        duration_ms: 0,
        error: None,
        call_trace: Vec::new(),
        journal: None,
        skipped_writes: Vec::new(),
    };
    let timed_out = || {
        let text = format!("the chain did not end within {} s", timeout.as_secs_f64().ceil());
        (ChainStatus::Timeout, Some(text))
    };

    match ended {
        Ended::TimedOut => (result.status, result.error) = timed_out(),
        Ended::Failed(error) => {
            (result.status, result.error) = (ChainStatus::Error, Some(error.message));
        }
        Ended::Responded(response) => {
            let response = *response;
            let streams = response.streams.unwrap_or_default();
            result.output_text = streams.stdout;
            result.logs = streams.stderr;
            let said = response.stderr;
            (result.status, result.error) = match response.reason {
                Some(ScriptReason::TimedOut) => timed_out(),
                None | Some(ScriptReason::OutputTruncated) if response.exit_code == 0 => {
                    (ChainStatus::Ok, None)
                }
                // Python says what went wrong on standard error, last of all.
                None | Some(ScriptReason::OutputTruncated) if !result.logs.trim().is_empty() => {
                    (ChainStatus::Error, Some(result.logs.trim_end().to_owned()))
                }
                reason => {
                    let reason = reason.map(|reason| reason.label().to_string());
                    let ended = || format!("the program ended with code {}", response.exit_code);
                    (ChainStatus::Error, said.or(reason).or_else(|| Some(ended())))
                }
            };
        }
    }
    result
}

#[cfg(test)]
mod tests;
