//! Hooks: functions that are told what an agent does.
//!
//! They observe only: what one does or says changes no call and no run. Those of one event run side
//! by side, events come one after the other, and what a hook does wrong is logged and is its own
//! affair. Nobody waits for hooks: events of calls go through a queue, and one that finds it full
//! is dropped and counted.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, join_all};
use parking_lot::RwLock;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::id::{CallId, RunId};
use crate::observe::{CallEvent, CallEventKind, Observe};

/// How long a hook may work on one event. It is dropped then: the events behind it wait.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(10);

/// Events of calls that may wait for hooks.
const QUEUED_MAX: usize = 1_024;

/// What hooks are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HookEventKind {
    /// A run begins.
    RunStart,
    /// A run has ended.
    RunEnd,
    /// A step of a run begins.
    StepStart,
    /// A step of a run has ended.
    StepEnd,
    /// A model is asked.
    LlmStart,
    /// A model has answered.
    LlmEnd,
    /// A call of a tool came in; `details`: `tool_name`.
    ToolStart,
    /// A call of a tool has ended; `details`: `tool_name`, `status`, `duration_ms`.
    ToolEnd,
    /// A gate has refused a call; `details`: `tool_name`, `gate`, `code`.
    GuardrailTrip,
    /// An agent hands over to another one.
    Handoff,
    /// A flow of several agents begins.
    FlowStart,
    /// A flow of several agents has ended.
    FlowEnd,
}

impl HookEventKind {
    /// Its name in logs.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunStart => "run_start",
            Self::RunEnd => "run_end",
            Self::StepStart => "step_start",
            Self::StepEnd => "step_end",
            Self::LlmStart => "llm_start",
            Self::LlmEnd => "llm_end",
            Self::ToolStart => "tool_start",
            Self::ToolEnd => "tool_end",
            Self::GuardrailTrip => "guardrail_trip",
            Self::Handoff => "handoff",
            Self::FlowStart => "flow_start",
            Self::FlowEnd => "flow_end",
        }
    }
}

/// Something that hooks are told of.
#[derive(Debug, Clone)]
pub struct HookEvent {
    /// What happened.
    pub kind: HookEventKind,
    /// The run that it happened in.
    pub run: RunId,
    /// The call that it happened to, where it did to one.
    pub call: Option<CallId>,
    /// More of it, by the kind of the event.
    pub details: Map<String, Value>,
}

/// Names a hook that was registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HookId(u64);

/// The hooks of an agent. Clones are the same hooks.
#[derive(Clone, Default)]
pub struct Hooks {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    registered: RwLock<Vec<Registered>>,
    next_id: AtomicU64,
    dropped: AtomicU64,
    tasks: TaskTracker,
}

type Callback = Arc<dyn Fn(HookEvent) -> BoxFuture<'static, ()> + Send + Sync>;

struct Registered {
    id: HookId,
    kind: HookEventKind,
    callback: Callback,
}

impl HookEventKind {
    /// Every kind.
    pub const ALL: [Self; 12] = [
        Self::RunStart,
        Self::RunEnd,
        Self::StepStart,
        Self::StepEnd,
        Self::LlmStart,
        Self::LlmEnd,
        Self::ToolStart,
        Self::ToolEnd,
        Self::GuardrailTrip,
        Self::Handoff,
        Self::FlowStart,
        Self::FlowEnd,
    ];
}

impl Hooks {
    /// No hooks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Has this function told of all events of this kind. One that has nothing to wait for returns
    /// [`std::future::ready`].
    pub fn register<F, Fut>(&self, kind: HookEventKind, callback: F) -> HookId
    where
        F: Fn(HookEvent) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let id = HookId(self.inner.next_id.fetch_add(1, Ordering::Relaxed));
        let callback: Callback = Arc::new(move |event| callback(event).boxed());
        self.inner.registered.write().push(Registered { id, kind, callback });
        id
    }

    /// Takes a hook away, and says whether it was there.
    pub fn unregister(&self, id: HookId) -> bool {
        let mut registered = self.inner.registered.write();
        let before = registered.len();
        registered.retain(|hook| hook.id != id);
        registered.len() < before
    }

    /// Takes all hooks of a kind away; all there are without one.
    pub fn clear(&self, kind: Option<HookEventKind>) {
        self.inner.registered.write().retain(|hook| kind.is_some_and(|kind| hook.kind != kind));
    }

    /// Whether there is a hook of this kind.
    #[must_use]
    pub fn has_hooks(&self, kind: HookEventKind) -> bool {
        self.inner.registered.read().iter().any(|hook| hook.kind == kind)
    }

    /// How many events were dropped because hooks could not keep up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.inner.dropped.load(Ordering::Relaxed)
    }

    /// Tells the hooks of an event, all at once, and waits for them, each at most
    /// [`HOOK_TIMEOUT`].
    pub async fn fire(&self, event: HookEvent) {
        let callbacks: Vec<Callback> = {
            let registered = self.inner.registered.read();
            let of_kind = registered.iter().filter(|hook| hook.kind == event.kind);
            of_kind.map(|hook| Arc::clone(&hook.callback)).collect()
        };
        join_all(callbacks.into_iter().map(|callback| tell(callback, event.clone()))).await;
    }

    /// What tells these hooks of calls. It needs a tokio runtime, and works on until it is dropped.
    #[must_use]
    pub fn observer(&self) -> Arc<dyn Observe> {
        let (events, mut queue) = mpsc::channel(QUEUED_MAX);
        let hooks = self.clone();
        self.inner.tasks.spawn(async move {
            while let Some(event) = queue.recv().await {
                hooks.fire(event).await;
            }
        });
        Arc::new(CallHooks { hooks: self.clone(), events })
    }
}

/// Tells one hook of one event.
async fn tell(callback: Callback, event: HookEvent) {
    let kind = event.kind;
    let work = AssertUnwindSafe(async { callback(event).await }).catch_unwind();
    match timeout(HOOK_TIMEOUT, work).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) => tracing::error!(kind = kind.as_str(), "a hook panicked"),
        Err(_) => tracing::warn!(kind = kind.as_str(), "a hook took too long and was dropped"),
    }
}

/// Tells hooks of calls.
struct CallHooks {
    hooks: Hooks,
    events: mpsc::Sender<HookEvent>,
}

impl CallHooks {
    fn queue(&self, event: &CallEvent<'_>, kind: HookEventKind, details: Value) {
        let Value::Object(details) = details else { return };
        let run = event.scope.run.clone();
        let event = HookEvent { kind, run, call: Some(event.call.clone()), details };
        if self.events.try_send(event).is_err() {
            self.hooks.inner.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Observe for CallHooks {
    fn on_event(&self, event: &CallEvent<'_>) {
        let tool_name = event.tool.as_str();
        match &event.kind {
            CallEventKind::Began(_) if self.hooks.has_hooks(HookEventKind::ToolStart) => {
                self.queue(event, HookEventKind::ToolStart, json!({"tool_name": tool_name}));
            }
            CallEventKind::Ended(record) => {
                if let Some(gate) = record.refused_by
                    && self.hooks.has_hooks(HookEventKind::GuardrailTrip)
                {
                    let code = record.error.as_ref().map_or("", |code| code.as_str());
                    let details = json!({"tool_name": tool_name, "gate": gate, "code": code});
                    self.queue(event, HookEventKind::GuardrailTrip, details);
                }

                if self.hooks.has_hooks(HookEventKind::ToolEnd) {
                    let duration_ms = u64::try_from(record.took.as_millis()).unwrap_or(u64::MAX);
                    let status = record.status.as_str();
                    let details = json!({
                        "tool_name": tool_name, "status": status, "duration_ms": duration_ms,
                    });
                    self.queue(event, HookEventKind::ToolEnd, details);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
