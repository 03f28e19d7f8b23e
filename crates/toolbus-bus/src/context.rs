//! The context of a call: what travels with it from socket to socket.

use tokio_util::sync::CancellationToken;

use crate::{Asker, Deadline, Progress};

/// Deadline, cancellation, progress and questions of one call. Every hop takes it whole and hands
/// it on whole; a clone belongs to the same call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// When the call must have ended.
    pub deadline: Deadline,
    /// Fires when nobody wants the outcome any more; work that runs is stopped.
    pub cancelled: CancellationToken,
    /// Takes progress as it comes.
    pub progress: Progress,
    /// Answers questions of the call, while it runs.
    pub asker: Asker,
}

impl CallContext {
    /// The context of a call that ends at `deadline`, that nobody cancels, whose progress nobody
    /// reads and whose questions nobody answers.
    #[must_use]
    pub fn until(deadline: Deadline) -> Self {
        Self {
            deadline,
            cancelled: CancellationToken::new(),
            progress: Progress::none(),
            asker: Asker::none(),
        }
    }

    /// The same context, cancelled by this token.
    #[must_use]
    pub fn with_cancelled(self, cancelled: CancellationToken) -> Self {
        Self { cancelled, ..self }
    }

    /// The same context, which reports progress here.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Self { progress, ..self }
    }

    /// The same context, whose questions this asker answers.
    #[must_use]
    pub fn with_asker(self, asker: Asker) -> Self {
        Self { asker, ..self }
    }
}
