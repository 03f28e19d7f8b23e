//! The agent: a model that calls tools until it has an answer.
//!
//! [`conversation`] is what an agent does as a state machine: events go in, effects come out, and
//! nothing in it waits, reads a clock or draws a random number, so the events of a session give the
//! same effects whenever they are applied. [`sessions`] keeps the events, and [`agent`] does what
//! they ask for.

pub mod agent;
pub mod context;
pub mod conversation;
pub mod sessions;
pub mod spans;

mod bus_users;
mod history;
mod notices;
mod people;
mod runs;
mod said;
mod tool_lists;

pub use agent::{Agent, AgentDeps, TurnContext, TurnEvent, TurnReport};
pub use bus_users::{BusUsers, BusUsersDeps, UserReplies, bus_users_bytes_max};
pub use context::ContextBuilder;
pub use conversation::{
    Conversation, Effect, Event, Occasion, Outside, TurnEnd, TurnLimit, TurnLimits,
};
pub use notices::{Notice, Noticed};
pub use said::{Said, Words};
pub use sessions::{Exchange, MIGRATIONS, OpenSession, SessionInfo, SessionRef, Sessions, Side};
