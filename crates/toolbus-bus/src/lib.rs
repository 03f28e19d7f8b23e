//! The message bus as the rest of the fleet sees it.
//!
//! [`port`] says what a broker does: publish to a topic, subscribe to a pattern, and let a handler
//! tell what becomes of each message. Two adapters implement it and behave alike, which
//! [`conformance`] proves: [`memory`] here, for one process, and RabbitMQ in a crate of its own.
//! On top of the port stand the two ends of a call: [`requester`] asks and correlates the reply,
//! [`responder`] answers each request once.
//!
//! Nothing here knows what a tool is.

pub mod asker;
mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod context;
pub mod deadline;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod limits;
pub mod memory;
pub mod metrics;
mod parked_request;
pub mod pattern;
pub mod port;
pub mod progress;
pub mod requester;
pub mod responder;
pub mod slot;
pub mod trace;

#[cfg(test)]
mod testing;

pub use asker::{Asker, Question};
pub use context::CallContext;
pub use deadline::{Deadline, Interruption};
pub use memory::MemoryBus;
pub use pattern::TopicPattern;
pub use port::{
    Bus, Consumer, Delivery, Disposition, Flow, Handler, Health, Lifetime, PublishError,
    SubscribeError, Subscription,
};
pub use progress::Progress;
pub use slot::{Slot, SlotPool};
pub use toolbus_wire::{Envelope, Topic, TraceContext};
