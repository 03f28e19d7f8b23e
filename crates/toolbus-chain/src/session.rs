//! One chain while it runs: its scope, its trace, and what it asks for.
//!
//! Invariants: a request that comes again, from a worker that has taken the script over, is not
//! made again; after the end every request is answered as closed; calls that run then are cancelled
//! and waited for.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_artifacts::Artifacts;
use toolbus_json::Limits;
use toolbus_tools::call::{InnerCalls, Outcome, Output};
use toolbus_tools::id::{ID_BYTES_MAX, ToolName};
use toolbus_tools::observe::{ArgumentsDigest, CallStatus};
use toolbus_tools::{ArtifactReach, CallError, Scope, Tool, ToolKind};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::{ErrorCode, Execution};

use crate::config::ChainPolicy;
use crate::dry_run::SkippedWrites;
use crate::journal::{Journal, Known};
use crate::report::{ChainCallRecord, status_of};
use crate::request::{Put, Request, error_response};
use crate::uploads::{UploadTarget, Uploads};

/// Answers that are kept, once they are given, for a worker that takes a script over: more than one
/// has on their way.
const ANSWERS_MAX: usize = 256;
/// Most calls that a program is answered, made or refused. What it asks beyond is refused without a
/// trace.
const CALLS_ASKED_MAX: u64 = 10_000;
/// Most bytes of an artifact in one answer.
const READ_BYTES_MAX: u64 = 512 << 10;
/// Most bytes of text or value in one answer, where nothing keeps it apart.
const ANSWER_TEXT_BYTES_MAX: usize = 384 << 10;
/// What a value in an answer may have.
const STRUCTURED_LIMITS: Limits = Limits::of_bytes(ANSWER_TEXT_BYTES_MAX);
/// How long calls that run at the end of a chain have to end.
const CANCEL_GRACE: Duration = Duration::from_secs(2);

/// One chain. Clones are the same chain.
#[derive(Clone)]
pub(crate) struct ChainSession(Arc<Inner>);

/// Ends a chain where nobody has waited for its end: its call was dropped.
pub(crate) struct EndOnDrop(pub(crate) ChainSession);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let session = self.0.clone();
        if !session.0.closed.is_cancelled() {
            self.0.0.ending.spawn(async move { session.end().await });
        }
    }
}

/// What a chain works with.
pub(crate) struct SessionDeps {
    pub(crate) calls: InnerCalls,
    pub(crate) scope: Arc<Scope>,
    pub(crate) policy: ChainPolicy,
    pub(crate) artifacts: Option<Artifacts>,
    /// Where its writes are written down.
    pub(crate) journal: Option<Journal>,
    pub(crate) is_dry_run: bool,
    /// The call of the chain.
    pub(crate) call: String,
    pub(crate) progress: toolbus_bus::Progress,
}

struct Inner {
    deps: SessionDeps,
    trace: Mutex<Vec<ChainCallRecord>>,
    begun: AtomicU64,
    skipped: SkippedWrites,
    uploads: Uploads,
    answers: Mutex<Answers>,
    tasks: TaskTracker,
    /// The program has started.
    started: CancellationToken,
    closed: CancellationToken,
    ending: TaskTracker,
}

/// The answers to requests: all that are open, and the last that were given.
#[derive(Default)]
struct Answers {
    by_number: HashMap<u32, watch::Receiver<Option<Value>>>,
    /// In the order in which they were given.
    given: VecDeque<u32>,
}

impl ChainSession {
    pub(crate) fn new(deps: SessionDeps) -> Self {
        Self(Arc::new(Inner {
            deps,
            trace: Mutex::default(),
            begun: AtomicU64::new(0),
            skipped: SkippedWrites::default(),
            uploads: Uploads::default(),
            answers: Mutex::default(),
            tasks: TaskTracker::new(),
            started: CancellationToken::new(),
            closed: CancellationToken::new(),
            ending: TaskTracker::new(),
        }))
    }

    /// Answers the request of this number, which may come again.
    pub(crate) async fn answer(&self, number: u32, request: Value) -> Value {
        let mut answer = {
            let answers = &mut self.0.answers.lock().by_number;
            match answers.get(&number) {
                Some(known) => known.clone(),
                None if self.0.closed.is_cancelled() => return closed(),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    answers.insert(number, receiver.clone());
                    // Whoever asks may be lost with its worker; what was begun goes on.
                    let session = self.clone();
                    self.0.tasks.spawn(async move {
                        let value = session.respond(request).await;
                        sender.send_replace(Some(value));
                        session.0.answers.lock().forget_oldest_but(number);
                    });
                    receiver
                }
            }
        };

        match answer.wait_for(Option::is_some).await {
            Ok(value) => value.clone().unwrap_or_else(closed),
            Err(_) => closed(),
        }
    }

    /// Waits until the program has started.
    pub(crate) async fn started(&self) {
        self.0.started.cancelled().await;
    }

    /// Takes no more requests, and waits for the calls that run, which are cancelled. Goes on where
    /// whoever waits for it is dropped.
    pub(crate) async fn close(&self) {
        let session = self.clone();
        // An error is a panic, which is told where it happens.
        let _ = self.0.ending.spawn(async move { session.end().await }).await;
    }

    async fn end(&self) {
        self.0.closed.cancel();
        self.0.deps.scope.cancelled.cancel();
        self.0.tasks.close();
        // What does not end by then ends with its own cleaning up.
        let _ = tokio::time::timeout(CANCEL_GRACE, self.0.tasks.wait()).await;
        if let (Some(artifacts), Some(chain)) = (&self.0.deps.artifacts, self.0.deps.scope.chain())
            && let Err(error) = artifacts.unpin_all(&chain).await
        {
            tracing::warn!(error = &error as &dyn std::error::Error, "artifacts stay pinned");
        }
    }

    /// Its calls that have ended.
    pub(crate) fn trace(&self) -> Vec<ChainCallRecord> {
        self.0.trace.lock().clone()
    }

    /// What a dry run has not run.
    pub(crate) fn skipped_writes(&self) -> Vec<Value> {
        self.0.skipped.take()
    }

    /// The artifacts that it may refer to at its end: those that it was given and has made.
    pub(crate) fn made(&self) -> Vec<String> {
        match &self.0.deps.scope.artifacts {
            ArtifactReach::Only(set) => {
                set.to_vec().iter().map(|reference| reference.as_str().to_owned()).collect()
            }
            ArtifactReach::Session => Vec::new(),
        }
    }

    /// The name of its journal, where a write is in it.
    pub(crate) fn journal(&self) -> Option<String> {
        let journal = self.0.deps.journal.as_ref().filter(|journal| journal.is_used())?;
        Some(journal.name().to_owned())
    }

    async fn respond(&self, request: Value) -> Value {
        match Request::parse(request) {
            Ok(Request::Started) => {
                self.0.started.cancel();
                json!({})
            }
            Ok(Request::Names) => json!({"names": self.names()}),
            Ok(Request::Call { tool, arguments }) => {
                json!({"result": self.call(&tool, arguments).await})
            }
            Ok(Request::Put(put)) => self.put(put).await,
            Ok(Request::Read { artifact, offset, length }) => {
                self.read(&artifact, offset, length).await
            }
            Err(malformed) => error_response("invalid", &malformed.to_string()),
        }
    }

    /// The tools that a chain may call, by name.
    fn names(&self) -> Vec<String> {
        let deps = &self.0.deps;
        let tools = deps.calls.tools();
        let seen = tools.seen_by(&deps.scope);
        seen.filter(|entry| is_callable(&entry.tool)).map(|entry| entry.tool.name.clone()).collect()
    }

    /// Makes a call, and gives its result as the chain reads it.
    async fn call(&self, tool: &str, arguments: Map<String, Value>) -> Value {
        let is_write = self.0.deps.calls.may_change(tool, &arguments);
        let arguments = Value::Object(arguments);
        let digest = ArgumentsDigest::of(&arguments);
        let began = Instant::now();
        let number = self.0.begun.fetch_add(1, Ordering::Relaxed) + 1;
        if number > CALLS_ASKED_MAX {
            let text = format!("the chain has asked for more than {CALLS_ASKED_MAX} calls");
            return to_result(Err(CallError::new(ErrorCode::Denied, text)));
        }
        let shown = shorten_name(tool);
        self.0.deps.progress.send(ToolProgress {
            message: Some(format!("calling {shown} ({number})")),
            ..ToolProgress::default()
        });

        let (mut status, mut result) = self.call_once(tool, arguments, is_write).await;
        let known = self.0.deps.calls.tools();
        if known.find(tool).is_some_and(|entry| !is_callable(&entry.tool)) {
            // No rule has refused it: there is no such tool for a chain.
            status = CallStatus::Error;
            result["status"] = json!(status.as_str());
        }
        let record = ChainCallRecord::new(shown, digest, status, began.elapsed());
        self.0.trace.lock().push(record);
        result
    }

    async fn call_once(&self, tool: &str, arguments: Value, is_write: bool) -> (CallStatus, Value) {
        let deps = &self.0.deps;
        if deps.is_dry_run && is_write {
            return (CallStatus::Ok, self.0.skipped.skip(shorten_name(tool), &arguments));
        }
        let journal = deps.journal.as_ref().filter(|_| is_write);
        let Some(journal) = journal else {
            let outcome = self.invoke(tool, arguments).await;
            return (status_of(&outcome), to_result(outcome));
        };

        let entry = match journal.begin(tool, &arguments).await {
            Ok(Known::New(entry)) => entry,
            // The gates let this owner make it, by these doors and with this view.
            Ok(Known::Made(result)) => return (recorded_status(&result), result),
            Ok(Known::Unknown) => {
                let error = CallError::new(
                    ErrorCode::OutcomeUnknown,
                    "an earlier run has begun this call, and nobody knows whether it was made",
                );
                return (CallStatus::Error, to_result(Err(error)));
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "no journal is written");
                let text = "the journal of the chain cannot be written, so nothing is run";
                let error = CallError::execution_failed(text);
                return (CallStatus::Error, to_result(Err(error)));
            }
        };
        let outcome = self.invoke(tool, arguments).await;
        let is_undone = matches!(&outcome, Err(error) if error.execution == Execution::NotStarted);
        let status = status_of(&outcome);
        let result = to_result(outcome);
        let written = match is_undone {
            true => journal.take_back(entry).await,
            false => journal.end(entry, &result).await,
        };
        if let Err(error) = written {
            // A later run is told that nobody knows.
            tracing::warn!(
                error = &error as &dyn std::error::Error,
                "a write is not in its journal"
            );
        }
        (status, result)
    }

    async fn invoke(&self, tool: &str, arguments: Value) -> Outcome {
        let deps = &self.0.deps;
        let name = match ToolName::parse(tool) {
            Ok(name) => name,
            Err(error) => {
                // It counts like any other call that fails.
                deps.scope.budget.charge_call()?;
                return Err(CallError::invalid_arguments(error.to_string()));
            }
        };
        deps.calls.call_within(&deps.scope, name, arguments, deps.policy.call_timeout).await
    }

    async fn put(&self, put: Put) -> Value {
        let deps = &self.0.deps;
        let Some(artifacts) = &deps.artifacts else { return no_artifacts() };
        let target = UploadTarget { artifacts, scope: &deps.scope, call: &deps.call };
        self.0.uploads.put(put, target).await
    }

    async fn read(&self, artifact: &str, offset: u64, length: u64) -> Value {
        let deps = &self.0.deps;
        let Some(artifacts) = &deps.artifacts else { return no_artifacts() };
        let piece = async {
            let found = artifacts.find_in(&deps.scope, artifact).await?;
            let end = offset.saturating_add(length.min(READ_BYTES_MAX));
            let piece = found.read(offset..end).await?;
            Ok::<_, toolbus_artifacts::Error>((piece, found.info.bytes))
        };

        match piece.await {
            Ok((piece, bytes)) => json!({
                "data": STANDARD.encode(&piece),
                "last": offset.saturating_add(piece.len() as u64) >= bytes,
            }),
            Err(error) => error_response("artifact", &error.to_string()),
        }
    }
}

/// The name of a tool as it is kept of a call: what a program gives as one may be of any length.
fn shorten_name(tool: &str) -> &str {
    &tool[..tool.floor_char_boundary(ID_BYTES_MAX)]
}

impl Answers {
    /// Forgets the answer that was given first, where there are too many beside this new one. One
    /// that is open is never forgotten: asked for again, its call would be made again.
    fn forget_oldest_but(&mut self, given: u32) {
        self.given.push_back(given);
        if self.given.len() > ANSWERS_MAX
            && let Some(oldest) = self.given.pop_front()
        {
            self.by_number.remove(&oldest);
        }
    }
}

/// Whether a chain can call it at all.
fn is_callable(tool: &Tool) -> bool {
    matches!(tool.kind, ToolKind::Local) && tool.name != crate::NAME
}

fn closed() -> Value {
    error_response("closed", "the chain is over, and its session closed")
}

fn no_artifacts() -> Value {
    error_response("unavailable", "this agent keeps no artifacts")
}

fn recorded_status(result: &Value) -> CallStatus {
    let word = result["status"].as_str().unwrap_or_default();
    CallStatus::ALL.into_iter().find(|status| status.as_str() == word).unwrap_or(CallStatus::Error)
}

/// The result of a call as the chain reads it: one of three, whatever happened.
fn to_result(outcome: Outcome) -> Value {
    match outcome {
        Ok(output) => output_result(output),
        Err(error) => {
            let is_refused = matches!(error.code, ErrorCode::Denied | ErrorCode::RateLimited);
            json!({"status": if is_refused { "denied" } else { "error" }, "text": error.message})
        }
    }
}

fn output_result(output: Output) -> Value {
    let mut text = output.to_text().into_owned();
    if text.len() > ANSWER_TEXT_BYTES_MAX {
        let omitted = text.len();
        text.truncate(text.floor_char_boundary(ANSWER_TEXT_BYTES_MAX));
        text.push_str(&format!("\n[cut: it had {omitted} bytes]"));
    }
    let mut result = Map::new();
    let status = if output.is_error { "error" } else { "ok" };
    result.insert("status".to_owned(), json!(status));
    result.insert("text".to_owned(), json!(text));

    let read = |value: RawJson| toolbus_json::from_str(value.text(), &STRUCTURED_LIMITS).ok();
    if let Some(value) = output.structured.and_then(read) {
        result.insert("structured".to_owned(), value);
    }
    if let Some(artifact) = output.artifact {
        result.insert("artifact".to_owned(), json!(artifact.reference.as_str()));
    }
    if !output.files.is_empty() {
        let files = output.files.iter().map(|file| {
            json!({
                "path": file.path,
                "mediaType": file.artifact.media_type,
                "artifact": file.artifact.reference.as_str(),
                "bytes": file.artifact.bytes,
            })
        });
        result.insert("files".to_owned(), files.collect());
    }
    Value::Object(result)
}

#[cfg(test)]
mod tests;
