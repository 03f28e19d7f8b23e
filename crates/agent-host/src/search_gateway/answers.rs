//! What is answered: tools, a prompt, a resource.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};
use toolbus_discovery::{
    LIST_LIMIT_MAX, ListRequest, RetrieveFilter, RetrieveRequest, Retrieved, split_id,
};
use toolbus_tools::call::{Arguments, Call};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::registry::ToolEntry;

use super::SearchGateway;
use super::protocol::{INTERNAL, INVALID_PARAMS, NOT_FOUND, Refusal, Request};

/// The version that is spoken.
const PROTOCOL_VERSION: &str = "2024-11-05";
const PROMPT: &str = "find_tools";
const RESOURCE: &str = "toolbus://tools";
/// Longest part of a result that is shown, in characters.
const PREVIEW_CHARS_MAX: usize = 300;
/// Most steps of a query that are carried out.
const STEPS_MAX: usize = 10;
/// How many tools are found where nobody says.
const TOP_K_DEFAULT: u64 = 5;
/// Least score of a tool that a step is carried out with.
const STEP_SCORE_MIN: f64 = 0.3;

impl SearchGateway {
    pub(super) async fn handle(&self, request: &Request) -> Result<Value, Refusal> {
        match request.method.as_str() {
            "initialize" => Ok(json!({
                "protocolVersion": PROTOCOL_VERSION,
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "toolbus", "version": env!("CARGO_PKG_VERSION")},
            })),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(tools()),
            "tools/call" => self.call(&request.params).await,
            "prompts/list" => Ok(prompts()),
            "prompts/get" => prompt(&request.params),
            "resources/list" => Ok(resources()),
            "resources/templates/list" => Ok(json!({"resourceTemplates": []})),
            "resources/read" => self.resource(&request.params),
            method => Err(Refusal::new(NOT_FOUND, format!("there is no method {method}"))),
        }
    }

    async fn call(&self, params: &Map<String, Value>) -> Result<Value, Refusal> {
        let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
        let empty = Map::new();
        let arguments = params.get("arguments").and_then(Value::as_object).unwrap_or(&empty);
        let query = arguments.get("query").and_then(Value::as_str).unwrap_or_default().trim();

        let told = match name {
            "search_tools" => {
                let top_k = arguments.get("top_k").and_then(Value::as_u64);
                self.search(query, top_k.unwrap_or(TOP_K_DEFAULT)).await
            }
            "discover_capabilities" if query.is_empty() => Ok(self.list()?),
            "discover_capabilities" => self.search(query, TOP_K_DEFAULT).await,
            "execute_query" => self.execute(query).await,
            name => return Err(Refusal::new(NOT_FOUND, format!("there is no tool {name}"))),
        };
        let (text, is_error) = match told {
            Ok(text) => (text, false),
            Err(problem) => (problem, true),
        };
        Ok(json!({"content": [{"type": "text", "text": text}], "isError": is_error}))
    }

    /// The tools for a query, in lines.
    async fn search(&self, query: &str, limit: u64) -> Result<String, String> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let found = self.retrieve(query, limit).await?;
        let mut text = String::new();
        for (at, tool) in found.tools.iter().enumerate() {
            let registered = &tool.entry.tool;
            let description = preview(&registered.description);
            let _ = writeln!(
                text,
                "{}. {} ({}, {:.2}): {description}\n   arguments: {}",
                at + 1,
                registered.name,
                tool.server,
                tool.score,
                preview(&registered.parameters["properties"].to_string()),
            );
        }

        if found.tools.is_empty() {
            let _ = writeln!(text, "no tool is for '{query}'");
        }
        if !found.recommended_servers.is_empty() {
            let servers = found.recommended_servers.join(", ");
            let _ = writeln!(text, "servers that may help: {servers}");
        }
        Ok(text.trim_end().to_owned())
    }

    /// Carries a task out, step by step, with tools that read only and need no arguments. It stops
    /// at the first step for which there is no such tool: words that fit a tool are no wish that
    /// it changes something.
    async fn execute(&self, query: &str) -> Result<String, String> {
        let steps = toolbus_search::split_task(query);
        let mut steps = steps.iter().take(STEPS_MAX).enumerate();
        let mut text = String::new();
        // An empty query is refused.
        if query.is_empty() {
            self.retrieve(query, 1).await?;
        }

        let mut stopped_at = None;
        for (at, step) in steps.by_ref() {
            let found = self.retrieve(step, 1).await?;
            let best = found.tools.first().filter(|tool| tool.score >= STEP_SCORE_MIN);
            let Some(tool) = best else {
                let _ = writeln!(text, "{}. {step}: no tool is for that", at + 1);
                stopped_at = Some(at);
                break;
            };
            let registered = &tool.entry.tool;
            let required = registered.parameters["required"].as_array();
            let required: Vec<_> =
                required.into_iter().flatten().filter_map(Value::as_str).collect();
            let name = &registered.name;
            if !required.is_empty() {
                let needs = required.join(", ");
                let _ = writeln!(text, "{}. {step}: {name} needs {needs}", at + 1);
                stopped_at = Some(at);
                break;
            }
            if !self.is_read_only(&tool.entry) {
                let (server, own_name) = split_id(&tool.entry.id);
                let _ = writeln!(
                    text,
                    "{}. {step}: {name} fits and was not run, since it is not declared read-only. \
                     Call it by its name: agent-host exec {server}/{own_name}",
                    at + 1
                );
                stopped_at = Some(at);
                break;
            }

            match self.invoke(name).await {
                Ok(said) => {
                    let _ = writeln!(text, "{}. {step}: {name}: {}", at + 1, preview(&said));
                }
                Err(problem) => {
                    let _ =
                        writeln!(text, "{}. {step}: {name} failed: {}", at + 1, preview(&problem));
                    stopped_at = Some(at);
                    break;
                }
            }
        }

        for (at, step) in steps {
            let before = stopped_at.map_or(at, |stopped| stopped + 1);
            let _ = writeln!(text, "{}. {step}: skipped, since step {before} is not done", at + 1);
        }
        Ok(text.trim_end().to_owned())
    }

    async fn retrieve(&self, query: &str, limit: usize) -> Result<Retrieved, String> {
        let request = RetrieveRequest {
            query: query.to_owned(),
            limit,
            filter: RetrieveFilter::default(),
            source: "mcp".into(),
            debug: false,
        };
        let retrieved = self.discovery.retrieve(&self.scope, &request).await;
        retrieved.map_err(|error| error.to_string())
    }

    /// Whether a call of a tool without arguments changes nothing, as the definition says that the
    /// registry has now.
    fn is_read_only(&self, tool: &ToolEntry) -> bool {
        let tools = self.invoker.registry().snapshot();
        let name = &tool.tool.name;
        let is_declared =
            tools.find(name).is_some_and(|now| now.id == tool.id && now.tool.annotations.read_only);
        is_declared && !tools.may_change(name, &Map::new())
    }

    /// What a tool says without arguments.
    async fn invoke(&self, tool: &str) -> Result<String, String> {
        let tool = ToolName::parse(tool).map_err(|error| error.to_string())?;
        let call = Call::new(&self.scope, CallId::random(), tool, Arguments::Value(json!({})));
        match self.invoker.invoke(call).await {
            Ok(output) if output.is_error => Err(output.content.unwrap_or_default()),
            Ok(output) => Ok(output.content.unwrap_or_default()),
            Err(error) => Err(error.message.to_string()),
        }
    }

    /// Every tool that may be used, by server.
    fn list(&self) -> Result<String, Refusal> {
        let mut text = String::new();
        let mut offset = 0;
        loop {
            let request = ListRequest { limit: LIST_LIMIT_MAX, offset, ..ListRequest::default() };
            let page = self.discovery.list(&self.scope, &request);
            let page = page.map_err(|error| Refusal::new(INTERNAL, error.to_string()))?;
            offset += page.tools.len();
            for tool in &page.tools {
                let description = preview(&tool.entry.tool.description);
                let _ = writeln!(text, "{}/{}: {description}", tool.server, tool.name);
            }
            if page.tools.is_empty() || offset >= page.total {
                break;
            }
        }
        if text.is_empty() {
            text.push_str("there are no tools");
        }
        Ok(text.trim_end().to_owned())
    }

    fn resource(&self, params: &Map<String, Value>) -> Result<Value, Refusal> {
        let uri = params.get("uri").and_then(Value::as_str).unwrap_or_default();
        if uri != RESOURCE {
            return Err(Refusal::new(INVALID_PARAMS, format!("there is no resource {uri}")));
        }
        let text = self.list()?;
        Ok(json!({"contents": [{"uri": RESOURCE, "mimeType": "text/plain", "text": text}]}))
    }
}

fn tools() -> Value {
    let query = |description: &str, is_required: bool| {
        let properties = json!({"query": {"type": "string", "description": description}});
        let required: &[&str] = if is_required { &["query"] } else { &[] };
        json!({"type": "object", "properties": properties, "required": required})
    };
    let mut search = query("What the tools are to be for", true);
    search["properties"]["top_k"] = json!({
        "type": "integer", "minimum": 1, "maximum": 50, "default": TOP_K_DEFAULT,
        "description": "How many tools at most"
    });

    let discover = query("What the tools are to be for; without it all are listed", false);
    json!({"tools": [
        {
            "name": "execute_query",
            "description": "Carries out a task, step by step, with the tools that fit, change \
                            nothing and need no arguments. Stops at the first step that has no \
                            such tool, and says which tool would be run and what it needs.",
            "inputSchema": query("The task, in words", true)
        },
        {
            "name": "discover_capabilities",
            "description": "Lists what there is: every tool by its server, or those for a query.",
            "inputSchema": discover
        },
        {
            "name": "search_tools",
            "description": "Finds tools by what they are for, the best first, with their arguments.",
            "inputSchema": search
        }
    ]})
}

fn prompts() -> Value {
    let arguments =
        json!([{"name": "task", "description": "What is to be done", "required": true}]);
    json!({"prompts": [{
        "name": PROMPT,
        "description": "Find the tools for a task before starting it",
        "arguments": arguments
    }]})
}

fn prompt(params: &Map<String, Value>) -> Result<Value, Refusal> {
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    if name != PROMPT {
        return Err(Refusal::new(INVALID_PARAMS, format!("there is no prompt {name}")));
    }
    let task = params.get("arguments").and_then(|arguments| arguments["task"].as_str());
    let task = task.filter(|task| !task.trim().is_empty());
    let task = task.ok_or_else(|| Refusal::new(INVALID_PARAMS, "the argument task is missing"))?;
    let text = format!(
        "Find the tools for this task with search_tools, one step of the task at a time, before you \
         use any: {task}"
    );
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    Ok(json!({"description": "Find the tools for a task", "messages": [message]}))
}

fn resources() -> Value {
    json!({"resources": [{
        "uri": RESOURCE,
        "name": "tools",
        "description": "Every tool that may be used, by its server",
        "mimeType": "text/plain"
    }]})
}

/// The beginning of a text, in one line.
fn preview(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(PREVIEW_CHARS_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}
