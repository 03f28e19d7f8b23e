//! Calls from the bus: they outlive their process, and begin once whoever has them.

use std::collections::HashSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_approvals::{ApprovalConfig, ApprovalState, Approve};
use toolbus_bus::requester::Requester;
use toolbus_bus::responder::Responder;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_store::sqlx;
use toolbus_testkit::eventually;
use toolbus_tools::bus::{Remote, ServeOptions, serve};
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::{Door, Invoker, Outcome, Principal, Registry, Scope, Tool};
use toolbus_wire::message::toolbus::Alive;
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, Execution, message, topic};

use crate::support::*;

/// A host that answers requests.
struct Served {
    host: Host,
    connection: MemoryBus,
    responders: Arc<[Responder; 2]>,
}

impl Served {
    async fn start(place: &Place, broker: &MemoryBus) -> Self {
        Self::with_policy(place, broker, policy).await
    }

    async fn with_policy(
        place: &Place,
        broker: &MemoryBus,
        policy: impl Fn(&PolicyRequest<'_>) -> Decision + Send + Sync + 'static,
    ) -> Self {
        let host = Host::with_policy(place.store(), ApprovalConfig::default(), policy);
        let connection = broker.connect();
        let responders = answer_requests(&host, Arc::new(connection.clone())).await;
        Self { host, connection, responders }
    }

    /// Ends it as a crash does: nothing is said, and the store hears nothing.
    async fn die(self, place: &Place) {
        self.connection.close(Duration::ZERO).await;
        drop(self.responders);
        // Its tasks would still say that it lives, as those of a process that is killed do not.
        let store = place.store();
        let forget = store.open().await.unwrap().write(|transaction| {
            Box::pin(async move {
                let delete = sqlx::query("DELETE FROM approvals_hosts");
                delete.execute(transaction.connection()).await?;
                Ok(())
            })
        });
        forget.await.unwrap();
        drop(self.host);
    }

    /// Ends it in order.
    async fn stop(self) {
        if let Ok(responders) = Arc::try_unwrap(self.responders).map_err(drop) {
            for responder in responders {
                responder.stop(Duration::from_secs(5)).await;
            }
        }
        self.host.approvals.close().await;
    }
}

/// Has a host answer requests, after it has taken over what others have left.
pub(crate) async fn answer_requests(host: &Host, bus: Arc<dyn Bus>) -> Arc<[Responder; 2]> {
    let options = ServeOptions {
        agent: agent(),
        instance: InstanceId::random(),
        concurrency: NonZeroU16::new(4).expect("a number"),
        parked: host.approvals.take_over().await.expect("what is parked"),
    };
    let responders = serve(bus, &host.invoker, options).await;
    let responders = Arc::new(responders.expect("responders"));

    let weak = Arc::downgrade(&responders);
    host.approvals.resume_with(move |requests| {
        let weak = weak.clone();
        async move {
            let Some(responders) = weak.upgrade() else { return };
            requests.into_iter().for_each(|request| responders[0].take_up(request));
        }
    });
    responders
}

/// Hears which calls callers are told to be kept in a store.
struct KeptCalls {
    kept: Arc<Mutex<HashSet<String>>>,
    _listening: Consumer,
}

impl KeptCalls {
    async fn hear(bus: Arc<dyn Bus>) -> Self {
        let kept = Arc::<Mutex<HashSet<String>>>::default();
        let hear = Arc::clone(&kept);
        let handler = move |delivery: Delivery| {
            if message::is::<Alive>(&delivery.envelope) {
                let alive: Alive = message::read(&delivery.envelope).expect("it can be read");
                hear.lock().extend(alive.kept);
            }
            std::future::ready(Disposition::Ack)
        };
        let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
        let name = format!("kept.{}", InstanceId::random());
        let progress = TopicPattern::parse("tool.progress.#").expect("a pattern");
        let listening = Subscription::private(name, progress, flow);
        let listening = bus.subscribe(listening, Arc::new(handler)).await.expect("it listens");
        Self { kept, _listening: listening }
    }

    /// Waits until the caller has been told of so many.
    async fn eventually(&self, count: usize) {
        eventually(PATIENCE, async || match self.kept.lock().len() {
            told if told >= count => Ok(()),
            told => Err(told),
        })
        .await;
    }
}

/// A caller of `pay` elsewhere, that waits for four minutes.
async fn caller(broker: &MemoryBus) -> Invoker {
    caller_on(Arc::new(broker.connect())).await
}

pub(crate) async fn caller_on(bus: Arc<dyn Bus>) -> Invoker {
    let name = AgentName::parse("elsewhere").expect("a name");
    let requester = Requester::start(bus, name, &InstanceId::random()).await.expect("a requester");
    let registry = Registry::new();
    let remote = Remote::new(requester, topic::TOOL_INVOKE);
    let tool = Tool::new("pay", "", "test").with_timeout(Duration::from_secs(240));
    let parameters = json!({"type": "object"});
    registry.register(tool.with_parameters(parameters), remote).expect("a tool");
    Invoker::new(Arc::new(registry))
}

pub(crate) async fn call(caller: &Invoker, arguments: Value) -> Outcome {
    let scope = Scope::new(Door::CommandLine, Principal::local(), agent());
    caller.invoke(call_of(scope, "pay", arguments)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_outlives_its_process_whenever_that_ends() {
    for place in Place::all().await {
        for (is_killed, is_answered_meanwhile) in
            [(false, false), (false, true), (true, false), (true, true)]
        {
            let broker = MemoryBus::new();
            let operator = place.operator();
            let first = Served::start(&place, &broker).await;
            let caller = caller(&broker).await;
            let kept = KeptCalls::hear(Arc::new(broker.connect())).await;
            let restarting = async {
                let asked = operator.asked().await;
                assert!(asked.is_kept);
                assert_eq!(asked.requester().to_string(), "elsewhere (claimed)");
                kept.eventually(1).await;
                if is_killed {
                    first.die(&place).await;
                } else {
                    first.stop().await;
                }
                if is_answered_meanwhile {
                    operator.say(&asked, Approve::ONCE).await;
                }
                let second = Served::start(&place, &broker).await;
                if !is_answered_meanwhile {
                    operator.say(&asked, Approve::ONCE).await;
                }
                (asked, second)
            };
            let (outcome, (asked, second)) =
                tokio::join!(call(&caller, json!({"to": "alice"})), restarting);
            assert_eq!(text(outcome), "paid", "killed: {is_killed}");
            assert_eq!(second.host.ran(), [json!({"to": "alice"})]);
            let done = operator.store.find(&asked.id).await.unwrap();
            assert_eq!(done.state, ApprovalState::Consumed);
            // Its arguments are not kept a second time.
            eventually(PATIENCE, async || {
                let done = operator.store.find(&asked.id).await.unwrap();
                if done.is_kept { Err("the request is still there") } else { Ok(()) }
            })
            .await;
            second.stop().await;
        }
    }
}

/// Killed between the update that lets the call begin and its run: the caller is told that nobody
/// knows, and nothing runs a second time, whatever the policy says by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_let_begin_is_never_begun_again() {
    for place in Place::all().await {
        for allows in [false, true] {
            let broker = MemoryBus::new();
            let operator = place.operator();
            let first = Served::start(&place, &broker).await;
            let caller = caller(&broker).await;
            let kept = KeptCalls::hear(Arc::new(broker.connect())).await;
            let restarting = async {
                let asked = operator.asked().await;
                kept.eventually(1).await;
                first.die(&place).await;
                consume(&place, &asked.id).await;
                let policy = move |request: &PolicyRequest<'_>| match allows {
                    true => Decision::Allow,
                    false => policy(request),
                };
                Served::with_policy(&place, &broker, policy).await
            };
            let (outcome, second) = tokio::join!(call(&caller, json!({"to": "alice"})), restarting);
            let error = outcome.unwrap_err();
            assert_eq!(error.code, ErrorCode::OutcomeUnknown, "{error}");
            assert_eq!(error.execution, Execution::Unknown);
            assert!(second.host.ran().is_empty());
            second.stop().await;
        }
    }
}

/// As if the process that was killed had come so far.
async fn consume(place: &Place, id: &str) {
    let (store, id) = (place.store(), id.to_owned());
    let consumed = store.open().await.unwrap().write(move |transaction| {
        Box::pin(async move {
            let update = sqlx::query("UPDATE approvals SET state = 'consumed' WHERE id = $1");
            update.bind(id).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    consumed.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_needs_no_approval_any_more_runs_once_when_it_comes_back() {
    for place in Place::all().await {
        let broker = MemoryBus::new();
        let operator = place.operator();
        let first = Served::start(&place, &broker).await;
        let caller = caller(&broker).await;
        let kept = KeptCalls::hear(Arc::new(broker.connect())).await;
        let restarting = async {
            operator.asked().await;
            kept.eventually(1).await;
            first.die(&place).await;
            Served::with_policy(&place, &broker, |_: &PolicyRequest<'_>| Decision::Allow).await
        };
        let (outcome, second) = tokio::join!(call(&caller, json!({"to": "alice"})), restarting);
        assert_eq!(text(outcome), "paid");
        assert_eq!(second.host.ran().len(), 1);
        assert_eq!(operator.states().await, [ApprovalState::Consumed]);
        second.stop().await;
    }
}

/// Two hosts at one store and one queue: each call runs once, at either.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_hosts_at_one_store_run_each_call_once() {
    const CALLS: usize = 40;
    for place in Place::all().await {
        let broker = MemoryBus::new();
        let operator = place.operator();
        let mut hosts =
            [Served::start(&place, &broker).await, Served::start(&place, &broker).await];
        let caller = caller(&broker).await;
        let kept = KeptCalls::hear(Arc::new(broker.connect())).await;
        let calls = join_all((0..CALLS).map(|n| call(&caller, json!({"to": n.to_string()}))));
        let answering = async {
            let asked = operator.pending(CALLS).await;
            let [first, second] = hosts;
            // One of them dies, and the other has its calls soon.
            let ran = Arc::clone(&first.host.ran);
            kept.eventually(CALLS).await;
            first.die_alone(&place).await;
            for approval in &asked {
                operator.say(approval, Approve::ONCE).await;
            }
            hosts = [second, Served::start(&place, &broker).await];
            (ran, hosts)
        };
        let (outcomes, (ran, hosts)) = tokio::join!(calls, answering);
        for outcome in outcomes {
            assert_eq!(text(outcome), "paid");
        }
        let mut all = ran.lock().clone();
        hosts.iter().for_each(|served| all.extend(served.host.ran()));
        let mut to: Vec<usize> =
            all.iter().map(|ran| ran["to"].as_str().unwrap().parse().unwrap()).collect();
        to.sort_unstable();
        assert_eq!(to, (0..CALLS).collect::<Vec<_>>(), "each once");
        for served in hosts {
            served.stop().await;
        }
    }
}

impl Served {
    /// As [`Served::die`], with other hosts at the same store.
    async fn die_alone(self, place: &Place) {
        let ids = self.host.approvals.clone();
        self.connection.close(Duration::ZERO).await;
        drop(self.responders);
        // What the process would not say any more.
        ids.close().await;
        let _ = place;
    }
}

/// More calls than have room in memory wait in the store alone, and come back when they are
/// answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_beyond_the_room_for_parked_ones_are_kept_by_their_rows_alone() {
    const CALLS: usize = 1_100;
    let place = Place::sqlite();
    let broker = MemoryBus::new();
    let operator = place.operator();
    let served = Served::start(&place, &broker).await;
    let caller = caller(&broker).await;
    let calls = join_all((0..CALLS).map(|n| call(&caller, json!({"to": n.to_string()}))));
    let answering = async {
        eventually(PATIENCE, async || {
            let count = operator.store.count_pending().await.unwrap();
            if count == CALLS as u64 { Ok(()) } else { Err(count) }
        })
        .await;
        eventually(PATIENCE, async || {
            let free = free_rows(&place).await;
            if free > 0 { Ok(()) } else { Err("all of them have a host") }
        })
        .await;
        println!("{} of {CALLS} are kept by their rows alone", free_rows(&place).await);
        loop {
            let pending = operator.in_state(ApprovalState::Pending).await;
            if pending.is_empty() {
                break;
            }
            join_all(pending.iter().map(|asked| operator.say(asked, Approve::ONCE))).await;
        }
    };
    let (outcomes, ()) = tokio::join!(calls, answering);
    for outcome in outcomes {
        assert_eq!(text(outcome), "paid");
    }
    assert_eq!(served.host.ran().len(), CALLS);
    served.stop().await;
}

async fn free_rows(place: &Place) -> i64 {
    let store = place.store();
    let free = sqlx::query_scalar("SELECT COUNT(*) FROM approvals WHERE held_by IS NULL");
    free.fetch_one(store.open().await.unwrap().readers()).await.unwrap()
}
