//! Approvals: a yes that means exactly one call.
//!
//! Where the policy wants a call approved, the [`ApprovalGate`] writes down what the call is
//! ([`Binding`]), asks whoever can be asked, and lets it begin by one conditional update of its
//! row. A row is pending, then approved, modified, denied or expired, and consumed at last; no
//! step is made twice, whoever tries. So a restart, a message that comes again, a second answer or
//! a second host never runs a call twice, nor another call than the one that was approved.
//!
//! - [`Approvals`] are those of a process that has calls: its gate, and what brings calls back.
//! - [`ApprovalStore`] is for who answers, in any process at the same store.
//!
//! Nothing here decides which calls need an approval: that is the policy's.

mod answers;
mod approval;
mod ask;
mod binding;
mod calls;
mod chain_answer;
mod desk;
mod error;
mod gate;
mod shown;
mod tables;
mod upkeep;

pub use answers::{Answer, ApprovalStore, Approve, LIST_MAX};
pub use approval::{Approval, ApprovalState, Remembered};
pub use binding::{BINDING_BYTES_MAX, Binding, BoundPrincipal, Remember};
pub use chain_answer::{CHAIN_CALLS_MAX, ForChain};
pub use desk::{ApprovalConfig, Approvals};
pub use error::Error;
pub use gate::ApprovalGate;
pub use shown::{SHOWN_BYTES_MAX, ShownArguments};
pub use tables::MIGRATIONS;
