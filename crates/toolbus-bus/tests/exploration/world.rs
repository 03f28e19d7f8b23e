//! A world for one schedule: a broker, a caller, and two workers that share a queue.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime;
use toolbus_bus::requester::Requester;
use toolbus_bus::requester::{self, Request};
use toolbus_bus::responder::{LARGE_REQUESTS_BYTES, Listen, Responder};
use toolbus_bus::{Bus, CallContext, Deadline};
use toolbus_wire::message::tool::{ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Envelope, Execution, Topic, header, json, message};

use crate::broker::Broker;
use crate::connection::Connection;
use crate::event::{CALLER, Party};
use crate::history::{End, History, Record};
use crate::schedule::Schedule;
use crate::service::{IDEMPOTENT, Workload};

/// What is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scenario {
    /// Whether the call is declared idempotent.
    pub(crate) may_repeat: bool,
    /// How long a run takes.
    pub(crate) work: Duration,
    /// How long the caller waits.
    pub(crate) budget: Duration,
}

/// How often to check whether anything can happen yet.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// How long a run goes on after its caller's deadline, at most.
const AFTERMATH: Duration = Duration::from_secs(6);
const CALL_ID: &str = "call";
/// The subscription that both workers share.
const WORKERS: &str = "workers";

/// Runs one schedule in a world of its own.
pub(crate) fn run(scenario: Scenario, schedule: &Arc<Schedule>, keeps_trace: bool) -> Record {
    let mut runtime = runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let history = History::new(keeps_trace);
        let broker = Broker::new(Arc::clone(schedule), history);
        call(scenario, &broker).await;
        broker.end();
        broker.history.take()
    })
}

/// Makes the call, and stays until nothing can come of it any more.
async fn call(scenario: Scenario, broker: &Arc<Broker>) {
    let _a = start_worker(scenario, broker, Party::WorkerA, "a").await;
    let _b = start_worker(scenario, broker, Party::WorkerB, "b").await;
    let bus: Arc<dyn Bus> = Connection::new(broker, Party::Caller);
    let agent = AgentName::parse(CALLER).unwrap();
    let instance = InstanceId::parse("one").unwrap();
    let requester = Requester::start(bus, agent, &instance).await.unwrap();

    let calling = async {
        broker.history.add_end(end_of(request(scenario, broker, &requester).await));
    };
    let limit = scenario.budget + AFTERMATH;
    let settling = async {
        tokio::join!(calling, settle(broker));
    };
    // A call that does not end in time has no end in the record.
    let _ = tokio::time::timeout(limit, settling).await;

    let pending = requester.stats().pending;
    broker.history.update(|record| record.pending = pending);
}

/// Waits until no request and no run is left.
async fn settle(broker: &Broker) {
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let is_over = broker.history.update(|record| {
            record.end().is_some() && record.runs.iter().all(|run| run.stopped_at.is_some())
        });
        if is_over && broker.is_idle() {
            return;
        }
    }
}

async fn start_worker(
    scenario: Scenario,
    broker: &Arc<Broker>,
    worker: Party,
    instance: &str,
) -> Responder {
    let listen = Listen {
        topic: Topic::parse("work").unwrap(),
        subscription: WORKERS.to_owned(),
        instance: InstanceId::parse(instance).unwrap(),
        concurrency: NonZeroU16::new(4).unwrap(),
        large_requests_bytes: LARGE_REQUESTS_BYTES,
    };
    let workload = Workload { broker: Arc::clone(broker), worker, work: scenario.work };
    Responder::start(Connection::new(broker, worker), listen, workload).await.unwrap()
}

async fn request(
    scenario: Scenario,
    broker: &Broker,
    requester: &Requester,
) -> Result<Envelope, requester::Error> {
    let tool_name = if scenario.may_repeat { IDEMPOTENT } else { "once" };
    let body = ToolInvokeRequest {
        tool_call_id: CALL_ID.to_owned(),
        tool_name: tool_name.to_owned(),
        arguments: None,
        session_id: None,
    };
    let context = CallContext::until(Deadline::after(scenario.budget))
        .with_cancelled(broker.cancelled.clone());
    let request = Request {
        topic: &Topic::parse("work").unwrap(),
        workers: Some(WORKERS),
        envelope: Envelope::of(&body, CALLER),
        call_id: CALL_ID,
        may_repeat: scenario.may_repeat,
        context,
    };
    requester.request(request).await
}

fn end_of(answer: Result<Envelope, requester::Error>) -> End {
    let reply = match answer {
        Ok(reply) => reply,
        Err(error) => return End::Error(error),
    };
    if message::is::<ToolError>(&reply) {
        let error: ToolError = json::read(&reply.body).unwrap();
        let is_tentative = reply.headers.get(header::TENTATIVE).is_some();
        let execution = error.execution.unwrap_or(Execution::Unknown);
        return End::Failed { code: error.code, execution, is_tentative };
    }
    let response: ToolInvokeResponse = json::read(&reply.body).unwrap();
    End::Ok(response.content.unwrap_or_default())
}
