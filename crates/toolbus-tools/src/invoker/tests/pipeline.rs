//! The way of a call, rule by rule: the names of the tests are those of the rules.

use toolbus_wire::Execution;

use super::*;
use crate::Budget;
use crate::hooks::{HookEventKind, Hooks};
use crate::observe::{ArgumentsDigest, CallRecord, CallStatus, Observe};
use crate::policy::{ApprovalDemand, Decision, PolicyRequest};

/// What an observer heard of calls.
#[derive(Clone, Default)]
struct Heard {
    began: Arc<AtomicUsize>,
    events: Arc<Mutex<Vec<&'static str>>>,
    records: Arc<Mutex<Vec<CallRecord>>>,
}

impl Heard {
    fn records(&self) -> Vec<CallRecord> {
        std::mem::take(&mut *self.records.lock())
    }

    /// The status of each call that has ended, and the gate that refused it.
    fn statuses(&self) -> Vec<(CallStatus, Option<&'static str>)> {
        self.records().iter().map(|record| (record.status, record.refused_by)).collect()
    }
}

impl Observe for Heard {
    fn on_event(&self, event: &CallEvent<'_>) {
        let name = match &event.kind {
            CallEventKind::Began(_) => {
                self.began.fetch_add(1, Ordering::Relaxed);
                "began"
            }
            CallEventKind::Waiting { .. } => "waiting",
            CallEventKind::Started => "started",
            CallEventKind::Progress(_) => "progress",
            CallEventKind::Ended(record) => {
                self.records.lock().push((*record).clone());
                "ended"
            }
        };
        self.events.lock().push(name);
    }
}

fn observed<F, Fut>(work: F) -> (InvokerBuilder, Heard)
where
    F: Fn(Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let heard = Heard::default();
    (builder(work).observe(Arc::new(heard.clone())), heard)
}

fn fine() -> std::future::Ready<Outcome> {
    ready(Ok(Output::text("fine")))
}

fn demand() -> Decision {
    Decision::Ask(ApprovalDemand::new("rule", "because"))
}

fn gate_names(invoker: &Invoker) -> Vec<&'static str> {
    invoker.inner.gates.iter().map(|gate| gate.name()).collect()
}

#[tokio::test]
async fn rv_i1_gates_stand_in_one_order() {
    let added = Scripted("added", verdict(|_| Verdict::Now(Ok(()))));
    let credentials = Scripted("credentials", verdict(|_| Verdict::Now(Ok(()))));
    let invoker = builder(|_| fine()).credentials(credentials).gate(added).build();
    let expected = [
        "kind",
        "permission",
        "schema",
        "added",
        "approved",
        "credentials",
        "still allowed",
        "still wanted",
    ];
    assert_eq!(gate_names(&invoker), expected);
}

/// Each call has everything wrong with it that the ones before it have not: the first gate of what
/// is left refuses it.
#[tokio::test]
async fn rv_i1_the_first_gate_that_a_call_fails_at_refuses_it() {
    let (builder, heard) = observed(|_| fine());
    let policy = |request: &PolicyRequest<'_>| match request.scope.session {
        Some(_) => demand(),
        None => Decision::Deny("not here".into()),
    };
    let invoker = builder.policy(policy).build();
    let wrong = || json!({"n": "x"});
    let without_session = || Scope { session: None, ..scope() };
    let spent = || Budget::calls(0);
    let late =
        CallTime { caller_deadline: Some(Deadline::after(Duration::ZERO)), ..CallTime::default() };

    for call in [
        Call {
            tool: name("missing"),
            ..call_in(without_session().with_budget(spent()), json!([]))
        },
        Call { tool: name("missing"), ..call_in(without_session(), json!([])) },
        call_in(without_session(), json!([])),
        call_in(without_session(), wrong()),
        call_in(scope(), wrong()).with_time(late),
        call_in(scope(), json!({})).with_time(late),
    ] {
        assert!(invoker.invoke(call).await.is_err());
    }
    let refused_by: Vec<_> = heard.statuses().into_iter().map(|(_, gate)| gate.unwrap()).collect();
    let expected = ["budget", "look-up", "arguments", "permission", "schema", "approved"];
    assert_eq!(refused_by, expected);
}

#[tokio::test]
async fn rv_i2_only_what_the_budget_refuses_is_not_counted() {
    let budget = Budget::calls(2);
    let (builder, heard) = observed(|_| fine());
    let invoker = builder.build();
    let unknown =
        Call { tool: name("missing"), ..call_in(scope().with_budget(budget.clone()), json!({})) };
    assert_eq!(code(&invoker.invoke(unknown).await), ErrorCode::ToolNotFound);
    let wrong = call_in(scope().with_budget(budget.clone()), json!([]));
    assert_eq!(code(&invoker.invoke(wrong).await), ErrorCode::InvalidArguments);
    let refused = call_in(scope().with_budget(budget.clone()), json!({}));
    assert_eq!(code(&invoker.invoke(refused).await), ErrorCode::Denied);
    // As many records as calls, whatever was counted.
    assert_eq!((budget.usage().calls, heard.records().len()), (2, 3));
}

#[tokio::test]
async fn rv_i3_every_outcome_leaves_one_beginning_one_end_and_one_record() {
    let (builder, heard) = observed(|call: Invocation| async move {
        match call.arguments.get("n").and_then(Value::as_u64) {
            Some(1) => panic!("on request"),
            Some(2) => pending().await,
            _ => Ok(Output::text("fine")),
        }
    });
    let invoker = builder.build();
    let calls = [
        call(json!({})),
        call(json!({"n": 1})),
        Call { time: CallTime::of_execution(Duration::from_millis(20)), ..call(json!({"n": 2})) },
        Call { tool: name("missing"), ..call(json!({})) },
        call_in(scope().with_budget(Budget::calls(0)), json!({})),
    ];
    for call in calls {
        drop(invoker.invoke(call).await);
    }
    drop(invoker.invoke(call(json!({"n": 2}))).now_or_never());

    let expected = [
        (CallStatus::Ok, None),
        (CallStatus::Error, None),
        (CallStatus::Timeout, None),
        (CallStatus::Error, Some("look-up")),
        (CallStatus::Denied, Some("budget")),
        (CallStatus::Error, None),
    ];
    assert_eq!(heard.statuses(), expected);
    assert_eq!(heard.began.load(Ordering::Relaxed), expected.len());
}

#[tokio::test]
async fn rv_i4_what_a_tool_fails_with_is_an_outcome() {
    let (builder, heard) = observed(|_| ready(Err(CallError::execution_failed("out of paper"))));
    let outcome = builder.build().invoke(call(json!({}))).await;
    assert_eq!(message(outcome), "out of paper");
    assert_eq!(heard.statuses(), [(CallStatus::Error, None)]);
}

#[tokio::test]
async fn rv_i5_a_result_that_is_an_error_keeps_what_it_says() {
    let (builder, heard) = observed(|_| ready(Ok(Output::error("no such file"))));
    let output = builder.build().invoke(call(json!({}))).await.unwrap();
    assert_eq!(output, Output::error("no such file"));
    assert_eq!(heard.statuses(), [(CallStatus::Error, None)]);
}

/// Only the deadline of the call is a timeout; what a tool says of one is its own failure.
#[tokio::test(start_paused = true)]
async fn rv_i13_a_call_over_its_time_names_the_tool_and_the_limit() {
    let (builder, heard) = observed(|call: Invocation| async move {
        if call.arguments.contains_key("n") {
            return Err(CallError::execution_failed("the socket timed out"));
        }
        pending().await
    });
    let invoker = builder.build();
    let outcome = invoker.invoke(call(json!({}))).await;
    assert_eq!(code(&outcome), ErrorCode::Timeout);
    let text = message(outcome);
    assert!(text.contains("work") && text.contains("7000 ms"), "{text}");
    assert_eq!(code(&invoker.invoke(call(json!({"n": 1}))).await), ErrorCode::ExecutionFailed);
    assert_eq!(heard.statuses(), [(CallStatus::Timeout, None), (CallStatus::Error, None)]);
}

#[tokio::test]
async fn rv_i18_a_call_is_told_to_start_before_it_ends_and_only_if_it_does() {
    let (builder, heard) = observed(|_| fine());
    let invoker = builder.build();
    assert!(invoker.invoke(call(json!({}))).await.is_ok());
    assert!(invoker.invoke(call(json!({"n": "x"}))).await.is_err());
    assert_eq!(*heard.events.lock(), ["began", "started", "ended", "began", "ended"]);
}

#[tokio::test]
async fn rv_i19_an_observer_that_panics_changes_nothing() {
    let (builder, heard) = observed(|_| fine());
    let faulty = Observer(|_: &CallEvent<'_>| panic!("on request"));
    let invoker = builder.observe(Arc::new(faulty)).build();
    assert_eq!(invoker.invoke(call(json!({}))).await, Ok(Output::text("fine")));
    assert_eq!(heard.statuses(), [(CallStatus::Ok, None)]);
}

#[tokio::test]
async fn rv_i20_scopes_of_one_invoker_count_for_themselves() {
    let invoker = builder(|_| fine()).build();
    let budgets = [Budget::calls(1), Budget::calls(2)];
    for (budget, calls) in budgets.iter().zip([1, 2]) {
        for _ in 0..calls {
            let call = call_in(scope().with_budget(budget.clone()), json!({}));
            assert!(invoker.invoke(call).await.is_ok());
        }
    }
    assert_eq!(budgets.map(|budget| budget.usage().calls), [1, 2]);
}

/// A run has what the policy lets it spend, whichever door its scope was made by.
#[tokio::test]
async fn a_run_that_begins_has_the_budget_of_the_policy() {
    struct Strict;
    impl crate::policy::Policy for Strict {
        fn decide(&self, _: &PolicyRequest<'_>) -> Decision {
            Decision::Allow
        }

        fn run_limits(&self, _: &Scope) -> crate::budget::RunLimits {
            crate::budget::RunLimits { calls: Some(1), ..Default::default() }
        }
    }
    let invoker = builder(|_| fine()).policy(Strict).build();
    let scope = Arc::new(invoker.begin_run(scope()));
    let calls = (0..4).map(|_| {
        let call = Call::by_name(&scope, "work", json!({})).unwrap();
        invoker.invoke(call)
    });
    let outcomes = futures_util::future::join_all(calls).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
}

/// Python: `hashlib.sha256(b'{"msg":"hello"}').hexdigest()[:16]`.
#[tokio::test]
async fn a_record_has_the_digest_of_the_arguments_that_the_tool_ran_with() {
    let digest = |arguments: Value| ArgumentsDigest::of(&arguments).to_string();
    assert_eq!(digest(json!({})), "44136fa355b3678a");
    assert_eq!(digest(json!({"b": 1, "a": 2})), digest(json!({"a": 2, "b": 1})));

    let changes = verdict(|passage: &mut Passage| {
        passage.arguments = json!({"n": 2});
        Verdict::Now(Ok(()))
    });
    let (builder, heard) = observed(|_| fine());
    let invoker = builder.gate(Scripted("changes", changes)).build();
    assert!(invoker.invoke(call(json!({"n": 1}))).await.is_ok());
    let unknown = Call { tool: name("missing"), ..call(json!({"n": 1})) };
    assert!(invoker.invoke(unknown).await.is_err());
    assert!(invoker.invoke(call(json!([]))).await.is_err());
    let records = heard.records();
    assert_eq!(records[0].input_bytes, Some(r#"{"n":2}"#.len()));
    let digests: Vec<_> = records.iter().map(|record| record.arguments).collect();
    let of = |arguments: Value| Some(ArgumentsDigest::of(&arguments));
    assert_eq!(digests, [of(json!({"n": 2})), of(json!({"n": 1})), None]);
}

#[tokio::test]
async fn rv_h3_hooks_are_told_of_calls_and_change_nothing() {
    let hooks = Hooks::new();
    let told = Arc::new(Mutex::new(Vec::new()));
    for kind in [HookEventKind::ToolStart, HookEventKind::ToolEnd, HookEventKind::GuardrailTrip] {
        let told = Arc::clone(&told);
        hooks.register(kind, move |mut event| {
            event.details.remove("duration_ms");
            told.lock().push(format!("{kind:?} {}", Value::Object(event.details)));
            ready(())
        });
        hooks.register(kind, |_| async { panic!("on request") });
    }
    let (builder, heard) = observed(|_| fine());
    let invoker = builder.observe(hooks.observer()).build();
    assert_eq!(invoker.invoke(call(json!({}))).await, Ok(Output::text("fine")));
    let refused = call_in(scope().with_budget(Budget::calls(0)), json!({}));
    assert_eq!(code(&invoker.invoke(refused).await), ErrorCode::Denied);
    let execution: Vec<_> = heard.records().iter().map(|record| record.execution).collect();
    assert_eq!(execution, [Execution::Started, Execution::NotStarted]);

    let expected = [
        r#"ToolStart {"tool_name":"work"}"#,
        r#"ToolEnd {"tool_name":"work","status":"ok"}"#,
        r#"ToolStart {"tool_name":"work"}"#,
        r#"GuardrailTrip {"tool_name":"work","gate":"budget","code":"denied"}"#,
        r#"ToolEnd {"tool_name":"work","status":"denied"}"#,
    ];
    while told.lock().len() < expected.len() {
        tokio::task::yield_now().await;
    }
    assert_eq!(*told.lock(), expected);
    assert_eq!(hooks.dropped(), 0);
}
