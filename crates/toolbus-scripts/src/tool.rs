//! `execute_python_script`, as models call it.

mod files;

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_bus::requester::{self, Requester};
use toolbus_tools::artifact::reference_text;
use toolbus_tools::call::{ARGUMENTS_LIMITS, CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Executor, Guide, Guides, Tool};
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::script::{ScriptInvokeRequest, ScriptInvokeResponse, ScriptReason};

use crate::allowance::ScriptAllowance;
use crate::client::{self, ScriptClient, ScriptError};

/// Name of the tool.
pub const NAME: &str = "execute_python_script";
pub(crate) const SOURCE: &str = "script";
/// How long a script may take when nobody says, in seconds.
pub const TIMEOUT_SECONDS_DEFAULT: u64 = 30;
/// How much longer than the script's own timeout a caller waits for the answer.
pub const WAIT_BESIDE_TIMEOUT: Duration = Duration::from_secs(10);
/// How much longer still when packages have to be installed first.
pub const PACKAGES_TIMEOUT: Duration = Duration::from_secs(120);

/// Registers the tool, and the guide that goes with it. Both tell models of `allowance`.
///
/// # Errors
/// When its name is taken.
pub fn register(
    registry: &Registry,
    guides: &Guides,
    requester: Requester,
    allowance: ScriptAllowance,
) -> Result<(), registry::Error> {
    guides.add(Guide {
        name: "scripts".to_owned(),
        summary: "Run Python in an isolated sandbox: calculation, parsing, data work".to_owned(),
        document: allowance.fill_in(include_str!("guide.md")),
    });
    let client = ScriptClient::new(requester);
    registry.register(script_tool(allowance), ExecutePython { client, allowance })
}

fn script_tool(allowance: ScriptAllowance) -> Tool {
    let seconds =
        "Seconds that the script may take, 1 to {timeout_max}; {timeout_default} when not given";

    Tool::new(
        NAME,
        "Runs a Python script in an isolated sandbox without network and returns what it prints. \
         Use it for calculation, parsing and data work. print() the result, JSON if it has \
         structure. Files that it leaves in the folder `output` of its working folder, such as \
         output/plot.png or output/table.csv, come back too: pictures, text and data, 32 files of 4 MiB \
         together. Nothing is kept between two scripts.",
        SOURCE,
    )
    .in_group("scripts")
    .with_timeout(Duration::from_secs(TIMEOUT_SECONDS_DEFAULT) + WAIT_BESIDE_TIMEOUT)
    .with_missing_argument("Missing '{}' argument")
    .with_parameters(json!({
        "type": "object",
        "properties": {
            "script": {"type": "string", "description": "Python source code"},
            "input_data": {
                "type": "string",
                "description": "Text that the script reads from the environment variable ROCKBOT_INPUT"
            },
            "timeout_seconds": {
                "type": "integer",
                "description": allowance.fill_in(seconds)
            },
            "pip_packages": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Packages to install first, such as [\"numpy\", \"requests==2.32\"]"
            },
            "input_files": files::schema()
        },
        "required": ["script"]
    }))
}

struct ExecutePython {
    client: ScriptClient,
    allowance: ScriptAllowance,
}

impl Executor for ExecutePython {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(self.run(call))
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        coerce_arguments(arguments, self.allowance);
    }

    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        Some(call_timeout(arguments, self.allowance))
    }
}

impl ExecutePython {
    async fn run(&self, call: Invocation) -> Result<Output, CallError> {
        let asked = call.context.deadline.asked();
        let context = call.context;

        let seconds = timeout_seconds(&call.arguments, self.allowance);
        let request = build_request(call.arguments, seconds)?;
        let response = match self.client.send(&request, context, &call.permit).await {
            Ok(response) => response,
            Err(ScriptError::Request(error)) => return Err(request_error(error, asked, seconds)),
            Err(ScriptError::Reply(error)) => return Err(error),
        };

        // A caller that gave the call less time than the script has is not to be told of the
        // script's.
        if response.reason == Some(ScriptReason::TimedOut) && asked < Duration::from_secs(seconds) {
            return Err(CallError::timeout(NAME, asked));
        }
        output_of_response(response, seconds)
    }
}

fn build_request(
    mut arguments: Map<String, Value>,
    seconds: u64,
) -> Result<ScriptInvokeRequest, CallError> {
    let files = files::take_input_files(&mut arguments)?;
    let text = |value: Option<Value>| match value {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };

    let packages = match arguments.remove("pip_packages") {
        Some(Value::Array(list)) if !list.is_empty() => {
            Some(list.into_iter().filter_map(|package| text(Some(package))).collect())
        }
        _ => None,
    };

    Ok(ScriptInvokeRequest {
        tool_call_id: new_id(),
        script: text(arguments.remove("script")).unwrap_or_default(),
        input_data: text(arguments.remove("input_data")),
        timeout_seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
        pip_packages: packages,
        files,
        channel: None,
    })
}

/// The output of the tool for the model: the text of the contract, and the files beside it.
fn output_of_response(
    mut response: ScriptInvokeResponse,
    seconds: u64,
) -> Result<Output, CallError> {
    let files = response.files.take().unwrap_or_default();
    result_of_response(response, seconds).map(|output| files::append_files(output, files))
}

fn result_of_response(response: ScriptInvokeResponse, seconds: u64) -> Result<Output, CallError> {
    let said = response.stderr.as_deref().unwrap_or_default();
    let code = match &response.reason {
        Some(ScriptReason::Busy) => Some(ErrorCode::Busy),
        Some(ScriptReason::Cancelled) => Some(ErrorCode::Cancelled),
        Some(ScriptReason::Invalid) => Some(ErrorCode::InvalidArguments),
        Some(ScriptReason::OutcomeUnknown) => Some(ErrorCode::OutcomeUnknown),
        Some(ScriptReason::Unavailable | ScriptReason::Failed) => Some(ErrorCode::ExecutionFailed),
        _ => None,
    };

    if let Some(code) = code {
        return Err(CallError::new(code, said));
    }

    // Where there is a reason it is known what was out of time: not the script, when its packages
    // were.
    let may_be_late = matches!(response.reason, None | Some(ScriptReason::TimedOut));
    if may_be_late && !response.is_success() && said.to_ascii_lowercase().contains("timed out") {
        return Ok(Output::error(timeout_text(seconds)));
    }

    let note = output_notes(&response);

    if response.is_success() {
        let text = response.output.unwrap_or_else(|| "(no output)".to_owned());
        return Ok(Output::text(text + &note));
    }

    let text = response.output.or(response.stderr).unwrap_or_else(|| "(no output)".to_owned());
    Ok(Output::error(format!("Script failed (exit {}):\n{text}{note}", response.exit_code)))
}

/// Notes on the ending and on refused files, each on a line after the text of the contract.
fn output_notes(response: &ScriptInvokeResponse) -> String {
    let refused = response.files_refused.as_deref().map(files::refusal_notes).unwrap_or_default();
    let ending = match (&response.reason, response.signal) {
        (Some(ScriptReason::OutOfMemory), _) => match response.stderr.as_deref() {
            Some(why) => format!("\n[{why}]"),
            None => "\n[out of memory]".to_owned(),
        },
        (Some(ScriptReason::OutputTruncated), _) => "\n[output truncated]".to_owned(),
        (Some(ScriptReason::Killed), Some(signal)) => format!("\n[killed by signal {signal}]"),
        _ => String::new(),
    };
    ending + &refused
}

fn timeout_text(seconds: u64) -> String {
    format!(
        "execute_python_script timed out after {seconds}s. Either increase timeout_seconds, \
         simplify the script, or consider an alternative approach that does not require script \
         execution."
    )
}

fn request_error(error: requester::Error, asked: Duration, seconds: u64) -> CallError {
    match error {
        requester::Error::Timeout { .. } if asked < Duration::from_secs(seconds) => {
            CallError::timeout(NAME, asked)
        }
        requester::Error::Timeout { .. } => {
            CallError::new(ErrorCode::Timeout, timeout_text(seconds))
        }
        error => client::request_error(NAME, error),
    }
}

fn timeout_seconds(arguments: &Map<String, Value>, allowance: ScriptAllowance) -> u64 {
    let seconds = arguments.get("timeout_seconds").and_then(Value::as_u64);
    seconds.unwrap_or_else(|| allowance.timeout_seconds_default())
}

fn call_timeout(arguments: &Map<String, Value>, allowance: ScriptAllowance) -> Duration {
    let packages = arguments.get("pip_packages").and_then(Value::as_array);
    let has_packages = packages.is_some_and(|list| !list.is_empty());
    let beside = if has_packages { PACKAGES_TIMEOUT } else { Duration::ZERO };
    Duration::from_secs(timeout_seconds(arguments, allowance)) + WAIT_BESIDE_TIMEOUT + beside
}

fn coerce_arguments(arguments: &mut Map<String, Value>, allowance: ScriptAllowance) {
    if let Some(packages) = arguments.get_mut("pip_packages") {
        coerce_text_list(packages);
    }

    if let Some(files) = arguments.get_mut("input_files") {
        files::coerce_list(files);
    }

    if let Some(seconds) = arguments.get_mut("timeout_seconds") {
        clamp_seconds(seconds, allowance);
    }

    if let Some(input @ (Value::Object(_) | Value::Array(_))) = arguments.get_mut("input_data")
        && reference_text(input).is_none()
    {
        *input = Value::String(input.to_string());
    }
}

/// Text that holds a list becomes the list, and other text a list of one.
fn coerce_text_list(value: &mut Value) {
    let Value::String(text) = value else { return };
    let text = text.trim();
    *value = match toolbus_json::from_str::<Value>(text, &ARGUMENTS_LIMITS) {
        Ok(list @ Value::Array(_)) => list,
        _ if text.is_empty() => json!([]),
        _ => json!([text]),
    };
}

/// Numbers of any kind, and text that holds one, become whole seconds within the bounds. What is no
/// number stays for the check to refuse.
fn clamp_seconds(value: &mut Value, allowance: ScriptAllowance) {
    let seconds = match &*value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse::<f64>().ok(),
        _ => None,
    };
    if let Some(seconds) = seconds.filter(|seconds| !seconds.is_nan()) {
        // A number that is out of bounds becomes the nearest that a conversion has.
        *value = json!(allowance.clamp_seconds(seconds.ceil() as u64));
    }
}

#[cfg(test)]
mod tests;
