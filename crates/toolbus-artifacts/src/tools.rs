//! The tools that ask about artifacts: `artifact_head`, `artifact_slice`, `artifact_grep`,
//! `artifact_jq` and `artifact_sql`.
//!
//! They change nothing, read only artifacts of their caller, and answer within bounds; a worker
//! process of `toolbus-query` does the work.

use std::fs::File;
use std::io;

use futures_util::TryStreamExt as _;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use tokio_util::io::StreamReader;
use toolbus_query::question::{Grep, Head, Jq, Lines, Slice, Sql};
use toolbus_query::{Answer, Engine, Error as QueryError, Limits, Question};
use toolbus_tools::artifact::reference_text;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Guide, Tool};
use toolbus_wire::ErrorCode;
use toolbus_wire::json::RawJson;

use crate::{Artifact, Artifacts, Error};

/// The names of the tools. They take references as they are, and their answers are never stored.
pub const TOOL_NAMES: [&str; 5] =
    ["artifact_head", "artifact_slice", "artifact_grep", "artifact_jq", "artifact_sql"];
const SOURCE: &str = "artifacts";

/// The guide to artifacts.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Ask about a large result that you got by reference: head, grep, jq, SQL, slices"
            .to_owned(),
        document: include_str!("guide.md").to_owned(),
    }
}

/// Registers the tools. `engine` answers their questions.
///
/// # Errors
/// When a name is taken.
pub fn register(
    registry: &Registry,
    artifacts: &Artifacts,
    engine: &Engine,
) -> Result<(), registry::Error> {
    for name in TOOL_NAMES {
        let (description, parameters, required) = definition(name);
        let mut properties = json!({"artifact": {
            "description": "The artifact: its reference, or its name",
            "anyOf": [{"type": "string"}, {"type": "object", "required": ["$artifact"]}]
        }});
        if let (Some(all), Value::Object(own)) = (properties.as_object_mut(), parameters) {
            all.extend(own);
        }
        let required: Vec<&str> = ["artifact"].iter().chain(required).copied().collect();
        let tool =
            Tool::new(name, description, SOURCE).read_only().reading_stored().in_group(SOURCE);
        let tool = tool.with_parameters(json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false
        }));

        let (artifacts, engine) = (artifacts.clone(), engine.clone());
        registry.register(tool, move |call: Invocation| {
            let (artifacts, engine) = (artifacts.clone(), engine.clone());
            async move { answer(name, call, &artifacts, &engine).await }
        })?;
    }
    Ok(())
}

/// What a tool is described as, its parameters beside the artifact, and those that it requires.
fn definition(name: &str) -> (&'static str, Value, &'static [&'static str]) {
    let whole = |text: &str| json!({"type": "integer", "minimum": 0, "description": text});
    let flag = |text: &str| json!({"type": "boolean", "description": text});
    let skip = whole("How many to pass over, to see what did not fit before");

    match name {
        "artifact_head" => (
            "Shows how an artifact begins, and what it is.",
            json!({"lines": whole("How many lines; 20 by default, at most 1,000")}),
            &[],
        ),
        "artifact_slice" => (
            "Shows a part of an artifact exactly, by bytes or by lines. The answer says where the next \
             part begins.",
            json!({
                "offset": whole("The first byte; 0 by default"),
                "length": whole("How many bytes at most"),
                "from_line": {"type": "integer", "minimum": 1, "description": "The first line, from 1, in the place of bytes"},
                "lines": whole("How many lines at most")
            }),
            &[],
        ),
        "artifact_grep" => (
            "Shows the lines of an artifact that match a regular expression, with their numbers.",
            json!({
                "pattern": {"type": "string", "description": "A regular expression, as ripgrep takes it"},
                "fixed": flag("The pattern is plain text"),
                "ignore_case": flag("Upper and lower case are the same"),
                "before": whole("Lines of context before a match"),
                "after": whole("Lines of context after a match"),
                "max_matches": whole("How many matching lines at most; 100 by default"),
                "skip": skip,
                "invert": flag("The lines that do not match"),
                "count": flag("Only how many lines match")
            }),
            &["pattern"],
        ),
        "artifact_jq" => (
            "Shows what a jq filter makes of an artifact that is JSON or JSON lines.",
            json!({
                "filter": {"type": "string", "description": "The filter, such as .items[] | select(.price > 3) | .name"},
                "raw": flag("Shows texts without quotes"),
                "slurp": flag("Takes all values as one array"),
                "null_input": flag("Runs once on null; `inputs` has the values"),
                "skip": skip
            }),
            &["filter"],
        ),
        _ => (
            "Shows the rows that a SQL query selects from an artifact that is CSV, JSON lines, a JSON \
             array of objects or Parquet. It is the table `data`, in SQLite's SQL.",
            json!({
                "statement": {"type": "string", "description": "One SELECT, such as SELECT kind, count(*) FROM data GROUP BY kind"},
                "format": {"enum": ["json", "csv"], "description": "How rows are shown; JSON by default"}
            }),
            &["statement"],
        ),
    }
}

async fn answer(
    name: &str,
    mut call: Invocation,
    artifacts: &Artifacts,
    engine: &Engine,
) -> Result<Output, CallError> {
    let artifact = call.arguments.remove("artifact").unwrap_or_default();
    let question = question(name, std::mem::take(&mut call.arguments))?;
    let text = reference_text(&artifact).or_else(|| artifact.as_str()).unwrap_or_default();
    let found = artifacts.find_in(&call.scope, text).await.map_err(|error| refusal(&error))?;
    let value = open(&found).await.map_err(|error| refusal(&error))?;

    let left = call.context.deadline.left();
    let limits = Limits::default();
    let limits = Limits { timeout: limits.timeout.min(left), ..limits };
    let answer = engine.ask(&question, value, &limits).await.map_err(|error| failure(&error))?;
    Ok(output(&answer))
}

/// The question that the arguments ask.
fn question(name: &str, mut arguments: Map<String, Value>) -> Result<Question, CallError> {
    // What is null is not given.
    arguments.retain(|_, value| !value.is_null());
    let is_by_lines = arguments.contains_key("from_line") || arguments.contains_key("lines");
    match name {
        "artifact_head" => read::<Head>(arguments).map(Question::Head),
        "artifact_slice" if is_by_lines => read::<Lines>(arguments).map(Question::Lines),
        "artifact_slice" => read::<Slice>(arguments).map(Question::Slice),
        "artifact_grep" => read::<Grep>(arguments).map(Question::Grep),
        "artifact_jq" => read::<Jq>(arguments).map(Question::Jq),
        _ => read::<Sql>(arguments).map(Question::Sql),
    }
}

fn read<T: DeserializeOwned>(arguments: Map<String, Value>) -> Result<T, CallError> {
    let read = serde_json::from_value(Value::Object(arguments));
    read.map_err(|error| CallError::invalid_arguments(error.to_string()))
}

/// The bytes, as a worker reads them.
async fn open(artifact: &Artifact) -> Result<toolbus_query::Value, Error> {
    let file = artifact.verified_file().await?;
    let value = match file.map(File::open).transpose() {
        Ok(Some(file)) => toolbus_query::Value::file(file),
        Ok(None) => {
            let stream = artifact.stream().await?.map_err(io::Error::other);
            toolbus_query::Value::stream(StreamReader::new(Box::pin(stream)))
        }
        Err(_) => return Err(Error::Damaged(artifact.info.reference.clone())),
    };
    Ok(value.with_media_type(&artifact.info.media_type).with_size(artifact.info.bytes))
}

/// What a model reads, and the same with its exact place as a value.
fn output(answer: &Answer) -> Output {
    let mut text = answer.text.clone();
    let more = answer.more.as_ref().map(|more| more.hint.as_str());
    for note in answer.notes.iter().map(String::as_str).chain(more) {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&format!("[{note}]"));
    }
    Output { structured: Some(RawJson::of(answer)), ..Output::text(text) }
}

fn refusal(error: &Error) -> CallError {
    match error {
        Error::Unknown(_) | Error::Damaged(_) => CallError::invalid_arguments(error.to_string()),
        error => {
            tracing::warn!(error = error as &dyn std::error::Error, "an artifact cannot be read");
            CallError::execution_failed(error.to_string())
        }
    }
}

fn failure(error: &QueryError) -> CallError {
    let code = match error {
        QueryError::Invalid { .. } => ErrorCode::InvalidArguments,
        QueryError::Timeout { .. } => ErrorCode::Timeout,
        QueryError::Busy => ErrorCode::Busy,
        _ => {
            tracing::warn!(error = error as &dyn std::error::Error, "a question has no answer");
            ErrorCode::ExecutionFailed
        }
    };
    CallError::new(code, error.to_string())
}
