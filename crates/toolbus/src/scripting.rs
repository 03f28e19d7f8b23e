//! Who runs the scripts of `execute_python_script`.

use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

use toolbus_scripts::{Runner, ScriptAllowance};

/// How many scripts run at a time where nobody says.
const CONCURRENCY_DEFAULT: NonZeroU16 = NonZeroU16::new(4).expect("4 is not zero");

/// Who runs the scripts of `execute_python_script`. Either way the agent has that tool, and its
/// guide.
pub struct Scripts {
    /// `None`: somebody else on the bus.
    pub(crate) local: Option<LocalScripts>,
    pub(crate) allowance: ScriptAllowance,
}

/// A runner in this process, for every agent on the bus.
pub(crate) struct LocalScripts {
    pub(crate) runner: Arc<dyn Runner>,
    pub(crate) concurrency: NonZeroU16,
}

impl Scripts {
    /// Scripts run in this process, by this runner, four at a time.
    ///
    /// Where no runner works, [`Unavailable`](toolbus_scripts::Unavailable) is one that tells
    /// callers why.
    #[must_use]
    pub fn local(runner: Arc<dyn Runner>) -> Self {
        let local = LocalScripts { runner, concurrency: CONCURRENCY_DEFAULT };
        Self { local: Some(local), allowance: ScriptAllowance::default() }
    }

    /// Scripts run elsewhere: by a `scripts-manager`, or by another program on the same bus that
    /// has [local](Scripts::local) ones. While there is none, calls are `unroutable`.
    #[must_use]
    pub fn remote() -> Self {
        Self { local: None, allowance: ScriptAllowance::default() }
    }

    /// The same, of which models are told this allowance. Local ones are kept to the time; how much
    /// memory a script gets is the runner's to say, and of remote ones both.
    #[must_use]
    pub fn allowance(self, allowance: ScriptAllowance) -> Self {
        Self { allowance, ..self }
    }

    /// The same, so many at a time; more wait in the queue. Of remote ones it changes nothing.
    #[must_use]
    pub fn concurrency(mut self, concurrency: NonZeroU16) -> Self {
        if let Some(local) = &mut self.local {
            local.concurrency = concurrency;
        }
        self
    }
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runner = self.local.as_ref().map(|local| local.runner.name());
        f.debug_struct("Scripts").field("runner", &runner).finish_non_exhaustive()
    }
}
