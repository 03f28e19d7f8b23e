//! Both ends of a tool call that crosses the bus.
//!
//! [`serve`] answers the requests on a topic with an [`Invoker`]; [`Remote`] is the executor that
//! sends a call to whoever serves a topic.

mod remote;
mod reply;
mod service;

pub use remote::{Remote, RemoteCall, error_of};
pub use reply::{error_of_reply, output_of, reply_to, unreadable_reply};
pub use service::{ServeOptions, read_request, serve, tool_failure};
