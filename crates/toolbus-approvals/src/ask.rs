//! The question to whoever has made a call, and what the answer means.
//!
//! A caller that knows approvals is asked as such; one that knows forms, as an MCP client does,
//! gets a form. Whatever is no clear yes is a no.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::asker::ANSWER_BYTES_MAX;
use toolbus_bus::{Asker, Question};
use toolbus_json::Limits;
use toolbus_wire::message::toolbus::{AskError, AskKind};

use crate::answers::Approve;
use crate::approval::Approval;
use crate::binding::{Binding, Remember};
use crate::chain_answer::{CHAIN_CALLS_MAX, ForChain};
use crate::shown::ShownArguments;

/// Maximum number of characters of arguments in a form. An approver must see all arguments, so no
/// form is sent for longer ones.
const FORM_CHARACTERS_MAX: usize = 4_000;
/// Limits on the JSON text in a form that says which arguments an answer is for.
const MATCHING_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX);

/// The result of [`can_be_asked`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Askable {
    /// The caller answers questions of this kind.
    Yes,
    /// The caller does not.
    No,
    /// The caller accepts only forms, and the arguments exceed the limit of a form.
    TooLargeForForm,
}

/// Checks that the caller can be asked for an approval of a call with these arguments.
pub(crate) fn can_be_asked(asker: &Asker, arguments: &Value) -> Askable {
    let kinds = asker.kinds();
    if kinds.contains(&AskKind::Approval) {
        return Askable::Yes;
    }
    if !kinds.contains(&AskKind::Elicitation) {
        return Askable::No;
    }
    match ShownArguments::text_of(arguments).chars().nth(FORM_CHARACTERS_MAX) {
        None => Askable::Yes,
        Some(_) => Askable::TooLargeForForm,
    }
}

/// Asks, and waits for the answer.
pub(crate) async fn ask(
    asker: Asker,
    approval: Approval,
    remember_for: Duration,
) -> Result<Approve, AskError> {
    let knows_approvals = asker.kinds().contains(&AskKind::Approval);
    let (kind, params) = if knows_approvals {
        (AskKind::Approval, approval_params(&approval))
    } else {
        (AskKind::Elicitation, form_params(&approval))
    };

    let from = Some(format!("toolbus, for the agent {}", approval.agent));
    let answer = asker.ask(Question { kind, from, params, round: None }).await?;
    Ok(if knows_approvals {
        read_answer(&answer, &approval.binding, remember_for)
    } else {
        read_form(&answer, &approval.binding, remember_for)
    })
}

/// The question for a caller that supports approvals. For arguments over 64 KiB it has the member
/// `argumentsParts` instead of `arguments`. The answer is an object of `action` (`approve`,
/// `deny` or `modify`), of `modifiedArguments` with the last, and of `remember` (`once`, `session`,
/// `tool` or `arguments`; when it is missing, the question's own `remember` holds), or of
/// `forChain` with how many `calls` more the same chain may make, and the `arguments` that they
/// have.
fn approval_params(approval: &Approval) -> Value {
    let arguments = &approval.binding.arguments;
    let (shown, value) = ShownArguments::of(arguments).to_member(arguments);
    json!({
        "approvalId": approval.id,
        "subject": approval.binding.subject,
        "tool": approval.tool,
        shown: value,
        "risk": approval.risk,
        "rule": approval.binding.rule,
        "reason": approval.reason,
        "remember": approval.binding.default_remember(),
        "session": approval.binding.session,
        "chain": approval.binding.chain,
        "principal": approval.binding.principal,
        "expiresAtMs": approval.expires_ms,
    })
}

fn read_answer(answer: &Value, asked: &Binding, remember_for: Duration) -> Approve {
    match answer["action"].as_str() {
        Some("approve") if !answer["forChain"].is_null() => {
            let more = serde_json::from_value(answer["forChain"].clone());
            more.map_or(Approve::No, Approve::ForChain)
        }
        Some("approve") => yes(&answer["remember"], asked, remember_for),
        Some("modify") => Approve::With(answer["modifiedArguments"].clone()),
        _ => Approve::No,
    }
}

/// The same as a form.
fn form_params(approval: &Approval) -> Value {
    let arguments = ShownArguments::text_of(&approval.binding.arguments);
    let standard = approval.binding.default_remember();
    let is_once_per_tool = standard == Remember::Tool;
    let covers = match is_once_per_tool {
        true => " A yes covers every later call of this tool, with any arguments.",
        false => "",
    };
    let message = format!(
        "May '{}' run? Risk: {}. Why you are asked: {} (rule '{}').{covers} \
         Arguments:\n{arguments}",
        approval.binding.subject, approval.risk, approval.reason, approval.binding.rule,
    );

    let mut remember = vec!["once", "tool", "arguments"];
    if approval.binding.session.is_some() {
        remember.push("session");
    }
    let mut properties = json!({
        "decision": {
            "type": "string",
            "title": "Decision",
            "enum": ["approve", "deny"],
        },
        "remember": {
            "type": "string",
            "title": "How far a yes holds",
            "enum": remember,
            "default": standard,
        },
    });
    // A yes for the tool also covers the calls of a chain.
    if approval.binding.chain.is_some() && !is_once_per_tool {
        properties["more_calls"] = json!({
            "type": "integer",
            "title": "How many more calls of this tool the same program may make",
            "minimum": 0,
            "maximum": CHAIN_CALLS_MAX,
            "default": 0,
        });
        properties["matching"] = json!({
            "type": "string",
            "title": "What their arguments have, as a JSON object; empty for any",
        });
    }
    json!({
        "message": message,
        "requestedSchema": {
            "type": "object",
            "properties": properties,
            "required": ["decision"],
        },
    })
}

fn read_form(answer: &Value, asked: &Binding, remember_for: Duration) -> Approve {
    let content = &answer["content"];
    if answer["action"] != "accept" || content["decision"] != "approve" {
        return Approve::No;
    }
    match &content["more_calls"] {
        Value::Null => yes(&content["remember"], asked, remember_for),
        calls if calls.as_u64() == Some(0) => yes(&content["remember"], asked, remember_for),
        calls => for_chain(content, calls).map_or(Approve::No, Approve::ForChain),
    }
}

/// A yes to calls to come. One that is remembered in another way as well is none that is clear.
fn for_chain(content: &Value, calls: &Value) -> Option<ForChain> {
    if !matches!(content["remember"].as_str(), None | Some("once")) {
        return None;
    }
    let calls = u32::try_from(calls.as_u64()?).ok()?;
    let arguments = match &content["matching"] {
        Value::Null => Value::Null,
        Value::String(text) if text.trim().is_empty() => Value::Null,
        Value::String(text) => toolbus_json::from_str(text, &MATCHING_LIMITS).ok()?,
        _ => return None,
    };
    Some(ForChain { calls, arguments })
}

/// A yes that is remembered in a way that nobody knows is a no.
fn yes(remember: &Value, asked: &Binding, remember_for: Duration) -> Approve {
    let remember = match remember {
        Value::Null => Some(asked.default_remember()),
        Value::String(name) => Remember::parse(name),
        _ => None,
    };
    remember.map_or(Approve::No, |remember| Approve::yes(asked, Some(remember), None, remember_for))
}

#[cfg(test)]
mod tests;
