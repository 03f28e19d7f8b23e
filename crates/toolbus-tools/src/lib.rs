//! The tool system: what tools there are, and the one way to run them.
//!
//! A [`Tool`] is a description and an [`Executor`]; the [`Registry`] holds them by name, and a
//! [`Toolbox`] is what an agent has of them; a
//! [`Scope`] says who calls, and within which bounds; the [`Invoker`] runs every call there is,
//! through the same gates in the same order. Nothing else may run a tool. [`bus`] is both ends of a
//! call that crosses the bus, and [`grant`] proves to the other end that the gates were passed.

pub mod arguments;
pub mod artifact;
pub mod audience;
pub mod budget;
pub mod bus;
pub mod call;
pub mod call_error;
pub mod canonical;
pub mod credentials;
pub mod foreign_text;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
pub mod gate;
pub mod grant;
pub mod guide;
pub mod hidden_text;
pub mod hooks;
pub mod id;
pub mod invocation;
pub mod invoker;
pub mod lineage;
pub mod metrics;
pub mod observe;
pub mod policy;
pub mod registry;
pub mod schema;
pub mod scope;
mod search_text;
mod secret_finder;
pub mod subject;
pub mod tokens;
pub mod tool;
pub mod tool_kind;
pub mod tool_search;
pub mod tool_spec;
pub mod toolbox;
pub mod view;
pub mod visitors;
mod written;

pub use artifact::{ArtifactFile, ArtifactInfo, ArtifactReach, ArtifactRef, ArtifactSet};
pub use audience::Audience;
pub use budget::Budget;
pub use call::{Call, CallTime, Outcome, Output};
pub use call_error::CallError;
pub use credentials::{CredentialSource, Credentials, UnreadableCredential};
pub use foreign_text::{ForeignText, Nonce};
pub use grant::{
    GrantCheck, GrantCheckKeys, GrantKey, GrantPublicKey, GrantSigner, GrantSigningKey, Permit,
};
pub use guide::{Guide, Guides};
pub use invoker::Invoker;
pub use lineage::Lineage;
pub use registry::Registry;
pub use scope::{Door, Principal, Scope};
pub use secret_finder::SecretFinder;
pub use subject::Subject;
pub use tool::{Annotations, Executor, Tool};
pub use tool_kind::{ProviderSpecs, ToolKind};
pub use tool_spec::{FunctionSpec, ProviderSpec, ToolSpec, spec_of};
pub use toolbox::Toolbox;
pub use view::View;
