//! Breaks a fleet on purpose and judges what became of each call, by ledgers that stand outside of
//! the fleet: one that the callers keep and one that the effects leave.
//!
//! The program `chaos` is three: the effects server ([`effects`]), a caller ([`caller`]), and the
//! driver ([`driver`]) that starts them with bridges, managers of scripts and a broker of their
//! own, does a fault to them ([`fault`], [`strike`]) and has the ledgers judged ([`judge`]). `cargo
//! xtask accept chaos` runs it.
//!
//! Everything is on loopback and bounded in count and time, everything is drawn from one seed, and
//! only processes that were started here are ever signalled.

pub mod allowed;
pub mod arguments;
pub mod broker;
pub mod caller;
pub mod driver;
pub mod effects;
pub mod fault;
pub mod fleet;
pub mod judge;
pub mod ledger;
pub mod proxy;
pub mod random;
pub mod record;
pub mod report;
pub mod script_effects;
pub mod strike;
