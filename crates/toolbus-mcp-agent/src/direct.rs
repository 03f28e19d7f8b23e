//! The tools of MCP servers as tools of their own, each under its direct name.
//!
//! One task makes the registry what the index says: it fetches the details of servers that were
//! announced and publishes their tools, a provider for each server. The task alone gives out names
//! and remembers whose they are; a name is never taken apart. A tool keeps its name and its place
//! for as long as it is there, whatever comes beside it, and also while its bridge is away.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{CallContext, Deadline};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{Offer, Provider, ToolState};
use toolbus_tools::subject::Subject;
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Executor, Registry, Tool};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{McpServerSummary, McpToolDetails};

use crate::definition::definition_of;
use crate::direct_name::{direct_name, marked_name};
use crate::index::{Index, IndexedServer};
use crate::manage::{self, DETAILS_LIMITS, ask_details};
use crate::method_name::is_method_name;
use crate::proxy::InvokeTool;
use crate::resolve::{counted_annotations, find_server, provider_of, subject_of};
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

/// The tools that are offered directly.
pub(crate) struct DirectTools {
    gateway: Arc<InvokeTool>,
    registry: Arc<Registry>,
    index: Arc<Index>,
    /// How much of what was announced is in the registry.
    done: AtomicU64,
}

/// What one server has in the registry.
struct OfferedServer {
    provider: Provider,
    /// When the server was announced that this is of.
    announced: u64,
    /// Direct names, by the names that the tools have at their server.
    names: HashMap<String, String>,
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
    pub(crate) async fn follow_index(&self, stop: &CancellationToken) {
        let mut all: HashMap<String, OfferedServer> = HashMap::new();
        let mut known = 0;
        let mut complete = true;
        loop {
            // Every arm only waits.
            tokio::select! {
                () = self.index.wait_for_revision_after(known) => {
                    tokio::time::sleep(ANNOUNCEMENT_GRACE).await;
                }
                () = tokio::time::sleep(RETRY_INTERVAL), if !complete => {}
                () = stop.cancelled() => return,
            }
            let (servers, revision) = self.index.list_indexed();
            known = revision;

            match stop.run_until_cancelled(self.reconcile_offers(&servers, &mut all, stop)).await {
                Some(done) => complete = done,
                None => return,
            }
            self.done.store(known, Ordering::Release);
            self.index.wake_all();
        }
    }

    /// Makes the registry what the index says. Answers whether everything could be had.
    async fn reconcile_offers(
        &self,
        servers: &[IndexedServer],
        all: &mut HashMap<String, OfferedServer>,
        stop: &CancellationToken,
    ) -> bool {
        let names: HashSet<String> =
            servers.iter().map(|server| server.name.to_ascii_lowercase()).collect();
        // A provider that is dropped withdraws its tools.
        all.retain(|name, _| names.contains(name));

        let mut complete = true;
        for server in servers {
            let key = server.name.to_ascii_lowercase();
            if let Some(offered) = all.get(&key)
                && (server.is_away || offered.announced == server.announced)
            {
                if server.is_away {
                    offered.provider.set_state(ToolState::Away);
                }
                continue;
            }
            // Asked for its tools, it would have none to show.
            if server.is_unavailable {
                continue;
            }
            complete &= self.offer_server(server, all, stop).await;
            // To compile schemas takes a while: others have their turn.
            tokio::task::yield_now().await;
        }
        complete
    }

    /// Offers the tools of one server. Answers whether they could be had.
    async fn offer_server(
        &self,
        server: &IndexedServer,
        all: &mut HashMap<String, OfferedServer>,
        stop: &CancellationToken,
    ) -> bool {
        let Ok(name) = ServerName::parse(&server.name) else {
            tracing::warn!(server = server.name, "a server's name makes no direct names");
            return true;
        };
        let tools = match self.fetch(&server.name, stop).await {
            Ok(tools) => tools,
            Err(error) => {
                tracing::warn!(server = server.name, %error, "cannot offer the server's tools directly");
                return false;
            }
        };

        let key = server.name.to_ascii_lowercase();
        let others = all.iter().filter(|(other, _)| **other != key);
        let room = TOOLS_MAX - others.map(|(_, offered)| offered.names.len()).sum::<usize>();
        let offered = all.entry(key).or_insert_with(|| OfferedServer {
            provider: self.registry.provider(provider_of(&server.name)),
            announced: NEVER,
            names: HashMap::new(),
        });
        let left_out = self.publish(&name, tools, room, offered);

        if left_out > 0 {
            tracing::warn!(server = %name, left_out, "tools are not offered directly: no room");
        }
        // With the next announcement there may be room for the rest.
        offered.announced = if left_out > 0 { NEVER } else { server.announced };
        true
    }

    async fn fetch(
        &self,
        server: &str,
        stop: &CancellationToken,
    ) -> Result<Vec<McpToolDetails>, CallError> {
        let timed_out = || format!("timed out waiting for the details of '{server}'");
        let context = CallContext::until(Deadline::after(manage::TIMEOUT));
        let context = context.with_cancelled(stop.clone());
        let requester = &self.gateway.requester;
        let answer = ask_details(requester, server, context, timed_out).await?;

        match answer.error {
            Some(error) => Err(CallError::execution_failed(error)),
            None => Ok(answer.tools),
        }
    }

    /// Makes what a server offers what it lists, and answers how many tools found no place.
    fn publish(
        &self,
        server: &ServerName,
        tools: Vec<McpToolDetails>,
        room: usize,
        offered: &mut OfferedServer,
    ) -> usize {
        let mut names = HashMap::new();
        let mut taken: HashSet<String> = HashSet::new();
        let mut listed = Vec::new();
        let mut left_out = 0;

        for details in tools.into_iter().filter(|details| !is_method_name(&details.name)) {
            let known = offered.names.get(&details.name).cloned();
            let free = |name: &String| !taken.contains(name) && self.registry.find(name).is_none();
            let name = known.or_else(|| candidate_names(server, &details.name).find(free));
            let Some(name) = name.filter(|_| listed.len() < room) else {
                left_out += 1;
                continue;
            };
            taken.insert(name.clone());
            names.insert(details.name.clone(), name.clone());
            listed.push((name, details));
        }

        let servers = self.index.servers();
        let summary = find_server(&servers, server.as_str());
        let offer =
            |(name, details): &(String, McpToolDetails)| self.offer(server, summary, name, details);
        let errors = offered.provider.publish(listed.iter().map(offer).collect());
        for (name, error) in &errors {
            tracing::debug!(%server, tool = name, %error, "tool is not offered directly");
        }

        offered.names = names;
        left_out + errors.len()
    }

    fn offer(
        &self,
        server: &ServerName,
        summary: Option<&McpServerSummary>,
        name: &str,
        details: &McpToolDetails,
    ) -> Offer {
        let declared = details.annotations.as_ref().map(RawJson::text);
        let value =
            |text: Option<&str>| toolbus_json::from_str::<Value>(text?, &DETAILS_LIMITS).ok();
        let declared = declared_annotations(value(declared).as_ref());
        let annotations = counted_annotations(declared, summary);
        let parameters = value(details.parameters_schema.as_deref());
        let icons = value(details.icons.as_ref().map(RawJson::text));
        let tool = Tool {
            title: details.title.clone(),
            output_schema: value(details.output_schema.as_deref()),
            icons: icons.as_ref().and_then(Value::as_array).cloned().unwrap_or_default(),
            mcp_definition: Some(definition_of(details)),
            annotations,
            risk: annotations.read_only.then_some(Risk::Low),
            ..Tool::new(name, details.description.clone(), provider_of(server.as_str()))
        };
        let tool = tool
            .in_group("mcp")
            .with_parameters(parameters.unwrap_or_else(|| json!({"type": "object"})));

        let executor = DirectTool {
            gateway: Arc::clone(&self.gateway),
            server: server.as_str().to_owned(),
            tool: details.name.clone(),
            declared,
        };
        let Subject { id, definition, .. } = subject_of(summary, server.as_str(), &details.name);
        // The server itself checks; where its schema cannot be used here, any object will do.
        Offer::new(tool, executor).with_identity(id, definition).or_any_object()
    }
}

/// The names that a tool may get, the best first.
fn candidate_names(server: &ServerName, tool: &str) -> impl Iterator<Item = String> {
    let marked = (1..NAMES_TRIED_MAX).map(move |attempt| marked_name(server, tool, attempt));
    std::iter::once(direct_name(server, tool)).chain(marked)
}

/// What a tool says of its effects, as MCP has it.
fn declared_annotations(declared: Option<&Value>) -> Annotations {
    let says =
        |name: &str| declared.and_then(|declared| declared.get(name)).and_then(Value::as_bool);
    let read_only = says("readOnlyHint") == Some(true);
    Annotations {
        read_only,
        idempotent: read_only || says("idempotentHint") == Some(true),
        destructive: says("destructiveHint") == Some(true),
    }
}

struct DirectTool {
    gateway: Arc<InvokeTool>,
    server: String,
    tool: String,
    declared: Annotations,
}

impl Executor for DirectTool {
    fn execute(&self, mut call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        let arguments = Value::Object(std::mem::take(&mut call.arguments));
        Box::pin(self.gateway.call(&self.server, &self.tool, arguments, call))
    }

    /// As long as its bridge grants.
    fn timeout(&self, _: &Map<String, Value>) -> Option<Duration> {
        self.gateway.granted_time(&self.server, &self.tool)
    }

    fn extension(&self, _: &Map<String, Value>) -> Option<Duration> {
        self.gateway.granted_extension(&self.server, &self.tool)
    }

    /// The same subject as by way of `mcp_invoke_tool`.
    fn resolve(&self, _: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        let servers = self.gateway.index.servers();
        let is_it = |name: &str| name.eq_ignore_ascii_case(&self.server);
        let summary = servers.iter().find(|summary| is_it(&summary.server_name));
        let subject = subject_of(summary, &self.server, &self.tool);
        let annotations = counted_annotations(self.declared, summary);
        Ok(Some(Subject { annotations, ..subject }))
    }
}

#[cfg(test)]
mod tests;
