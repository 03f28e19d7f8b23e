//! Calls, one after the other or many at a time, and the two agents between which they go.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::Latencies;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::Requester;
use toolbus_bus::responder::Responder;
use toolbus_bus::{Bus, Progress};
use toolbus_tools::bus::{Remote, serve};
use toolbus_tools::call::{Arguments, Call, Invocation, Time};
use toolbus_tools::{Invoker, Output, Registry, Tool};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::topic;

/// The tool that does nothing.
const TOOL: &str = "empty";
/// How many calls are under way where it is about throughput.
pub(crate) const IN_FLIGHT: usize = 64;

/// The agent that has the tool, and answers on its bus until dropped.
pub(crate) struct Worker {
    _answering: [Responder; 2],
}

impl Worker {
    pub(crate) async fn start(bus: Arc<dyn Bus>, name: &AgentName) -> anyhow::Result<Self> {
        let registry = Registry::new();
        registry.register(tool(), |_call: Invocation| async { Ok(Output::text("")) })?;
        let invoker = Invoker::new(Arc::new(registry));
        let permits = NonZeroU16::new(IN_FLIGHT.try_into()?).expect("some are under way");
        let answering = serve(bus, name, &InstanceId::random(), permits, &invoker).await?;
        Ok(Self { _answering: answering })
    }
}

/// The agent that calls the other's tool.
pub(crate) async fn caller(bus: Arc<dyn Bus>, worker: &AgentName) -> anyhow::Result<Invoker> {
    let name = AgentName::parse("caller")?;
    let requester = Requester::start(bus, name, &InstanceId::random()).await?;
    let registry = Registry::new();
    registry.register(tool(), Remote::new(requester, topic::tool_invoke_agent(worker)))?;
    Ok(Invoker::new(Arc::new(registry)))
}

fn tool() -> Tool {
    Tool::new(TOOL, "Does nothing.", "bench")
}

async fn call(invoker: &Invoker, id: usize) -> anyhow::Result<()> {
    let call = Call {
        id: format!("call_{id}"),
        tool: TOOL.to_owned(),
        arguments: Arguments::Text(Some("{}".to_owned())),
        caller: "bench".to_owned(),
        session: Some("session/bench".to_owned()),
        time: Time::Default,
        cancelled: CancellationToken::new(),
        progress: Progress::none(),
    };
    let output = invoker.invoke(call).await?;
    ensure!(!output.is_error, "the tool failed: {:?}", output.content);
    Ok(())
}

/// Makes calls one after the other, and says how long each took.
pub(crate) async fn one_by_one(invoker: Invoker, count: usize) -> anyhow::Result<Latencies> {
    let mut latencies = Latencies::with_capacity(count);
    for id in 0..count {
        let started = Instant::now();
        call(&invoker, id).await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

/// Makes calls, [`IN_FLIGHT`] at any time, and says how long all of them took.
pub(crate) async fn at_once(invoker: Invoker, count: usize) -> anyhow::Result<Duration> {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for lane in 0..IN_FLIGHT {
        let invoker = invoker.clone();
        callers.spawn(async move {
            for id in (lane..count).step_by(IN_FLIGHT) {
                call(&invoker, id).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = callers.join_next().await {
        ended??;
    }
    Ok(started.elapsed())
}
