//! What clients are offered at one path: which tools there are, what a call of one of them is, and
//! whether there are prompts and resources.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use rmcp::model::{ErrorData, Implementation, Tool, ToolAnnotations};
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_json::Limits;
use toolbus_mcp_agent::{EXACT, definition_of, provider_of};
use toolbus_tools::call::CallError;
use toolbus_tools::id::ToolId;
use toolbus_tools::{Scope, View};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::mcp::{
    McpFeature, McpGetServiceDetailsResponse, McpRevisions, McpServerSummary, McpToolDetails,
};

use crate::FaceDeps;
use crate::instructions::instructions_of_agent;
use crate::resource_requests::{ServerRequests, read_call};

/// Tools of one page of a list.
const PAGE: usize = 500;

/// How long a client that connects waits for what its server says of itself.
const INTRODUCTION_TIMEOUT: Duration = Duration::from_secs(5);

/// The tool of the agent that reaches those of MCP servers.
const INVOKE_TOOL: &str = "mcp_invoke_tool";

/// What the icons of a server may have: bridges keep no more of them.
const ICONS_LIMITS: Limits = Limits::of_bytes(64 << 10);

/// What the definition of a tool may have: those of servers come in messages of the bus.
const DEFINITION_LIMITS: Limits = Limits::of_bytes(BODY_BYTES_MAX);

/// What is offered at one path. Clones are the same.
#[derive(Clone)]
pub(crate) struct Offer {
    deps: FaceDeps,
    server: Option<Arc<ServerOffer>>,
}

/// One MCP server, and its tools as it listed them when last asked.
struct ServerOffer {
    name: String,
    catalogue: RwLock<ListedTools>,
}

impl ServerOffer {
    /// Which tool it is that has this name there.
    fn tool_id(&self, name: &str) -> ToolId {
        ToolId::of(&provider_of(&self.name), name)
    }
}

/// A tool as clients are shown it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedTool {
    pub(crate) name: String,
    /// Its definition, as its server wrote it where it is one of a server.
    definition: RawJson,
}

/// The tools of one MCP server as they were listed last, and what it said of itself then.
#[derive(Default)]
struct ListedTools {
    tools: Arc<Vec<ListedTool>>,
    introduction: Introduction,
    /// The numbers that both had when they were asked for; `None` where they were not, or had none.
    revision: Option<u64>,
    introduction_revision: Option<u64>,
}

/// What an MCP server says of itself. Nothing, where its bridge does not tell it or holds it back.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Introduction {
    pub(crate) program: Option<Implementation>,
    pub(crate) instructions: Option<String>,
}

impl Introduction {
    /// What details of a server tell, taken out of them.
    fn take_from(details: &mut McpGetServiceDetailsResponse) -> Self {
        let name = details.implementation_name.take();
        let program = name.map(|name| {
            let mut program = Implementation::new(name, details.version.take().unwrap_or_default());
            program.title = details.title.take();
            program.description = details.description.take();
            program.website_url = details.website_url.take();
            // What has another form than the protocol's is nothing that a client could read.
            let icons = details.icons.take();
            program.icons =
                icons.and_then(|icons| toolbus_json::from_str(icons.text(), &ICONS_LIMITS).ok());
            program
        });
        Self { program, instructions: details.instructions.take() }
    }
}

impl ListedTools {
    fn find(&self, name: &str) -> Option<&ListedTool> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Whether the list is another than the one that is known.
    fn is_outdated(&self, announced: Option<u64>) -> bool {
        announced.is_none() || self.revision != announced
    }
}

/// What one MCP server has beside tools.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BesideTools {
    pub(crate) prompts: bool,
    pub(crate) resources: bool,
    pub(crate) completions: bool,
    pub(crate) subscriptions: bool,
}

/// A number for each list, which is another when the list is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lists {
    pub(crate) tools: u64,
    pub(crate) prompts: u64,
    pub(crate) resources: u64,
}

/// What a call of an offered tool is to the invoker.
pub(crate) struct Target {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
}

impl Offer {
    /// The agent's own tools.
    pub(crate) fn of_agent(deps: FaceDeps) -> Self {
        Self { deps, server: None }
    }

    /// The tools of one MCP server.
    pub(crate) fn of_server(deps: FaceDeps, name: String) -> Self {
        Self { deps, server: Some(Arc::new(ServerOffer { name, catalogue: RwLock::default() })) }
    }

    pub(crate) fn deps(&self) -> &FaceDeps {
        &self.deps
    }

    /// What clients are told the server is called, where it does not say itself.
    pub(crate) fn server_title(&self) -> String {
        match &self.server {
            None => format!("Toolbus, agent {}", self.deps.agent),
            Some(server) => format!("{}, by Toolbus", server.name),
        }
    }

    /// What a view sees beside tools, as it was announced last. The agent itself has nothing of it.
    pub(crate) fn beside_tools(&self, view: &View) -> BesideTools {
        let Some(server) = &self.server else { return BesideTools::default() };
        let some = |count: Option<u32>| count.is_some_and(|count| count > 0);
        let beside = self.deps.read_seen(&server.name, view, |seen| {
            let can = |feature| seen.features.iter().flatten().any(|can| *can == feature);
            BesideTools {
                prompts: some(seen.prompt_count),
                resources: some(seen.resource_count),
                completions: can(McpFeature::Completions),
                subscriptions: can(McpFeature::ResourceSubscriptions),
            }
        });
        beside.unwrap_or_default()
    }

    /// The server, where it has prompts.
    pub(crate) fn prompts<'a>(
        &'a self,
        scope: &'a Arc<Scope>,
        cancelled: &'a CancellationToken,
    ) -> Option<ServerRequests<'a>> {
        self.requests(scope, cancelled).filter(|_| self.beside_tools(&scope.view).prompts)
    }

    /// The server, where it has resources.
    pub(crate) fn resources<'a>(
        &'a self,
        scope: &'a Arc<Scope>,
        cancelled: &'a CancellationToken,
    ) -> Option<ServerRequests<'a>> {
        self.requests(scope, cancelled).filter(|_| self.beside_tools(&scope.view).resources)
    }

    pub(crate) fn requests<'a>(
        &'a self,
        scope: &'a Arc<Scope>,
        cancelled: &'a CancellationToken,
    ) -> Option<ServerRequests<'a>> {
        let server = &self.server.as_ref()?.name;
        Some(ServerRequests { deps: &self.deps, server, scope, cancelled })
    }

    /// The server, where it is one that is offered.
    pub(crate) fn server(&self) -> Option<&str> {
        self.server.as_ref().map(|server| &*server.name)
    }

    /// The lists, as far as they are known without asking anybody.
    pub(crate) fn lists(&self) -> Lists {
        self.lists_of(&self.deps.directory.servers()).unwrap_or_default()
    }

    /// Waits until a list is another than it was. A server that is not known has the lists that it
    /// had: it may come back.
    pub(crate) async fn changed_lists(&self, known: Lists) -> Lists {
        if self.server.is_none() {
            let registry = self.deps.invoker.registry();
            registry.wait_until(|tools| tools.revision() != known.tools).await;
            return self.lists();
        }

        let other =
            |servers: &[McpServerSummary]| self.lists_of(servers).filter(|lists| *lists != known);
        self.deps.directory.until(|servers| other(servers).is_some()).await;
        other(&self.deps.directory.servers()).unwrap_or(known)
    }

    fn lists_of(&self, servers: &[McpServerSummary]) -> Option<Lists> {
        let hash = |what: &dyn Fn(&mut DefaultHasher)| {
            let mut hasher = DefaultHasher::new();
            what(&mut hasher);
            hasher.finish()
        };
        let Some(server) = &self.server else {
            let tools = self.deps.invoker.registry().snapshot().revision();
            return Some(Lists { tools, ..Lists::default() });
        };
        let mut known = servers.iter();
        let known = known.find(|known| known.server_name.eq_ignore_ascii_case(&server.name))?;

        Some(match known.revisions {
            Some(McpRevisions { tools, prompts, resources, .. }) => {
                Lists { tools, prompts, resources }
            }
            // An older bridge tells less.
            None => Lists {
                tools: hash(&|hasher| known.tool_names.hash(hasher)),
                prompts: hash(&|hasher| known.prompt_names.hash(hasher)),
                resources: hash(&|hasher| known.resource_count.hash(hasher)),
            },
        })
    }

    /// The tools, as they are now, in an order that stays.
    ///
    /// # Errors
    /// When the bridge does not tell those of its server.
    pub(crate) async fn tools(
        &self,
        scope: &Arc<Scope>,
    ) -> Result<Arc<Vec<ListedTool>>, CallError> {
        let Some(server) = &self.server else {
            let tools = self.deps.invoker.registry().snapshot();
            // A client calls by name, which only local tools answer.
            let seen = tools.seen_by(scope).filter(|entry| entry.tool.kind.is_local());
            let seen = seen.map(|entry| ListedTool::of_agent(&entry.tool));
            return Ok(Arc::new(seen.collect()));
        };

        let tools = self.ask_for_tools(server, scope).await?;
        let view = &scope.view;
        if view.is_all() {
            return Ok(tools);
        }
        let seen = tools.iter().filter(|tool| view.sees(&server.tool_id(&tool.name)));
        Ok(Arc::new(seen.cloned().collect()))
    }

    /// Asks the bridge for the tools of its server, and remembers them with what the server says of
    /// itself.
    async fn ask_for_tools(
        &self,
        server: &ServerOffer,
        scope: &Arc<Scope>,
    ) -> Result<Arc<Vec<ListedTool>>, CallError> {
        // Before the list itself: of a change meanwhile, this is told again.
        let revision = self.announced_tools();
        let introduction_revision = self.announced_introduction();
        let call = read_call(scope, "tools/list");
        let subject = self.deps.directory.read_subject(&server.name, "tools/list");
        let listing = |_| self.deps.directory.details(&server.name);
        let mut details = self.deps.read_list(call, subject, listing).await?;

        let introduction = Introduction::take_from(&mut details);
        let listed = |tool: McpToolDetails| {
            let definition = definition_of(&tool);
            ListedTool { name: tool.name, definition }
        };
        let tools: Arc<Vec<_>> = Arc::new(details.tools.into_iter().map(listed).collect());

        // Whole, for every client: what one of them sees is looked at each time.
        let known = Arc::clone(&tools);
        *server.catalogue.write() =
            ListedTools { tools: known, introduction, revision, introduction_revision };
        Ok(tools)
    }

    /// What the agent says of itself, or the server. Its bridge is asked where that is another than
    /// what is known, for a while: a client that connects gets no more than its name otherwise.
    pub(crate) async fn introduction(&self, scope: &Arc<Scope>) -> Introduction {
        let Some(server) = &self.server else {
            let tools = self.deps.invoker.registry().snapshot();
            let instructions = instructions_of_agent(&self.deps.agent, &tools, scope);
            return Introduction { instructions: Some(instructions), ..Introduction::default() };
        };

        let announced = self.announced_introduction();
        let is_known = {
            let catalogue = server.catalogue.read();
            announced.is_some() && catalogue.introduction_revision == announced
        };
        if !is_known {
            let asking = self.ask_for_tools(server, scope);
            if !matches!(timeout(INTRODUCTION_TIMEOUT, asking).await, Ok(Ok(_))) {
                tracing::debug!(server = server.name, "the bridge does not introduce its server");
                return Introduction::default();
            }
        }
        server.catalogue.read().introduction.clone()
    }

    /// The tool of this name that a scope sees, as far as it is known without asking anybody.
    pub(crate) fn known_tool(&self, scope: &Scope, name: &str) -> Option<Tool> {
        if !self.may_see_tool(scope, name) {
            return None;
        }
        match &self.server {
            None => {
                let tool = self.deps.invoker.registry().find(name)?;
                ListedTool::of_agent(&tool.tool).to_tool()
            }
            Some(server) => server.catalogue.read().find(name)?.to_tool(),
        }
    }

    /// Whether a scope sees a tool of this name, as far as is known without asking anybody.
    pub(crate) fn knows_tool(&self, scope: &Scope, name: &str) -> bool {
        self.may_see_tool(scope, name)
            && match &self.server {
                None => self.deps.invoker.registry().find(name).is_some(),
                Some(server) => server.catalogue.read().find(name).is_some(),
            }
    }

    /// Whether a scope sees the tool of this name, if there is one.
    fn may_see_tool(&self, scope: &Scope, name: &str) -> bool {
        match &self.server {
            None => {
                let tool = self.deps.invoker.registry().find(name);
                tool.is_none_or(|tool| tool.is_seen_by(scope))
            }
            Some(server) => scope.view.sees(&server.tool_id(name)),
        }
    }

    /// The number of the server's list of tools, as it was announced last.
    fn announced_tools(&self) -> Option<u64> {
        self.lists_of(&self.deps.directory.servers()).map(|lists| lists.tools)
    }

    /// The number of what the server says of itself, as it was announced last.
    fn announced_introduction(&self) -> Option<u64> {
        let server = self.server.as_ref()?;
        let servers = self.deps.directory.servers();
        let mut servers = servers.iter();
        let known = servers.find(|known| known.server_name.eq_ignore_ascii_case(&server.name))?;
        known.revisions.map(|revisions| revisions.introduction)
    }

    /// Whether a scope sees a tool of this name. What is not known may have come since, so whoever
    /// has the tools is asked where its list is another than the one that is known: not for every
    /// name that a client makes up.
    async fn has_tool(&self, scope: &Arc<Scope>, name: &str) -> Result<bool, CallError> {
        if self.knows_tool(scope, name) {
            return Ok(true);
        }
        if !self.may_see_tool(scope, name) {
            return Ok(false);
        }
        let Some(server) = &self.server else { return Ok(false) };
        let announced = self.announced_tools();
        if !server.catalogue.read().is_outdated(announced) {
            return Ok(false);
        }
        Ok(self.tools(scope).await?.iter().any(|known| known.name == name))
    }

    /// What a call is. `None` when there is no such tool.
    ///
    /// # Errors
    /// When the bridge does not tell the tools of its server.
    pub(crate) async fn resolve_call(
        &self,
        scope: &Arc<Scope>,
        tool: Cow<'static, str>,
        arguments: Value,
    ) -> Result<Option<Target>, CallError> {
        if !self.has_tool(scope, &tool).await? {
            return Ok(None);
        }

        Ok(Some(match &self.server {
            None => Target { tool: tool.into_owned(), arguments },
            Some(server) => Target {
                tool: INVOKE_TOOL.to_owned(),
                arguments: json!({
                    "server_name": server.name,
                    "tool_name": tool,
                    "arguments": arguments,
                    // Whoever was let in here may call this server's tools and no other's.
                    EXACT: true,
                }),
            },
        }))
    }
}

/// One page of a list, as the result that has it. The cursor is the name of the last tool of the
/// page before.
///
/// # Errors
/// When the cursor is none.
pub(crate) fn list_page(
    tools: &[ListedTool],
    cursor: Option<&str>,
    era: Era,
) -> Result<RawJson, ErrorData> {
    let begin = match cursor {
        None => 0,
        Some(cursor) => {
            let last = tools.iter().position(|tool| tool.name == cursor);
            let last = last.ok_or_else(|| ErrorData::invalid_params("the cursor is none", None))?;
            last + 1
        }
    };

    let page = &tools[begin..tools.len().min(begin + PAGE)];
    let is_last = begin + page.len() == tools.len();
    let next = page.last().filter(|_| !is_last).map(|tool| RawJson::of(&tool.name));
    let page: Vec<RawJson> = page.iter().map(|tool| tool.for_era(era)).collect();
    let page = RawJson::of(&page);

    let members = [("tools", Some(&page)), ("nextCursor", next.as_ref())];
    let members = members.into_iter().filter_map(|(name, json)| Some((name, json?.as_raw())));
    Ok(RawJson::of_members(members))
}

/// An era of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    /// The one with sessions, where a value is an object.
    Older,
    Stateless,
}

impl ListedTool {
    /// A tool of the agent. One of a server is shown under its name here, and otherwise as the
    /// server has it.
    fn of_agent(tool: &toolbus_tools::Tool) -> Self {
        let name = RawJson::of(&tool.name);
        let definition = match &tool.mcp_definition {
            Some(written) => written.with_member("name", Some(&name)),
            None => RawJson::of(&own_definition(tool)),
        };
        Self { name: tool.name.clone(), definition }
    }

    /// The definition in rmcp's type; `None` where it has another form.
    fn to_tool(&self) -> Option<Tool> {
        toolbus_json::from_str(self.definition.text(), &DEFINITION_LIMITS).ok()
    }

    /// The definition as a client of this era takes it.
    fn for_era(&self, era: Era) -> RawJson {
        let output = self.definition.member("outputSchema").filter(|_| era == Era::Older);
        let is_of_object = |schema: &RawJson| {
            schema.member("type").is_some_and(|kind| kind.text() == r#""object""#)
        };
        match output.is_some_and(|schema| !is_of_object(&schema)) {
            true => self.definition.with_member("outputSchema", None),
            false => self.definition.clone(),
        }
    }
}

fn own_definition(tool: &toolbus_tools::Tool) -> Tool {
    let schema = tool.parameters.as_object().cloned().unwrap_or_default();
    let annotations = ToolAnnotations::new()
        .read_only(tool.annotations.read_only)
        .idempotent(tool.annotations.idempotent);
    let mut offered = Tool::new(tool.name.clone(), tool.description.clone(), schema)
        .with_annotations(annotations);

    offered.title = tool.title.clone();
    offered.output_schema =
        tool.output_schema.as_ref().and_then(Value::as_object).cloned().map(Arc::new);

    // What has another form than the protocol's is nothing that a client could read.
    offered.icons = serde_json::from_value(Value::Array(tool.icons.clone()))
        .ok()
        .filter(|icons: &Vec<_>| !icons.is_empty());
    offered
}

#[cfg(test)]
mod tests;
