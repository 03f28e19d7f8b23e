//! The real program between a real broker and a real cluster, killed and started again.

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
use toolbus_wire::{Message, json, topic};

use crate::once::{LIMIT, Place};

/// Within this, nothing of a manager that was killed is left.
const CLEAN: Duration = Duration::from_secs(60);

/// Asks for scripts as somebody who hears no signs of life, and keeps every answer.
struct Caller {
    bus: Arc<dyn Bus>,
    answers: Arc<Mutex<Vec<ScriptInvokeResponse>>>,
    replies: Topic,
    _consumer: Consumer,
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
        Self { bus, answers, replies, _consumer: consumer }
    }

    async fn ask(&self, call_id: &str, script: &str) {
        let request = ScriptInvokeRequest {
            tool_call_id: call_id.to_owned(),
            script: script.to_owned(),
            input_data: None,
            timeout_seconds: 60,
            pip_packages: None,
            files: None,
        };
        let body = json::write(&request);
        let mut envelope = Envelope::new(ScriptInvokeRequest::TYPE, "test", body);
        envelope.reply_to = Some(self.replies.clone());
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

async fn manager(vhost: &Vhost, place: &Place) -> Service {
    let kubeconfig = std::env::var_os("TOOLBUS_TEST_KUBECONFIG").expect("a cluster");
    let launch = Launch::new("scripts-manager").arg("--bus").arg(vhost.amqp_url());
    let launch = launch
        .args(["--runner", "kubernetes"])
        .env("KUBECONFIG", kubeconfig)
        .env("TOOLBUS_KUBERNETES__NAMESPACE", &place.settings.namespace)
        .env("TOOLBUS_KUBERNETES__CPU_REQUEST", "10m");
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
        let pods = place.all().await;
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
