//! Defaults that an upgrade changes, for `doctor`.

use crate::Finding;

/// A default that differs from the one of earlier programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedDefault {
    /// Name of the setting.
    pub setting: &'static str,
    /// Date of the change, such as `2026-11-28`.
    pub since: &'static str,
    /// The change, as a sentence without a period.
    pub change: &'static str,
    /// The setting that keeps the former behavior.
    pub former: &'static str,
}

impl ChangedDefault {
    /// Returns the finding for a configuration that the change affects.
    #[must_use]
    pub fn note(&self) -> Finding {
        let Self { setting, since, change, former } = self;
        let detail = format!("changed on {since}: {change}");
        let mend = format!("to keep the former behavior: {former}");
        Finding::note(format!("default {setting}"), detail).mended_by(mend)
    }
}
