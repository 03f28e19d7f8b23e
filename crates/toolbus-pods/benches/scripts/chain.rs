//! What a call of a tool takes that a program in a pod makes, beside a request over the same broker.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use toolbus_bus::requester::{Request, Requester};
use toolbus_bus::responder::{
    Call, Context, Failure, LARGE_REQUESTS_BYTES, Listen, Malformed, Repeat, Reply, Responder,
    Service,
};
use toolbus_bus::{Bus, CallContext, Deadline, Envelope, Topic};
use toolbus_chain::{ChainDeps, ChainPolicy};
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_scripts::ScriptClient;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::envelope::new_id;
use toolbus_wire::message;
use toolbus_wire::message::tool::{CallIds, ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::{AgentName, InstanceId};

use crate::cluster::Cluster;
use crate::manager::Manager;
use crate::timed;

const ROUNDS: usize = 7;
/// Calls of a round, one by one.
const CALLS: usize = 300;
/// The topic of the plain requests, and the name of their queue.
const TOPIC: &str = "bench.request";
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn measure(
    report: &mut Report,
    cluster: &Cluster,
    broker: &str,
) -> anyhow::Result<()> {
    let manager = Manager::start(cluster, broker, 0).await?;
    let bus: Arc<dyn Bus> = RabbitBus::connect(Config::new(broker)?).await?;
    let plain = Plain::start(&bus).await?;
    let agent = agent(bus).await?;

    let (mut ours, mut peer, mut tails) = <(Rounds, Rounds, Rounds)>::default();
    for _ in 0..ROUNDS {
        let (median, tail) = calls(&agent).await?;
        ours.add(median);
        tails.add(tail);
        let mut latencies = Latencies::with_capacity(CALLS);
        for _ in 0..CALLS {
            latencies.add(timed(plain.ask()).await?.0);
        }
        peer.add_latencies(latencies, Duration::from_millis(1));
    }

    let what = "a call of a chain in a pod, peer a request over the broker";
    report.add(Row::new(what, "ms", ours).beside(peer).with_goal(Goal::ExcessAtMost(3.0)));
    report.add(Row::new("the same, p99", "ms", tails));
    report.note(format!(
        "A call of a chain: `tools.echo(text='a')` as the program in a pod times it, whose request goes \
         through the API server, `scripts-manager` and RabbitMQ to the agent, and its response back. \
         The peer is a request and its response from this process to this process over the same \
         broker. Medians of {ROUNDS} rounds of {CALLS} each, one by one, in turns."
    ));
    manager.stop().await
}

/// An agent with a tool and chains.
async fn agent(bus: Arc<dyn Bus>) -> anyhow::Result<Invoker> {
    let requester = Requester::start(bus, AgentName::standard(), &InstanceId::random()).await?;
    let registry = Registry::new();
    let echo = Tool::new("echo", "Says it again.", "bench")
        .with_parameters(json!({"type": "object"}))
        .read_only();
    registry.register(echo, |call: Invocation| {
        let text = call.arguments.get("text").and_then(Value::as_str).unwrap_or_default();
        std::future::ready(Ok(Output::text(text)))
    })?;
    let scripts = ScriptClient::new(requester);
    let policy = ChainPolicy { tool_calls_max: 10_000, ..ChainPolicy::default() };
    let deps = ChainDeps { scripts, artifacts: None, store: None, policy };
    toolbus_chain::register(&registry, deps)?;
    Ok(Invoker::new(Arc::new(registry)))
}

/// A round of calls in one chain: their median and their 99th percentile, in milliseconds.
async fn calls(agent: &Invoker) -> anyhow::Result<(f64, f64)> {
    let code = format!(
        "
import time
took = []
for _ in range({CALLS}):
    began = time.perf_counter()
    tools.echo(text='a')
    took.append(time.perf_counter() - began)
took.sort()
print(took[len(took) // 2] * 1000, took[len(took) * 99 // 100] * 1000)
"
    );
    let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
    let arguments = json!({"code": code});
    let call = toolbus_tools::call::Call::by_name(&Arc::new(scope), "tool_chain", arguments)?;
    let output = agent.invoke(call).await?;
    let text = output.content.unwrap_or_default();
    ensure!(!output.is_error, "{text}");
    let printed = text.lines().next().and_then(|line| line.split_once(' '));
    let (median, tail) = printed.context("two numbers")?;
    Ok((median.parse()?, tail.parse()?))
}

/// Plain requests over the broker, and who answers them.
struct Plain {
    requester: Requester,
    topic: Topic,
    request: ToolInvokeRequest,
    _answering: Responder,
}

impl Plain {
    async fn start(bus: &Arc<dyn Bus>) -> anyhow::Result<Self> {
        let topic = Topic::parse(TOPIC)?;
        let listen = Listen {
            topic: topic.clone(),
            subscription: TOPIC.to_owned(),
            instance: InstanceId::random(),
            concurrency: NonZeroU16::MIN,
            large_requests_bytes: LARGE_REQUESTS_BYTES,
        };
        let request = ToolInvokeRequest {
            tool_name: "echo".to_owned(),
            arguments: Some("{\"text\":\"a\"}".to_owned()),
            ..ToolInvokeRequest::default()
        };
        let name = AgentName::parse("plain")?;
        Ok(Self {
            _answering: Responder::start(Arc::clone(bus), listen, Echo).await?,
            requester: Requester::start(Arc::clone(bus), name, &InstanceId::random()).await?,
            topic,
            request,
        })
    }

    async fn ask(&self) -> anyhow::Result<()> {
        let request = ToolInvokeRequest { tool_call_id: new_id(), ..self.request.clone() };
        let reply = self.requester.request(Request {
            may_repeat: false,
            workers: None,
            topic: &self.topic,
            envelope: Envelope::of(&request, self.requester.agent().as_str()),
            call_id: &request.tool_call_id,
            context: CallContext::until(Deadline::after(PATIENCE)),
        });
        let reply = reply.await?;
        ensure!(!message::is::<ToolError>(&reply), "it is not answered");
        Ok(())
    }
}

/// Answers with what it was asked.
struct Echo;

impl Service for Echo {
    type Request = ToolInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ToolInvokeRequest>, Malformed> {
        let request: ToolInvokeRequest = message::read(envelope).map_err(|error| Malformed {
            ids: CallIds::of_malformed(&envelope.body),
            reason: error.to_string(),
        })?;
        let (ids, default_budget) = (CallIds::from(&request), PATIENCE);
        Ok(Call { ids, request, default_budget, repeat: Repeat::Never })
    }

    fn serve(&self, request: ToolInvokeRequest, _context: Context) -> BoxFuture<'_, Reply> {
        let reply = Reply::of(&ToolInvokeResponse {
            tool_call_id: request.tool_call_id,
            tool_name: request.tool_name,
            content: request.arguments,
            ..ToolInvokeResponse::default()
        });
        Box::pin(std::future::ready(reply))
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        toolbus_tools::bus::tool_failure(ids, failure)
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &'static str {
        "bench-worker"
    }
}
