//! A tool that does nothing, called by one agent and run by another.

use std::num::NonZeroU16;
use std::sync::Arc;

use anyhow::ensure;
use e2e::bench::Lane;
use toolbus_bus::Bus;
use toolbus_bus::requester::Requester;
use toolbus_bus::responder::Responder;
use toolbus_tools::bus::{Remote, ServeOptions, serve};
use toolbus_tools::call::{Call, Invocation};
use toolbus_tools::{Invoker, Output, Registry, Scope, Tool};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::topic;

use crate::IN_FLIGHT;

const TOOL: &str = "empty";
const WORKER: &str = "worker";

/// The agent that has the tool, and answers on its bus until dropped.
pub(crate) struct Worker {
    _answering: [Responder; 2],
}

impl Worker {
    pub(crate) async fn start(bus: Arc<dyn Bus>) -> anyhow::Result<Self> {
        let registry = Registry::new();
        registry.register(tool(), |_call: Invocation| async { Ok(Output::text("")) })?;
        let invoker = Invoker::new(Arc::new(registry));
        let permits = NonZeroU16::new(IN_FLIGHT).expect("some are under way");
        let options = ServeOptions {
            agent: AgentName::parse(WORKER)?,
            instance: InstanceId::random(),
            concurrency: permits,
            parked: Vec::new(),
        };
        let answering = serve(bus, &invoker, options).await?;
        Ok(Self { _answering: answering })
    }
}

/// The agent that calls the other's tool.
#[derive(Clone)]
pub(crate) struct Caller {
    invoker: Invoker,
}

impl Caller {
    pub(crate) async fn start(bus: Arc<dyn Bus>) -> anyhow::Result<Self> {
        let (name, worker) = (AgentName::parse("caller")?, AgentName::parse(WORKER)?);
        let requester = Requester::start(bus, name, &InstanceId::random()).await?;
        let registry = Registry::new();
        registry.register(tool(), Remote::new(requester, topic::tool_invoke_agent(&worker)))?;
        Ok(Self { invoker: Invoker::new(Arc::new(registry)) })
    }
}

impl Lane for Caller {
    async fn call(&mut self) -> anyhow::Result<()> {
        let call = Call::by_name(&Scope::local(AgentName::standard()), TOOL, serde_json::json!({}))
            .expect("a short name");
        let output = self.invoker.invoke(call).await?;
        ensure!(!output.is_error, "the tool failed: {:?}", output.content);
        Ok(())
    }
}

fn tool() -> Tool {
    Tool::new(TOOL, "Does nothing.", "bench")
}
