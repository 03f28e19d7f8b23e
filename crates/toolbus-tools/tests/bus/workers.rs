//! Workers that die in a call, that come back, and that are none of ours.

use std::future::{pending, ready};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use toolbus_bus::requester::Requester;
use toolbus_bus::{
    Bus, Delivery, Disposition, Envelope, Flow, MemoryBus, Subscription, TopicPattern,
};
use toolbus_tools::bus::{Remote, RemoteCall, output_of};
use toolbus_tools::call::Invocation;
use toolbus_tools::{CallError, Executor, Invoker, Outcome, Output, Registry, Tool};
use toolbus_wire::header::{self, Headers};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::tool::{ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{ErrorCode, Execution, Message, message, queue, topic};

use crate::support::*;

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
    assert!(silence < 17 * SECOND, "{silence:?}");
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
    // The second worker cannot know whether the first one lives, so its silence is waited for.
    assert!(since.elapsed() < 17 * SECOND, "{:?}", since.elapsed());
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

/// Whether a tool that is not there may run twice is not known, so a redelivered call of it is taken
/// as one that was started.
#[tokio::test(start_paused = true)]
async fn a_redelivered_call_of_a_missing_tool_may_have_been_run_by_who_had_it() {
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
    assert_eq!(error.code, ErrorCode::OutcomeUnknown);
}

/// An agent that was started again takes queued calls before its workers have announced their
/// tools.
#[tokio::test(start_paused = true)]
async fn a_call_that_comes_before_its_tool_waits_for_it() {
    let broker = MemoryBus::new();
    let replies = Inbox::open(&broker, "replies").await;
    let registry = Arc::new(Registry::new());
    let _worker = WorkerProcess::start(&broker, &Invoker::new(Arc::clone(&registry))).await;
    let call = |tool: &str| {
        let body = json!({"toolCallId": "c", "toolName": tool}).to_string();
        strange(ToolInvokeRequest::TYPE, body.as_bytes())
    };
    broker.publish(&topic::TOOL_INVOKE, call("late")).await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    let tool = Tool::new("late", "", "test");
    registry.register(tool, |_: Invocation| ready(Ok(Output::text("here")))).unwrap();
    let outcome = output_of(&replies.received(1).await[0]);
    assert_eq!(outcome, Ok(Output::text("here")));

    // What never comes is said not to be there once the grace is over, and then at once.
    broker.publish(&topic::TOOL_INVOKE, call("never")).await.unwrap();
    let error = output_of(&replies.received(2).await[1]).unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound);
    let started = Instant::now();
    broker.publish(&topic::TOOL_INVOKE, call("never")).await.unwrap();
    let error = output_of(&replies.received(3).await[2]).unwrap_err();
    assert_eq!((error.code, started.elapsed()), (ErrorCode::ToolNotFound, Duration::ZERO));
}

/// Says that a server is there some time after the tool that leads to it.
struct Gateway(watch::Sender<bool>);

impl Executor for Gateway {
    fn execute(&self, _: Invocation) -> BoxFuture<'_, Outcome> {
        let outcome = match *self.0.borrow() {
            true => Ok(Output::text("here")),
            false => Err(CallError::new(ErrorCode::ToolNotFound, "no such server")),
        };
        Box::pin(ready(outcome))
    }

    fn await_target<'a>(&'a self, arguments: &'a Map<String, Value>) -> BoxFuture<'a, ()> {
        assert_eq!(arguments["server_name"], "late");
        Box::pin(async {
            let _ = self.0.subscribe().wait_for(|here| *here).await;
        })
    }
}

/// The first worker brings the gateway, and a later one the server that the call names.
#[tokio::test(start_paused = true)]
async fn a_call_that_comes_before_its_server_waits_for_it() {
    let broker = MemoryBus::new();
    let replies = Inbox::open(&broker, "replies").await;
    let registry = Arc::new(Registry::new());
    let here = watch::Sender::new(false);
    registry.register(Tool::new("gateway", "", "test"), Gateway(here.clone())).unwrap();
    let _worker = WorkerProcess::start(&broker, &Invoker::new(registry)).await;
    let call = || {
        let arguments = json!({"server_name": "late"}).to_string();
        let body = json!({"toolCallId": "c", "toolName": "gateway", "arguments": arguments});
        strange(ToolInvokeRequest::TYPE, body.to_string().as_bytes())
    };

    broker.publish(&topic::TOOL_INVOKE, call()).await.unwrap();
    tokio::time::sleep(5 * SECOND).await;
    here.send_replace(true);
    assert_eq!(output_of(&replies.received(1).await[0]), Ok(Output::text("here")));

    // Later nothing is waited for.
    tokio::time::sleep(20 * SECOND).await;
    here.send_replace(false);
    let started = Instant::now();
    broker.publish(&topic::TOOL_INVOKE, call()).await.unwrap();
    let error = output_of(&replies.received(2).await[1]).unwrap_err();
    assert_eq!((error.code, started.elapsed()), (ErrorCode::ToolNotFound, Duration::ZERO));
}

/// A C# bridge advises to call again after any timeout, and does not say what was started.
#[tokio::test(start_paused = true)]
async fn a_peer_s_advice_to_call_again_holds_only_for_what_may_run_twice() {
    let broker = MemoryBus::new();
    let bus: Arc<dyn Bus> = Arc::new(broker.clone());
    let answering = Arc::clone(&bus);
    let worker = move |delivery: Delivery| {
        let bus = Arc::clone(&answering);
        async move {
            let request: ToolInvokeRequest = message::read(&delivery.envelope).unwrap();
            let body = json!({
                "toolCallId": request.tool_call_id,
                "toolName": request.tool_name,
                "code": request.tool_name.trim_start_matches("read_"),
                "message": "no luck",
                "isRetryable": true
            });
            let reply_to = delivery.envelope.reply_to.clone().unwrap();
            let reply = Envelope {
                correlation_id: delivery.envelope.correlation_id.clone(),
                ..Envelope::new(ToolError::TYPE, "mcp-bridge.RockBot", body.to_string().into())
            };
            bus.publish(&reply_to, reply).await.unwrap();
            Disposition::Ack
        }
    };
    let pattern = TopicPattern::from(topic::TOOL_INVOKE_MCP);
    let flow = Flow::Concurrent(NonZeroU16::MIN);
    let subscription = Subscription::durable("mcp-bridge.RockBot", pattern, flow);
    let _worker = bus.subscribe(subscription, Arc::new(worker)).await.unwrap();
    let requester = Requester::start(bus, AgentName::standard(), &InstanceId::random()).await;
    let requester = requester.unwrap();
    let remote = || Remote::new(requester.clone(), topic::TOOL_INVOKE_MCP);

    let registry = Registry::new();
    for (tool, ..) in ADVICE {
        let described = Tool::new(tool, "", "test");
        let is_read = tool.starts_with("read_");
        let described = if is_read { described.read_only() } else { described };
        registry.register(described, remote()).unwrap();
    }
    let invoker = Invoker::new(Arc::new(registry));

    for (tool, execution, is_retryable) in ADVICE {
        let error = invoker.invoke(call(tool, "")).await.unwrap_err();
        assert_eq!((error.execution, error.is_retryable), (execution, is_retryable), "{tool}");
    }
}

/// Tools by the code that the peer ends them with, what is then known of the call, and whether it
/// may be made again.
const ADVICE: [(&str, Execution, bool); 5] = [
    ("timeout", Execution::Unknown, false),
    ("read_timeout", Execution::Unknown, true),
    ("execution_failed", Execution::Started, false),
    ("a_code_of_its_own", Execution::Unknown, false),
    ("busy", Execution::NotStarted, true),
];

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
    let requester = requester.unwrap();
    let registry = Registry::new();
    let executor = move |call: Invocation| {
        let requester = requester.clone();
        async move {
            let remote = RemoteCall {
                may_repeat: false,
                workers: None,
                topic: &topic::TOOL_INVOKE_MCP,
                tool: "add_task",
                params: RawJson::of(&json!({"arguments": {"a": 1}})),
                session: None,
                headers: Headers::new().with(header::MCP_SERVER, "todo"),
                permit: &call.permit,
                context: call.context,
            };
            remote.send(&requester).await
        }
    };
    registry.register(Tool::new("work", "", "test"), executor).unwrap();
    let invoker = Invoker::new(Arc::new(registry));
    assert_eq!(invoker.invoke(call("work", "")).await, Ok(Output::text("at last")));
}
