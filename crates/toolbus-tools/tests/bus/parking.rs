//! Calls that a gate keeps waiting for long, over the bus.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use toolbus_bus::requester::Requester;
use toolbus_bus::responder::{ParkedRequest, Responder};
use toolbus_bus::slot::Kept;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_tools::bus::{Remote, ServeOptions, serve};
use toolbus_tools::call::Invocation;
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::{Invoker, Output, Registry, Tool};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, topic};

use crate::support::*;

/// A person who has to say yes, and what is written down of the calls that wait for it.
#[derive(Clone, Default)]
struct Approval {
    approved: Arc<watch::Sender<bool>>,
    store: Arc<Mutex<Vec<String>>>,
}

impl Gate for Approval {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let slot = passage.call.slot.clone();
        Verdict::Later(Box::pin(async move {
            let request = slot.request().expect("it came over the bus");
            self.store.lock().push(serde_json::to_string(&request).unwrap());
            slot.park(Kept::InStore);
            self.approved.subscribe().wait_for(|approved| *approved).await.unwrap();
            Ok(())
        }))
    }
}

/// An agent that runs one call at a time, each of which has to be approved.
async fn agent(broker: &MemoryBus, approval: &Approval, parked: Vec<ParkedRequest>) -> Agent {
    let registry = Registry::new();
    let add =
        |call: Invocation| std::future::ready(Ok(Output::text(format!("{}", call.arguments["n"]))));
    registry.register(Tool::new("add", "", "test"), add).unwrap();
    let hang = |_: Invocation| std::future::pending();
    registry.register(Tool::new("hang", "", "test"), hang).unwrap();
    let invoker = Invoker::builder(Arc::new(registry)).gate(approval.clone()).build();
    let connection = broker.connect();
    let options = ServeOptions {
        agent: AgentName::standard(),
        instance: InstanceId::random(),
        concurrency: NonZeroU16::MIN,
        parked,
    };
    let responders = serve(Arc::new(connection.clone()), &invoker, options).await.unwrap();
    Agent { connection, responders }
}

struct Agent {
    connection: MemoryBus,
    responders: [Responder; 2],
}

/// A caller of `add` elsewhere.
async fn caller(broker: &MemoryBus) -> Invoker {
    let bus: Arc<dyn Bus> = Arc::new(broker.connect());
    let name = AgentName::parse("elsewhere").unwrap();
    let requester = Requester::start(bus, name, &InstanceId::random()).await.unwrap();
    let registry = Registry::new();
    let remote = Remote::new(requester.clone(), topic::TOOL_INVOKE);
    let hang = Remote::new(requester, topic::TOOL_INVOKE);
    registry.register(Tool::new("add", "", "test"), remote).unwrap();
    registry.register(Tool::new("hang", "", "test"), hang).unwrap();
    Invoker::new(Arc::new(registry))
}

/// A call that never ends.
fn hang() -> toolbus_tools::Call {
    call("hang", "")
}

fn add(n: u32) -> toolbus_tools::Call {
    toolbus_tools::Call {
        arguments: toolbus_tools::call::Arguments::Value(json!({"n": n})),
        ..call("add", "")
    }
}

async fn stored(approval: &Approval, count: usize) -> Vec<ParkedRequest> {
    let began = Instant::now();
    while approval.store.lock().len() < count {
        assert!(began.elapsed() < PATIENCE, "too few are parked");
        tokio::time::sleep(SECOND / 100).await;
    }
    approval.store.lock().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn calls_that_wait_for_approval_do_not_keep_each_other_waiting() {
    let broker = MemoryBus::new();
    let approval = Approval::default();
    let _agent = agent(&broker, &approval, Vec::new()).await;
    let caller = caller(&broker).await;
    let calls = futures_util::future::join_all((0..20).map(|n| caller.invoke(add(n))));
    let approving = async {
        stored(&approval, 20).await;
        approval.approved.send_replace(true);
    };
    let (outcomes, ()) = tokio::join!(calls, approving);
    let texts: Vec<_> = outcomes.into_iter().map(|o| o.unwrap().content.unwrap()).collect();
    assert_eq!(texts, (0..20).map(|n| n.to_string()).collect::<Vec<_>>());
}

/// What a gate has answered is no longer in its store, so nobody would bring the call back.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_approved_and_waits_for_a_slot_is_answered_by_a_stop() {
    let broker = MemoryBus::new();
    let approval = Approval::default();
    let Agent { responders, connection: _connection } = agent(&broker, &approval, Vec::new()).await;
    let caller = caller(&broker).await;
    let stopping = async {
        stored(&approval, 2).await;
        approval.approved.send_replace(true);
        // One of them runs for good, the other waits for its slot.
        tokio::time::sleep(SECOND).await;
        for responder in responders {
            responder.stop(SECOND).await;
        }
    };
    let calls = [hang(), hang()].map(|call| caller.invoke(call));
    let (outcomes, ()) = tokio::join!(futures_util::future::join_all(calls), stopping);
    let mut executions: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_err())
        .map(|error| (error.code, format!("{:?}", error.execution)))
        .collect();
    executions.sort_by(|a, b| a.1.cmp(&b.1));
    assert_eq!(executions[0], (ErrorCode::Cancelled, "NotStarted".to_owned()));
    assert_eq!(executions[1], (ErrorCode::Cancelled, "Unknown".to_owned()), "it was started");
}

/// The agent is stopped, or killed; its successor is given what was written down.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_approval_outlives_its_agent() {
    for is_killed in [false, true] {
        let broker = MemoryBus::new();
        let approval = Approval::default();
        let first = agent(&broker, &approval, Vec::new()).await;
        let caller = caller(&broker).await;
        let restarting = async {
            let parked = stored(&approval, 1).await;
            // Long enough for the caller to hear that the call is kept.
            tokio::time::sleep(SECOND / 2).await;
            let Agent { connection, responders } = first;
            if is_killed {
                connection.close(Duration::ZERO).await;
            } else {
                for responder in responders {
                    responder.stop(10 * SECOND).await;
                }
            }
            // Far longer than a worker may be silent about a call that it runs.
            tokio::time::sleep(40 * SECOND).await;
            let second = agent(&broker, &approval, parked).await;
            stored(&approval, 2).await;
            approval.approved.send_replace(true);
            second
        };
        let (outcome, _second) = tokio::join!(caller.invoke(add(7)), restarting);
        assert_eq!(outcome.unwrap().content.unwrap(), "7", "killed: {is_killed}");
    }
}

/// Leaves each call to its store the first time, and lets it pass the second.
#[derive(Clone, Default)]
struct Leaving {
    store: Arc<Mutex<Vec<String>>>,
    passed: Arc<Mutex<usize>>,
}

impl Gate for Leaving {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let slot = passage.call.slot.clone();
        Verdict::Later(Box::pin(async move {
            if !self.store.lock().is_empty() {
                *self.passed.lock() += 1;
                return Ok(());
            }
            let request = slot.request().expect("it came over the bus");
            self.store.lock().push(serde_json::to_string(&request).unwrap());
            assert!(slot.leave());
            std::future::pending().await
        }))
    }
}

/// A call that is left to its store takes up nothing and says nothing; taken up again, it goes on,
/// unless its caller has given it up meanwhile.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_left_to_its_store_comes_back_if_its_caller_waits_for_it() {
    for is_given_up in [false, true] {
        let broker = MemoryBus::new();
        let gate = Leaving::default();
        let registry = Registry::new();
        let shows = |call: Invocation| {
            std::future::ready(Ok(Output::text(format!("{}", call.arguments["n"]))))
        };
        registry.register(Tool::new("add", "", "test"), shows).unwrap();
        let invoker = Invoker::builder(Arc::new(registry)).gate(gate.clone()).build();
        let connection = broker.connect();
        let options = ServeOptions {
            agent: AgentName::standard(),
            instance: InstanceId::random(),
            concurrency: NonZeroU16::MIN,
            parked: Vec::new(),
        };
        let responders = serve(Arc::new(connection.clone()), &invoker, options).await.unwrap();
        let caller = caller(&broker).await;
        let call = add(7);
        let cancelled = call.cancelled.clone();

        let bringing_back = async {
            while gate.store.lock().is_empty() {
                tokio::time::sleep(SECOND / 100).await;
            }
            // Far longer than a worker may be silent about a call that it runs.
            tokio::time::sleep(30 * SECOND).await;
            if is_given_up {
                cancelled.cancel();
                tokio::time::sleep(SECOND).await;
            }
            let request = gate.store.lock()[0].clone();
            responders[0].take_up(serde_json::from_str(&request).unwrap());
            tokio::time::sleep(5 * SECOND).await;
        };
        let (outcome, ()) = tokio::join!(caller.invoke(call), bringing_back);
        match is_given_up {
            true => assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled),
            false => assert_eq!(outcome.unwrap().content.unwrap(), "7"),
        }
        assert_eq!(*gate.passed.lock(), usize::from(!is_given_up));
    }
}
