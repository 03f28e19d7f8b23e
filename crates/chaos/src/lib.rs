//! Breaks a fleet on purpose and judges what became of each call, by ledgers that stand outside of
//! the fleet: one that the callers keep and one that the effects leave.

pub mod caller;
pub mod effects;
pub mod judge;
pub mod ledger;
pub mod proxy;
pub mod random;
pub mod record;
