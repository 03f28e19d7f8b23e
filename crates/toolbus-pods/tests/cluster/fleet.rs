//! The real program between a real broker and a real cluster, killed and started again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::ResourceExt as _;
use kube::api::DeleteParams;
use parking_lot::Mutex;
use toolbus_bus::{
    Bus, Consumer, Delivery, Disposition, Envelope, Flow, Subscription, Topic, TopicPattern,
};
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit::{self, Vhost};
use toolbus_wire::message::script::{ScriptInvokeRequest, ScriptInvokeResponse, ScriptReason};
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::{Message, header, json, message, queue, topic};

use crate::once::{LIMIT, Place};
use crate::proxy::{Proxy, Way};

/// Where signs of life and output go.
const NEWS: &str = "test.news";
/// Within this, nothing of a manager that was killed is left.
const CLEAN: Duration = Duration::from_secs(60);

/// Asks for scripts as somebody who heeds no signs of life, and keeps every answer and all news.
struct Caller {
    bus: Arc<dyn Bus>,
    answers: Arc<Mutex<Vec<ScriptInvokeResponse>>>,
    news: Arc<Mutex<Vec<ToolProgress>>>,
    replies: Topic,
    _consumers: [Consumer; 2],
}

impl Caller {
    async fn new(vhost: &Vhost) -> Self {
        let config = Config::new(&vhost.amqp_url()).expect("an address");
        let bus: Arc<dyn Bus> = RabbitBus::connect(config).await.expect("a bus");
        let replies = Topic::parse("test.answers").expect("a topic");
        let answers = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&answers);
        let take = move |delivery: Delivery| {
            kept.lock().push(json::read(&delivery.envelope.body).expect("an answer"));
            std::future::ready(Disposition::Ack)
        };
        let flow = Flow::Ordered { prefetch: 8.try_into().expect("not zero") };
        let subscription =
            Subscription::private("test.answers", TopicPattern::from(replies.clone()), flow);
        let consumer = bus.subscribe(subscription, Arc::new(take)).await.expect("a queue");
        let news = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&news);
        let hear = move |delivery: Delivery| {
            if message::is::<ToolProgress>(&delivery.envelope) {
                kept.lock().push(json::read(&delivery.envelope.body).expect("progress"));
            }
            std::future::ready(Disposition::Ack)
        };
        let pattern = TopicPattern::from(Topic::parse(NEWS).expect("a topic"));
        let subscription = Subscription::private(NEWS, pattern, flow);
        let hearing = bus.subscribe(subscription, Arc::new(hear)).await.expect("a queue");
        Self { bus, answers, news, replies, _consumers: [consumer, hearing] }
    }

    /// What was live of a call: pieces by number. One that was told again must be what it was.
    fn heard(&self, call_id: &str) -> Vec<String> {
        let mut pieces = BTreeMap::new();
        for piece in self.news.lock().iter().filter(|piece| piece.tool_call_id == call_id) {
            let text = piece.text.clone().expect("a text");
            let before = pieces.insert(piece.seq, text.clone());
            assert!(before.is_none_or(|before| before == text), "{piece:?}");
        }
        pieces.into_values().collect()
    }

    async fn ask(&self, call_id: &str, script: &str) {
        let request = ScriptInvokeRequest {
            tool_call_id: call_id.to_owned(),
            script: script.to_owned(),
            input_data: None,
            timeout_seconds: 60,
            pip_packages: None,
            files: None,
            channel: None,
        };
        let body = json::write(&request);
        let mut envelope = Envelope::new(ScriptInvokeRequest::TYPE, "test", body);
        envelope.reply_to = Some(self.replies.clone());
        envelope.headers.set(header::PROGRESS_TO, NEWS);
        self.bus.publish(&topic::SCRIPT_INVOKE, envelope).await.expect("sent");
    }

    async fn answered(&self, count: usize) -> Vec<ScriptInvokeResponse> {
        eventually(LIMIT, async || {
            let answers = self.answers.lock().clone();
            if answers.len() >= count { Ok(answers) } else { Err(answers) }
        })
        .await
    }
}

pub(crate) async fn manager(vhost: &Vhost, place: &Place) -> Service {
    manager_with(vhost, place, &[]).await
}

/// One with more settings.
async fn manager_with(vhost: &Vhost, place: &Place, settings: &[(&str, &str)]) -> Service {
    let kubeconfig = std::env::var_os("TOOLBUS_TEST_KUBECONFIG").expect("a cluster");
    manager_at(Path::new(&kubeconfig), vhost, place, settings).await
}

/// One that reaches the cluster as a kubeconfig says.
async fn manager_at(
    kubeconfig: &Path,
    vhost: &Vhost,
    place: &Place,
    settings: &[(&str, &str)],
) -> Service {
    let launch = Launch::new("scripts-manager").arg("--bus").arg(vhost.amqp_url());
    let launch = launch
        .args(["--runner", "kubernetes"])
        .env("KUBECONFIG", kubeconfig)
        .env("TOOLBUS_KUBERNETES__NAMESPACE", &place.settings.namespace)
        .env("TOOLBUS_KUBERNETES__CPU_REQUEST", "10m");
    let with = |launch: Launch, (name, value): &(&str, &str)| {
        launch.env(&format!("TOOLBUS_{name}"), value)
    };
    let launch = settings.iter().fold(launch, with);
    let mut service = launch.start().expect("a process");
    service.ready(LIMIT).await.expect("ready");
    service
}

#[tokio::test]
async fn a_manager_that_is_killed_and_started_again_leaves_no_pod_and_no_caller() {
    let Some(place) = Place::new("killed").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let mut first = manager(&vhost, &place).await;
    let caller = Caller::new(&vhost).await;
    // One that is adopted, and one whose pod goes with the manager.
    caller.ask("call_long", "import time\nprint('one')\ntime.sleep(20)\nprint('two')").await;
    let long = place.started().await.name_any();
    caller.ask("call_gone", "import time\ntime.sleep(50)").await;
    let gone = eventually(LIMIT, async || {
        let pods = place.of_scripts().await;
        pods.into_iter().find(|name| *name != long).ok_or("no second pod")
    })
    .await;
    first.process().kill();
    place.pods.delete(&gone, &DeleteParams::default().grace_period(0)).await.expect("deleted");
    let killed = Instant::now();
    let _second = manager(&vhost, &place).await;
    let mut answers = caller.answered(2).await;
    answers.sort_by(|one, other| one.tool_call_id.cmp(&other.tool_call_id));
    assert_eq!(answers[0].reason, Some(ScriptReason::OutcomeUnknown), "{:?}", answers[0]);
    assert_eq!(answers[1].output.as_deref(), Some("one\ntwo\n"), "{:?}", answers[1]);
    assert_eq!(caller.heard("call_long"), ["one\n", "two\n"]);
    place.is_empty(CLEAN.saturating_sub(killed.elapsed())).await;
    assert_eq!((place.ever(), caller.answered(2).await.len()), (2, 2));
}

#[tokio::test]
async fn of_two_managers_one_takes_over_what_the_other_had() {
    let Some(place) = Place::new("two").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let managers = tokio::join!(manager(&vhost, &place), manager(&vhost, &place));
    let mut managers = [managers.0, managers.1];
    let caller = Caller::new(&vhost).await;
    let source = "import time\nprint('one')\ntime.sleep(12)\nprint('two')";
    // Shared out among both.
    for call in 0..4 {
        caller.ask(&format!("call_{call}"), source).await;
    }
    eventually(LIMIT, async || match place.ever() {
        4 => Ok(()),
        other => Err(other),
    })
    .await;
    place.started().await;
    managers[0].process().kill();
    let killed = Instant::now();
    let answers = caller.answered(4).await;
    // A script that had not been handed over may have an unknown outcome; all others have theirs.
    for answer in &answers {
        assert_eq!(answer.output.as_deref(), Some("one\ntwo\n"), "{answer:?}");
    }
    place.is_empty(CLEAN.saturating_sub(killed.elapsed())).await;
    assert_eq!((place.ever(), caller.answered(4).await.len()), (4, 4));
}

/// Of calls that have no place a manager takes few: the others are not lost with it.
#[tokio::test]
async fn calls_that_a_killed_manager_had_not_taken_are_run_by_the_next_one() {
    let Some(place) = Place::new("waiting").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let one = [("SCRIPTS__MAX_CONCURRENT", "1")];
    let mut first = manager_with(&vhost, &place, &one).await;
    let caller = Caller::new(&vhost).await;
    caller.ask("call_0", "import time\nprint('ran')\ntime.sleep(15)").await;
    place.started().await;
    for call in ["call_1", "call_2", "call_3", "call_4"] {
        caller.ask(call, "print('ran')").await;
    }
    // It runs one, and has taken one more.
    taken(&vhost, 2, 3).await;

    first.process().kill();
    let killed = Instant::now();
    let _second = manager_with(&vhost, &place, &one).await;
    for answer in caller.answered(5).await {
        match &*answer.tool_call_id {
            "call_1" => assert_eq!(answer.reason, Some(ScriptReason::OutcomeUnknown), "{answer:?}"),
            _ => assert_eq!(answer.output.as_deref(), Some("ran\n"), "{answer:?}"),
        }
    }
    place.is_empty(CLEAN.saturating_sub(killed.elapsed())).await;
    assert_eq!((place.ever(), caller.answered(5).await.len()), (4, 5));
}

/// Waits until managers have taken so many requests, and so many are left in the queue.
async fn taken(vhost: &Vhost, taken: u64, left: u64) {
    let name = queue::queue(queue::SCRIPTS_MANAGER_INVOKE);
    eventually(LIMIT, async || {
        let queue = vhost.queue(&name).await.map_err(|error| error.to_string())?;
        let queue = queue.ok_or("no queue")?;
        let found = (queue.messages_unacknowledged, queue.messages);
        if found == (taken, taken + left) { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// A planned stop hands over what a crash would, scripts that run, in pods that waited as well. One
/// that waits for its turn was not started, and its caller may call again.
#[tokio::test]
async fn a_manager_that_stops_leaves_what_outlasts_its_grace_to_another() {
    let Some(place) = Place::new("stopped").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let settings = [
        ("SHUTDOWN__GRACE", "5s"),
        ("SCRIPTS__MAX_CONCURRENT", "3"),
        ("AGENTS__MAX_CONCURRENT", "3"),
        ("KUBERNETES__WARM__SIZE", "1"),
    ];
    let mut first = manager_with(&vhost, &place, &settings).await;
    let caller = Caller::new(&vhost).await;
    eventually(LIMIT, async || match place.templates().await.len() {
        1 => Ok(()),
        other => Err(other),
    })
    .await;
    let long = "import time\nprint('one')\ntime.sleep(20)\nprint('two')";
    for call in ["long_0", "long_1", "long_2"] {
        caller.ask(call, long).await;
    }
    eventually(LIMIT, async || {
        let begun = ["long_0", "long_1", "long_2"].map(|call| caller.heard(call).len());
        if begun == [1; 3] { Ok(()) } else { Err(begun) }
    })
    .await;
    caller.ask("waiting", "print('ran')").await;
    taken(&vhost, 4, 0).await;

    let stopping = Instant::now();
    let (ended, mut second) = tokio::join!(
        first.process().terminate(LIMIT),
        manager_with(&vhost, &place, &settings[1..])
    );
    assert!(ended.expect("it stops").success());
    assert!(stopping.elapsed() < LIMIT, "{:?}", stopping.elapsed());

    let answers = caller.answered(4).await;
    let calls = place.calls();
    for answer in &answers {
        if answer.tool_call_id == "waiting" {
            assert_eq!(answer.reason, Some(ScriptReason::Busy), "{answer:?}");
            continue;
        }
        assert_eq!(answer.output.as_deref(), Some("one\ntwo\n"), "{answer:?}");
        assert_eq!(calls[&answer.tool_call_id].len(), 1, "one pod: {answer:?}");
    }
    for call in ["long_0", "long_1", "long_2"] {
        assert_eq!(caller.heard(call), ["one\n", "two\n"], "{call}");
    }

    second.process().terminate(LIMIT).await.expect("it stops");
    place.is_empty(CLEAN).await;
    assert_eq!(caller.answered(4).await.len(), 4, "one answer a call");
}

/// A planned stop of a manager without another: what it leaves is adopted by the next one.
#[tokio::test]
async fn a_script_that_a_stopped_manager_left_is_adopted_by_the_next_one() {
    let Some(place) = Place::new("left").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let settings = [("SHUTDOWN__GRACE", "2s")];
    let mut first = manager_with(&vhost, &place, &settings).await;
    let caller = Caller::new(&vhost).await;
    caller.ask("call", "import time\nprint('one')\ntime.sleep(15)\nprint('two')").await;
    place.started().await;

    first.process().terminate(LIMIT).await.expect("it stops");
    assert_eq!(place.of_scripts().await.len(), 1, "its pod is there");

    let _second = manager(&vhost, &place).await;
    let answers = caller.answered(1).await;
    assert_eq!(answers[0].output.as_deref(), Some("one\ntwo\n"), "{:?}", answers[0]);
    place.is_empty(CLEAN).await;
    assert_eq!((place.ever(), caller.answered(1).await.len()), (1, 1));
}

/// The old one's pods: some wait, some were just claimed, some are on their way. The new one has
/// other settings and pods of its own.
#[tokio::test]
async fn a_manager_that_is_killed_amid_its_warm_pods_is_followed_by_one_of_another_template() {
    let Some(place) = Place::new("killed-warm").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let mut first = manager_with(&vhost, &place, &[("KUBERNETES__WARM__SIZE", "3")]).await;
    let caller = Caller::new(&vhost).await;
    let waiting = async |count: usize| {
        eventually(LIMIT, async || match place.templates().await {
            templates if templates.len() == count => Ok(templates),
            other => Err(other),
        })
        .await
    };
    let old = waiting(3).await.pop().expect("a template");
    for call in 0..5 {
        caller
            .ask(&format!("call_{call}"), "import time\nprint('one')\ntime.sleep(8)\nprint('two')")
            .await;
    }
    // Whatever the others are at.
    eventually(LIMIT, async || if place.calls().is_empty() { Err("none") } else { Ok(()) }).await;
    first.process().kill();
    let killed = Instant::now();
    let settings = [("KUBERNETES__WARM__SIZE", "1"), ("KUBERNETES__MEMORY_LIMIT", "200Mi")];
    let mut second = manager_with(&vhost, &place, &settings).await;
    let answers = caller.answered(5).await;
    let calls = place.calls();
    for answer in &answers {
        let pods = calls.get(&answer.tool_call_id).map_or(0, BTreeSet::len);
        match answer.reason {
            // It had no pod when its manager was lost.
            Some(ScriptReason::OutcomeUnknown) => assert_eq!(pods, 0, "{answer:?}"),
            _ => {
                assert_eq!(answer.output.as_deref(), Some("one\ntwo\n"), "{answer:?}");
                assert_eq!(pods, 1, "{answer:?}");
            }
        }
    }
    // All that is left is what waits for the second.
    place.is_down_to(1, CLEAN.saturating_sub(killed.elapsed())).await;
    let new = waiting(1).await.pop().expect("a template");
    assert_ne!(new, old);
    caller.ask("call_after", "print('ran')").await;
    let answers = caller.answered(6).await;
    assert_eq!(answers[5].output.as_deref(), Some("ran\n"), "{:?}", answers[5]);
    second.process().terminate(LIMIT).await.expect("it ends");
    place.is_empty(LIMIT).await;
    let ids: BTreeSet<&str> = answers.iter().map(|answer| &*answer.tool_call_id).collect();
    assert_eq!((ids.len(), caller.answered(6).await.len()), (6, 6), "one answer a call");
}

/// Whoever is cut off from the cluster leaves calls to those that are not.
#[tokio::test]
async fn a_manager_that_cannot_reach_the_cluster_takes_no_calls_until_it_can() {
    let Some(place) = Place::new("cut-off").await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some((proxy, _)) = Proxy::to_cluster().await else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("kubeconfig");
    let cluster = std::env::var_os("TOOLBUS_TEST_KUBECONFIG").expect("a cluster");
    let cluster = std::fs::read_to_string(cluster).expect("a kubeconfig");
    let server = crate::support::config().await.expect("a cluster").cluster_url;
    std::fs::write(&kubeconfig, proxy.lead_through(&cluster, &server)).expect("written");

    let (first, mut second) =
        tokio::join!(manager_at(&kubeconfig, &vhost, &place, &[]), manager(&vhost, &place));
    let caller = Caller::new(&vhost).await;
    proxy.set(Way::Closed);
    let says = async |status: u16, text: &str| {
        eventually(LIMIT, async || {
            let (code, body) = first.look("/readyz").await.map_err(|error| error.to_string())?;
            if (code, body.contains(text)) == (status, true) { Ok(()) } else { Err(body) }
        })
        .await;
    };
    says(503, "the cluster does not answer").await;
    // It says so a moment before its consumer is gone.
    eventually(LIMIT, async || {
        let queue = vhost.queue("rockbot.scripts-manager.script-invoke").await;
        let consumers =
            queue.map_err(|error| error.to_string())?.map_or(0, |queue| queue.consumers);
        if consumers == 1 { Ok(()) } else { Err(format!("{consumers} consumers")) }
    })
    .await;
    for call in 0..6 {
        caller.ask(&format!("call_{call}"), "print('ran')").await;
    }
    for answer in caller.answered(6).await {
        assert_eq!(answer.output.as_deref(), Some("ran\n"), "{answer:?}");
    }

    proxy.set(Way::Open);
    says(200, "cluster").await;
    second.process().terminate(LIMIT).await.expect("it stops");
    caller.ask("call_after", "print('ran')").await;
    let answers = caller.answered(7).await;
    assert_eq!(answers[6].output.as_deref(), Some("ran\n"), "{:?}", answers[6]);
}
