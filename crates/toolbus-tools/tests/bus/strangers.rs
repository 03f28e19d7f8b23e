//! Requests of callers that are none of ours: as they were recorded, with mistakes, and without a
//! time.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_bus::responder::Responder;
use toolbus_bus::{Bus, Envelope, MemoryBus, Topic};
use toolbus_tools::bus::{ServeOptions, output_of, serve};
use toolbus_tools::call::Invocation;
use toolbus_tools::{CallError, Executor, Invoker, Outcome, Output, Registry, Tool};
use toolbus_wire::fixtures::{self, RecordedFrame};
use toolbus_wire::header::{self, Headers};
use toolbus_wire::message::tool::{ToolError, ToolInvokeRequest};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, Message, json as wire_json, queue, topic};

use crate::support::*;

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
    let options = ServeOptions {
        agent,
        instance: InstanceId::random(),
        concurrency: NonZeroU16::MIN,
        parked: Vec::new(),
    };
    serve(bus, &invoker, options).await.unwrap()
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
        let members = body.as_object_mut().unwrap();
        // What the C# code does not have, its peers ignore.
        members.retain(|name, member| !member.is_null() && name != "execution");
        if members.get("code").is_some_and(|code| code == "timeout") {
            // The C# code advises to call again after any timeout; ours only where nothing ran.
            members.insert("isRetryable".to_owned(), Value::Bool(false));
        }
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

/// What spans, logs and replies repeat of a request is bounded before anything repeats it.
#[tokio::test(start_paused = true)]
async fn a_name_or_an_id_without_a_bound_is_refused_and_not_repeated() {
    let bus = MemoryBus::new();
    let _agent = recorded_agent(&bus).await;
    let replies = Inbox::open(&bus, "replies").await;
    let long = "x".repeat(1 << 20);
    let bodies = [
        json!({"toolCallId": "c", "toolName": long}),
        json!({"toolCallId": long, "toolName": "echo"}),
    ];
    for (nth, body) in bodies.into_iter().enumerate() {
        let request = strange(ToolInvokeRequest::TYPE, body.to_string().as_bytes());
        bus.publish(&topic::TOOL_INVOKE, request).await.unwrap();
        let reply = replies.received(nth + 1).await.remove(nth);
        let error: ToolError = wire_json::read(&reply.body).unwrap();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(reply.body.len() < 2_000, "{} bytes", reply.body.len());
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
