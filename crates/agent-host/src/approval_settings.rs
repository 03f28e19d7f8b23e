//! The section `approvals` of the settings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_approvals::ApprovalConfig;
use toolbus_bus::deadline::REQUEST_TIMEOUT_MAX;
use toolbus_config::{Mistakes, TimeSpan};

/// Longest time that an answer is remembered, or an approval kept.
const KEEP_MAX: TimeSpan = TimeSpan::seconds(366 * 24 * 60 * 60);

/// How calls are approved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalSettings {
    /// How long a call waits for its approval, at most a day. A caller that waits for less is told
    /// that it was denied a little before it stops waiting.
    pub timeout: TimeSpan,
    /// Whether a call waits for an answer by `agent-host approvals` where there is nobody else to
    /// ask. Without it such a call is denied at once, unless it came over the bus: that one is kept
    /// in the store, and waits.
    pub wait_for_operator: bool,
    /// Whether whoever makes a call may approve it: an MCP client that has it shown to its user, a
    /// caller on the bus. The person at the terminal of `agent-host` always may.
    pub allow_self_approval: bool,
    /// How long an answer holds that is to be remembered, where its approver does not say.
    pub remember_for: TimeSpan,
    /// How long approvals are kept after they have ended, for whoever wants to see them.
    pub keep_for: TimeSpan,
    /// Most calls that wait for approval at one store; more are denied. It is looked at twice a
    /// minute.
    #[schemars(range(min = 1))]
    pub pending_max: u64,
}

impl Default for ApprovalSettings {
    fn default() -> Self {
        let ApprovalConfig {
            timeout,
            wait_for_operator,
            allow_self_approval,
            keep_for,
            remember_for,
            pending_max,
            ..
        } = ApprovalConfig::default();
        Self {
            timeout: TimeSpan::seconds(timeout.as_secs()),
            wait_for_operator,
            allow_self_approval,
            remember_for: TimeSpan::seconds(remember_for.as_secs()),
            keep_for: TimeSpan::seconds(keep_for.as_secs()),
            pending_max,
        }
    }
}

impl ApprovalSettings {
    /// Tells what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let timeout_max = TimeSpan::seconds(REQUEST_TIMEOUT_MAX.as_secs());
        for (name, time, most) in [
            ("timeout", self.timeout, timeout_max),
            ("remember_for", self.remember_for, KEEP_MAX),
            ("keep_for", self.keep_for, KEEP_MAX),
        ] {
            if time > most {
                mistakes.add(&format!("{key}.{name}"), format!("at most {most}"));
            }
        }
    }

    pub(crate) fn config(&self) -> ApprovalConfig {
        ApprovalConfig {
            timeout: self.timeout.duration(),
            wait_for_operator: self.wait_for_operator,
            allow_self_approval: self.allow_self_approval,
            keep_for: self.keep_for.duration(),
            remember_for: self.remember_for.duration(),
            pending_max: self.pending_max,
            ..ApprovalConfig::default()
        }
    }
}
