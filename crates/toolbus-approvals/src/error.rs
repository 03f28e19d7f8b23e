//! Why an approval is not asked for, not given, or of no use.

use crate::approval::Approval;
use crate::binding::BoundPrincipal;

/// Why an approval is not asked for, not given, or of no use.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] toolbus_store::Error),
    /// The call is too large to be shown to anybody.
    #[error("the call has {bytes} bytes to be approved, over the limit of {limit}")]
    TooLarge {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        limit: usize,
    },
    /// Too many calls wait for approval.
    #[error("{0} calls wait for approval already")]
    Full(u64),
    /// There is no such approval.
    #[error("there is no approval '{0}'")]
    NotFound(String),
    /// Several begin so.
    #[error("several approvals begin with '{0}'")]
    Ambiguous(String),
    /// Somebody else has answered before, or its time is over.
    #[error("the approval '{}' is {} already{}", .0.id, .0.state, .0.told_by())]
    AlreadyAnswered(Box<Approval>),
    /// Whoever has made the call may not approve it.
    #[error("{0} has made the call and may not approve it (approvals.allow_self_approval)")]
    OwnCall(BoundPrincipal),
    /// It cannot be remembered for a session that it has not.
    #[error("the call has no session to be remembered for")]
    NoSession,
    /// No chain has made the call.
    #[error("the call is none of a chain, so there are no others of it to approve")]
    NoChain,
    /// Calls to come of a chain cannot be approved by this.
    #[error(
        "calls to come are approved by an object that the call itself fits, for 1 to {calls_max} calls"
    )]
    WrongPattern {
        /// Most calls that there may be.
        calls_max: u32,
    },
    /// Arguments must be an object, and a read has none.
    #[error("the arguments of this call cannot be replaced by these")]
    WrongArguments,
    /// What is kept cannot be read.
    #[error("the approval '{0}' cannot be read")]
    Unreadable(String),
}

impl From<toolbus_store::sqlx::Error> for Error {
    fn from(error: toolbus_store::sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}
