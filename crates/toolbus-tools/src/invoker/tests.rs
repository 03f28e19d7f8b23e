use std::future::{Future, pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, json};
use tokio::time::Instant;
use toolbus_bus::slot::Kept;
use toolbus_bus::{Deadline, SlotPool};
use toolbus_wire::ErrorCode;

use toolbus_wire::name::AgentName;

use super::*;
use crate::call::{Arguments, CallTime, Output};
use crate::id::{CallId, SessionId, ToolName};
use crate::observe::{CallEvent, CallEventKind};
use crate::scope::{Door, Principal, Scope};
use crate::tool::{Executor, Tool};

mod inner_calls;
mod kinds;
mod pipeline;
mod recording;
mod shaping;
mod subjects;

const SECOND: Duration = Duration::from_secs(1);

/// An invoker of one tool, `work`, which takes an optional integer `n` and is run by a function.
fn invoker<F, Fut>(work: F) -> Invoker
where
    F: Fn(Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    builder(work).build()
}

/// The same, to be set up.
fn builder<F, Fut>(work: F) -> InvokerBuilder
where
    F: Fn(Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let registry = Registry::new();
    registry.register(tool(), work).unwrap();
    Invoker::builder(Arc::new(registry))
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
    call_in(scope(), arguments)
}

fn call_in(scope: Scope, arguments: Value) -> Call {
    let id = CallId::parse("call_1").unwrap();
    Call::new(&Arc::new(scope), id, name("work"), Arguments::Value(arguments))
}

fn scope() -> Scope {
    Scope::new(Door::Bus, Principal::claimed("test"), AgentName::standard())
        .with_session(Some(SessionId::parse("session/abc").unwrap()))
}

fn name(tool: &str) -> ToolName {
    ToolName::parse(tool).unwrap()
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

#[tokio::test(start_paused = true)]
async fn a_tool_sees_the_call_as_it_was_made() {
    let invoker = invoker(|call: Invocation| {
        let Invocation { id, tool, arguments, scope, context, subject, .. } = call;
        let (caller, session) = (&scope.principal.name, scope.session.as_ref().unwrap());
        let (left, subject) = (context.deadline.left(), subject.id);
        ready(Ok(Output::text(format!(
            "{id} {tool} {arguments:?} {caller} {session} {left:?} {subject}"
        ))))
    });
    let by_alias = Call { tool: name("Work"), ..call(json!("{\"n\":1}")) };
    let output = invoker.invoke(by_alias).await.unwrap();
    insta::assert_snapshot!(
        output.content.unwrap(),
        @r#"call_1 work {"n": Number(1)} test session/abc 7s test/work"#
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
    let meant = " Did you mean 'work'?";
    for (name, hint) in [("missing", ""), ("WORK", meant), ("", ""), ("work ", meant)] {
        let outcome =
            invoker.invoke(Call { tool: super::tests::name(name), ..call(json!({})) }).await;
        assert_eq!(code(&outcome), ErrorCode::ToolNotFound);
        assert_eq!(message(outcome), format!("Tool '{name}' is not registered.{hint}"));
    }
}

#[tokio::test]
async fn a_tool_that_is_expected_is_unroutable_until_it_is_there() {
    let registry = Arc::new(Registry::new());
    registry.expect(&["late"], "start whoever has it");
    let invoker = Invoker::new(Arc::clone(&registry));
    let late = || Call { tool: name("late"), ..call(json!({})) };
    let outcome = invoker.invoke(late()).await;
    assert_eq!(code(&outcome), ErrorCode::Unroutable);
    assert_eq!(message(outcome), "start whoever has it");

    let tool = Tool::new("late", "", "test");
    registry.register(tool, |_| ready(Ok(Output::text("here")))).unwrap();
    assert_eq!(invoker.invoke(late()).await, Ok(Output::text("here")));
}

#[tokio::test]
async fn a_misspelt_argument_is_told_with_the_one_that_was_meant() {
    let registry = Arc::new(Registry::new());
    let schema = json!({
        "type": "object",
        "properties": {"script": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["script"],
    });
    let tool = Tool::new("run", "", "test").with_parameters(schema);
    registry.register(tool, |_| ready(Ok(Output::default()))).unwrap();
    let invoker = Invoker::new(registry);

    let misspelt = Call { tool: name("run"), ..call(json!({"scrpt": "1", "zzz": 1})) };
    let told = message(invoker.invoke(misspelt).await);
    let hint = "; 'scrpt' is no argument of it, did you mean 'script'?";
    assert!(told.contains("'script'") && told.ends_with(hint), "{told}");
    assert!(!told.contains("zzz"), "{told}");
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
            Ok(Output::text(format!("{seconds} seconds, {:?} left", call.context.deadline.left())))
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
    let hurried = Call { time: CallTime::within(5 * SECOND), ..call(json!({"n": 100})) };
    let outcome = forgiving().invoke(hurried).await;
    assert_eq!(message(outcome), "tool 'work' did not end within 5000 ms");
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_at_its_deadline() {
    let dropped = Dropped::default();
    let work = dropped.clone();
    let invoker = invoker(move |_| work.clone().never_ends());
    let until = Deadline::after(10 * SECOND).for_next_hop();
    for (seconds, limit, asked) in
        [(None, 7 * SECOND, 7_000), (Some(3), 3 * SECOND, 3_000), (Some(0), Duration::ZERO, 10_000)]
    {
        let time = match seconds {
            None => CallTime::default(),
            Some(0) => CallTime::until(until),
            Some(seconds) => CallTime::within(seconds * SECOND),
        };
        let started = Instant::now();
        let outcome = invoker.invoke(Call { time, ..call(json!({})) }).await;
        assert_eq!(code(&outcome), ErrorCode::Timeout);
        assert_eq!(message(outcome), format!("tool 'work' did not end within {asked} ms"));
        let took = started.elapsed();
        assert!(took >= limit && took < limit + SECOND / 10, "{took:?}");
    }
    // The last was over before it could start. The others have had their grace.
    tokio::time::sleep(2 * CANCEL_GRACE).await;
    assert_eq!(dropped.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_cancels_the_call_and_its_tool_may_clean_up() {
    let cleaned_up = Arc::new(AtomicUsize::new(0));
    let heard = Arc::new(AtomicUsize::new(0));
    let dropped = Dropped::default();
    let (count, work) = (Arc::clone(&cleaned_up), dropped.clone());
    let invoker = invoker(move |call: Invocation| {
        let (count, work) = (Arc::clone(&count), work.clone());
        async move {
            let step = || toolbus_wire::message::toolbus::ToolProgress::default();
            call.context.progress.send(step());
            call.context.cancelled.cancelled().await;
            // Nobody hears of it any more.
            call.context.progress.send(step());
            tokio::time::sleep(CANCEL_GRACE / 2).await;
            count.fetch_add(1, Ordering::SeqCst);
            // What takes longer than its grace is dropped.
            work.never_ends().await
        }
    });

    let hearing = Arc::clone(&heard);
    let progress = Progress::to(move |_| {
        hearing.fetch_add(1, Ordering::SeqCst);
    });
    let call = call(json!({})).with_progress(progress).with_time(CallTime::within(3 * SECOND));
    let asked = call.cancelled.clone();
    let started = Instant::now();
    let outcome = invoker.invoke(call).await;
    assert_eq!(code(&outcome), ErrorCode::Timeout);
    // The caller does not wait for it, and its own token is its own.
    assert!(started.elapsed() < 3 * SECOND + CANCEL_GRACE / 4, "{:?}", started.elapsed());
    assert!(!asked.is_cancelled());
    assert_eq!(cleaned_up.load(Ordering::SeqCst), 0);

    tokio::time::sleep(2 * CANCEL_GRACE).await;
    assert_eq!(cleaned_up.load(Ordering::SeqCst), 1);
    assert_eq!(dropped.count(), 1);
    assert_eq!(heard.load(Ordering::SeqCst), 1);
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
        call.context.cancelled.cancelled().await;
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
        let not_started = expected.clone().with_execution(Execution::NotStarted);
        assert_eq!(forgiving().invoke(call(arguments)).await, Err(not_started));
    }
}

/// Nobody who reads of it looks for the fault in the tool.
#[tokio::test]
async fn a_panic_in_a_gate_is_told_as_the_gates() {
    let at_once = || verdict(|_| panic!("when it is asked"));
    let later = || verdict(|_| Verdict::Later(Box::pin(async { panic!("while it waits") })));
    let gates: [Box<dyn Gate>; 2] =
        [Box::new(Scripted("approval", at_once())), Box::new(Scripted("approval", later()))];

    for gate in gates {
        let passed = Scripted("first", verdict(|_| Verdict::Now(Ok(()))));
        let invoker =
            builder(|_| async { panic!("it was run") }).build_with(vec![Box::new(passed), gate]);
        let error = invoker.invoke(call(json!({}))).await.unwrap_err();
        let text = "tool 'work' was not started: the gate 'approval' panicked";
        assert_eq!((error.message.as_str(), error.code), (text, ErrorCode::ExecutionFailed));
        assert_eq!(error.execution, Execution::NotStarted);
    }
}

/// A gate that is told what to say, and writes down when it was asked.
struct Scripted<F>(&'static str, F);

impl<F> Gate for Scripted<F>
where
    F: for<'a> Fn(&'a mut Passage) -> Verdict<'a> + Send + Sync,
{
    fn name(&self) -> &'static str {
        self.0
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        (self.1)(passage)
    }
}

/// Gives a closure the type that a gate's must have.
fn verdict<F>(verdict: F) -> F
where
    F: for<'a> Fn(&'a mut Passage) -> Verdict<'a> + Send + Sync,
{
    verdict
}

/// An invoker with one gate before the last look. Its tool answers `ran`.
fn guarded(gate: impl Gate + 'static) -> Invoker {
    builder(|_| ready(Ok(Output::text("ran"))))
        .build_with(vec![Box::new(gate), Box::new(crate::gate::StillWanted)])
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

/// Who cancels while a gate says yes is heard: nothing is run that nobody wants.
#[tokio::test]
async fn a_cancel_in_the_moment_of_a_yes_keeps_the_tool_from_running() {
    let call = call(json!({}));
    let cancelled = call.cancelled.clone();
    let gate = Scripted(
        "approval",
        verdict(move |_| {
            let cancelled = cancelled.clone();
            Verdict::Later(Box::pin(async move {
                cancelled.cancel();
                Ok(())
            }))
        }),
    );
    let invoker = builder(|_| async { panic!("it was run") })
        .build_with(vec![Box::new(gate), Box::new(crate::gate::StillWanted)]);
    let error = invoker.invoke(call).await.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Cancelled, Execution::NotStarted));
}

/// A person who takes long to say yes takes nothing from the tool's time.
#[tokio::test(start_paused = true)]
async fn what_a_gate_takes_is_not_taken_from_the_tools_time() {
    let slow = || {
        Scripted(
            "approval",
            verdict(|_| {
                Verdict::Later(Box::pin(async {
                    tokio::time::sleep(100 * SECOND).await;
                    Ok(())
                }))
            }),
        )
    };
    let left = |time| async move {
        let invoker = builder(|call: Invocation| {
            ready(Ok(Output::text(format!("{:?}", call.context.deadline.left()))))
        });
        let invoker = invoker.build_with(vec![Box::new(slow())]);
        invoker.invoke(Call { time, ..call(json!({})) }).await.unwrap().content.unwrap()
    };
    assert_eq!(left(CallTime::default()).await, "7s");
    let both = CallTime { execution: Some(3 * SECOND), ..CallTime::within(200 * SECOND) };
    assert_eq!(left(both).await, "3s");
    let hurried = CallTime { execution: Some(30 * SECOND), ..CallTime::within(110 * SECOND) };
    assert_eq!(left(hurried).await, "10s");
}

/// A permit that a gate keeps is free again only when the call is recorded.
#[tokio::test]
async fn what_a_gate_holds_is_let_go_after_the_record() {
    let log: Arc<Mutex<Vec<&'static str>>> = Arc::default();
    let held = Arc::clone(&log);
    let gate = Scripted(
        "permit",
        verdict(move |passage| {
            let held = Arc::clone(&held);
            passage.hold(scopeguard(move || held.lock().push("let go")));
            Verdict::Now(Ok(()))
        }),
    );
    let seen = Arc::clone(&log);
    let observer = Observer(move |event: &CallEvent<'_>| {
        if matches!(event.kind, CallEventKind::Ended(_)) {
            seen.lock().push("recorded");
        }
    });
    let ran = Arc::clone(&log);
    let invoker = builder(move |_| {
        ran.lock().push("ran");
        ready(Ok(Output::text("fine")))
    });
    let invoker = invoker.observe(Arc::new(observer)).build_with(vec![Box::new(gate)]);
    assert!(invoker.invoke(call(json!({}))).await.is_ok());
    assert_eq!(*log.lock(), ["ran", "recorded", "let go"]);
}

/// A gate that parks the call until it is told to go on.
struct Parks(tokio_util::sync::CancellationToken);

impl Gate for Parks {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let slot = passage.call.slot.clone();
        Verdict::Later(Box::pin(async move {
            slot.park(Kept::InMemory);
            self.0.cancelled().await;
            Ok(())
        }))
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_gate_parks_frees_its_slot_and_has_one_again_when_it_runs() {
    let slots = SlotPool::new(1, 1);
    let decided = tokio_util::sync::CancellationToken::new();
    let free = slots.clone();
    let invoker = builder(move |_| ready(Ok(Output::text(free.try_take().is_some().to_string()))));
    let invoker = invoker.gate(Parks(decided.clone())).build();

    let slot = slots.try_take().unwrap();
    let waiting = invoker.invoke(call(json!({})).with_slot(slot.clone()));
    let other = async {
        tokio::time::sleep(SECOND).await;
        let other = slots.try_take().expect("it is free");
        decided.cancel();
        tokio::time::sleep(SECOND).await;
        drop(other);
        Instant::now()
    };
    let (outcome, freed) = tokio::join!(waiting, other);
    assert_eq!(outcome.unwrap().content.unwrap(), "false", "it has the only one while it runs");
    assert_eq!(freed.elapsed(), Duration::ZERO);
    drop(slot);
    assert!(slots.try_take().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_parked_call_whose_slots_are_closed_was_not_started() {
    let slots = SlotPool::new(1, 1);
    let decided = tokio_util::sync::CancellationToken::new();
    let invoker = builder(|_| pending()).gate(Parks(decided.clone())).build();
    let waiting = invoker.invoke(call(json!({})).with_slot(slots.try_take().unwrap()));
    let closing = async {
        tokio::time::sleep(SECOND).await;
        assert_eq!(slots.close(SECOND).await, 0);
        decided.cancel();
    };
    let error = tokio::join!(waiting, closing).0.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Cancelled, Execution::NotStarted));
}

/// Whoever ends a scope ends the calls in it, whoever else may cancel them.
#[tokio::test(start_paused = true)]
async fn a_scope_that_is_cancelled_ends_the_calls_that_run_in_it() {
    let invoker = invoker(|_| pending());
    let scope = Arc::new(scope());
    let running = Call { scope: Arc::clone(&scope), ..call(json!({})) };
    let own = running.cancelled.clone();
    let (outcome, ()) = tokio::join!(invoker.invoke(running), async {
        tokio::time::sleep(SECOND).await;
        scope.cancelled.cancel();
    });
    let error = outcome.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Cancelled, Execution::Unknown));
    assert!(!own.is_cancelled(), "that is its caller's");
}

/// Takes events by a function.
struct Observer<F>(F);

impl<F: Fn(&CallEvent<'_>) + Send + Sync + 'static> crate::observe::Observe for Observer<F> {
    fn on_event(&self, event: &CallEvent<'_>) {
        (self.0)(event);
    }
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_waits_for_ever_keeps_no_call_past_its_deadline_or_its_cancel() {
    let stuck = || guarded(Scripted("approval", verdict(|_| Verdict::Later(Box::pin(pending())))));
    let started = Instant::now();
    let patient = Call { time: CallTime::within(5 * SECOND), ..call(json!({})) };
    let error = stuck().invoke(patient).await.unwrap_err();
    assert_eq!(error.message, "tool 'work' did not end within 5000 ms");
    assert!(error.is_retryable, "it was not started");
    assert_eq!(started.elapsed(), 5 * SECOND);
    let error = stuck().invoke(call(json!({}))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert_eq!(started.elapsed(), 5 * SECOND + crate::call::CALLER_TIMEOUT_DEFAULT);

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
            assert_eq!(passage.subject.id.as_str(), "test/work");
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
    let invoker = builder(|_| pending()).build_with(gates);
    assert_eq!(code(&invoker.invoke(call(json!({}))).await), ErrorCode::RateLimited);
    assert_eq!(*asked.lock(), ["a", "b", "c"]);
}
