//! What `agent-host` can be told to do, one file a command.

mod demo;
mod invoke;
mod serve;
mod tools;

use std::time::Duration;

use toolbus_rabbitmq::Start;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::agent::Agent;
use crate::arguments::Command;
use crate::fleet::Fleet;
use crate::settings::Settings;

/// How long `tools` and `invoke` wait for tools and servers that have yet to be announced.
const ANNOUNCED_WITHIN: Duration = Duration::from_secs(2);
/// How long a one-shot command tries to reach the broker.
const JOIN_WITHIN: Duration = Duration::from_secs(5);
/// How long a one-shot command waits for what it started to end.
const COMMAND_GRACE: Duration = Duration::from_secs(1);

/// Does what the command says.
pub(crate) async fn run(
    command: Command,
    settings: Settings,
    context: Context,
) -> Result<Exit, BoxError> {
    match command {
        Command::Tools(options) => tools::run(options, &settings, &context).await,
        Command::Invoke(options) => invoke::run(options, &settings, &context).await,
        Command::Serve => serve::run(settings, context).await,
        Command::Demo => demo::run(settings, &context).await,
    }
}

/// A fleet and an agent for one command.
struct OneShot {
    fleet: Fleet,
    agent: Agent,
    /// Whether there is a bridge that announces servers.
    bridged: bool,
}

impl OneShot {
    async fn start(settings: &Settings, context: &Context) -> Result<Self, BoxError> {
        let name = AgentName::parse(&settings.name)?;
        let start = Start::Within(JOIN_WITHIN);
        let fleet = Fleet::start(settings, context, &name, start).await?;
        let agent = Agent::start(fleet.bus().clone(), name, &InstanceId::random()).await?;
        let bridged = agent.services().refresh().await?;
        Ok(Self { fleet, agent, bridged })
    }

    /// Waits for a tool that is not there yet, while somebody may still announce it.
    async fn wait_for_tool(&self, name: &str) {
        if self.bridged {
            self.agent.wait_for_tool(name, ANNOUNCED_WITHIN).await;
        }
    }

    async fn stop(self) {
        self.agent.close().await;
        self.fleet.stop(COMMAND_GRACE).await;
    }
}
