//! Scripts with a grant, and with none that is theirs.

use bytes::Bytes;
use tokio::sync::watch;
use toolbus_bus::{Delivery, Disposition, Flow, Subscription, TopicPattern};
use toolbus_tools::GrantKey;
use toolbus_tools::grant::GrantPolicy;
use toolbus_wire::{Execution, header};

use super::*;

/// An agent, a worker that demands grants, and what can be heard of both on the bus.
struct Stage {
    bus: Arc<dyn Bus>,
    invoker: Invoker,
    asked: Arc<Mutex<Vec<Script>>>,
    heard: watch::Receiver<Vec<Envelope>>,
    _worker: Responder,
    _eavesdropper: toolbus_bus::Consumer,
}

fn key() -> GrantKey {
    GrantKey::new("the key of agents and of workers").unwrap()
}

async fn stage(key_of_agent: Option<GrantKey>) -> Stage {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let (log, heard) = watch::channel(Vec::new());
    let hear = move |delivery: Delivery| {
        log.send_modify(|heard| heard.push(delivery.envelope));
        std::future::ready(Disposition::Ack)
    };
    let everything = TopicPattern::parse("#").unwrap();
    let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
    let eavesdropper = Subscription::private("eavesdropper", everything, flow);
    let eavesdropper = bus.subscribe(eavesdropper, Arc::new(hear)).await.unwrap();

    let asked = Arc::default();
    let answer: Box<Answer> = Box::new(|_| Ok(printed("42\n", Ending::Exited(0))));
    let runner = Arc::new(Scripted { answer, asked: Arc::clone(&asked) });
    let grants = GrantCheck::new("scripts manager", GrantPolicy::Require, key());
    let four = NonZeroU16::new(4).unwrap();
    let options = WorkerOptions { concurrency: four, allowance: ALLOWANCE, grants };
    let worker = serve(Arc::clone(&bus), &InstanceId::random(), runner, options).await;

    let instance = InstanceId::random();
    let requester = Requester::start(Arc::clone(&bus), AgentName::standard(), &instance).await;
    let registry = Arc::new(Registry::new());
    crate::tool::register(&registry, &Guides::default(), requester.unwrap(), ALLOWANCE).unwrap();
    let mut invoker = Invoker::builder(registry);
    if let Some(key) = key_of_agent {
        invoker = invoker.grants(key);
    }

    Stage {
        bus,
        invoker: invoker.build(),
        asked,
        heard,
        _worker: worker.unwrap(),
        _eavesdropper: eavesdropper,
    }
}

impl Stage {
    async fn run(&self) -> ToolOutcome {
        let scope = Scope::local(AgentName::standard());
        let arguments = serde_json::json!({"script": "print(42)"});
        let call = ToolCall::by_name(&scope, "execute_python_script", arguments);
        self.invoker.invoke(call.expect("a short name")).await
    }

    /// Waits until so many requests were denied.
    async fn wait_for_denials(&self, count: usize) {
        let is_denial = |envelope: &&Envelope| {
            String::from_utf8_lossy(&envelope.body).contains("\"code\":\"denied\"")
        };
        let mut heard = self.heard.clone();
        let denied = heard.wait_for(|heard| heard.iter().filter(is_denial).count() >= count);
        let denied = tokio::time::timeout(Duration::from_secs(60), denied).await;
        denied.expect("a denial").expect("the bus is there");
    }
}

#[tokio::test]
async fn a_script_runs_with_the_grant_of_its_agent_alone() {
    let granted = stage(Some(key())).await;
    assert_eq!(granted.run().await.unwrap().content.as_deref(), Some("42\n"));
    assert_eq!(granted.asked.lock().len(), 1);

    let other = GrantKey::new("another key, as long as the one.").unwrap();
    for key in [None, Some(other)] {
        let refused = stage(key).await;
        let error = refused.run().await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied);
        assert_eq!(error.execution, Execution::NotStarted);
        let expected = "this scripts manager requires a grant: ";
        assert!(error.message.starts_with(expected), "{error}");
        assert_eq!(refused.asked.lock().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn the_grant_of_a_script_is_good_for_no_other() {
    let stage = stage(Some(key())).await;
    stage.run().await.unwrap();
    let is_request = |envelope: &&Envelope| envelope.headers.get(header::GRANT).is_some();
    let heard = stage.heard.borrow().iter().find(is_request).cloned().expect("a request");

    let body = String::from_utf8(heard.body.to_vec()).unwrap();
    let script = body.replace("print(42)", "evil()");
    assert_ne!(script, body);
    let more_time = body.replace("\"timeoutSeconds\":30", "\"timeoutSeconds\":300");
    assert_ne!(more_time, body);
    let with_body = |body: String| Envelope { body: Bytes::from(body), ..heard.clone() };
    // A copy of the call itself: a refusal would go where its own answer goes.
    let copy = heard.clone().with_header(header::GRANT, "");
    stage.bus.publish(&topic::SCRIPT_INVOKE, copy).await.unwrap();

    let forgeries = [
        with_body(script),
        with_body(more_time),
        heard.clone().with_correlation_id("mine"),
        heard.clone().with_correlation_id("none").with_header(header::GRANT, ""),
    ];
    for (number, forgery) in forgeries.into_iter().enumerate() {
        stage.bus.publish(&topic::SCRIPT_INVOKE, forgery).await.unwrap();
        stage.wait_for_denials(number + 1).await;
        assert_eq!(stage.asked.lock().len(), 1);
    }
}
