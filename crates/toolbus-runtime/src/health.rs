//! Health of the process: the states of its components, and whether it is ready.
//!
//! A component reports the state it is in; the registry keeps the latest and nothing else, so
//! reporting is cheap and never waits. Readiness is computed from the states when it is asked for.

mod probe;
mod server;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use serde::Serialize;
use serde_json::{Value, json};

pub use probe::{ProbeError, Readiness, ask_readiness, probe};
pub use server::{Error, HealthServer, serve};

/// Longest reason that is kept, in characters.
const REASON_CHARS_MAX: usize = 300;

/// The state of one component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub enum State {
    /// It has not worked yet.
    Starting,
    /// It works.
    Up,
    /// It works, but not as it should.
    Degraded {
        /// What is wrong, for an operator; no secrets.
        reason: String,
    },
    /// It does not work.
    Down {
        /// What is wrong, for an operator; no secrets.
        reason: String,
    },
}

impl State {
    /// [`State::Degraded`] for this reason.
    pub fn degraded(reason: impl fmt::Display) -> Self {
        Self::Degraded { reason: reason.to_string() }
    }

    /// [`State::Down`] for this reason.
    pub fn down(reason: impl fmt::Display) -> Self {
        Self::Down { reason: reason.to_string() }
    }

    fn is_served(&self) -> bool {
        matches!(self, Self::Up | Self::Degraded { .. })
    }

    fn shorten_reason(mut self) -> Self {
        if let Self::Degraded { reason } | Self::Down { reason } = &mut self
            && let Some((end, _)) = reason.char_indices().nth(REASON_CHARS_MAX)
        {
            reason.truncate(end);
            reason.push('…');
        }
        self
    }
}

/// Whether the process can do its work without the component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// Not ready without it.
    Required,
    /// Ready all the same.
    Optional,
}

/// The registry of a process. Clones share it.
#[derive(Clone, Default)]
pub struct Health {
    shared: Arc<RwLock<HealthRegistry>>,
}

#[derive(Default)]
struct HealthRegistry {
    components: BTreeMap<String, ComponentEntry>,
    stopping: bool,
    has_been_ready: bool,
    status: Option<StatusFn>,
}

type StatusFn = Arc<dyn Fn() -> Value + Send + Sync>;

struct ComponentEntry {
    need: Need,
    state: State,
}

impl Health {
    /// A registry without components, which is not ready: the health port is there before the work
    /// has said what it needs.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a component as [`State::Starting`] and returns the handle it reports by. A
    /// name that is registered already starts again.
    #[must_use]
    pub fn component(&self, name: &str, need: Need) -> Component {
        let entry = ComponentEntry { need, state: State::Starting };
        self.shared.write().components.insert(name.to_owned(), entry);
        Component { health: self.clone(), name: name.into() }
    }

    /// Whether work may be sent here: there are components, every required one serves, and no stop
    /// was asked for.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.shared.read().is_ready()
    }

    /// Whether the process has been ready at some time, whatever it is now.
    #[must_use]
    pub fn has_been_ready(&self) -> bool {
        self.shared.read().has_been_ready
    }

    /// Makes the process not ready from now on, because it is about to stop.
    pub fn stop(&self) {
        self.shared.write().stopping = true;
    }

    /// Sets what `/status` shows as `details`. It is called for each request, so it must be quick
    /// and must not block; no secrets.
    pub fn describe(&self, status: impl Fn() -> Value + Send + Sync + 'static) {
        self.shared.write().status = Some(Arc::new(status));
    }

    /// What `/readyz` answers: `{"ready", "stopping", "components": {name: {"state", "reason"?,
    /// "required"}}}`.
    #[must_use]
    pub fn readiness(&self) -> Value {
        self.shared.read().readiness()
    }

    /// What `/status` answers: the same with `details`.
    #[must_use]
    pub fn status(&self) -> Value {
        let (mut report, status) = {
            let shared = self.shared.read();
            (shared.readiness(), shared.status.clone())
        };
        // Called outside the lock: it may report states itself.
        report["details"] = status.map_or(Value::Null, |status| status());
        report
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Health({})", self.readiness())
    }
}

impl HealthRegistry {
    fn is_ready(&self) -> bool {
        let mut required = self.components.values().filter(|entry| entry.need == Need::Required);
        let has_components = !self.components.is_empty();
        has_components && !self.stopping && required.all(|entry| entry.state.is_served())
    }

    fn readiness(&self) -> Value {
        let components = self.components.iter().map(|(name, entry)| {
            let mut shown = json!(entry.state);
            shown["required"] = json!(entry.need == Need::Required);
            (name.clone(), shown)
        });

        json!({
            "ready": self.is_ready(),
            "stopping": self.stopping,
            "components": components.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// The handle by which a component reports its state. Clones report for the same component.
#[derive(Debug, Clone)]
pub struct Component {
    health: Health,
    name: Arc<str>,
}

impl Component {
    /// Reports the state; a change is logged. A reason is kept up to 300 characters.
    pub fn set(&self, state: State) {
        let state = state.shorten_reason();
        let changed = {
            let mut shared = self.health.shared.write();
            let Some(entry) = shared.components.get_mut(&*self.name) else { return };
            if entry.state == state {
                return;
            }
            entry.state = state.clone();
            shared.has_been_ready |= shared.is_ready();
            state
        };

        let component = &*self.name;
        match changed {
            State::Starting => tracing::debug!(component, "component is starting"),
            State::Up => tracing::info!(component, "component is up"),
            State::Degraded { reason } => {
                tracing::warn!(component, reason, "component is degraded")
            }
            State::Down { reason } => tracing::warn!(component, reason, "component is down"),
        }
    }
}
