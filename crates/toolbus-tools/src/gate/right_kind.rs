//! The kind gate: is the tool one that can be called in this way?

use toolbus_wire::ErrorCode;

use super::{Gate, Passage, Verdict};
use crate::call::{Call, CallError};
use crate::registry::ToolEntry;
use crate::scope::Door;
use crate::tool_kind::ToolKind;
use crate::toolbox::TOOL_CHAIN;

/// Refuses calls of tools that are not run here, calls by name of tools that a model's provider
/// calls by type, and chains within chains. A read has no kind.
pub struct RightKind;

impl Gate for RightKind {
    fn name(&self) -> &'static str {
        "kind"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let Some(entry) = &passage.entry else { return Verdict::Now(Ok(())) };
        let refusal = refusal_of(&passage.call, entry);
        Verdict::Now(refusal.map_or(Ok(()), |reason| {
            let tool = &entry.tool.name;
            Err(CallError::new(ErrorCode::Denied, format!("tool '{tool}' {reason}")))
        }))
    }
}

fn refusal_of(call: &Call, entry: &ToolEntry) -> Option<&'static str> {
    match (&entry.tool.kind, call.call_type.as_deref()) {
        // By its own name, whatever alias was called.
        (ToolKind::Local, None) if call.scope.door == Door::Chain => {
            (entry.tool.name == TOOL_CHAIN).then_some("cannot be called from within a chain")
        }
        (ToolKind::Local, None) => None,
        (ToolKind::Local, Some(_)) => Some("is called by its name, not by a type of calls"),
        (ToolKind::ProviderHosted(_), _) => {
            Some("is run by the model's provider and cannot be called here")
        }
        (ToolKind::ProviderDefined { .. }, None) => {
            Some("is called by the model's provider and cannot be called by its name")
        }
        (kind @ ToolKind::ProviderDefined { .. }, Some(call_type)) => {
            (!kind.answers(call_type)).then_some("does not answer calls of this type")
        }
    }
}
