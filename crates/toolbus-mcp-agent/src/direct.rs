//! The tools of MCP servers as tools of their own, each under its direct name.
//!
//! One task makes the registry what the index says: it fetches the details of servers that were
//! announced, registers what is new, takes out what is gone. The task alone gives out names and
//! remembers whose they are; a name is never taken apart. A tool keeps its name for as long as it
//! is there, whatever comes beside it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::Deadline;
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::Error;
use toolbus_tools::{Executor, Registry, Tool};
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsRequest, McpGetServiceDetailsResponse, McpToolDetails,
};

use crate::direct_name::{direct_name, marked_name};
use crate::index::Index;
use crate::manage::{self, ask};
use crate::proxy::InvokeTool;
use crate::server_name::ServerName;

/// Most tools that are offered directly.
const TOOLS_MAX: usize = 10_000;
/// How many names are tried for one tool.
const NAMES_TRIED_MAX: usize = 16;
/// How long announcements that come together are waited for.
const ANNOUNCEMENT_GRACE: Duration = Duration::from_millis(100);
/// How soon a server whose details could not be had is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Before anything was announced.
const NEVER: u64 = 0;
/// After so many tools, others have their turn: to compile a schema takes a while.
const TOOLS_AT_ONCE: usize = 64;

/// The tools that are offered directly.
pub(crate) struct DirectTools {
    gateway: Arc<InvokeTool>,
    registry: Arc<Registry>,
    index: Arc<Index>,
    /// How much of what was announced is in the registry.
    done: AtomicU64,
}

/// What one server has in the registry.
#[derive(Default)]
struct Offered {
    /// When the server was announced that this is of.
    announced: u64,
    tools: HashMap<String, OfferedTool>,
}

struct OfferedTool {
    direct_name: String,
    details: McpToolDetails,
}

impl DirectTools {
    pub(crate) fn new(gateway: InvokeTool, registry: Arc<Registry>, index: Arc<Index>) -> Self {
        Self { gateway: Arc::new(gateway), registry, index, done: AtomicU64::new(0) }
    }

    /// Whether everything that was announced is in the registry, as far as it could be had.
    pub(crate) fn is_settled(&self) -> bool {
        self.done.load(Ordering::Acquire) >= self.index.revision()
    }

    /// Follows the index until it is stopped.
    pub(crate) async fn follow(&self, stop: &CancellationToken) {
        let mut all: HashMap<String, Offered> = HashMap::new();
        let mut known = 0;
        let mut complete = true;
        loop {
            // Every arm only waits.
            tokio::select! {
                () = self.index.wait_for_news(known) => tokio::time::sleep(ANNOUNCEMENT_GRACE).await,
                () = tokio::time::sleep(RETRY_INTERVAL), if !complete => {}
                () = stop.cancelled() => return,
            }
            let (servers, revision) = self.index.announced();
            known = revision;
            match stop.run_until_cancelled(self.reconcile(&servers, &mut all, stop)).await {
                Some(done) => complete = done,
                None => return,
            }
            self.done.store(known, Ordering::Release);
            self.index.nudge();
        }
    }

    /// Makes the registry what the index says. Answers whether everything could be had.
    async fn reconcile(
        &self,
        servers: &[(String, u64)],
        all: &mut HashMap<String, Offered>,
        stop: &CancellationToken,
    ) -> bool {
        let names: HashSet<String> = servers.iter().map(|(n, _)| n.to_ascii_lowercase()).collect();
        all.retain(|name, offered| {
            let stays = names.contains(name);
            if !stays {
                offered.tools.values().for_each(|tool| self.withdraw(tool));
            }
            stays
        });
        let mut complete = true;
        for (name, announced) in servers {
            let Ok(server) = ServerName::parse(name) else {
                tracing::warn!(server = name, "a server whose name makes no direct names");
                continue;
            };
            let key = name.to_ascii_lowercase();
            if all.get(&key).is_some_and(|offered| offered.announced == *announced) {
                continue;
            }
            match self.fetch(name, stop).await {
                Ok(tools) => {
                    let room = TOOLS_MAX
                        - all
                            .iter()
                            .filter(|(n, _)| **n != key)
                            .map(|(_, o)| o.tools.len())
                            .sum::<usize>();
                    let offered = all.entry(key).or_default();
                    let left_out = self.offer(&server, tools, room, offered).await;
                    // With the next news, there may be room for the rest.
                    offered.announced = if left_out > 0 { NEVER } else { *announced };
                }
                Err(error) => {
                    tracing::warn!(server = name, %error, "its tools are not offered directly");
                    complete = false;
                }
            }
        }
        complete
    }

    async fn fetch(
        &self,
        server: &str,
        stop: &CancellationToken,
    ) -> Result<Vec<McpToolDetails>, CallError> {
        let question = McpGetServiceDetailsRequest { server_name: server.to_owned() };
        let timed_out = || format!("timed out waiting for the details of '{server}'");
        let deadline = Deadline::after(manage::TIMEOUT);
        let requester = &self.gateway.requester;
        let answer: McpGetServiceDetailsResponse =
            ask(requester, &question, (deadline, stop), timed_out).await?;
        match answer.error {
            Some(error) => Err(CallError::execution_failed(error)),
            None => Ok(answer.tools),
        }
    }

    /// Makes what a server offers what it lists, and answers how many tools found no place. What has
    /// not changed is not touched, so that it keeps its name and its place.
    async fn offer(
        &self,
        server: &ServerName,
        tools: Vec<McpToolDetails>,
        room: usize,
        offered: &mut Offered,
    ) -> usize {
        let listed: HashMap<&str, &McpToolDetails> =
            tools.iter().map(|tool| (tool.name.as_str(), tool)).collect();
        offered.tools.retain(|name, tool| {
            let stays = listed.get(name.as_str()).is_some_and(|now| **now == tool.details);
            if !stays {
                self.withdraw(tool);
            }
            stays
        });
        let mut left_out = 0;
        for (index, details) in tools.into_iter().enumerate() {
            if offered.tools.contains_key(&details.name) {
                continue;
            }
            let found = (offered.tools.len() < room).then(|| self.register(server, &details));
            match found.flatten() {
                Some(direct_name) => {
                    let name = details.name.clone();
                    offered.tools.insert(name, OfferedTool { direct_name, details });
                }
                None => left_out += 1,
            }
            if index % TOOLS_AT_ONCE == TOOLS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
        }
        if left_out > 0 {
            tracing::warn!(%server, left_out, "tools are not offered directly: there is no room");
        }
        left_out
    }

    /// Registers a tool and answers its name; `None` when there is no room or no name for it.
    fn register(&self, server: &ServerName, details: &McpToolDetails) -> Option<String> {
        let executor: Arc<dyn Executor> = Arc::new(DirectTool {
            gateway: Arc::clone(&self.gateway),
            server: server.as_str().to_owned(),
            tool: details.name.clone(),
        });
        let mut parameters = parameters(details);
        let mut attempt = 0;
        while attempt < NAMES_TRIED_MAX {
            let name = match attempt {
                0 => direct_name(server, &details.name),
                attempt => marked_name(server, &details.name, attempt),
            };
            let tool =
                Tool::new(name.clone(), details.description.clone(), format!("mcp:{server}"))
                    .with_parameters(parameters.clone());
            match self.registry.register_shared(tool, Arc::clone(&executor)) {
                Ok(()) => return Some(name),
                Err(Error::Duplicate { .. }) => attempt += 1,
                // The server itself checks; here, any object will do.
                Err(Error::Schema { .. }) if parameters != any_object() => {
                    tracing::debug!(%server, tool = details.name, "a schema that cannot be used");
                    parameters = any_object();
                }
                Err(error) => {
                    tracing::debug!(%server, tool = details.name, %error, "not registered");
                    return None;
                }
            }
        }
        None
    }

    fn withdraw(&self, tool: &OfferedTool) {
        self.registry.unregister(&tool.direct_name);
    }
}

fn parameters(details: &McpToolDetails) -> Value {
    let schema = details.parameters_schema.as_deref();
    schema.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_else(any_object)
}

fn any_object() -> Value {
    json!({"type": "object"})
}

struct DirectTool {
    gateway: Arc<InvokeTool>,
    server: String,
    tool: String,
}

impl Executor for DirectTool {
    fn execute(&self, mut call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        let arguments = Value::Object(std::mem::take(&mut call.arguments));
        Box::pin(self.gateway.call(&self.server, &self.tool, arguments, call))
    }
}
