//! Ours: an agent's invoker, RabbitMQ, `mcp-bridge` as a process, and the server.

use std::fs;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use e2e::bench::Lane;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use toolbus::Toolbus;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_mcp::RegistrationRules;
use toolbus_mcp::bridge::{self, Bridge};
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_rabbitmq::{Config, RabbitBus, Start};
use toolbus_testkit::process::{Launch, Service};
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::{GrantCheck, Scope};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::server::{ECHO, WAIT};

/// Length of the text that is repeated, in bytes.
pub(crate) const TEXT_BYTES: usize = 1024;
pub(crate) const SERVER: &str = "bench";
/// Calls that the bridge takes at a time.
const CONCURRENCY: u16 = 256;
pub(crate) const READY_TIMEOUT: Duration = Duration::from_secs(30);

/// The arguments of every call.
pub(crate) fn arguments() -> Value {
    json!({"text": "x".repeat(TEXT_BYTES)})
}

/// The fleet: this process is the agent, the bridge is one of its own.
pub(crate) struct Fleet {
    pub(crate) toolbus: Toolbus,
    pub(crate) bridge: Service,
}

impl Fleet {
    pub(crate) async fn start(broker: &str, server: &str, folder: &Path) -> anyhow::Result<Self> {
        Self::with(broker, json!({SERVER: {"type": "http", "url": server}}), folder).await
    }

    /// The fleet with these servers.
    pub(crate) async fn with(broker: &str, servers: Value, folder: &Path) -> anyhow::Result<Self> {
        let list = folder.join("mcp.json");
        let count = servers.as_object().map_or(0, Map::len);
        fs::write(&list, json!({"mcpServers": servers}).to_string())?;
        let mut bridge = Launch::new("mcp-bridge")
            .arg("--bus")
            .arg(broker)
            .arg("--mcp-config")
            .arg(&list)
            .env("TOOLBUS_MCP__CONCURRENCY", CONCURRENCY.to_string())
            .start()?;
        bridge.ready(READY_TIMEOUT).await?;
        let mut config = Config::new(broker)?;
        config.start = Start::Within(READY_TIMEOUT);
        let bus: Arc<dyn Bus> = RabbitBus::connect(config).await?;
        Ok(Self { toolbus: join(bus, count).await?, bridge })
    }
}

/// The same services in one process, on the broker in memory.
pub(crate) struct Embedded {
    pub(crate) toolbus: Toolbus,
    _bridge: Bridge,
}

impl Embedded {
    pub(crate) async fn start(server: &str) -> anyhow::Result<Self> {
        let servers = json!({"mcpServers": {SERVER: {"type": "http", "url": server}}});
        let config = config::parse(&servers.to_string(), Variables::Refused)?;
        let set = ServerPool::start(config.servers, PoolConfig::new(std::env::vars_os()))?;
        set.wait_settled().await;
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let options = bridge::Options {
            agents: vec![AgentName::standard()],
            instance: InstanceId::random(),
            concurrency: NonZeroU16::new(CONCURRENCY).expect("some are under way"),
            registration: RegistrationRules::default(),
            grants: GrantCheck::off(),
        };
        let bridge = Bridge::start(&bus, set, options).await?;
        Ok(Self { toolbus: join(bus, 1).await?, _bridge: bridge })
    }
}

async fn join(bus: Arc<dyn Bus>, servers: usize) -> anyhow::Result<Toolbus> {
    let toolbus = Toolbus::builder().bus(bus).open().await?;
    let directory = toolbus.directory();
    let is_there = directory.wait_until(READY_TIMEOUT, |known| known.len() == servers).await;
    ensure!(is_there, "the bridge does not announce {servers} servers");
    Ok(toolbus)
}

/// Calls the tool that repeats.
#[derive(Clone)]
pub(crate) struct Caller {
    pub(crate) toolbus: Toolbus,
    pub(crate) server: &'static str,
}

impl Caller {
    /// Calls the server that the other parts are about.
    pub(crate) fn of(toolbus: &Toolbus) -> Self {
        Self { toolbus: toolbus.clone(), server: SERVER }
    }
}

impl Lane for Caller {
    async fn call(&mut self) -> anyhow::Result<()> {
        let output = invoke(&self.toolbus, (self.server, ECHO), CancellationToken::new()).await?;
        let length = output.content.as_ref().map_or(0, String::len);
        ensure!(!output.is_error && length == TEXT_BYTES, "not what was sent: {length} bytes");
        Ok(())
    }
}

/// Calls the tool that waits, and wants its outcome no more after a moment.
pub(crate) async fn call_and_cancel(toolbus: &Toolbus, after: Duration) -> anyhow::Result<()> {
    let cancelled = CancellationToken::new();
    let call = invoke(toolbus, (SERVER, WAIT), cancelled.clone());
    let cancel = async {
        tokio::time::sleep(after).await;
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(call, cancel);
    ensure!(outcome.is_err(), "a call that was cancelled has a result");
    Ok(())
}

/// Calls a tool of a server with [`arguments`].
pub(crate) async fn invoke(
    toolbus: &Toolbus,
    (server, tool): (&str, &str),
    cancelled: CancellationToken,
) -> Outcome {
    let arguments = json!({"server_name": server, "tool_name": tool, "arguments": arguments()});
    let call = Call::by_name(&Scope::local(AgentName::standard()), "mcp_invoke_tool", arguments)
        .expect("a short name")
        .with_cancelled(cancelled);
    toolbus.invoker().invoke(call).await
}
