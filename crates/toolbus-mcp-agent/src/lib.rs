//! The agent's side of MCP: which servers there are, the tools that models reach them by, and those
//! for prompts and resources.
//!
//! [`McpDirectory`] is a copy of what bridges announce, never asked for on the way of a call. The
//! tools are registered upon the first announcement, so an agent without a bridge does not offer
//! them. Nothing here connects to an MCP server: every request goes over the bus to a bridge, so
//! this crate holds no credentials, no protocol library and no processes.

mod announced;
mod definition;
mod direct;
pub mod direct_name;
mod directory;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod index;
mod manage;
mod method_name;
pub mod nearest;
mod offers;
mod proxy;
pub mod reads;
mod relay;
mod resolve;
mod seen;
pub mod server_name;
mod subscribe;
mod tools;

pub use announced::AnnouncedServers;
pub use definition::definition_of;
pub use directory::{ANNOUNCEMENT_FLOW, McpDirectory};
pub use index::Servers;
pub use method_name::is_method_name;
pub use relay::is_error_result;
pub use resolve::{EXACT, management_id, provider_of, read_id, subject_of};
pub use seen::seen_summary;
pub use server_name::ServerName;
pub use subscribe::Subscription as ResourceSubscription;
pub use tools::{REGISTER_SERVER, UNREGISTER_SERVER};
