use std::future::{Future, pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Progress;
use toolbus_wire::ErrorCode;

use super::*;
use crate::call::{Arguments, Output};
use crate::tool::{Executor, Tool};

mod recording;

const SECOND: Duration = Duration::from_secs(1);

/// An invoker of one tool, `work`, which takes an optional integer `n` and is run by a function.
fn invoker<F, Fut>(work: F) -> Invoker
where
    F: Fn(Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let registry = Registry::new();
    registry.register(tool(), work).unwrap();
    Invoker::new(Arc::new(registry))
}

fn tool() -> Tool {
    Tool::new("work", "works", "test").with_alias("Work").with_timeout(7 * SECOND).with_parameters(
        json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "m": {"type": "integer"}},
            "additionalProperties": false
        }),
    )
}

fn call(arguments: Value) -> Call {
    Call {
        id: "call_1".to_owned(),
        tool: "work".to_owned(),
        arguments: Arguments::Value(arguments),
        caller: "test".to_owned(),
        session: Some("session/abc".to_owned()),
        time: Time::Default,
        cancelled: CancellationToken::new(),
        progress: Progress::none(),
        asker: toolbus_bus::Asker::none(),
    }
}

fn code(outcome: &Outcome) -> ErrorCode {
    outcome.as_ref().unwrap_err().code.clone()
}

fn message(outcome: Outcome) -> String {
    outcome.unwrap_err().message
}

/// Whether work was dropped before its end.
#[derive(Clone, Default)]
struct Dropped(Arc<AtomicUsize>);

impl Dropped {
    fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Work that never ends by itself.
    async fn never_ends(self) -> Outcome {
        let _dropped = scopeguard(move || {
            self.0.fetch_add(1, Ordering::Relaxed);
        });
        pending().await
    }
}

fn scopeguard(end: impl FnMut()) -> impl Drop {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(end)
}

#[test]
fn the_gates_stand_in_their_order() {
    let gates = gates();
    let names: Vec<_> = gates.iter().map(|gate| gate.name()).collect();
    assert_eq!(
        names,
        [
            "budget",
            "look-up",
            "kind",
            "permission",
            "arguments",
            "schema",
            "rate limit",
            "approval",
            "artifacts",
            "cancelled",
            "credentials"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_tool_sees_the_call_as_it_was_made() {
    let invoker = invoker(|call: Invocation| {
        let Invocation { id, tool, arguments, caller, session, deadline, .. } = call;
        let left = deadline.left();
        ready(Ok(Output::text(format!("{id} {tool} {arguments:?} {caller} {session:?} {left:?}"))))
    });
    let by_alias = Call { tool: "Work".to_owned(), ..call(json!("{\"n\":1}")) };
    let output = invoker.invoke(by_alias).await.unwrap();
    insta::assert_snapshot!(
        output.content.unwrap(),
        @r#"call_1 work {"n": Number(1)} test Some("session/abc") 7s"#
    );
    assert!(invoker.registry().find("work").is_some());
}

#[tokio::test]
async fn what_a_tool_answers_is_the_outcome() {
    let blocks = vec![toolbus_wire::message::tool::ContentBlock {
        kind: toolbus_wire::message::tool::ContentKind::Text,
        text: Some("part".to_owned()),
        data: None,
        mime_type: None,
        uri: None,
    }];
    let output = Output { content: None, blocks, is_error: true, ..Output::default() };
    let answer = output.clone();
    let invoker = invoker(move |_| ready(Ok(answer.clone())));
    assert_eq!(invoker.invoke(call(json!({}))).await, Ok(output));
}

#[tokio::test]
async fn a_text_that_is_too_long_is_cut() {
    let invoker = invoker(|_| ready(Ok(Output::text("x".repeat(shape::CONTENT_BYTES_MAX + 7)))));
    let content = invoker.invoke(call(json!({}))).await.unwrap().content.unwrap();
    assert!(content.ends_with("x\n[result truncated — 7 chars omitted]"));
}

#[tokio::test]
async fn a_tool_that_is_not_there_is_not_found() {
    let invoker = invoker(|_| ready(Ok(Output::default())));
    for name in ["missing", "WORK", "", "work "] {
        let outcome = invoker.invoke(Call { tool: name.to_owned(), ..call(json!({})) }).await;
        assert_eq!(code(&outcome), ErrorCode::ToolNotFound);
        assert_eq!(message(outcome), format!("Tool '{name}' is not registered."));
    }
}

#[tokio::test]
async fn arguments_that_do_not_fit_never_reach_the_tool() {
    let invoker = invoker(|_| async { panic!("it was run") });
    for (bad, expected) in [
        (json!([]), "arguments must be a JSON object, not an array"),
        (
            json!({"n": "x", "o": 1}),
            "/n: \"x\" is not of type \"integer\"; \
             Additional properties are not allowed ('o' was unexpected)",
        ),
    ] {
        let outcome = invoker.invoke(call(bad)).await;
        assert_eq!(code(&outcome), ErrorCode::InvalidArguments);
        assert_eq!(message(outcome), expected);
    }
}

/// A tool that forgives habits, and takes as many seconds as it is told.
struct Forgiving;

impl Executor for Forgiving {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let seconds = call.arguments["n"].as_u64().unwrap();
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(Output::text(format!("{seconds} seconds, {:?} left", call.deadline.left())))
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        assert!(!arguments.contains_key("panic in coerce"), "on request");
        if let Some(number) = arguments.get_mut("n")
            && let Some(text) = number.as_str()
        {
            *number = text.parse().unwrap();
        }
    }

    fn timeout(&self, arguments: &Map<String, Value>) -> Option<Duration> {
        assert!(!arguments.contains_key("m"), "on request");
        Some(Duration::from_secs(arguments.get("n")?.as_u64()?) + SECOND)
    }
}

fn forgiving() -> Invoker {
    let registry = Registry::new();
    registry.register(tool(), Forgiving).unwrap();
    Invoker::new(Arc::new(registry))
}

#[tokio::test(start_paused = true)]
async fn habits_are_forgiven_before_the_check_and_the_arguments_may_set_the_time() {
    let output = forgiving().invoke(call(json!({"n": "100"}))).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("100 seconds, 1s left"));
    let hurried = Call { time: Time::Budget(5 * SECOND), ..call(json!({"n": 100})) };
    let outcome = forgiving().invoke(hurried).await;
    assert_eq!(message(outcome), "tool 'work' did not end within 5000 ms");
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_at_its_deadline() {
    let dropped = Dropped::default();
    let work = dropped.clone();
    let invoker = invoker(move |_| work.clone().never_ends());
    let until = Deadline::after(10 * SECOND).for_next_hop();
    for (time, limit, asked) in [
        (Time::Default, 7 * SECOND, 7_000),
        (Time::Budget(3 * SECOND), 3 * SECOND, 3_000),
        (Time::Until(until), Duration::ZERO, 10_000),
    ] {
        let started = Instant::now();
        let outcome = invoker.invoke(Call { time, ..call(json!({})) }).await;
        assert_eq!(code(&outcome), ErrorCode::Timeout);
        assert_eq!(message(outcome), format!("tool 'work' did not end within {asked} ms"));
        let took = started.elapsed();
        assert!(took >= limit && took < limit + SECOND / 10, "{took:?}");
    }
    // The last was over before it could start.
    assert_eq!(dropped.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_was_cancelled_before_is_not_run() {
    let invoker = invoker(|_| async { panic!("it was run") });
    let call = call(json!({}));
    call.cancelled.cancel();
    assert_eq!(code(&invoker.invoke(call).await), ErrorCode::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_drops_work_that_does_not_heed_it() {
    let dropped = Dropped::default();
    let work = dropped.clone();
    let invoker = invoker(move |_| work.clone().never_ends());
    let call = call(json!({}));
    let cancelled = call.cancelled.clone();
    let cancelling = async {
        tokio::time::sleep(SECOND).await;
        cancelled.cancel();
        Instant::now()
    };
    let (outcome, since) = tokio::join!(invoker.invoke(call), cancelling);
    assert_eq!(code(&outcome), ErrorCode::Cancelled);
    assert!(since.elapsed() >= CANCEL_GRACE && since.elapsed() < 2 * CANCEL_GRACE);
    assert_eq!(dropped.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_on_a_cancel_has_the_last_word() {
    let invoker = invoker(|call: Invocation| async move {
        call.cancelled.cancelled().await;
        tokio::time::sleep(CANCEL_GRACE / 2).await;
        Ok(Output::text("half of it"))
    });
    let call = call(json!({}));
    let cancelled = call.cancelled.clone();
    let (outcome, ()) = tokio::join!(invoker.invoke(call), async { cancelled.cancel() });
    assert_eq!(outcome, Ok(Output::text("half of it")));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_call_drops_its_work() {
    let dropped = Dropped::default();
    let work = dropped.clone();
    let invoker = invoker(move |_| work.clone().never_ends());
    assert!(invoker.invoke(call(json!({}))).now_or_never().is_none());
    assert_eq!(dropped.count(), 1);
}

#[tokio::test]
async fn a_panic_is_an_outcome_wherever_it_happens() {
    let expected = CallError::execution_failed("tool 'work' failed: it panicked");
    let later = invoker(|_| async { panic!("in its future") });
    assert_eq!(later.invoke(call(json!({}))).await, Err(expected.clone()));
    let at_once = invoker(|call: Invocation| {
        assert!(call.arguments.is_empty(), "before it has a future");
        ready(Ok(Output::text("fine")))
    });
    assert_eq!(at_once.invoke(call(json!({"n": 1}))).await, Err(expected.clone()));
    assert_eq!(at_once.invoke(call(json!({}))).await, Ok(Output::text("fine")));
    for arguments in [json!({"panic in coerce": 1}), json!({"m": 1}), json!({"n": "x"})] {
        assert_eq!(forgiving().invoke(call(arguments)).await, Err(expected.clone()));
    }
}

/// A gate that is told what to say, and writes down when it was asked.
struct Scripted<F>(&'static str, F);

impl<F> Gate for Scripted<F>
where
    F: for<'a> Fn(&'a mut Passage<'_>) -> Verdict<'a> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn check<'a>(&'a self, passage: &'a mut Passage<'_>) -> Verdict<'a> {
        (self.1)(passage)
    }
}

/// Gives a closure the type that a gate's must have.
fn verdict<F>(verdict: F) -> F
where
    F: for<'a> Fn(&'a mut Passage<'_>) -> Verdict<'a> + Send + Sync,
{
    verdict
}

/// An invoker whose gate before the last look is another one. Its tool answers `ran`.
fn guarded(gate: impl Gate + 'static) -> Invoker {
    let registry = Registry::new();
    registry.register(tool(), |_: Invocation| ready(Ok(Output::text("ran")))).unwrap();
    let mut gates = gates();
    let at = gates.iter().position(|other| other.name() == "approval").unwrap();
    gates[at] = Box::new(gate);
    let recorder = Recorder::new(&opentelemetry::global::meter("test"));
    Invoker { inner: Arc::new(Inner { registry: Arc::new(registry), gates, recorder }) }
}

#[tokio::test(start_paused = true)]
async fn a_gate_may_take_its_time() {
    let slow = |allowed: bool| {
        guarded(Scripted(
            "approval",
            verdict(move |_| {
                Verdict::Later(Box::pin(async move {
                    tokio::time::sleep(3 * SECOND).await;
                    if allowed {
                        return Ok(());
                    }
                    Err(CallError::new(ErrorCode::Denied, "nobody allowed it"))
                }))
            }),
        ))
    };
    let started = Instant::now();
    assert_eq!(slow(true).invoke(call(json!({}))).await, Ok(Output::text("ran")));
    assert!(started.elapsed() >= 3 * SECOND);
    let outcome = slow(false).invoke(call(json!({}))).await;
    assert_eq!(outcome, Err(CallError::new(ErrorCode::Denied, "nobody allowed it")));
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_waits_for_ever_keeps_no_call_past_its_deadline_or_its_cancel() {
    let stuck = || guarded(Scripted("approval", verdict(|_| Verdict::Later(Box::pin(pending())))));
    let started = Instant::now();
    let invoker = stuck();
    let outcome = tokio::time::timeout(60 * SECOND, invoker.invoke(call(json!({})))).await;
    assert_eq!(message(outcome.unwrap()), "tool 'work' did not end within 7000 ms");
    assert!(started.elapsed() < 8 * SECOND);

    let call = call(json!({}));
    let cancelled = call.cancelled.clone();
    let started = Instant::now();
    let invoker = stuck();
    let (outcome, ()) = tokio::join!(invoker.invoke(call), async { cancelled.cancel() });
    assert_eq!(code(&outcome), ErrorCode::Cancelled);
    assert_eq!(started.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn a_gate_may_change_the_arguments_and_sees_what_those_before_it_did() {
    let invoker = guarded(Scripted(
        "approval",
        verdict(|passage| {
            assert_eq!(passage.arguments, json!({"n": 1}));
            assert_eq!(passage.tool().unwrap().tool.name, "work");
            passage.arguments = json!("no object");
            Verdict::Now(Ok(()))
        }),
    ));
    let outcome = invoker.invoke(call(json!("{\"n\":1}"))).await;
    assert_eq!(message(outcome), "arguments must be a JSON object");
}

#[tokio::test]
async fn gates_are_asked_in_order_and_none_after_a_refusal() {
    let asked: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let gate = |name: &'static str| {
        let asked = Arc::clone(&asked);
        Box::new(Scripted(
            name,
            verdict(move |_| {
                asked.lock().push(name);
                let refused = CallError::new(ErrorCode::RateLimited, "too many");
                Verdict::Now(if name == "c" { Err(refused) } else { Ok(()) })
            }),
        ))
    };
    let gates: Vec<Box<dyn Gate>> = vec![gate("a"), gate("b"), gate("c"), gate("d")];
    let recorder = Recorder::new(&opentelemetry::global::meter("test"));
    let registry = Arc::new(Registry::new());
    let invoker = Invoker { inner: Arc::new(Inner { registry, gates, recorder }) };
    assert_eq!(code(&invoker.invoke(call(json!({}))).await), ErrorCode::RateLimited);
    assert_eq!(*asked.lock(), ["a", "b", "c"]);
}
