//! Gates: what every call passes before it runs, each with one job.
//!
//! The first of them find out what a call is about: its budget, the tool that it names, its
//! arguments with what references among them stand for, and the tool that it is really about. They
//! are functions, because each needs what the one before it found. What they found is what all
//! others judge, and what runs. The others only let pass or refuse; they are a list. Both orders
//! are defined in [`crate::invoker`]. A gate refuses with a typed error; it never panics and never
//! answers with text for a program to read.

mod approved;
mod arguments;
mod charge_budget;
mod check_schema;
mod look_up;
mod permission;
mod resolve;
mod right_kind;
mod still_allowed;
mod still_wanted;

use std::any::Any;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value};
use toolbus_bus::Deadline;

use crate::call::{Call, CallError};
use crate::credentials::Credentials;
use crate::policy::ApprovalDemand;
use crate::registry::ToolEntry;
use crate::subject::Subject;

pub(crate) use arguments::{forgive_habits, read_arguments, refuse_selecting_references};
pub(crate) use charge_budget::charge_budget;
pub(crate) use check_schema::check as check_schema;
pub(crate) use look_up::look_up;
pub(crate) use resolve::resolve_subject;

pub use approved::Approved;
pub use check_schema::FitsSchema;
pub use permission::Permission;
pub use right_kind::RightKind;
pub use still_allowed::StillAllowed;
pub use still_wanted::StillWanted;

/// A call on its way through the gates, once it is known what it is about.
pub struct Passage {
    /// The call as it came.
    pub call: Call,
    /// The tool that was called. `None` for a read, which is no tool.
    pub entry: Option<Arc<ToolEntry>>,
    /// What it is about.
    pub subject: Subject,
    /// The arguments: an object.
    pub arguments: Value,
    /// When the caller stops waiting. It bounds the gates; the tool has its own time.
    pub caller_deadline: Deadline,
    /// The approval that the policy demands, until it is given: whoever gets it takes this away. A
    /// call that still has it at the end of the gates is refused.
    pub approval: Option<ApprovalDemand>,
    /// What the tool is run with, where the last gate has found something.
    pub credentials: Credentials,
    /// True once the policy has demanded an approval, also after it was given.
    was_demanded: bool,
    held: Vec<Box<dyn Any + Send>>,
}

impl Passage {
    /// A passage of a call that is about this.
    pub(crate) fn new(
        call: Call,
        entry: Option<Arc<ToolEntry>>,
        subject: Subject,
        arguments: Value,
    ) -> Self {
        let caller_deadline = call.time.caller_deadline_or_default();
        Self {
            call,
            entry,
            subject,
            arguments,
            caller_deadline,
            approval: None,
            credentials: Credentials::default(),
            was_demanded: false,
            held: Vec::new(),
        }
    }

    /// Reads other arguments as those of the call were read: what they are about, and the arguments
    /// as the tool would have them. For who puts them in the place of the call's own.
    ///
    /// # Errors
    /// When the tool does not take them, and when there is no tool.
    pub fn read_arguments(
        &self,
        mut arguments: Map<String, Value>,
    ) -> Result<(Subject, Value), CallError> {
        let Some(entry) = &self.entry else {
            return Err(CallError::invalid_arguments("a read has no arguments"));
        };
        arguments::forgive_habits(entry, &mut arguments);
        let subject = resolve_subject(&self.call, entry, &mut arguments)?;
        let arguments = Value::Object(arguments);
        check_schema(entry, &arguments)?;
        Ok((subject, arguments))
    }

    /// Checks the arguments against the tool's schema, for who has changed them. A read has none.
    ///
    /// # Errors
    /// Everything that is wrong with them.
    pub fn check_schema(&self) -> Result<(), CallError> {
        let Some(entry) = &self.entry else { return Ok(()) };
        check_schema(entry, &self.arguments)
    }

    /// Replaces the arguments of the call, also in the MCP request that it came with. The last
    /// gates check that the new arguments name the same tool.
    pub fn replace_arguments(&mut self, arguments: Value) {
        self.call.replace_arguments(&arguments);
        self.arguments = arguments;
    }

    /// Notes that the policy demands this approval.
    pub(crate) fn demand_approval(&mut self, demand: ApprovalDemand) {
        self.was_demanded = true;
        self.approval = Some(demand);
    }

    /// Keeps something until the call has ended and is recorded: a permit, a lease, a pin.
    pub fn hold(&mut self, until_the_end: impl Send + 'static) {
        self.held.push(Box::new(until_the_end));
    }

    /// What is kept until the end.
    pub(crate) fn take_held(&mut self) -> Vec<Box<dyn Any + Send>> {
        std::mem::take(&mut self.held)
    }
}

/// One gate.
pub trait Gate: Send + Sync {
    /// Its name, for traces and for people.
    fn name(&self) -> &'static str;

    /// Lets the call pass or refuses it.
    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a>;
}

/// What a gate says.
pub enum Verdict<'a> {
    /// It says so at once.
    Now(Result<(), CallError>),
    /// It has to wait, for a person's word for example. Where that may take long, it parks the
    /// call's slot, so that others may run meanwhile; the call has one again before it goes on. A
    /// call that has a [`Slot::request`](toolbus_bus::Slot::request) can be kept over a restart:
    /// brought back, it passes the gates again, from the first.
    Later(BoxFuture<'a, Result<(), CallError>>),
}
