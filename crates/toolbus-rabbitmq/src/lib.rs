//! The AMQP adapter of the bus.
mod backoff;
mod bus;
mod config;
mod consumer;
mod delivery;
mod error;
mod frame;
pub mod join;
mod link;
mod publisher;
mod retry;
mod state;
mod supervisor;
mod topology;

pub use bus::RabbitBus;
pub use config::{Config, QueueProfile, Start};
pub use error::ConnectError;
