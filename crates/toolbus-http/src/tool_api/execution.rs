//! One call of a tool for a client, through the invoker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::Progress;
use toolbus_discovery::and_more;
use toolbus_tools::call::Arguments;
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::registry::ToolEntry;
use toolbus_tools::schema::Violation;
use toolbus_tools::tokens;
use toolbus_tools::{Call, CallTime, Door, Outcome, Output, Principal, Scope};
use utoipa::ToSchema;

use super::Shared;
use super::api_error::{ApiError, ApiErrorCode};
use super::catalogue::Named;
use super::fields::{Fields, Problem};

/// How long a call may take where nobody says.
pub const EXECUTION_TIMEOUT_DEFAULT: Duration = Duration::from_secs(30);
/// The least that may be asked for, in milliseconds.
pub(crate) const TIMEOUT_MS_MIN: u64 = 1_000;
/// The most, in milliseconds.
pub(crate) const TIMEOUT_MS_MAX: u64 = 300_000;
/// Longest name of a tool, in characters.
const NAME_CHARS_MAX: usize = 256;
/// Most values of a structured result; one with more is answered as text.
const RESULT_VALUES_MAX: usize = 256 << 10;

/// How a call came out that did not fail.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct ExecuteData {
    /// The tool.
    pub tool_name: String,
    /// `success`.
    pub status: String,
    /// What the tool answered: its structured content, or else its text.
    #[schema(value_type = Value)]
    pub result: Value,
    /// How long it took.
    pub execution_time_ms: u64,
    /// About how much of a model's context it takes, by the length of its JSON.
    pub tokens_used: TokensUsed,
}

/// Tokens, estimated by the length of the text.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub(crate) struct TokensUsed {
    /// Of the arguments.
    pub input: u64,
    /// Of the result.
    pub output: u64,
}

/// What is to be called.
#[derive(Debug, Clone)]
pub(crate) struct Execution {
    pub(crate) tool_name: String,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) timeout: Duration,
}

impl Execution {
    /// Reads it from a request.
    pub(crate) fn read(fields: &mut Fields) -> Option<Self> {
        let tool_name = fields.needed_text(&["tool_name", "tool"], 1..=NAME_CHARS_MAX);
        let arguments = fields.object(&["params", "arguments"]).unwrap_or_default();
        let timeout = fields.integer("timeout", TIMEOUT_MS_MIN..=TIMEOUT_MS_MAX);
        let timeout = timeout.map_or(EXECUTION_TIMEOUT_DEFAULT, Duration::from_millis);
        Some(Self { tool_name: tool_name?, arguments, timeout })
    }
}

impl Shared {
    /// The scope of what a client does.
    pub(crate) fn scope_of(&self, principal: Principal) -> Scope {
        let scope = Scope::new(Door::Http, principal, self.agent.clone());
        self.invoker.begin_run(scope.with_view(self.view.clone()))
    }

    /// The tool of a call.
    pub(crate) fn find_tool(&self, scope: &Scope, name: &str) -> Result<Arc<ToolEntry>, ApiError> {
        match self.catalogue.find_for_call(scope, name) {
            Named::Tool(entry) => Ok(entry),
            Named::NoServer(server) => {
                let what = format!("the server '{server}' is not installed or not enabled");
                let error = ApiError::new(ApiErrorCode::ToolNotInstalled, what);
                Err(error.with_details(json!({"server": server})))
            }
            other => Err(not_found(name, other)),
        }
    }

    /// Calls a tool, and waits for its end.
    pub(crate) async fn execute(
        &self,
        scope: &Arc<Scope>,
        execution: Execution,
        progress: Progress,
        cancelled: CancellationToken,
    ) -> Result<ExecuteData, ApiError> {
        let began = Instant::now();
        let entry = self.find_tool(scope, &execution.tool_name)?;
        let tool = ToolName::parse(&entry.tool.name);
        let tool = tool.map_err(|error| ApiError::invalid(error.to_string()))?;
        let arguments = Value::Object(execution.arguments);
        let input = arguments.to_string().len();

        let call = Call::new(scope, CallId::random(), tool, Arguments::Value(arguments.clone()))
            .with_time(CallTime::within(execution.timeout))
            .with_progress(progress)
            .with_cancelled(cancelled);
        let outcome = self.invoker.invoke(call).await;

        let result = result_of(&execution.tool_name, &entry, &arguments, outcome)?;
        let output = result.to_string().len();
        Ok(ExecuteData {
            tool_name: execution.tool_name,
            status: "success".to_owned(),
            result,
            execution_time_ms: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
            tokens_used: TokensUsed {
                input: tokens::estimate(input),
                output: tokens::estimate(output),
            },
        })
    }
}

/// The error of a name that stands for no one tool.
pub(crate) fn not_found(name: &str, named: Named) -> ApiError {
    let Named::Ambiguous(candidates, more) = named else {
        let what = format!("there is no tool '{name}'");
        return ApiError::new(ApiErrorCode::ToolNotFound, what);
    };
    let (listed, beside) = (candidates.join(", "), and_more(more));
    let what = format!("several tools are called '{name}': {listed}{beside}");
    ApiError::invalid(what).with_details(json!({"candidates": candidates}))
}

fn result_of(
    name: &str,
    entry: &ToolEntry,
    arguments: &Value,
    outcome: Outcome,
) -> Result<Value, ApiError> {
    match outcome {
        Ok(output) if output.is_error => {
            let error = ApiError::new(ApiErrorCode::ExecutionError, "the tool failed");
            let text = output.to_text();
            Err(error.with_details(json!({"tool_name": name, "tool_error": text})))
        }
        Ok(output) => Ok(value_of(&output)),
        Err(error) => {
            let api_error = ApiError::of_call(name, &error);
            if api_error.body.code != ApiErrorCode::InvalidArguments {
                return Err(api_error);
            }

            let problems: Vec<_> =
                entry.violations(arguments).into_iter().map(problem_of).collect();
            if problems.is_empty() {
                return Err(api_error);
            }
            let details = json!({"tool_name": name, "problems": problems});
            Err(api_error.with_details(details))
        }
    }
}

fn problem_of(violation: Violation) -> Problem {
    match violation {
        Violation::Missing { at, name } => {
            Problem { field: format!("{at}/{name}"), problem: "is missing".to_owned() }
        }
        Violation::Other { at, message } => Problem { field: at, problem: message },
    }
}

fn value_of(output: &Output) -> Value {
    let structured = output.structured.as_ref();
    let structured = structured.and_then(|raw| raw.to_value(RESULT_VALUES_MAX).ok());
    structured.unwrap_or_else(|| Value::String(output.to_text().into_owned()))
}
