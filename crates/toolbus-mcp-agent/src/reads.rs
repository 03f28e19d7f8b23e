//! How long what only reads may take, see [`McpDirectory::relay`].
//!
//! [`McpDirectory::relay`]: crate::McpDirectory::relay

use std::time::Duration;

pub use crate::manage::TIMEOUT as READ_TIMEOUT;

/// How long a read may take for which somebody may be asked something first.
pub const READ_WITH_QUESTIONS_TIMEOUT: Duration = Duration::from_secs(120);
