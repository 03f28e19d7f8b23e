//! Writing tasks, events and messages as the protocol has them.

use jiff::Timestamp;
use serde_json::{Value, json};
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_json::Limits;
use toolbus_wire::message::a2a::{
    AgentArtifact, AgentMessagePart, AgentTaskError, AgentTaskResult, AgentTaskState,
};
use toolbus_wire::{Message as _, json as wire_json};

use super::{SKILL_METADATA, Version, state_name};
use crate::http_rows::TaskView;
use crate::received::Answer;

/// The name of the artifact that has an agent's answer.
const ANSWER_ARTIFACT: &str = "answer";
/// What the data of a part may have: a part of one message.
const DATA_LIMITS: Limits = Limits::of_bytes(BODY_BYTES_MAX);

/// A task.
pub(crate) fn task_json(version: Version, view: &TaskView, with_artifacts: bool) -> Value {
    let mut task = json!({
        "id": view.id,
        "contextId": view.context_id,
        "status": status_of(version, view),
    });
    if version == Version::V03 {
        task["kind"] = json!("task");
    }
    let artifacts = if with_artifacts { artifacts_of(version, view) } else { Vec::new() };
    if !artifacts.is_empty() {
        task["artifacts"] = Value::Array(artifacts);
    }
    task
}

fn status_of(version: Version, view: &TaskView) -> Value {
    let remark = view.answer.as_ref().and_then(remark_of);
    let remark = remark.as_deref().or(view.progress.as_deref());
    status(version, view, view.state, remark)
}

fn status(version: Version, view: &TaskView, state: AgentTaskState, text: Option<&str>) -> Value {
    let mut status = json!({"state": state_name(version, state)});
    if let Ok(at) = Timestamp::from_millisecond(view.updated_ms) {
        status["timestamp"] = json!(at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string());
    }
    if let Some(text) = text {
        status["message"] = message(version, view, text);
    }
    status
}

fn message(version: Version, view: &TaskView, text: &str) -> Value {
    let id = format!("{}-{}", view.id, view.state.number());
    let (task_id, context_id) = (&view.id, &view.context_id);
    match version {
        Version::V1 => json!({
            "messageId": id, "taskId": task_id, "contextId": context_id,
            "role": "ROLE_AGENT", "parts": [{"text": text}],
        }),
        Version::V03 => json!({
            "kind": "message", "messageId": id, "taskId": task_id, "contextId": context_id,
            "role": "agent", "parts": [{"kind": "text", "text": text}],
        }),
    }
}

/// What an answer says that is no result: what went wrong, or what is asked.
fn remark_of(answer: &Answer) -> Option<String> {
    if answer.message_type == AgentTaskError::TYPE {
        let error: AgentTaskError = wire_json::read(answer.body.as_bytes()).ok()?;
        return Some(error.message);
    }
    let result: AgentTaskResult = wire_json::read(answer.body.as_bytes()).ok()?;
    if result.state == AgentTaskState::Completed {
        return None;
    }
    let mut text = String::new();
    crate::event::push_parts(&mut text, &result.message?.parts);
    Some(text)
}

/// What was made: the answer of the agent, then its artifacts.
pub(crate) fn artifacts_of(version: Version, view: &TaskView) -> Vec<Value> {
    let answer = view.answer.as_ref().filter(|answer| answer.message_type == AgentTaskResult::TYPE);
    let read = answer.and_then(|answer| wire_json::read(answer.body.as_bytes()).ok());
    let Some(result): Option<AgentTaskResult> = read else { return Vec::new() };

    let mut made = Vec::new();
    if result.state == AgentTaskState::Completed
        && let Some(message) = result.message
        && !message.parts.is_empty()
    {
        let name = ANSWER_ARTIFACT.to_owned();
        made.push(AgentArtifact { name, description: None, parts: message.parts });
    }
    made.extend(result.artifacts.unwrap_or_default());
    let made = made.into_iter().enumerate().filter(|(_, artifact)| !artifact.parts.is_empty());
    made.map(|(at, made)| artifact(version, at, made)).collect()
}

fn artifact(version: Version, at: usize, made: AgentArtifact) -> Value {
    let parts: Vec<_> = made.parts.into_iter().map(|written| part(version, written)).collect();
    let mut artifact = json!({"artifactId": format!("{at}"), "name": made.name, "parts": parts});
    if let Some(description) = made.description {
        artifact["description"] = json!(description);
    }
    artifact
}

fn part(version: Version, part: AgentMessagePart) -> Value {
    let read = |data: &str| toolbus_json::from_str::<Value>(data, &DATA_LIMITS).ok();
    let data = part.data.as_deref().and_then(read);
    let text = || part.text.clone().or_else(|| part.data.clone()).unwrap_or_default();
    let mut written = match (version, data) {
        (Version::V1, Some(data)) if part.text.is_none() => json!({"data": data}),
        (Version::V1, _) => json!({"text": text()}),
        // Data is an object there.
        (Version::V03, Some(data)) if part.text.is_none() && data.is_object() => {
            return json!({"kind": "data", "data": data});
        }
        (Version::V03, Some(data)) if part.text.is_none() => {
            return json!({"kind": "data", "data": {"value": data}});
        }
        (Version::V03, _) => return json!({"kind": "text", "text": text()}),
    };
    if let Some(kind) = part.mime_type {
        written["mediaType"] = json!(kind);
    }
    written
}

/// The first event of a stream.
pub(crate) fn task_event(version: Version, view: &TaskView) -> Value {
    let task = task_json(version, view, true);
    match version {
        Version::V1 => json!({"task": task}),
        Version::V03 => task,
    }
}

/// An event that a task's state is this, or that it goes on and says so.
pub(crate) fn status_event(version: Version, view: &TaskView, progress: Option<&str>) -> Value {
    let status = match progress {
        Some(text) => status(version, view, AgentTaskState::Working, Some(text)),
        None => status_of(version, view),
    };
    let mut event = json!({"taskId": view.id, "contextId": view.context_id, "status": status});
    match version {
        Version::V1 => json!({"statusUpdate": event}),
        Version::V03 => {
            event["kind"] = json!("status-update");
            event["final"] = json!(progress.is_none() && view.is_over());
            event
        }
    }
}

/// An event that something was made.
pub(crate) fn artifact_event(version: Version, view: &TaskView, artifact: Value) -> Value {
    let mut event = json!({
        "taskId": view.id, "contextId": view.context_id, "artifact": artifact,
        "append": false, "lastChunk": true,
    });
    match version {
        Version::V1 => json!({"artifactUpdate": event}),
        Version::V03 => {
            event["kind"] = json!("artifact-update");
            event
        }
    }
}

/// The parameters of a message to another agent, which does not wait for the end.
pub(crate) fn send_params(version: Version, id: &str, skill: &str, text: &str) -> Value {
    let mut message = json!({"messageId": id, "metadata": {SKILL_METADATA: skill}});
    match version {
        Version::V1 => {
            message["role"] = json!("ROLE_USER");
            message["parts"] = json!([{"text": text}]);
            json!({"message": message, "configuration": {"returnImmediately": true}})
        }
        Version::V03 => {
            message["kind"] = json!("message");
            message["role"] = json!("user");
            message["parts"] = json!([{"kind": "text", "text": text}]);
            json!({"message": message, "configuration": {"blocking": false}})
        }
    }
}
