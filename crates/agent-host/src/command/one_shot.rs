//! What the commands have in common that do one thing and end: a fleet and an agent, and waiting
//! for what is announced only now.
//!
//! Bridges announce server by server and never say that they have announced all. So whoever needs
//! to know waits for the one thing that it needs, and never longer than [`ANNOUNCEMENT_TIMEOUT`];
//! for servers that are being connected, as long as they may take.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolbus::{InstanceId, Toolbus};
use toolbus_agent::Agent;
use toolbus_approvals::ApprovalStore;
use toolbus_discovery::Discovery;
use toolbus_mcp::config::Config;
use toolbus_policy::LivePolicy;
use toolbus_rabbitmq::Start;
use toolbus_runtime::service::{Context, Exit};
use toolbus_tools::call::CallError;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::McpServerSummary;

use super::{LEAVE_TIMEOUT, print_error, print_warning};
use crate::background::Background;
use crate::fleet::{self, Fleet, Membership};
use crate::other_agents;
use crate::settings::Settings;
use crate::terminal::Terminal;

/// How long to wait for tools and servers that have yet to be announced.
pub(super) const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// This much silence of the bridges is taken as the end of what they have to say.
const ANNOUNCEMENT_GRACE: Duration = Duration::from_millis(300);
/// How long to wait for servers that are being connected: longer than programs have that may have
/// to be downloaded first. Entries of `mcp.json` may grant more.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(200);
/// How long to try to reach the broker.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A fleet for one command.
pub(super) struct OneShot {
    fleet: Fleet,
    /// Whether there is a bridge that announces servers.
    bridged: bool,
    /// Whether the entries of servers that are needed have mistakes.
    has_mistakes: bool,
    /// Whether nothing is said beside results and errors.
    quiet: bool,
    stop: CancellationToken,
}

/// Which MCP servers a command needs.
#[derive(Debug, Clone, Copy)]
pub(super) enum NeededServers<'a> {
    /// None of them.
    None,
    /// This one, in any case.
    One(&'a str),
    /// As many as there are.
    All,
}

impl<'a> NeededServers<'a> {
    /// Those that a call of this tool needs, which names a server or none.
    pub(super) fn of_tool(tool: &'a str, server: Option<&'a str>) -> Self {
        match (tool, server) {
            ("mcp_register_server" | "mcp_unregister_server", _) => Self::None,
            ("mcp_list_services" | "search_known_services" | "tool_search", _) => Self::All,
            (tool, server) if tool.starts_with("mcp_") => server.map_or(Self::All, Self::One),
            // A tool of a server under a name of its own.
            (tool, _) => tool.split_once("__").map_or(Self::None, |(server, _)| Self::One(server)),
        }
    }

    fn includes(self, server: &str) -> bool {
        match self {
            Self::None => false,
            Self::One(name) => name.eq_ignore_ascii_case(server),
            Self::All => true,
        }
    }
}

/// Why there is nothing to run a command on.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// There is no fleet.
    #[error(transparent)]
    Fleet(#[from] fleet::Error),
    /// The bridges could not be asked what they have.
    #[error("the bridges cannot be asked for their servers")]
    Refresh(#[source] toolbus_bus::PublishError),
}

impl Error {
    /// The outcome of a call that could not even be sent; `None` where the settings are wrong, and
    /// no call is to blame.
    pub(super) fn outcome(&self) -> Option<CallError> {
        let code = match self {
            Self::Fleet(fleet::Error::Join(error)) if error.is_refusal() => ErrorCode::Denied,
            Self::Fleet(fleet::Error::Join(_))
            | Self::Fleet(fleet::Error::Open(toolbus::Error::Subscribe(_)))
            | Self::Refresh(_) => ErrorCode::Unroutable,
            Self::Fleet(
                fleet::Error::Grants(_) | fleet::Error::Policy(_) | fleet::Error::Open(_),
            ) => return None,
        };
        Some(CallError::new(code, toolbus_config::on_one_line(self)))
    }
}

impl OneShot {
    /// Starts a fleet for a command that needs these servers, and tells what is wrong with the list
    /// of those that run in this process.
    pub(super) async fn start(
        settings: &Settings,
        context: &Context,
        needed: NeededServers<'_>,
    ) -> Result<Self, Error> {
        let membership = Membership {
            start: Start::Within(JOIN_TIMEOUT),
            instance: InstanceId::random(),
            concurrency: None,
        };
        let mut settings = settings.clone();
        settings.mcp.caller_tells_mistakes = true;
        let fleet = Fleet::start(&settings, context, membership).await?;
        let bridged = fleet.toolbus().has_bridge().map_err(Error::Refresh)?;

        // A file that cannot be read has failed the start.
        let list = fleet.is_embedded().then(|| settings.mcp.list().ok()).flatten();
        let has_mistakes = tell_mistakes(&list.unwrap_or_default(), needed, context);
        let stop = context.shutdown.requested().clone();
        Ok(Self { fleet, bridged, has_mistakes, quiet: context.quiet, stop })
    }

    /// Whether servers that the command needs are missing, because their entries have mistakes.
    pub(super) fn has_mistakes(&self) -> bool {
        self.has_mistakes
    }

    /// How a command ends that has done what it could.
    pub(super) fn exit(&self, exit: Exit) -> Exit {
        if self.has_mistakes { Exit::MISUSE } else { exit }
    }

    pub(super) fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    pub(super) fn toolbus(&self) -> &Toolbus {
        self.fleet.toolbus()
    }

    /// The policy that decides about its calls.
    pub(super) fn policy(&self) -> &LivePolicy {
        self.fleet.policy()
    }

    /// The approvals that its calls wait for; `None` where there is no place for them.
    pub(super) fn approvals(&self) -> Option<&ApprovalStore> {
        self.fleet.state().map(|state| state.approvals.store())
    }

    /// The scope of calls that a person makes by the command line.
    pub(super) fn scope(&self) -> Arc<Scope> {
        let scope =
            Scope::new(Door::CommandLine, Principal::local(), self.toolbus().name().clone());
        Arc::new(self.toolbus().invoker().begin_run(scope))
    }

    /// The scope of turns of the agent that a person has in this session.
    pub(super) fn turn_scope(&self, agent: &Agent, session: &SessionId) -> Scope {
        agent.turn_scope(
            &[Door::CommandLine, Door::Turn],
            self.toolbus().name(),
            Principal::local(),
            session.clone(),
        )
    }

    /// Begins what goes on beside the turns of this agent, which are told of it.
    pub(super) async fn start_background(
        &self,
        agent: &Agent,
    ) -> Result<Background, other_agents::Error> {
        if let Some(state) = self.fleet.state() {
            state.notices.tell_turns_of(agent);
        }
        Background::start(&self.fleet, agent).await
    }

    /// Waits for what a call of this tool needs and somebody may still announce.
    pub(super) async fn wait_for(&self, tool: &str, needed: NeededServers<'_>) {
        match (tool, needed) {
            ("list_tool_guides" | "get_tool_guide", _) => self.wait_for_announcement().await,
            ("mcp_get_prompt" | "mcp_list_resources" | "mcp_read_resource", _) => {
                self.wait_for_servers(needed, CONNECT_TIMEOUT).await;
                self.wait_for_offer(tool).await;
            }
            (_, NeededServers::None) => self.wait_for_tool(tool).await,
            _ => {
                self.wait_for_servers(needed, CONNECT_TIMEOUT).await;
                self.wait_for_tool(tool).await;
            }
        }
    }

    /// Waits until the bridges have announced their servers, and up to `limit` until those that are
    /// needed are not being connected any more. At a terminal it shows which are waited for.
    pub(super) async fn wait_for_servers(&self, needed: NeededServers<'_>, limit: Duration) {
        if !self.bridged {
            return;
        }
        // Time may be up for servers that are slow; they are announced when they come.
        let waiting = tokio::time::timeout(limit, async {
            let directory = self.toolbus().directory();
            match needed {
                NeededServers::One(name) => self.wait_for_first_word_of(name).await,
                _ if self.fleet.is_embedded() => {
                    self.toolbus().wait_for_servers(limit).await;
                }
                _ => self.wait_for_first_words().await,
            }
            directory.until(|_| self.connecting(needed).is_empty()).await;
            directory.wait_until(ANNOUNCEMENT_TIMEOUT, |_| directory.is_settled()).await;
        });

        let waiting = self.stop.run_until_cancelled(waiting);
        let names = || self.connecting(needed);
        Terminal::show_waiting("MCP servers", self.quiet, names, waiting).await;
    }

    /// Waits until this server has been heard of, where it may be.
    async fn wait_for_first_word_of(&self, name: &str) {
        if self.fleet.is_embedded() && !self.toolbus().runs_server(name) {
            return;
        }
        let is_it = |server: &McpServerSummary| server.server_name.eq_ignore_ascii_case(name);
        let directory = self.toolbus().directory();
        directory.wait_until(ANNOUNCEMENT_TIMEOUT, |servers| servers.iter().any(is_it)).await;
    }

    /// Waits until the bridges have said which servers they have.
    async fn wait_for_first_words(&self) {
        self.wait_for_announcement().await;
        let directory = self.toolbus().directory();
        loop {
            let known = directory.servers();
            let is_other = |servers: &[McpServerSummary]| *servers != **known;
            if !directory.wait_until(ANNOUNCEMENT_GRACE, is_other).await {
                return;
            }
        }
    }

    /// The servers that are needed and being connected.
    fn connecting(&self, needed: NeededServers<'_>) -> Vec<String> {
        let servers = self.toolbus().directory().servers();
        let is_awaited =
            |server: &&McpServerSummary| server.connecting && needed.includes(&server.server_name);
        servers.iter().filter(is_awaited).map(|server| server.server_name.clone()).collect()
    }

    /// A fleet of which every tool can be found by what it is for.
    /// Servers that are being connected are waited for up to `limit`, whichever of them are needed.
    pub(super) async fn start_discovering(
        settings: &Settings,
        context: &Context,
        needed: NeededServers<'_>,
        limit: Duration,
    ) -> Result<(Self, Discovery), Error> {
        let mut settings = settings.clone();
        settings.discovery.enabled = true;
        let one_shot = Self::start(&settings, context, needed).await?;
        one_shot.wait_for_servers(NeededServers::All, limit).await;
        one_shot.wait_for_direct_tools().await;

        let discovery = one_shot.fleet.discovery().expect("it is enabled").clone();
        let mut revision = discovery.revision();
        let is_current =
            async { while !discovery.state().is_current && revision.changed().await.is_ok() {} };
        // What comes later is not found.
        let _ = tokio::time::timeout(ANNOUNCEMENT_TIMEOUT, is_current).await;
        Ok((one_shot, discovery))
    }

    /// Waits until the tools of every server that is connected are tools by themselves.
    async fn wait_for_direct_tools(&self) {
        let servers = self.toolbus().directory().servers();
        let offering = servers
            .iter()
            .filter(|server| server.unavailable.is_none() && !server.tool_names.is_empty());
        let prefixes: Vec<String> = offering
            .map(|server| format!("{}/", toolbus_mcp_agent::provider_of(&server.server_name)))
            .collect();
        let registry = self.toolbus().invoker().registry();
        let all_there = registry.wait_until(|tools| {
            let is_there = |prefix: &String| {
                let mut ids = tools.tools().iter().map(|entry| entry.id.as_str());
                ids.any(|id| id.starts_with(prefix.as_str()))
            };
            prefixes.iter().all(is_there)
        });
        let _ = tokio::time::timeout(ANNOUNCEMENT_TIMEOUT, all_there).await;
    }

    /// Waits for a tool that is not there yet.
    pub(super) async fn wait_for_tool(&self, name: &str) {
        if self.bridged {
            self.toolbus().wait_for_tool(name, ANNOUNCEMENT_TIMEOUT).await;
        }
    }

    /// Waits for a tool that comes with some server, not with the first one.
    async fn wait_for_offer(&self, tool: &str) {
        let registry = self.toolbus().invoker().registry();
        let offered = registry.wait_until(|tools| tools.find(tool).is_some());
        if self.bridged {
            // Time is up: nobody offers such.
            let _ = tokio::time::timeout(ANNOUNCEMENT_TIMEOUT, offered).await;
        }
    }

    async fn wait_for_announcement(&self) {
        if self.bridged {
            let directory = self.toolbus().directory();
            directory.wait_until(ANNOUNCEMENT_TIMEOUT, |_| directory.has_heard()).await;
        }
    }

    pub(super) async fn stop(self) {
        self.fleet.stop(LEAVE_TIMEOUT).await;
    }
}

/// Tells what is wrong with the list of MCP servers. Answers whether that is about servers that are
/// needed.
fn tell_mistakes(list: &Config, needed: NeededServers<'_>, context: &Context) -> bool {
    let mut is_needed = false;
    for mistake in &list.mistakes {
        let concerns = match &mistake.server {
            Some(server) => needed.includes(server),
            None => !matches!(needed, NeededServers::None),
        };
        is_needed |= concerns;
        let what = format!("mistake in the list of MCP servers: {mistake}");
        if concerns { print_error(what) } else { print_warning(what, context) }
    }
    for warning in &list.warnings {
        print_warning(format_args!("in the list of MCP servers: {warning}"), context);
    }
    is_needed
}
