//! What a server offers beside tools: its prompts, and how many resources it has.
//!
//! Prompts are few and are kept; resources may be many and are listed when somebody asks. What a
//! prompt says of itself passes the check for hidden text, as what tools say does.

use rmcp::model::Prompt;
use serde_json::{Value, json};
use toolbus_wire::message::mcp::McpFeature;

use crate::trust::findings::{Findings, named};
use crate::trust::hidden::{self, Found};

/// Most prompts of one server; those after are not taken.
pub(crate) const PROMPTS_MAX: usize = 1_000;
/// Most bytes that are kept of the prompts of one server.
const PROMPTS_BYTES_MAX: usize = 1 << 20;
/// Most resources and templates of one server that are counted.
pub(crate) const RESOURCES_MAX: usize = 10_000;

/// What one server offers beside tools.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Prompts as a bridge tells about them, by their names, in the server's order.
    pub(crate) prompts: Vec<(String, Value)>,
    /// Resources and templates of resources.
    pub(crate) resources: usize,
    pub(crate) features: Features,
    /// What was found in the prompts.
    pub(crate) findings: Findings,
}

/// What a server can do beside giving what it lists.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Features {
    /// It proposes values for arguments.
    pub(crate) completions: bool,
    /// It tells who asks of resources that have changed.
    pub(crate) subscriptions: bool,
}

impl Features {
    /// What agents are told of it. Nothing when there is nothing.
    pub(crate) fn told(self) -> Option<Vec<McpFeature>> {
        let features = [
            (McpFeature::Completions, self.completions),
            (McpFeature::ResourceSubscriptions, self.subscriptions),
        ];
        let features = features.into_iter().filter(|(_, is_there)| *is_there);
        let features: Vec<_> = features.map(|(feature, _)| feature).collect();
        (!features.is_empty()).then_some(features)
    }
}

impl Offer {
    /// The prompts of a listing, within the limits and without what is hidden in their texts. One
    /// with something hidden in a name is not taken: its name is what it is asked for by.
    pub(crate) fn prompts_of(listed: Vec<Prompt>) -> Self {
        let mut bytes = 0;
        let mut prompts: Vec<(String, Value)> = Vec::new();
        let mut findings = Findings::default();
        for prompt in listed.into_iter().take(PROMPTS_MAX) {
            let mut told = describe(&prompt);
            let place = || format!("prompt {}", named(&prompt.name));
            let mut arguments = prompt.arguments.iter().flatten();
            if !hidden::is_clean_name(&prompt.name)
                || !arguments.all(|argument| hidden::is_clean_name(&argument.name))
            {
                findings.refused.push(place());
                continue;
            }
            let mut found = Found::default();
            hidden::clean_json(&mut told, &mut found);
            if !found.is_empty() {
                findings.hidden.push((place(), found));
            }
            bytes += told.to_string().len();
            let is_known = prompts.iter().any(|(name, _)| *name == prompt.name);
            if bytes > PROMPTS_BYTES_MAX || is_known {
                continue;
            }
            prompts.push((prompt.name, told));
        }
        Self { prompts, findings, ..Self::default() }
    }

    pub(crate) fn prompt_count(&self) -> Option<u32> {
        told(self.prompts.len())
    }

    pub(crate) fn resource_count(&self) -> Option<u32> {
        told(self.resources)
    }

    pub(crate) fn prompt_names(&self) -> Option<Vec<String>> {
        let names = || self.prompts.iter().map(|(name, _)| name.clone()).collect();
        (!self.prompts.is_empty()).then(names)
    }

    pub(crate) fn prompt_details(&self) -> Option<Vec<Value>> {
        let told = || self.prompts.iter().map(|(_, told)| told.clone()).collect();
        (!self.prompts.is_empty()).then(told)
    }
}

/// Nothing is told of what is not there.
fn told(count: usize) -> Option<u32> {
    (count > 0).then(|| u32::try_from(count).unwrap_or(u32::MAX))
}

fn describe(prompt: &Prompt) -> Value {
    let arguments = prompt.arguments.iter().flatten().map(|argument| {
        let mut told = json!({
            "name": argument.name,
            "description": argument.description,
            "required": argument.required == Some(true),
        });
        without_null(&mut told);
        told
    });
    let mut told = json!({
        "name": prompt.name,
        "title": prompt.title,
        "description": prompt.description,
        "arguments": arguments.collect::<Vec<_>>(),
    });
    without_null(&mut told);
    told
}

fn without_null(value: &mut Value) {
    if let Value::Object(members) = value {
        members.retain(|_, member| !member.is_null());
    }
}

#[cfg(test)]
mod tests;
