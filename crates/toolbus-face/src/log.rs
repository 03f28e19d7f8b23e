//! Which lines of a server's log a client hears.
//!
//! In the older era a client says once how grave a line has to be, for its session; until it does,
//! it hears [`LEVEL_DEFAULT`] and graver, as the protocol leaves to us. In the newer era every
//! request says it for itself, and one that does not hears no line at all.
#![expect(deprecated, reason = "the protocol has nothing in place of its log yet")]

use std::sync::Arc;

use parking_lot::RwLock;
use rmcp::RoleServer;
use rmcp::model::{LoggingLevel, LoggingMessageNotificationParam};
use rmcp::service::{Peer, RequestContext};
use serde_json::Value;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::protocol_version;

/// The least grave lines that a client of the older era hears which has not said.
const LEVEL_DEFAULT: LoggingLevel = LoggingLevel::Info;

/// What the client of one session has said. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct SessionLog(Arc<RwLock<Option<LoggingLevel>>>);

/// How grave a line has to be for one request; none is grave enough where nothing is said.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Threshold(Option<LoggingLevel>);

impl SessionLog {
    pub(crate) fn set(&self, level: LoggingLevel) {
        *self.0.write() = Some(level);
    }

    pub(crate) fn threshold(&self, context: &RequestContext<RoleServer>) -> Threshold {
        Threshold(match protocol_version::is_stateless(context) {
            true => context.meta.log_level(),
            false => Some(self.0.read().unwrap_or(LEVEL_DEFAULT)),
        })
    }
}

impl Threshold {
    /// Whether any line is heard.
    pub(crate) fn is_enabled(self) -> bool {
        self.0.is_some()
    }

    /// The line of a log that this progress is, where the client hears such lines.
    fn log_line(self, progress: &ToolProgress) -> Option<LoggingMessageNotificationParam> {
        let level = Value::String(progress.level.clone()?);
        let level: LoggingLevel = serde_json::from_value(level).ok()?;
        let is_heard = self.0.is_some_and(|least| level as u8 >= least as u8);
        let text = progress.message.clone().filter(|_| is_heard)?;
        Some(LoggingMessageNotificationParam::new(level, Value::String(text)))
    }

    /// Sends a line of a log, and says whether the progress is nothing but that.
    pub(crate) async fn notify(self, peer: &Peer<RoleServer>, progress: &ToolProgress) -> bool {
        if let Some(line) = self.log_line(progress) {
            // A client that has gone needs no log.
            let _ = peer.notify_logging_message(line).await;
        }
        progress.level.is_some() && self.is_enabled()
    }
}

#[cfg(test)]
mod tests;
