//! What the commands have in common that do one thing and end: a fleet and an agent, and waiting
//! for what is announced only now.
//!
//! Bridges announce server by server and never say that they have announced all. So whoever needs
//! to know waits for the one thing that it needs, and never longer than [`ANNOUNCEMENT_TIMEOUT`].

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use toolbus::{InstanceId, Toolbus};
use toolbus_agent::Agent;
use toolbus_approvals::ApprovalStore;
use toolbus_discovery::Discovery;
use toolbus_policy::LivePolicy;
use toolbus_rabbitmq::Start;
use toolbus_runtime::service::Context;
use toolbus_tools::call::CallError;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::ErrorCode;

use super::LEAVE_TIMEOUT;
use crate::background::Background;
use crate::fleet::{self, Fleet, Membership};
use crate::other_agents;
use crate::settings::Settings;

/// How long to wait for tools and servers that have yet to be announced.
pub(super) const ANNOUNCEMENT_TIMEOUT: Duration = Duration::from_secs(2);
/// This much silence of the bridges is taken as the end of what they have to say.
const ANNOUNCEMENT_GRACE: Duration = Duration::from_millis(300);
/// How long to try to reach the broker.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// A fleet for one command.
pub(super) struct OneShot {
    fleet: Fleet,
    /// Whether there is a bridge that announces servers.
    bridged: bool,
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
    pub(super) async fn start(settings: &Settings, context: &Context) -> Result<Self, Error> {
        let membership = Membership {
            start: Start::Within(JOIN_TIMEOUT),
            instance: InstanceId::random(),
            concurrency: None,
        };
        let fleet = Fleet::start(settings, context, membership).await?;
        let bridged = fleet.toolbus().has_bridge().map_err(Error::Refresh)?;
        Ok(Self { fleet, bridged })
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
        agent.turn_scope(Door::Turn, self.toolbus().name(), Principal::local(), session.clone())
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
    pub(super) async fn wait_for(&self, tool: &str, arguments: &Value) {
        match (tool, arguments["server_name"].as_str()) {
            ("mcp_list_services", _) => self.wait_for_servers().await,
            ("mcp_get_service_details", Some(server)) => self.wait_for_server(server).await,
            ("list_tool_guides" | "get_tool_guide" | "tool_search", _) => {
                self.wait_for_announcement().await;
            }
            ("mcp_get_prompt" | "mcp_list_resources" | "mcp_read_resource", _) => {
                self.wait_for_offer(tool).await;
            }
            // The bridge itself waits for the server of a call.
            _ => self.wait_for_tool(tool).await,
        }
    }

    /// Waits until the bridges have announced their servers.
    pub(super) async fn wait_for_servers(&self) {
        if !self.bridged {
            return;
        }
        if self.fleet.is_embedded() {
            // Time is up for servers that are slow; they are announced when they come.
            self.toolbus().wait_for_servers(ANNOUNCEMENT_TIMEOUT).await;
            return;
        }

        let directory = self.toolbus().directory();
        let announced = async {
            self.wait_for_announcement().await;
            loop {
                let known = directory.servers();
                if !directory.wait_until(ANNOUNCEMENT_GRACE, |servers| *servers != *known).await {
                    break;
                }
            }

            directory.wait_until(ANNOUNCEMENT_TIMEOUT, |_| directory.is_settled()).await;
        };
        // Here too.
        let _ = tokio::time::timeout(ANNOUNCEMENT_TIMEOUT, announced).await;
    }

    /// A fleet of which every tool can be found by what it is for.
    pub(super) async fn start_discovering(
        settings: &Settings,
        context: &Context,
    ) -> Result<(Self, Discovery), Error> {
        let mut settings = settings.clone();
        settings.discovery.enabled = true;
        let one_shot = Self::start(&settings, context).await?;
        one_shot.wait_for_servers().await;
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

    async fn wait_for_server(&self, name: &str) {
        if self.fleet.is_embedded() {
            self.wait_for_servers().await;
        } else if self.bridged {
            let is_known = |server: &str| server.eq_ignore_ascii_case(name);
            self.toolbus()
                .directory()
                .wait_until(ANNOUNCEMENT_TIMEOUT, |servers| {
                    servers.iter().any(|server| is_known(&server.server_name))
                })
                .await;
        }
    }

    /// Waits for a tool that comes with some server, not with the first one.
    async fn wait_for_offer(&self, tool: &str) {
        let registry = self.toolbus().invoker().registry();
        let offered = async {
            self.toolbus().wait_for_servers(ANNOUNCEMENT_TIMEOUT).await;
            registry.wait_until(|tools| tools.find(tool).is_some()).await;
        };
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
