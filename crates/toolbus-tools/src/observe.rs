//! Observers: who hears of each call, from its beginning to its end.

use std::time::Duration;

use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::{ErrorCode, Execution};

use crate::call::Call;
use crate::id::{CallId, RunId, ToolId};

/// Something that happened to a call. The events of one call are numbered without a gap, from 0.
#[derive(Debug, Clone)]
pub struct CallEvent<'a> {
    /// The call.
    pub call: &'a CallId,
    /// The call that made it.
    pub parent: Option<&'a CallId>,
    /// What it belongs to.
    pub run: &'a RunId,
    /// Its number among the events of the call.
    pub sequence: u64,
    /// What happened.
    pub kind: CallEventKind<'a>,
}

/// What happened to a call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum CallEventKind<'a> {
    /// It came in.
    Began(&'a Call),
    /// A gate keeps it waiting.
    Waiting {
        /// The gate's name.
        gate: &'static str,
    },
    /// Its tool reports progress.
    Progress(&'a ToolProgress),
    /// It has ended.
    Ended(&'a CallRecord),
}

/// How a call ended.
#[derive(Debug, Clone)]
pub struct CallRecord {
    /// The tool that it was about, where that was found out.
    pub subject: Option<ToolId>,
    /// Why it failed. `None`: it has an output.
    pub error: Option<ErrorCode>,
    /// Whether its tool was started.
    pub execution: Execution,
    /// How long it took, gates and tool together.
    pub took: Duration,
}

/// Hears of every call. It is called on the task of the call, so it must never wait; what it cannot
/// take at once it drops and counts.
pub trait Observe: Send + Sync + 'static {
    /// Takes an event.
    fn on_event(&self, event: &CallEvent<'_>);
}
