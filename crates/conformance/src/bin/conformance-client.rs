//! `conformance-client URL`: does with the bridge's own client what a client scenario of the
//! official conformance suite wants of it. For tests only.
//!
//! The suite starts it with the address of its server as the last argument. Whatever the scenario,
//! a bridge does the same: it connects, lists the tools and calls what it is asked to call. Here
//! those are the calls that the suite names in `MCP_CONFORMANCE_CONTEXT`, else each tool once, with
//! arguments that fit its schema. It fails when it cannot connect; how calls end is printed, and
//! judged by the suite, which sees the requests.
//!
//! Where a scenario is about authorization, the entry says how, and this program is also the person
//! who logs in when the bridge would ask for that: it opens the page and goes where that leads.

#![allow(clippy::print_stderr, reason = "a tool of the terminal")]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use toolbus_bus::{Asker, Deadline, Question};
use toolbus_mcp::config::{Entry, Variables};
use toolbus_mcp::login::Login;
use toolbus_mcp::servers::{PoolConfig, ServerPool};
use toolbus_mcp::{Call, CallError, ServerState};
use toolbus_wire::message::mcp::McpToolDetails;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

const SERVER: &str = "conformance";
/// How long a call may take. The suite gives the whole scenario half a minute.
const CALL_LIMIT: Duration = Duration::from_secs(8);
/// How often a login is made: for the first token, and when more is asked for.
const LOGINS_MAX: usize = 3;
/// The document that the suite takes for a description of a client.
const CLIENT_METADATA_URL: &str = "https://conformance-test.local/client-metadata.json";
/// Most tools that are called.
const CALLS_MAX: usize = 32;

/// What the suite tells besides the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Wishes {
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
    let url = std::env::args().next_back().context("usage: conformance-client URL")?;
    let wishes: Wishes = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text).context("MCP_CONFORMANCE_CONTEXT")?,
        Err(_) => Wishes::default(),
    };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let mut members =
        Map::from_iter([("type".to_owned(), json!("http")), ("url".to_owned(), json!(url))]);
    members.extend(auth(&scenario, &wishes).map(|auth| ("auth".to_owned(), auth)));
    let entry = Entry::parse(SERVER, members, Variables::Refused)
        .map_err(|mistakes| anyhow!("the entry cannot be used: {mistakes:?}"))?;
    let tokens = tempfile::tempdir()?;
    let mut options = PoolConfig::new(std::env::vars_os());
    options.tokens = Some(tokens.path().to_owned());
    for _ in 0..LOGINS_MAX {
        let set = ServerPool::start(vec![entry.clone()], options.clone())?;
        set.wait_settled().await;
        let worked = work(&set, &wishes).await;
        set.close(Duration::ZERO).await;
        match worked {
            Ok(Ended::NeedsLogin) => log_in(&entry, tokens.path()).await?,
            Ok(Ended::Done) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    bail!("a login is wanted again and again")
}

/// The member `auth` of the entry, where the scenario is about that.
fn auth(scenario: &str, wishes: &Wishes) -> Option<Value> {
    let about = scenario.strip_prefix("auth/")?;
    let kind = if about.starts_with("client-credentials") {
        "client_credentials"
    } else {
        "authorization_code"
    };
    let mut auth = Map::from_iter([("type".to_owned(), json!(kind))]);
    let known = [("clientId", &wishes.client_id), ("clientSecret", &wishes.client_secret)];
    for (name, value) in known {
        auth.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
    }
    if kind == "authorization_code" && wishes.client_id.is_none() {
        auth.insert("clientMetadataUrl".to_owned(), json!(CLIENT_METADATA_URL));
    }
    Some(Value::Object(auth))
}

/// What `mcp-bridge login` and a person in front of it do.
async fn log_in(entry: &Entry, tokens: &Path) -> anyhow::Result<()> {
    let login = Login::begin(entry, Some(tokens.to_owned())).await?;
    let page = login.url().to_owned();
    let open = async {
        let answer = reqwest::Client::builder().no_proxy().build()?.get(page).send().await?;
        eprintln!("the page for logins: {}", answer.status());
        anyhow::Ok(())
    };
    let (opened, finished) = tokio::join!(open, login.finish(CALL_LIMIT, tokio::io::empty()));
    opened?;
    Ok(finished?)
}

enum Ended {
    Done,
    NeedsLogin,
}

async fn work(set: &ServerPool, wishes: &Wishes) -> anyhow::Result<Ended> {
    let status = set.find(SERVER).context("the server is gone")?;
    if let ServerState::Failed { failure, .. } = status.state {
        let failure = failure.to_string();
        if failure.contains("needs login") {
            return Ok(Ended::NeedsLogin);
        }
        bail!("not connected: {failure}");
    }
    let details = set.details(SERVER).context("the server has listed nothing")?;
    let calls = match &wishes.tool_calls[..] {
        [] => one_of_each(details.tools),
        calls => calls.to_vec(),
    };
    let mut ended = Ended::Done;
    for ToolCall { name, arguments } in calls {
        let deadline = Deadline::after(CALL_LIMIT);
        let call = Call::new(Some(SERVER), name.clone(), arguments, deadline);
        match set.call(Call { asker: Asker::to(take_the_defaults), ..call }).await {
            Ok(result) => eprintln!("{name}: {:?}", result.text),
            Err(error) => {
                eprintln!("{name}: {}: {error}", error.code());
                if matches!(error, CallError::NeedsLogin { .. }) {
                    ended = Ended::NeedsLogin;
                }
            }
        }
    }
    Ok(ended)
}

/// Answers a form with what it proposes. Other questions get no answer.
async fn take_the_defaults(question: Question) -> Result<Value, AskError> {
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
fn one_of_each(tools: Vec<McpToolDetails>) -> Vec<ToolCall> {
    let schema = |tool: &McpToolDetails| -> Value {
        let text = tool.parameters_schema.as_deref().unwrap_or("{}");
        serde_json::from_str(text).unwrap_or_default()
    };
    let first = tools.first().map(schema);
    let calls = tools.into_iter().map(|tool| {
        let mut arguments = fitting(&schema(&tool));
        if let (Some(wanted), Some(first)) = (arguments.get_mut("schema"), &first) {
            *wanted = first.clone();
        }
        ToolCall { name: tool.name, arguments }
    });
    calls.take(CALLS_MAX).collect()
}

/// Arguments that a schema takes: a value for each that it requires.
fn fitting(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    required.map(|name| (name.to_owned(), value(&schema["properties"][name]))).collect()
}

fn value(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("number" | "integer") => json!(2),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => Value::Object(fitting(schema)),
        _ => json!("text"),
    }
}
