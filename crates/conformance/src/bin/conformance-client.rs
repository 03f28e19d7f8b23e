//! `conformance-client URL`: runs a client scenario of the official conformance suite with the
//! bridge's own client. For tests only.
//!
//! The suite starts it with the address of its server as the last argument. Whatever the scenario,
//! a bridge does the same: it connects, lists the tools and calls what it is asked to call. Here
//! those are the calls that the suite names in `MCP_CONFORMANCE_CONTEXT`, else each tool once, with
//! arguments that fit its schema. It fails when it cannot connect; how calls end is printed, and
//! judged by the suite, which sees the requests.
//!
//! Where a scenario is about authorization, the entry says how, and this program is also the person
//! who logs in when the bridge would ask for that: it opens the page and goes where that leads. It
//! is also the operator who says which authorization server a secret is for, and looks that up.

#![allow(clippy::print_stderr, reason = "a tool of the terminal")]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolbus_bus::{Asker, Deadline, Question};
use toolbus_mcp::config::{Entry, Variables};
use toolbus_mcp::login::Login;
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_mcp::{Call, CallError, ServerState};
use toolbus_wire::message::mcp::McpToolDetails;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

const SERVER: &str = "conformance";
/// How long a call may take. The suite gives the whole scenario half a minute.
const CALL_TIMEOUT: Duration = Duration::from_secs(8);
/// Most logins of a run: one for the first token, and others when more scopes are required.
const LOGINS_MAX: usize = 3;
/// The URL that the suite accepts as a client's metadata document.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// Most tools that are called.
const CALLS_MAX: usize = 32;

/// What the suite passes to the client besides the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ScenarioContext {
    #[serde(rename = "toolCalls")]
    tool_calls: Vec<ToolCall>,
    client_id: Option<String>,
    client_secret: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
struct ToolCall {
    name: String,
    #[serde(default)]
    arguments: Map<String, Value>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    // reqwest panics without a process-wide provider.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let url = std::env::args().next_back().context("usage: conformance-client URL")?;
    let scenario_context: ScenarioContext = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).context("MCP_CONFORMANCE_CONTEXT")?,
        Err(_) => ScenarioContext::default(),
    };

    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut members =
        Map::from_iter([("type".to_owned(), json!("http")), ("url".to_owned(), json!(url))]);
    let issuer = match scenario_context.client_secret {
        Some(_) => Some(named_issuer(&url).await?),
        None => None,
    };
    let auth = auth_member(&scenario, &scenario_context, issuer);
    members.extend(auth.map(|auth| ("auth".to_owned(), auth)));
    let entry = Entry::parse(SERVER, members, Variables::Refused)
        .map_err(|mistakes| anyhow!("the entry cannot be used: {mistakes:?}"))?;
    let tokens = tempfile::tempdir()?;
    let mut options = PoolConfig::new(std::env::vars_os());
    options.tokens = Some(tokens.path().to_owned());

    for _ in 0..LOGINS_MAX {
        let set = ServerPool::start(vec![entry.clone()], options.clone())?;
        set.wait_settled().await;
        let worked = call_tools(&set, &scenario_context).await;
        set.close(Duration::ZERO).await;

        match worked {
            Ok(CallsOutcome::NeedsLogin) => log_in(&entry, tokens.path()).await?,
            Ok(CallsOutcome::Done) => return Ok(()),
            Err(error) => return Err(error),
        }
    }

    bail!("the server still requires a login after {LOGINS_MAX} logins")
}

/// The member `auth` of the entry, where the scenario is about that.
fn auth_member(
    scenario: &str,
    scenario_context: &ScenarioContext,
    issuer: Option<String>,
) -> Option<Value> {
    let about = scenario.strip_prefix("auth/")?;
    let kind = if about.starts_with("client-credentials") {
        "client_credentials"
    } else {
        "authorization_code"
    };

    let mut auth = Map::from_iter([("type".to_owned(), json!(kind))]);
    let known = [
        ("issuer", &issuer),
        ("clientId", &scenario_context.client_id),
        ("clientSecret", &scenario_context.client_secret),
    ];
    for (name, value) in known {
        auth.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }

    if kind == "authorization_code" && scenario_context.client_id.is_none() {
        auth.insert("clientMetadataUrl".to_owned(), json!(CLIENT_METADATA_URL));
    }

    Some(Value::Object(auth))
}

/// The authorization server that the suite's server names first.
async fn named_issuer(server: &str) -> anyhow::Result<String> {
    let mut document = reqwest::Url::parse(server).context("the server's address")?;
    document.set_path(&format!("/.well-known/oauth-protected-resource{}", document.path()));
    let client = reqwest::Client::builder().no_proxy().build()?;
    let metadata = client.get(document).send().await?.error_for_status()?.text().await?;

    let metadata: Value = serde_json::from_str(&metadata).context("the server's metadata")?;
    let issuer = metadata["authorization_servers"][0].as_str();
    Ok(issuer.context("the server names no authorization server")?.to_owned())
}

/// Logs in as `mcp-bridge login` and a person in front of it would.
async fn log_in(entry: &Entry, tokens: &Path) -> anyhow::Result<()> {
    let login = Login::begin(entry, Some(tokens.to_owned())).await?;
    let page = login.url().to_owned();
    let open = async {
        let answer = reqwest::Client::builder().no_proxy().build()?.get(page).send().await?;
        eprintln!("the page for logins: {}", answer.status());
        anyhow::Ok(())
    };

    let (opened, finished) = tokio::join!(open, login.finish(CALL_TIMEOUT, tokio::io::empty()));
    opened?;
    Ok(finished?)
}

/// How the calls of a scenario ended.
enum CallsOutcome {
    Done,
    NeedsLogin,
}

/// Makes the calls that the suite names, else one of each tool.
async fn call_tools(
    set: &ServerPool,
    scenario_context: &ScenarioContext,
) -> anyhow::Result<CallsOutcome> {
    let status = set.find(SERVER).context("the server is gone")?;
    if let ServerState::Failed { failure, .. } = status.state {
        let failure = failure.to_string();
        if failure.contains("needs login") {
            return Ok(CallsOutcome::NeedsLogin);
        }
        bail!("not connected: {failure}");
    }

    let details = set.details(SERVER).context("the server has listed nothing")?;
    let calls = match &scenario_context.tool_calls[..] {
        [] => calls_of_each_tool(details.tools),
        calls => calls.to_vec(),
    };

    let mut ended = CallsOutcome::Done;
    for ToolCall { name, arguments } in calls {
        let deadline = Deadline::after(CALL_TIMEOUT);
        let call = Call::new(Some(SERVER), name.clone(), arguments, deadline);
        match set.call(call.with_asker(Asker::to(answer_with_defaults))).await {
            Ok(result) => eprintln!("{name}: {:?}", result.text),
            Err(error) => {
                eprintln!("{name}: {}: {error}", error.code());
                if matches!(error, CallError::NeedsLogin { .. }) {
                    ended = CallsOutcome::NeedsLogin;
                }
            }
        }
    }

    Ok(ended)
}

/// Answers a form with its default values. Other questions get no answer.
async fn answer_with_defaults(question: Question) -> Result<Value, AskError> {
    if question.kind != AskKind::Elicitation {
        return Err(AskError::new(AskErrorCode::Unsupported, "there is no model here"));
    }
    let fields = question.params["requestedSchema"]["properties"].as_object();
    let proposed = fields
        .into_iter()
        .flatten()
        .filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
    Ok(json!({"action": "accept", "content": Map::from_iter(proposed)}))
}

/// A call of each tool. One that wants a schema gets that of the first tool: a scenario compares it
/// with what its server has listed.
fn calls_of_each_tool(tools: Vec<McpToolDetails>) -> Vec<ToolCall> {
    let schema = |tool: &McpToolDetails| -> Value {
        let text = tool.parameters_schema.as_deref().unwrap_or("{}");
        serde_json::from_str(text).unwrap_or_default()
    };
    let first = tools.first().map(schema);
    let calls = tools.into_iter().map(|tool| {
        let mut arguments = fitting_arguments(&schema(&tool));
        if let (Some(wanted), Some(first)) = (arguments.get_mut("schema"), &first) {
            *wanted = first.clone();
        }
        ToolCall { name: tool.name, arguments }
    });
    calls.take(CALLS_MAX).collect()
}

/// Arguments that fit a schema: a value for each required member.
fn fitting_arguments(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), fitting_value(&schema["properties"][name]))).collect()
}

/// A value of the schema's type.
fn fitting_value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => Value::Object(fitting_arguments(schema)),
        _ => json!("text"),
    }
}
