//! Both ends of a tool call over the in-memory broker: what a caller sees of a tool that another
//! process runs.

#![allow(clippy::unwrap_used, reason = "the helpers of a test are a test too")]

use std::collections::BTreeMap;
use std::future::pending;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_bus::requester::{self, REQUESTS_MAX, Requester};
use toolbus_bus::responder::Responder;
use toolbus_bus::{
    Asker, Bus, Deadline, Delivery, Disposition, Envelope, Flow, MemoryBus, Progress, PublishError,
    Subscription, Topic, TopicPattern,
};
use toolbus_tools::bus::{Remote, RemoteCall, error_of, output_of, reply_to, serve};
use toolbus_tools::call::{Arguments, Call, Invocation, Time};
use toolbus_tools::{CallError, Executor, Invoker, Outcome, Output, Registry, Tool};
use toolbus_wire::fixtures::{self, RecordedFrame};
use toolbus_wire::header::{self, Headers};
use toolbus_wire::message::tool::{
    CallIds, ContentBlock, ContentKind, ToolError, ToolInvokeRequest, ToolInvokeResponse,
};
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, Message, json as wire_json, message, queue, topic};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::layer::SubscriberExt as _;

const SECOND: Duration = Duration::from_secs(1);
/// Longest wait for what must come. The clock is paused, so it costs nothing.
const PATIENCE: Duration = Duration::from_secs(200);

/// What the tools of the worker have seen.
#[derive(Default)]
struct Seen {
    /// Calls of `work` that were started, with what they were given.
    started: Vec<String>,
    /// How much time each was left with.
    left: Vec<Duration>,
    dropped: usize,
    cancelled: usize,
}

type Watched = Arc<watch::Sender<Seen>>;

async fn until(seen: &Watched, what: &str, condition: impl FnMut(&Seen) -> bool) {
    let mut seen = seen.subscribe();
    let wait = tokio::time::timeout(PATIENCE, seen.wait_for(condition)).await;
    wait.unwrap_or_else(|_| panic!("{what}: never")).unwrap();
}

/// The tools of a worker: `work` does what its argument says, `read` is the same and read-only.
fn tools(seen: &Watched) -> Invoker {
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
        seen.left.push(call.deadline.left());
    });
    let mut ended = Ended(seen, call.cancelled.clone(), false);
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
            structured: Some(serde_json::json!({"AnyCase": [1, null]})),
            is_error: false,
        }),
        "fail itself" => Ok(Output::error("no luck")),
        "fail" => Err(CallError::new(ErrorCode::Denied, "not you")),
        "panic" => panic!("on request"),
        "never end" => pending().await,
        "end on cancel" => {
            call.cancelled.cancelled().await;
            Err(CallError::cancelled())
        }
        "talk" => {
            for step in 1..=3_u32 {
                let progress = Some(f64::from(step));
                call.progress.send(ToolProgress { progress, ..ToolProgress::default() });
            }
            Ok(Output::text("talked"))
        }
        _ => Ok(Output::text(format!("{} for {:?}", call.tool, call.session))),
    };
    ended.2 = true;
    outcome
}

/// A worker on a connection of its own, as another process would be.
struct WorkerProcess {
    connection: MemoryBus,
    _responders: [Responder; 2],
}

impl WorkerProcess {
    async fn start(broker: &MemoryBus, invoker: &Invoker) -> Self {
        let connection = broker.connect();
        let bus: Arc<dyn Bus> = Arc::new(connection.clone());
        let concurrency = NonZeroU16::new(4).unwrap();
        let instance = InstanceId::random();
        let responders = serve(bus, &worker_name(), &instance, concurrency, invoker).await;
        Self { connection, _responders: responders.unwrap() }
    }

    /// The end of the process, without a word to anybody.
    async fn kill(self) {
        self.connection.close(Duration::ZERO).await;
    }
}

fn worker_name() -> AgentName {
    AgentName::parse("Worker").unwrap()
}

/// A broker, a worker process, and a caller with an invoker of remote tools.
struct Fleet {
    broker: MemoryBus,
    seen: Watched,
    worker: WorkerProcess,
    requester: Requester,
    caller: Invoker,
}

impl Fleet {
    async fn start() -> Self {
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

    async fn call(&self, tool: &str, what: &str) -> Outcome {
        self.caller.invoke(call(tool, what)).await
    }

    fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.seen.borrow())
    }
}

fn call(tool: &str, what: &str) -> Call {
    Call {
        id: "call_1".to_owned(),
        tool: tool.to_owned(),
        arguments: Arguments::Value(json!({"do": what})),
        caller: "test".to_owned(),
        session: Some("session/abc".to_owned()),
        time: Time::Budget(100 * SECOND),
        cancelled: CancellationToken::new(),
        progress: Progress::none(),
        asker: Asker::none(),
    }
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_the_same_at_both_ends() {
    let fleet = Fleet::start().await;
    let here = tools(&Watched::default());
    for (tool, what) in [
        ("work", "anything"),
        ("read", "anything"),
        ("work", "block"),
        ("work", "fail itself"),
        ("work", "fail"),
        ("work", "panic"),
        ("missing", "anything"),
    ] {
        let remote = fleet.call(tool, what).await;
        assert_eq!(remote, here.invoke(call(tool, what)).await, "{tool} {what}");
    }
    let refused = Call { arguments: Arguments::Value(json!({"x": 1})), ..call("work", "") };
    assert_eq!(
        fleet.caller.invoke(refused).await,
        Err(CallError::invalid_arguments("Missing required argument: do"))
    );
    assert_eq!(fleet.requester.stats(), requester::Stats::default());
}

#[tokio::test(start_paused = true)]
async fn each_hop_has_less_time_and_a_timeout_names_what_was_asked_for() {
    let fleet = Fleet::start().await;
    let started = Instant::now();
    let outcome = fleet.call("work", "never end").await;
    assert_eq!(
        outcome,
        Err(CallError::new(ErrorCode::Timeout, "tool 'work' did not end within 100000 ms"))
    );
    let took = started.elapsed();
    assert!(took > 97 * SECOND && took < 99 * SECOND, "the worker says so, in time: {took:?}");
    let left = fleet.look(|seen| seen.left[0]);
    assert!(left > 97 * SECOND && left <= 98 * SECOND, "{left:?}");
    assert_eq!(fleet.look(|seen| seen.dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_reaches_the_tool() {
    let fleet = Fleet::start().await;
    for (nth, what) in ["never end", "end on cancel"].into_iter().enumerate() {
        let call = call("work", what);
        let cancelled = call.cancelled.clone();
        let cancelling = async {
            until(&fleet.seen, "the tool runs", |seen| seen.started.len() == nth + 1).await;
            cancelled.cancel();
            Instant::now()
        };
        let (outcome, since) = tokio::join!(fleet.caller.invoke(call), cancelling);
        assert_eq!(outcome, Err(CallError::cancelled()));
        assert!(since.elapsed() < SECOND / 10, "the caller is not kept");
        until(&fleet.seen, "the tool is told", |seen| seen.cancelled == nth + 1).await;
        assert!(since.elapsed() < SECOND);
    }
    assert_eq!(fleet.look(|seen| seen.dropped), 1);
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_the_caller_before_the_outcome() {
    let fleet = Fleet::start().await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&heard);
    let progress = Progress::to(move |news| sink.lock().push((news.seq, news.progress)));
    let outcome = fleet.caller.invoke(Call { progress, ..call("work", "talk") }).await;
    assert_eq!(outcome, Ok(Output::text("talked")));
    assert_eq!(*heard.lock(), [(0, Some(1.0)), (1, Some(2.0)), (2, Some(3.0))]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_is_killed_mid_call_gives_an_unknown_outcome_in_seconds() {
    let fleet = Fleet::start().await;
    let Fleet { seen, worker, caller, .. } = fleet;
    let killing = async {
        until(&seen, "the tool runs", |seen| seen.started.len() == 1).await;
        // Long enough for a sign of life to have come.
        tokio::time::sleep(SECOND / 2).await;
        worker.kill().await;
        Instant::now()
    };
    let (outcome, since) = tokio::join!(caller.invoke(call("work", "never end")), killing);
    let error = outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::OutcomeUnknown);
    assert_eq!(error.message, "tool 'work': the worker that had taken the call was lost");
    let silence = since.elapsed();
    assert!(silence < Duration::from_millis(4_500), "{silence:?}");
    assert_eq!(seen.borrow().dropped, 1);
}

#[tokio::test(start_paused = true)]
async fn another_worker_says_that_the_outcome_is_unknown_and_runs_nothing_twice() {
    let Fleet { broker, seen, worker, caller, .. } = Fleet::start().await;
    let killing = async {
        until(&seen, "the tool runs", |seen| seen.started.len() == 1).await;
        let second = WorkerProcess::start(&broker, &tools(&seen)).await;
        worker.kill().await;
        (Instant::now(), second)
    };
    let (outcome, (since, _second)) =
        tokio::join!(caller.invoke(call("work", "never end")), killing);
    let error = outcome.unwrap_err();
    assert_eq!(error.code, ErrorCode::OutcomeUnknown);
    assert!(error.message.contains("may have taken effect or not"), "{}", error.message);
    assert!(since.elapsed() < SECOND);
    assert_eq!(seen.borrow().started.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_read_only_tool_is_run_again_when_its_worker_was_killed() {
    let Fleet { broker, seen, worker, caller, .. } = Fleet::start().await;
    let killing = async {
        until(&seen, "the tool runs", |seen| seen.started.len() == 1).await;
        worker.kill().await;
        // The worker comes back with better luck.
        let registry = Registry::new();
        let tool = Tool::new("read", "", "test").read_only();
        let lucky = |_: Invocation| std::future::ready(Ok(Output::text("second time lucky")));
        registry.register(tool, lucky).unwrap();
        WorkerProcess::start(&broker, &Invoker::new(Arc::new(registry))).await
    };
    let (outcome, _worker) = tokio::join!(caller.invoke(call("read", "never end")), killing);
    assert_eq!(outcome, Ok(Output::text("second time lucky")));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_nobody_can_take_fails_at_once() {
    let fleet = Fleet::start().await;
    let started = Instant::now();
    let error = fleet.call("nowhere", "anything").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unroutable);
    assert_eq!(error.message, "tool 'nowhere': no queue takes the topic nobody.listens");
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[test]
fn every_failure_of_a_request_has_its_code() {
    let check = |error: requester::Error, code: ErrorCode, text: &str| {
        let told = error_of("x", error);
        assert_eq!((told.code, told.message.as_str()), (code, text));
    };
    let publish = requester::Error::Publish;
    let asked = 5 * SECOND;
    check(
        requester::Error::Timeout { asked },
        ErrorCode::Timeout,
        "tool 'x' did not end within 5000 ms",
    );
    check(requester::Error::Cancelled, ErrorCode::Cancelled, "the call was cancelled");
    check(
        requester::Error::WorkerLost,
        ErrorCode::OutcomeUnknown,
        "tool 'x': the worker that had taken the call was lost",
    );
    check(
        requester::Error::Busy,
        ErrorCode::Busy,
        &format!("tool 'x': {REQUESTS_MAX} requests are under way already"),
    );
    check(requester::Error::Closed, ErrorCode::OutcomeUnknown, "tool 'x': the requester is closed");
    check(
        publish(PublishError::Refused("full".to_owned())),
        ErrorCode::Busy,
        "tool 'x': the broker refused the message: full",
    );
    check(
        publish(PublishError::Unavailable("away".to_owned())),
        ErrorCode::Unroutable,
        "tool 'x': the broker is not reachable: away",
    );
    check(
        publish(PublishError::TooLarge { bytes: 1 }),
        ErrorCode::InvalidArguments,
        "tool 'x': a body of 1 bytes is over the limit of 16777216",
    );
    check(publish(PublishError::Closed), ErrorCode::ExecutionFailed, "tool 'x': the bus is closed");
}

#[test]
fn an_outcome_survives_its_message() {
    let ids = CallIds { tool_call_id: "c".to_owned(), tool_name: "x".to_owned() };
    for outcome in [
        Ok(Output::default()),
        Ok(Output::text("")),
        Ok(Output::error("no luck")),
        Err(CallError::new(ErrorCode::RateLimited, "slow down")),
    ] {
        let reply = reply_to(&ids, outcome.clone());
        let envelope = Envelope::new(reply.message_type, "worker", reply.body);
        assert_eq!(output_of(&envelope), outcome);
    }
    let garbage = Envelope::new("RockBot.Tools.ToolInvokeResponse", "odd", "[".into());
    let error = output_of(&garbage).unwrap_err();
    assert_eq!(error.code, ErrorCode::OutcomeUnknown);
    assert!(error.message.starts_with("the reply of odd cannot be read: "), "{}", error.message);
}

/// A C# worker: it reads none of our headers, gives no signs of life, and answers late.
#[tokio::test(start_paused = true)]
async fn a_worker_that_knows_none_of_our_headers_is_waited_for() {
    let broker = MemoryBus::new();
    let bus: Arc<dyn Bus> = Arc::new(broker.clone());
    let answering = Arc::clone(&bus);
    let worker = move |delivery: Delivery| {
        let bus = Arc::clone(&answering);
        async move {
            let request: ToolInvokeRequest = message::read(&delivery.envelope).unwrap();
            assert_eq!(request.arguments.as_deref(), Some("{\"a\":1}"));
            assert_eq!(delivery.envelope.headers.get(header::MCP_SERVER), Some("todo"));
            assert_eq!(delivery.envelope.headers.get(header::CONTENT_TRUST), Some("tool-request"));
            tokio::time::sleep(30 * SECOND).await;
            let reply = ToolInvokeResponse {
                tool_call_id: request.tool_call_id,
                tool_name: request.tool_name,
                content: Some("at last".to_owned()),
                ..ToolInvokeResponse::default()
            };
            let reply = delivery.envelope.reply(&reply, "mcp-bridge.RockBot");
            bus.publish(&delivery.envelope.reply_to.unwrap(), reply).await.unwrap();
            Disposition::Ack
        }
    };
    let pattern = TopicPattern::from(topic::TOOL_INVOKE_MCP);
    let flow = Flow::Concurrent(NonZeroU16::MIN);
    let subscription = Subscription::durable("mcp-bridge.RockBot", pattern, flow);
    let _worker = bus.subscribe(subscription, Arc::new(worker)).await.unwrap();
    let requester = Requester::start(bus, AgentName::standard(), &InstanceId::random()).await;
    let call = RemoteCall {
        topic: &topic::TOOL_INVOKE_MCP,
        tool: "add_task",
        arguments: json!({"a": 1}),
        session: None,
        headers: Headers::new().with(header::MCP_SERVER, "todo"),
        deadline: Deadline::after(60 * SECOND),
        cancelled: &CancellationToken::new(),
        progress: &Progress::none(),
        asker: &Asker::none(),
    };
    assert_eq!(call.send(&requester.unwrap()).await, Ok(Output::text("at last")));
}

/// Keeps what comes to a topic.
struct Inbox {
    messages: watch::Receiver<Vec<Envelope>>,
    _consumer: toolbus_bus::Consumer,
}

impl Inbox {
    async fn open(bus: &dyn Bus, at: &str) -> Self {
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

    async fn received(&self, count: usize) -> Vec<Envelope> {
        let mut messages = self.messages.clone();
        let wait = messages.wait_for(|messages| messages.len() >= count);
        let messages = tokio::time::timeout(PATIENCE, wait).await;
        messages.unwrap_or_else(|_| panic!("{count} messages: never")).unwrap().clone()
    }
}

/// The signs of life alone stand apart: each speaks of all calls of a caller.
#[tokio::test(start_paused = true)]
async fn one_call_is_one_trace() {
    // With one subscriber alone, whether a span is wanted is asked once, of the thread that comes by
    // first; and that may be another test. With several, all of them are asked.
    let _others = [(), ()].map(|()| Dispatch::new(NoSubscriber::new()));
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let _here = tracing::subscriber::set_default(subscriber);
    let fleet = Fleet::start().await;

    let listened = Call { progress: Progress::to(drop), ..call("work", "talk") };
    assert!(fleet.caller.invoke(listened).await.is_ok());
    let cancelled = call("work", "never end");
    let token = cancelled.cancelled.clone();
    let cancelling = async {
        until(&fleet.seen, "the tool runs", |seen| seen.started.len() == 2).await;
        token.cancel();
        until(&fleet.seen, "the tool is told", |seen| seen.cancelled == 1).await;
    };
    let (outcome, ()) = tokio::join!(fleet.caller.invoke(cancelled), cancelling);
    assert!(outcome.is_err());
    fleet.requester.close().await;
    fleet.worker.kill().await;

    let spans = exporter.get_finished_spans().unwrap();
    let mut traces: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for span in &spans {
        let attributes = &span.attributes;
        let to = attributes.iter().find(|kv| kv.key.as_str() == "messaging.destination.name");
        let to = to.map_or(String::new(), |kv| kv.value.to_string());
        let to = to.split('.').take(2).collect::<Vec<_>>().join(".");
        let name = format!("{} {to}", span.name).trim().to_owned();
        traces.entry(span.span_context.trace_id().to_string()).or_default().push(name);
    }
    let mut traces: Vec<_> = traces.into_values().filter(|spans| spans.len() > 2).collect();
    traces.iter_mut().for_each(|spans| spans.sort());
    traces.sort_by_key(Vec::len);
    // Signs of life aside, every message of a call, both ways, and the tool at both ends.
    insta::assert_debug_snapshot!(traces, @r#"
    [
        [
            "process tool.cancel",
            "process tool.cancel",
            "process tool.invoke",
            "process tool.result",
            "publish tool.cancel",
            "publish tool.invoke",
            "publish tool.result",
            "tool.invoke work",
            "tool.invoke work",
        ],
        [
            "process tool.invoke",
            "process tool.progress",
            "process tool.progress",
            "process tool.progress",
            "process tool.result",
            "publish tool.invoke",
            "publish tool.progress",
            "publish tool.progress",
            "publish tool.progress",
            "publish tool.result",
            "tool.invoke work",
            "tool.invoke work",
        ],
    ]
    "#);
}

/// Models number their calls alike in every session, so the wire has ids of its own.
#[tokio::test(start_paused = true)]
async fn each_call_has_an_id_of_its_own_on_the_wire() {
    let fleet = Fleet::start().await;
    let requests = Inbox::open(&fleet.broker, "tool.invoke.agent.*").await;
    for _ in 0..2 {
        assert!(fleet.call("work", "anything").await.is_ok());
    }
    let ids: Vec<_> = requests.received(2).await.iter().map(wire_id).collect();
    assert!(ids.iter().all(|id| id.len() == 32) && ids[0] != ids[1], "{ids:?}");
}

fn wire_id(request: &Envelope) -> String {
    message::read::<ToolInvokeRequest>(request).unwrap().tool_call_id
}

/// The agent of the recording, with the six tools that were made for it.
async fn recorded_agent(bus: &MemoryBus) -> [Responder; 2] {
    let registry = Registry::new();
    let add = |name: &str, outcome: fn(Map<String, Value>) -> Outcome| {
        let run = move |call: Invocation| std::future::ready(outcome(call.arguments));
        registry.register(Tool::new(name, "", "recording"), run).unwrap();
    };
    add("echo", |arguments| {
        let content = (!arguments.is_empty()).then(|| Value::Object(arguments).to_string());
        Ok(Output { content, ..Output::default() })
    });
    add("throw_timeout", |_| Err(CallError::new(ErrorCode::Timeout, "too slow")));
    add("throw_argument", |_| Err(CallError::invalid_arguments("bad argument 'x'")));
    add("throw_other", |_| Err(CallError::execution_failed("it broke")));
    add("returns_error", |_| Ok(Output::error("it returned an error")));
    add("returns_null", |_| Ok(Output::default()));
    let invoker = Invoker::new(Arc::new(registry));
    let agent = AgentName::standard();
    let bus: Arc<dyn Bus> = Arc::new(bus.clone());
    serve(bus, &agent, &InstanceId::random(), NonZeroU16::MIN, &invoker).await.unwrap()
}

/// What two answers have to agree in: everything but message ids, times and span ids.
#[derive(Debug, PartialEq)]
struct Comparable {
    topic: String,
    message_type: String,
    correlation_id: Option<String>,
    reply_to: Option<Topic>,
    source: String,
    headers: Headers,
    trace_id: Option<String>,
    /// Without members that are null.
    body: Value,
}

impl Comparable {
    fn of(topic: &str, envelope: Envelope) -> Self {
        let mut body: Value = serde_json::from_slice(&envelope.body).unwrap();
        body.as_object_mut().unwrap().retain(|_, member| !member.is_null());
        let trace_id = |trace: &toolbus_wire::TraceContext| trace.traceparent()[3..35].to_owned();
        Self {
            topic: topic.to_owned(),
            message_type: envelope.message_type,
            correlation_id: envelope.correlation_id,
            reply_to: envelope.reply_to,
            source: envelope.source,
            headers: envelope.headers,
            trace_id: envelope.trace.as_ref().map(trace_id),
            body,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn recorded_calls_are_answered_as_they_were_recorded() {
    let flow = fixtures::flow("tool-invoke");
    let is_request = |recorded: &RecordedFrame| recorded.routing_key == "tool.invoke";
    let (requests, answers): (Vec<_>, Vec<_>) = flow.frames.into_iter().partition(is_request);
    assert_eq!((requests.len(), answers.len()), (8, 8));

    let bus = MemoryBus::new();
    let _agent = recorded_agent(&bus).await;
    let topics = ["client.replies", "tool.result"];
    let inboxes = [Inbox::open(&bus, topics[0]).await, Inbox::open(&bus, topics[1]).await];
    for recorded in requests {
        let topic = Topic::parse(&recorded.routing_key).unwrap();
        bus.publish(&topic, Envelope::from_frame(recorded.frame)).await.unwrap();
    }
    for (topic, inbox) in topics.into_iter().zip(inboxes) {
        let expected: Vec<_> = answers
            .iter()
            .filter(|recorded| recorded.routing_key == topic)
            .map(|recorded| Comparable::of(topic, Envelope::from_frame(recorded.frame.clone())))
            .collect();
        let given = inbox.received(expected.len()).await.into_iter();
        let given: Vec<_> = given.map(|answer| Comparable::of(topic, answer)).collect();
        assert_eq!(given, expected);
    }
}

/// A request by hand, as a stranger would send it.
fn strange(message_type: &str, body: &[u8]) -> Envelope {
    let body = bytes::Bytes::copy_from_slice(body);
    Envelope::new(message_type, "stranger", body).with_reply_to(Topic::parse("replies").unwrap())
}

#[tokio::test(start_paused = true)]
async fn whatever_is_wrong_with_a_request_is_told_once() {
    let bus = MemoryBus::new();
    let _agent = recorded_agent(&bus).await;
    let replies = Inbox::open(&bus, "replies").await;
    let tool_request = ToolInvokeRequest::TYPE;
    let arguments = |text: &str| {
        let request = json!({"toolCallId": "c", "toolName": "echo", "arguments": text});
        strange(tool_request, request.to_string().as_bytes())
    };
    let bad = [
        (strange(tool_request, b""), "", "the body is not JSON"),
        (strange(tool_request, b"null"), "", "the body is null"),
        (strange(tool_request, b"\xff\xfe{}"), "", "the body is not JSON: invalid UTF-8"),
        (strange(tool_request, b"[1,2]"), "", "the body is invalid"),
        (strange(tool_request, b"{\"toolCallId\":\"c\"}"), "c", "the body is invalid"),
        (strange("RockBot.Nonsense", b"{\"toolCallId\":\"c\"}"), "c", "unknown message type"),
        (arguments("not json"), "c", "arguments are not JSON"),
        (arguments("[1,2]"), "c", "arguments must be a JSON object, not an array"),
        (arguments(&"x".repeat(10 << 20)), "c", "arguments of 10485760 bytes are over the limit"),
    ];
    let count = bad.len();
    for (request, ..) in &bad {
        bus.publish(&topic::TOOL_INVOKE, request.clone()).await.unwrap();
    }
    let wrapped = arguments("\"{\\\"a\\\":1}\"");
    bus.publish(&topic::TOOL_INVOKE, wrapped).await.unwrap();
    let given = replies.received(count + 1).await;
    for ((_, id, text), reply) in bad.iter().zip(&given) {
        let error: ToolError = wire_json::read(&reply.body).unwrap();
        assert_eq!(error.code, ErrorCode::InvalidArguments, "{text}");
        assert_eq!(error.tool_call_id, *id, "{text}");
        assert!(error.message.starts_with(text), "{text}: {}", error.message);
        assert!(!error.is_retryable);
    }
    assert_eq!(output_of(&given[count]), Ok(Output::text("{\"a\":1}")));
    let queue = queue::of_agent(&AgentName::standard(), topic::TOOL_INVOKE.as_str());
    assert!(bus.dead_letters(&queue).is_empty());

    let nobody_asked = Envelope { reply_to: None, ..strange(tool_request, b"null") };
    bus.publish(&topic::TOOL_INVOKE, nobody_asked).await.unwrap();
    bus.publish(&topic::TOOL_INVOKE, arguments("{}")).await.unwrap();
    replies.received(count + 2).await;
    let letters = bus.dead_letters(&queue);
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].reason, "the body is null");
}

/// A tool that is not there has done nothing, whoever was asked before.
#[tokio::test(start_paused = true)]
async fn a_redelivered_call_of_a_missing_tool_is_not_found() {
    let broker = MemoryBus::new();
    let replies = Inbox::open(&broker, "replies").await;
    let taken = Arc::new(watch::Sender::new(false));
    let take = Arc::clone(&taken);
    let dying = move |_: Delivery| {
        take.send_replace(true);
        pending()
    };
    let name = queue::of_agent(&worker_name(), topic::TOOL_INVOKE.as_str());
    let pattern = TopicPattern::from(topic::TOOL_INVOKE);
    let flow = Flow::Concurrent(NonZeroU16::MIN);
    let subscription = Subscription::durable(name, pattern, flow);
    let dying = broker.subscribe(subscription, Arc::new(dying)).await.unwrap();
    let body = json!({"toolCallId": "c", "toolName": "missing"}).to_string();
    let request = strange(ToolInvokeRequest::TYPE, body.as_bytes());
    broker.publish(&topic::TOOL_INVOKE, request).await.unwrap();
    taken.subscribe().wait_for(|taken| *taken).await.unwrap();
    dying.kill().await;

    let _worker = WorkerProcess::start(&broker, &tools(&Watched::default())).await;
    let error = output_of(&replies.received(1).await[0]).unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound);
}

/// Takes as long as its argument says, and says so.
struct Sleeper(AtomicUsize);

impl Executor for Sleeper {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Outcome> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            let seconds = call.arguments["seconds"].as_u64().unwrap();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Output::text("slept"))
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        assert!(!arguments.contains_key("panic"), "on request");
    }

    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        Some(Duration::from_secs(arguments.get("seconds")?.as_u64()?) + 5 * SECOND)
    }
}

/// A stranger's request carries no time; the tool says how long its arguments may take.
#[tokio::test(start_paused = true)]
async fn without_a_time_of_the_caller_s_the_tool_s_own_counts() {
    let broker = MemoryBus::new();
    let registry = Registry::new();
    let sleeper = Tool::new("sleep", "", "test").with_timeout(SECOND);
    registry.register(sleeper, Sleeper(AtomicUsize::new(0))).unwrap();
    let _worker = WorkerProcess::start(&broker, &Invoker::new(Arc::new(registry))).await;
    let replies = Inbox::open(&broker, "replies").await;
    let ask = |arguments: &str, headers: Headers| {
        let request = json!({"toolCallId": "c", "toolName": "sleep", "arguments": arguments});
        let request = strange(ToolInvokeRequest::TYPE, request.to_string().as_bytes());
        Envelope { headers, ..request }
    };
    let none = Headers::new();
    let two_seconds = Headers::new().with(header::TIMEOUT_MS, "2000");
    let long = "{\"seconds\":150}";
    for (number, request, expected) in [
        (1, ask(long, none.clone()), Ok("slept")),
        (2, ask(long, two_seconds), Err("tool 'sleep' did not end within 2000 ms")),
        (3, ask("{}", none.clone()), Err("tool 'sleep' failed: it panicked")),
        // Even a tool that panics when it is asked for its time is answered for.
        (4, ask("{\"panic\":1}", none), Err("the worker panicked when it read the request")),
    ] {
        broker.publish(&topic::TOOL_INVOKE, request).await.unwrap();
        let outcome = output_of(&replies.received(number).await[number - 1]);
        let said = outcome.map(|output| output.content.unwrap()).map_err(|error| error.message);
        assert_eq!(said, expected.map(str::to_owned).map_err(str::to_owned));
    }
}
