//! Gates: what every call passes before it runs, each with one job.
//!
//! A gate lets a call pass, changes it, or refuses it with a typed reason. It never panics and
//! never answers with text for a human to parse. Their order is in [`crate::invoker::gates`].

mod arguments;
mod cancelled;
mod look_up;
mod open;
mod schema;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolbus_bus::Deadline;

use crate::call::{Call, CallError};
use crate::registry::{Registered, Registry};

pub use arguments::ReadArguments;
pub use cancelled::NotCancelled;
pub use look_up::LookUp;
pub use open::Open;
pub use schema::FitsSchema;

/// A call on its way through the gates.
pub struct Passage<'a> {
    /// The call as it came.
    pub call: Call,
    /// Where tools are found.
    pub registry: &'a Registry,
    /// The tool, once it was looked up.
    pub tool: Option<Arc<Registered>>,
    /// The arguments: an object, once they were read.
    pub arguments: Value,
    /// When the call must have ended.
    pub deadline: Deadline,
}

impl Passage<'_> {
    /// The tool.
    ///
    /// # Errors
    /// When no gate has looked it up.
    pub fn tool(&self) -> Result<&Arc<Registered>, CallError> {
        self.tool.as_ref().ok_or_else(|| CallError::not_registered(&self.call.tool))
    }
}

/// One gate.
pub trait Gate: Send + Sync {
    /// Its name, for traces and for people.
    fn name(&self) -> &'static str;

    /// Lets the call pass or refuses it.
    fn check<'a>(&'a self, passage: &'a mut Passage<'_>) -> Verdict<'a>;
}

/// What a gate says.
pub enum Verdict<'a> {
    /// It says so at once.
    Now(Result<(), CallError>),
    /// It has to wait, for a person's word for example.
    Later(BoxFuture<'a, Result<(), CallError>>),
}
