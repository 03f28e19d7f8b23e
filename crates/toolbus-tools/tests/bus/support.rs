//! What the tests share: a worker whose tools do as they are told, a caller of them, and a
//! stranger.

use std::future::pending;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::Requester;
use toolbus_bus::responder::Responder;
use toolbus_bus::{
    Bus, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, Topic, TopicPattern,
};
use toolbus_tools::bus::{Remote, ServeOptions, serve};
use toolbus_tools::call::{Arguments, Call, CallTime, Invocation};
use toolbus_tools::id::{CallId, SessionId, ToolName};
use toolbus_tools::{CallError, Door, Invoker, Outcome, Output, Principal, Registry, Scope, Tool};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::{ContentBlock, ContentKind};
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, topic};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Longest wait for what must come. The clock is paused, so it costs nothing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(200);

/// What the tools of the worker have seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Calls of `work` that were started, with what they were given.
    pub(crate) started: Vec<String>,
    /// How much time each was left with.
    pub(crate) left: Vec<Duration>,
    pub(crate) dropped: usize,
    pub(crate) cancelled: usize,
}

pub(crate) type Watched = Arc<watch::Sender<Seen>>;

pub(crate) async fn until(seen: &Watched, what: &str, condition: impl FnMut(&Seen) -> bool) {
    let mut seen = seen.subscribe();
    let wait = tokio::time::timeout(PATIENCE, seen.wait_for(condition)).await;
    wait.unwrap_or_else(|_| panic!("{what}: never")).unwrap();
}

/// The tools of a worker: `work` does what its argument says, `read` is the same and read-only.
pub(crate) fn tools(seen: &Watched) -> Invoker {
    let registry = Registry::new();
    let parameters = json!({
        "type": "object",
        "properties": {"do": {"type": "string"}},
        "required": ["do"]
    });
    for tool in [Tool::new("work", "", "test"), Tool::new("read", "", "test").read_only()] {
        let seen = Arc::clone(seen);
        let work = move |call: Invocation| work(Arc::clone(&seen), call);
        registry.register(tool.with_parameters(parameters.clone()), work).unwrap();
    }
    Invoker::new(Arc::new(registry))
}

async fn work(seen: Watched, call: Invocation) -> Outcome {
    struct Ended(Watched, CancellationToken, bool);
    impl Drop for Ended {
        fn drop(&mut self) {
            let (dropped, cancelled) = (!self.2, self.1.is_cancelled());
            self.0.send_modify(|seen| {
                seen.dropped += usize::from(dropped);
                seen.cancelled += usize::from(cancelled);
            });
        }
    }
    let what = call.arguments["do"].as_str().unwrap().to_owned();
    seen.send_modify(|seen| {
        seen.started.push(what.clone());
        seen.left.push(call.context.deadline.left());
    });
    let mut ended = Ended(seen, call.context.cancelled.clone(), false);
    let outcome = match what.as_str() {
        "block" => Ok(Output {
            content: Some("text".to_owned()),
            blocks: vec![ContentBlock {
                kind: ContentKind::Image,
                text: None,
                data: Some("AAAA".to_owned()),
                mime_type: Some("image/png".to_owned()),
                uri: None,
            }],
            structured: Some(RawJson::of(&json!({"AnyCase": [1, null]}))),
            ..Output::default()
        }),
        "say too much" => Ok(Output {
            content: Some("\0".repeat(8 << 20)),
            blocks: vec![ContentBlock {
                kind: ContentKind::Resource,
                text: Some("\"".repeat(4 << 20)),
                data: None,
                mime_type: None,
                uri: None,
            }],
            structured: Some(RawJson::of(&json!({"more": "\n".repeat(4 << 20)}))),
            ..Output::default()
        }),
        "fail itself" => Ok(Output::error("no luck")),
        "fail" => Err(CallError::new(ErrorCode::Denied, "not you")),
        "panic" => panic!("on request"),
        "never end" => pending().await,
        "end on cancel" => {
            call.context.cancelled.cancelled().await;
            Err(CallError::cancelled())
        }
        "talk" => {
            for step in 1..=3_u32 {
                let progress = Some(f64::from(step));
                call.context.progress.send(ToolProgress { progress, ..ToolProgress::default() });
            }
            Ok(Output::text("talked"))
        }
        _ => Ok(Output::text(format!("{} for {:?}", call.tool, call.scope.session))),
    };
    ended.2 = true;
    outcome
}

/// A worker on a connection of its own, as another process would be.
pub(crate) struct WorkerProcess {
    connection: MemoryBus,
    _responders: [Responder; 2],
}

impl WorkerProcess {
    pub(crate) async fn start(broker: &MemoryBus, invoker: &Invoker) -> Self {
        let connection = broker.connect();
        let bus: Arc<dyn Bus> = Arc::new(connection.clone());
        let options = ServeOptions {
            agent: worker_name(),
            instance: InstanceId::random(),
            concurrency: NonZeroU16::new(4).unwrap(),
            parked: Vec::new(),
        };
        let responders = serve(bus, invoker, options).await;
        Self { connection, _responders: responders.unwrap() }
    }

    /// The end of the process, without a word to anybody.
    pub(crate) async fn kill(self) {
        self.connection.close(Duration::ZERO).await;
    }
}

pub(crate) fn worker_name() -> AgentName {
    AgentName::parse("Worker").unwrap()
}

/// A broker, a worker process, and a caller with an invoker of remote tools.
pub(crate) struct Fleet {
    pub(crate) broker: MemoryBus,
    pub(crate) seen: Watched,
    pub(crate) worker: WorkerProcess,
    pub(crate) requester: Requester,
    pub(crate) caller: Invoker,
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        let broker = MemoryBus::new();
        let seen = Watched::default();
        let worker = WorkerProcess::start(&broker, &tools(&seen)).await;
        let bus: Arc<dyn Bus> = Arc::new(broker.connect());
        let requester =
            Requester::start(bus, AgentName::standard(), &InstanceId::random()).await.unwrap();
        let registry = Registry::new();
        for name in ["work", "read", "missing"] {
            let to = topic::tool_invoke_agent(&worker_name());
            let remote = Remote::new(requester.clone(), to);
            registry.register(Tool::new(name, "", "remote"), remote).unwrap();
        }
        let nowhere = Topic::parse("nobody.listens").unwrap();
        let remote = Remote::new(requester.clone(), nowhere);
        registry.register(Tool::new("nowhere", "", "remote"), remote).unwrap();
        Self { broker, seen, worker, requester, caller: Invoker::new(Arc::new(registry)) }
    }

    pub(crate) async fn call(&self, tool: &str, what: &str) -> Outcome {
        self.caller.invoke(call(tool, what)).await
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.borrow())
    }
}

pub(crate) fn call(tool: &str, what: &str) -> Call {
    let scope = Scope::new(Door::CommandLine, Principal::claimed("test"), AgentName::standard())
        .with_session(Some(SessionId::parse("session/abc").unwrap()));
    let tool = ToolName::parse(tool).unwrap();
    let arguments = Arguments::Value(json!({"do": what}));
    Call::new(&Arc::new(scope), CallId::parse("call_1").unwrap(), tool, arguments)
        .with_time(CallTime::within(100 * SECOND))
}

/// Keeps what comes to a topic.
pub(crate) struct Inbox {
    messages: watch::Receiver<Vec<Envelope>>,
    _consumer: toolbus_bus::Consumer,
}

impl Inbox {
    pub(crate) async fn open(bus: &dyn Bus, at: &str) -> Self {
        let (kept, messages) = watch::channel(Vec::new());
        let handler = move |delivery: Delivery| {
            kept.send_modify(|messages| messages.push(delivery.envelope));
            std::future::ready(Disposition::Ack)
        };
        let flow = Flow::Ordered { prefetch: NonZeroU16::MIN };
        let subscription = Subscription::private(at, TopicPattern::parse(at).unwrap(), flow);
        let _consumer = bus.subscribe(subscription, Arc::new(handler)).await.unwrap();
        Self { messages, _consumer }
    }

    pub(crate) async fn received(&self, count: usize) -> Vec<Envelope> {
        let mut messages = self.messages.clone();
        let wait = messages.wait_for(|messages| messages.len() >= count);
        let messages = tokio::time::timeout(PATIENCE, wait).await;
        messages.unwrap_or_else(|_| panic!("{count} messages: never")).unwrap().clone()
    }
}

/// A request by hand, as a stranger would send it.
pub(crate) fn strange(message_type: &str, body: &[u8]) -> Envelope {
    let body = bytes::Bytes::copy_from_slice(body);
    Envelope::new(message_type, "stranger", body).with_reply_to(Topic::parse("replies").unwrap())
}
