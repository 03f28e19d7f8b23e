//! The AMQP adapter of the bus: [`RabbitBus`] implements the port on one connection to RabbitMQ.
//!
//! What it promises beyond the port:
//! - Names, arguments and order of declaration are those of the C# code, and so are the frames.
//! - `publish` returns when the broker has confirmed the message. Nothing is acked before its
//!   handler has answered, and a dead letter is confirmed at its new place before it is acked at
//!   the old one. So what was confirmed is never lost, and may come twice.
//! - It comes back by itself after anything the broker or the network does, and says in its health
//!   what it waits for meanwhile. Every wait has a limit.
//!
//! It is the only crate that knows the AMQP library, and it must not know what a message says. The
//! library runs a thread for each connection; everything else runs on the runtime that the bus was
//! connected on (`docs/adr/0002-one-amqp-connection-on-the-callers-runtime.md`).
//!
//! | module | owns |
//! |---|---|
//! | `supervisor` | the connection's life: open, watch, lose, open again |
//! | `link` | one connection, `frame_filter` what comes in on it, `password` who says that we may |
//! | `publisher` | the channel for publishing, and the outcome of each message |
//! | `consumer` | one subscription's channel; `delivery` one message on it |
//! | `prefetch` | how many messages a subscription is handed |
//! | `topology` | what is declared |
//! | `shared` | what all of them share |
//! | `metrics` | what is counted of the connection |
//! | `doctor` | what is the matter with the broker of the settings |

mod backoff;
mod bus;
mod config;
mod consumer;
mod delivery;
pub mod doctor;
mod error;
mod frame;
mod frame_filter;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod join;
mod link;
pub mod metrics;
mod password;
mod prefetch;
mod publisher;
mod shared;
mod supervisor;
mod topology;
mod transport;

pub use bus::{RabbitBus, connection_bytes_max};
pub use config::{Config, QueueProfile, Start};
pub use error::ConnectError;
