//! What one script may take, as the operator sets it: kept by workers, and told to models.

use std::time::Duration;

use crate::tool::TIMEOUT_SECONDS_DEFAULT;

/// What one script may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScriptAllowance {
    /// The longest time that a script may ask for, in whole seconds, up to
    /// [`ScriptAllowance::TIMEOUT_MAX`].
    pub timeout_max: Duration,
    /// Memory of a script, in bytes, as models are told. The runner has a limit of its own.
    pub memory_bytes: u64,
}

impl ScriptAllowance {
    /// The longest time that an operator may allow: a broker takes back what is not acknowledged
    /// for half an hour.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(20 * 60);

    /// The most seconds that a script may ask for.
    #[must_use]
    pub fn timeout_seconds_max(&self) -> u64 {
        self.timeout_max.min(Self::TIMEOUT_MAX).as_secs().max(1)
    }

    /// The seconds of a script whose caller does not say.
    #[must_use]
    pub fn timeout_seconds_default(&self) -> u64 {
        TIMEOUT_SECONDS_DEFAULT.min(self.timeout_seconds_max())
    }

    /// The seconds that a script gets which asks for so many.
    #[must_use]
    pub fn clamp_seconds(&self, seconds: u64) -> u64 {
        seconds.clamp(1, self.timeout_seconds_max())
    }

    /// Fills these limits into a text for models.
    pub(crate) fn fill_in(&self, text: &str) -> String {
        text.replace("{timeout_default}", &self.timeout_seconds_default().to_string())
            .replace("{timeout_max}", &self.timeout_seconds_max().to_string())
            .replace("{memory}", &format!("{} MiB", self.memory_bytes >> 20))
    }
}

impl Default for ScriptAllowance {
    fn default() -> Self {
        Self { timeout_max: Duration::from_secs(300), memory_bytes: 256 << 20 }
    }
}
