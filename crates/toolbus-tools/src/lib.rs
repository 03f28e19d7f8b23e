//! The tool system: what tools there are, and the one way to run them.
//!
//! A [`Tool`] is a description and an [`Executor`]; the [`Registry`] holds them by name; the
//! [`Invoker`] runs every call there is, through one ordered list of gates ([`invoker::gates`]).
//! Nothing else may run a tool. [`bus`] is both ends of a call that crosses the bus.

pub mod bus;
pub mod call;
pub mod gate;
pub mod guide;
pub mod invoker;
pub mod metrics;
pub mod registry;
pub mod schema;
pub mod tool;

pub use call::{Call, CallError, Outcome, Output};
pub use guide::{Guide, Guides};
pub use invoker::Invoker;
pub use registry::Registry;
pub use tool::{Annotations, Executor, Tool};
