//! What agents are told of scripts that cannot begin in the time that their calls have: by the
//! tool, over a bus, and with the settings that managers have in production.
//!
//! A call has ten seconds more than its script, and the bus takes a tenth of all, so what takes as
//! long as `kubernetes.start_timeout` says would come too late for it.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::Requester;
use toolbus_bus::responder::Responder;
use toolbus_bus::{Bus, MemoryBus};
use toolbus_pods::KubernetesRunner;
use toolbus_pods::settings::KubernetesSettings;
use toolbus_scripts::fair_runner::Shares;
use toolbus_scripts::{FairRunner, ScriptAllowance, WorkerOptions};
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::{GrantCheck, Guides, Invoker, Registry, Scope};
use toolbus_wire::ErrorCode;
use toolbus_wire::name::{AgentName, InstanceId};

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::support::{bystander, client};

/// What a script may take that does not begin: long enough that another, beside it, is answered
/// before, however busy the machine is.
const SECONDS: u64 = 15;
/// How a manager is shared where the test does not say.
const SHARES: Shares = Shares { running: 8, running_of_one: 4, waiting: 8, waiting_of_one: 8 };

/// A manager that serves agents.
struct Service {
    bus: Arc<dyn Bus>,
    runner: KubernetesRunner,
    worker: Responder,
}

impl Service {
    async fn start(runner: KubernetesRunner, shares: Shares) -> Self {
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let turns = Arc::new(FairRunner::new(Arc::new(runner.clone()), shares));
        let concurrency = NonZeroU16::new(17).expect("not zero");
        let instance = InstanceId::random();
        let (allowance, grants) = (ScriptAllowance::default(), GrantCheck::off());
        let options = WorkerOptions { concurrency, allowance, grants };
        let worker = toolbus_scripts::serve(Arc::clone(&bus), &instance, turns, options).await;
        Self { bus, runner, worker: worker.expect("a worker") }
    }

    /// What the model of an agent is told of a script, and when.
    async fn tell(&self, agent: &str, script: &str, seconds: u64) -> (Outcome, Instant) {
        let agent = AgentName::parse(agent).expect("a name");
        let requester = Requester::start(Arc::clone(&self.bus), agent, &InstanceId::random()).await;
        let registry = Arc::new(Registry::new());
        let requester = requester.expect("a requester");
        toolbus_scripts::tool::register(
            &registry,
            &Guides::default(),
            requester,
            ScriptAllowance::default(),
        )
        .expect("a tool");
        let call = Call::by_name(
            &Scope::local(AgentName::standard()),
            toolbus_scripts::tool::NAME,
            json!({"script": script, "timeout_seconds": seconds}),
        )
        .expect("a short name");
        let outcome = Invoker::new(registry).invoke(call).await;
        (outcome, Instant::now())
    }

    /// One agent's script that does not begin, and another's beside it once the first one is
    /// `stuck`. Gives what the first is told, which the other must not wait for.
    async fn stuck(&self, stuck: &CancellationToken) -> Outcome {
        let other = async {
            stuck.cancelled().await;
            self.tell("other", "print(6 * 7)", 30).await
        };
        let ((failed, told), (other, answered)) =
            tokio::join!(self.tell("stuck", "print(1)", SECONDS), other);
        assert_eq!(other.expect("it runs").content.as_deref(), Some("42\n"));
        assert!(answered < told, "a script waited for another that does not begin");
        failed
    }

    async fn end(self, place: &Place) {
        self.worker.stop(Duration::from_secs(1)).await;
        self.runner.close().await;
        place.is_empty(LIMIT).await;
    }
}

/// A typed answer of the manager: whoever stops waiting for it, or is told of a script that was out
/// of time, is told something else.
#[track_caller]
fn told(outcome: Outcome, code: ErrorCode, parts: &[&str]) {
    let error = outcome.expect_err("it cannot run");
    let missing: Vec<_> = parts.iter().filter(|part| !error.message.contains(**part)).collect();
    assert!(error.code == code && missing.is_empty(), "without {missing:?}: {error:?}");
}

#[tokio::test]
async fn that_the_cluster_does_not_answer_is_told_before_the_deadline() {
    let Some(place) = Place::new("deadline-silent").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let service = Service::start(runner, SHARES).await;
    let stuck = CancellationToken::new();
    let (first, asked) = (stuck.clone(), AtomicU32::new(0));
    fault_proxy.judge(move |method, path| {
        if method != "POST" || !path.ends_with("/pods") {
            return Fate::Pass;
        }
        first.cancel();
        // The second is the other agent's; those after it are made again for the first.
        if asked.fetch_add(1, Ordering::Relaxed) == 1 { Fate::Pass } else { Fate::Silent }
    });
    let failed = service.stuck(&stuck).await;
    let parts =
        ["running scripts is unavailable", "the cluster does not answer", "no answer within"];
    told(failed, ErrorCode::ExecutionFailed, &parts);
    service.end(&place).await;
}

#[tokio::test]
async fn that_a_pod_cannot_be_attached_to_is_told_before_the_deadline() {
    let Some(place) = Place::new("deadline-refused").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let service = Service::start(runner, SHARES).await;
    let stuck = CancellationToken::new();
    let (first, refused) = (stuck.clone(), Mutex::new(None::<String>));
    fault_proxy.judge(move |_, path| {
        if !path.ends_with("/attach") {
            return Fate::Pass;
        }
        let mut refused = refused.lock();
        first.cancel();
        let is_first = refused.get_or_insert_with(|| path.to_owned()) == path;
        if is_first { Fate::Refused(500) } else { Fate::Pass }
    });
    let failed = service.stuck(&stuck).await;
    let parts = ["the pod did not start within", "cannot be attached to", "500"];
    told(failed, ErrorCode::ExecutionFailed, &parts);
    service.end(&place).await;
}

#[tokio::test]
async fn that_an_image_is_missing_is_told_before_the_deadline() {
    let Some(mut place) = Place::new("deadline-image").await else { return };
    place.settings =
        KubernetesSettings { image: "127.0.0.1:1/none:1".to_owned(), ..place.settings };
    let runner = place.runner(client().await.expect("a cluster")).await;
    let service = Service::start(runner, SHARES).await;
    let ((failed, _), ()) = tokio::join!(service.tell("stuck", "print(1)", 1), bystander());
    told(failed, ErrorCode::ExecutionFailed, &["the pod cannot start", "ErrImagePull"]);
    service.end(&place).await;
}

/// And it is certain that it has not begun.
#[tokio::test]
async fn that_no_turn_comes_is_told_before_the_deadline() {
    let Some(place) = Place::new("deadline-turn").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
    let service = Service::start(runner, Shares { running: 1, ..SHARES }).await;
    let waiting = async {
        place.started().await;
        service.tell("waiting", "print(1)", 1).await
    };
    let long = "import time\ntime.sleep(25)\nprint('whole')";
    let ((long, answered), (failed, at)) = tokio::join!(service.tell("running", long, 60), waiting);
    assert_eq!(long.expect("it runs").content.as_deref(), Some("whole\n"));
    assert!(at < answered);
    told(failed, ErrorCode::Busy, &["no other script made room within"]);
    assert_eq!(place.ever(), 1);
    service.end(&place).await;
}
