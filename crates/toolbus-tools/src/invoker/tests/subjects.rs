//! What a call is about, who may make it, and what the calls do that it makes in turn.

use toolbus_wire::message::toolbus::ToolProgress;

use super::*;
use crate::artifact::{ReadReferences, replace_references};
use crate::audience::Audience;
use crate::budget::Budget;
use crate::gate::{Gate, Passage, Verdict};
use crate::id::ToolId;
use crate::lineage::Lineage;
use crate::policy::{ApprovalDemand, Decision, PolicyRequest};
use crate::registry::{Offer, ToolEntry};
use crate::subject::Subject;
use crate::tool::{Annotations, Risk};
use crate::view::View;

/// Calls whatever tool its argument `tool` names.
struct Gateway;

impl Executor for Gateway {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(ready(Ok(Output::text(call.subject.id.as_str()))))
    }

    fn subject_members(&self) -> &'static [&'static str] {
        &["tool"]
    }

    fn resolve(&self, arguments: &mut Map<String, Value>) -> Result<Option<Subject>, CallError> {
        let tool = arguments.get("tool").and_then(Value::as_str).unwrap_or_default();
        if tool.is_empty() {
            return Err(CallError::new(ErrorCode::ToolNotFound, "no tool is named"));
        }
        Ok(Some(Subject {
            id: ToolId::of("mcp:github", &tool.to_ascii_lowercase()),
            definition: None,
            annotations: Annotations::default(),
            risk: Risk::High,
            audience: Default::default(),
        }))
    }
}

fn gateway() -> InvokerBuilder {
    let registry = Registry::new();
    registry.register(Tool::new("gateway", "", "test"), Gateway).unwrap();
    Invoker::builder(Arc::new(registry))
}

fn through(scope: Scope, tool: &str) -> Call {
    Call { tool: name("gateway"), ..call_in(scope, json!({"tool": tool})) }
}

#[tokio::test]
async fn the_policy_decides_about_the_tool_that_is_really_called() {
    let no_delete = |request: &PolicyRequest<'_>| match request.subject.id.as_str() {
        "mcp:github/delete_repo" => Decision::Deny("never".into()),
        _ => Decision::Allow,
    };
    let invoker = gateway().policy(no_delete).build();
    for spelling in ["delete_repo", "Delete_Repo", "DELETE_REPO"] {
        let error = invoker.invoke(through(scope(), spelling)).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied);
        assert_eq!(error.message, "'mcp:github/delete_repo' is not allowed: never");
        assert_eq!(error.execution, Execution::NotStarted);
    }
    let output = invoker.invoke(through(scope(), "list_repos")).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("mcp:github/list_repos"));
}

/// A gate that approves of what is not to be deleted.
struct Approver;

impl Gate for Approver {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let id = passage.subject.id.as_str();
        passage.approval.take_if(|demand| &*demand.rule == "all" && !id.contains("delete"));
        Verdict::Now(Ok(()))
    }
}

#[tokio::test]
async fn a_call_that_needs_an_approval_runs_only_with_it() {
    let ask = |_: &PolicyRequest<'_>| Decision::Ask(ApprovalDemand::new("all", "to be seen"));
    let alone = gateway().policy(ask).build();
    let approving = gateway().policy(ask).gate(Approver).build();
    let refused = [(&alone, "list_repos"), (&alone, "delete_repo"), (&approving, "delete_repo")];
    for (invoker, tool) in refused {
        let error = invoker.invoke(through(scope(), tool)).await.unwrap_err();
        assert_eq!((error.code, error.execution), (ErrorCode::Denied, Execution::NotStarted));
        let expected = format!(
            "'mcp:github/{tool}' needs an approval (to be seen), and nobody can be asked for it \
             here: rule 'all'. To allow it, change the rule"
        );
        assert_eq!(error.message, expected);
    }
    assert!(approving.invoke(through(scope(), "list_repos")).await.is_ok());
}

/// A gate that has the call wait, and then replaces its arguments by these.
struct Replace(Value);

impl Gate for Replace {
    fn name(&self) -> &'static str {
        "replace"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        Verdict::Later(Box::pin(async {
            passage.replace_arguments(self.0.clone());
            Ok(())
        }))
    }
}

#[tokio::test]
async fn arguments_that_name_another_tool_after_the_gates_are_refused() {
    let same = gateway().gate(Replace(json!({"tool": "List_Repos"}))).build();
    let output = same.invoke(through(scope(), "list_repos")).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("mcp:github/list_repos"));

    let (ended, observer) = ended_codes();
    let other = gateway().gate(Replace(json!({"tool": "delete_repo"}))).observe(observer).build();
    let error = other.invoke(through(scope(), "list_repos")).await.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Denied, Execution::NotStarted));
    assert_eq!(
        error.message,
        "the call was checked as one of 'mcp:github/list_repos', and its arguments now name \
         'mcp:github/delete_repo'"
    );
    assert_eq!(*ended.lock(), [Some(ErrorCode::Denied)]);
}

#[tokio::test]
async fn a_policy_that_is_replaced_while_a_call_waits_decides_again() {
    let asked = Arc::new(AtomicUsize::new(0));
    let demand = || ApprovalDemand::new("new", "it was replaced");
    for (second, expected) in [
        (Decision::Allow, None),
        (Decision::Deny("not any more".into()), Some("is not allowed: not any more")),
        (Decision::Ask(demand()), Some("needs an approval since the policy has changed")),
    ] {
        asked.store(0, Ordering::Relaxed);
        let (count, second) = (Arc::clone(&asked), second);
        let policy = move |_: &PolicyRequest<'_>| match count.fetch_add(1, Ordering::Relaxed) {
            0 => Decision::Allow,
            _ => second.clone(),
        };
        let outcome = gateway().policy(policy).build().invoke(through(scope(), "a")).await;
        match expected {
            None => assert!(outcome.is_ok()),
            Some(text) => {
                let message = outcome.unwrap_err().message;
                assert!(message.contains(text), "{message}");
            }
        }
    }
}

/// Texts, by the references to them.
struct Texts(&'static [(&'static str, &'static str)]);

impl ReadReferences for Texts {
    fn keeps_references(&self, _: &ToolEntry) -> bool {
        false
    }

    fn replace<'a>(
        &'a self,
        _: &'a Scope,
        _: &'a ToolEntry,
        arguments: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), CallError>> {
        replace_references(arguments, &mut |text: &str| {
            let (_, value) = self.0.iter().find(|(name, _)| *name == text)?;
            Some(json!(value))
        });
        Box::pin(ready(Ok(())))
    }
}

#[tokio::test]
async fn what_selects_the_tool_takes_no_reference() {
    let (ended, observer) = ended_codes();
    let texts = Texts(&[("a", "delete_repo"), ("b", "delete_repo")]);
    let invoker = gateway().references(texts).observe(observer).build();
    let selecting = json!({"tool": {"$artifact": "a"}});
    let call = Call { tool: name("gateway"), ..call_in(scope(), selecting) };
    let error = invoker.invoke(call).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    assert!(error.message.starts_with("'tool' selects what the call is about"), "{error:?}");
    assert_eq!(*ended.lock(), [Some(ErrorCode::InvalidArguments)]);
}

/// Covers arguments in the form of text, and a subject that is nested among the arguments.
#[tokio::test]
async fn what_references_stand_for_is_judged() {
    struct Wrapped;
    impl Executor for Wrapped {
        fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
            Gateway.execute(call)
        }

        fn resolve(
            &self,
            arguments: &mut Map<String, Value>,
        ) -> Result<Option<Subject>, CallError> {
            let inner = arguments.get_mut("inner").and_then(Value::as_object_mut);
            Gateway.resolve(inner.unwrap_or(&mut Map::new()))
        }
    }
    let registry = Registry::new();
    registry.register(Tool::new("wrapped", "", "test"), Wrapped).unwrap();
    let no_delete = |request: &PolicyRequest<'_>| match request.subject.id.as_str() {
        "mcp:github/delete_repo" => Decision::Deny("never".into()),
        _ => Decision::Allow,
    };
    let builder = Invoker::builder(Arc::new(registry)).policy(no_delete);
    let texts = Texts(&[("bad", "delete_repo"), ("good", "list_repos")]);
    let invoker = builder.references(texts).build();
    let referring = |reference: &str| {
        let text = json!({"inner": {"tool": {"$artifact": reference}}}).to_string();
        let call = call_in(scope(), json!({}));
        Call { tool: name("wrapped"), arguments: Arguments::Text(Some(text)), ..call }
    };
    let error = invoker.invoke(referring("bad")).await.unwrap_err();
    assert_eq!(error.message, "'mcp:github/delete_repo' is not allowed: never");
    let output = invoker.invoke(referring("good")).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("mcp:github/list_repos"));
}

#[tokio::test]
async fn what_a_scope_may_not_see_is_not_found() {
    let invoker = gateway().build();
    let blind = scope().with_view(View::all().without(["mcp:github/delete*"]));
    let error = invoker.invoke(through(blind, "delete_repo")).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ToolNotFound);

    let blind = scope().with_view(View::all().only(["script/*"]));
    let error = invoker.invoke(through(blind, "list_repos")).await.unwrap_err();
    assert_eq!(error, CallError::not_registered("gateway"));
}

#[tokio::test]
async fn a_call_over_its_budget_is_refused_before_anything_else() {
    let invoker = gateway().build();
    let limited = scope().with_budget(Budget::calls(1));
    assert!(invoker.invoke(through(limited.clone(), "a")).await.is_ok());
    let unknown = Call { tool: name("missing"), ..through(limited, "a") };
    let error = invoker.invoke(unknown).await.unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::Denied, "the budget of calls is spent: 1 used of 1")
    );
}

#[tokio::test]
async fn a_tool_whose_worker_is_away_is_listed_and_unroutable() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("mcp:x");
    let offer = || vec![Offer::new(tool(), |_: Invocation| ready(Ok(Output::text("ran"))))];
    assert!(provider.publish(offer()).is_empty());
    let invoker = Invoker::new(Arc::clone(&registry));

    provider.set_state(crate::registry::ToolState::Away);
    let error = invoker.invoke(call(json!({}))).await.unwrap_err();
    assert_eq!((error.code, error.is_retryable), (ErrorCode::Unroutable, true));
    assert_eq!(registry.snapshot().tools().len(), 1);

    assert!(provider.publish(offer()).is_empty());
    assert!(invoker.invoke(call(json!({}))).await.is_ok());
}

/// A tool that calls `work`, as a chain would.
struct Chain;

impl Executor for Chain {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let scope = call.calls.scope(Door::Chain)?;
            let scope = Arc::new(scope.with_budget(call.scope.budget.child(Default::default())));
            call.calls.call(&scope, name("work"), json!({"n": 1})).await
        })
    }
}

#[tokio::test]
async fn an_inner_call_passes_the_same_gates_within_the_same_budget() {
    let registry = Registry::new();
    registry.register(Tool::new("chain", "", "test"), Chain).unwrap();
    let inner = |call: Invocation| {
        let Scope { door, parent, depth, session, .. } = &*call.scope;
        let parent = parent.as_ref().unwrap();
        let session = session.as_ref().unwrap();
        ready(Ok(Output::text(format!("{door:?} {parent} {depth} {session}"))))
    };
    registry.register(tool(), inner).unwrap();
    let events: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&events);
    let observer = Observer(move |event: &CallEvent<'_>| {
        let what = match &event.kind {
            CallEventKind::Began(call) => format!("began {}", call.tool),
            CallEventKind::Ended(record) => format!("ended {:?}", record.subject),
            other => format!("{other:?}"),
        };
        log.lock().push(format!("{} {what}", event.sequence));
    });
    let invoker = Invoker::builder(Arc::new(registry)).observe(Arc::new(observer)).build();

    let budget = Budget::calls(2);
    let chain =
        || Call { tool: name("chain"), ..call_in(scope().with_budget(budget.clone()), json!({})) };
    let output = invoker.invoke(chain()).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("Chain call_1 1 session/abc"));
    assert_eq!(
        *events.lock(),
        [
            "0 began chain",
            "1 Started",
            "0 began work",
            "1 Started",
            r#"2 ended Some(ToolId("test/work"))"#,
            r#"2 ended Some(ToolId("test/chain"))"#
        ]
    );
    assert_eq!(budget.usage().calls, 2);
    assert_eq!(invoker.invoke(chain()).await.unwrap_err().code, ErrorCode::Denied);
}

#[tokio::test]
async fn observers_hear_progress_in_order_and_the_caller_does_too() {
    let numbers: Arc<Mutex<Vec<u64>>> = Arc::default();
    let log = Arc::clone(&numbers);
    let observer = Observer(move |event: &CallEvent<'_>| log.lock().push(event.sequence));
    let invoker = builder(|call: Invocation| {
        (0..3).for_each(|_| call.context.progress.send(ToolProgress::default()));
        ready(Ok(Output::text("fine")))
    });
    let invoker = invoker.observe(Arc::new(observer)).build();
    let heard = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&heard);
    let progress = toolbus_bus::Progress::to(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    assert!(invoker.invoke(call(json!({})).with_progress(progress)).await.is_ok());
    assert_eq!(*numbers.lock(), [0, 1, 2, 3, 4, 5]);
    assert_eq!(heard.load(Ordering::Relaxed), 3);
}

type EndedCodes = Arc<Mutex<Vec<Option<ErrorCode>>>>;

/// How each call has ended.
fn ended_codes() -> (EndedCodes, Arc<dyn crate::observe::Observe>) {
    let ended = EndedCodes::default();
    let log = Arc::clone(&ended);
    let observer = Observer(move |event: &CallEvent<'_>| {
        if let CallEventKind::Ended(record) = &event.kind {
            log.lock().push(record.error.clone());
        }
    });
    (ended, Arc::new(observer))
}

fn read_in(scope: Scope) -> Call {
    Call { tool: name("resources/read"), ..call_in(scope, json!({})) }
}

fn read_of(name: &str) -> Subject {
    Subject {
        id: ToolId::of("mcp:x", name),
        definition: None,
        annotations: Annotations { read_only: true, idempotent: true, destructive: false },
        risk: Risk::Low,
        audience: Default::default(),
    }
}

/// Whatever the policy allows, and also behind a call that others may make.
#[tokio::test]
async fn a_tool_is_run_for_its_audience_alone() {
    let registry = Registry::new();
    let read = |_: Invocation| ready(Ok(Output::text("a mail")));
    let local_alone = Audience::only(|principal| *principal == Principal::local());
    let mail = Tool::new("read_mail", "", "google").read_only().for_audience(local_alone);
    registry.register(mail, read).unwrap();
    let relay = |call: Invocation| async move {
        let scope = Arc::new(call.calls.scope(Door::Chain)?);
        call.calls.call(&scope, name("read_mail"), json!({})).await
    };
    registry.register(Tool::new("relay", "", "test"), relay).unwrap();
    let invoker = Invoker::new(Arc::new(registry));

    let local = Scope::new(Door::CommandLine, Principal::local(), AgentName::standard());
    // What goes on after the call, in whichever process, is still of the same principal.
    let later = |scope: &Scope| {
        let (principal, agent) = (scope.principal.clone(), scope.agent.clone());
        Lineage::of(scope).restore(principal, agent, None, Budget::unlimited()).unwrap()
    };
    for tool in ["read_mail", "relay"] {
        for scope in [local.clone(), later(&local)] {
            let call = Call { tool: name(tool), ..call_in(scope, json!({})) };
            let output = invoker.invoke(call).await.unwrap();
            assert_eq!(output.content.as_deref(), Some("a mail"), "{tool}");
        }
        for scope in [scope(), later(&scope())] {
            let call = Call { tool: name(tool), ..call_in(scope, json!({})) };
            let error = invoker.invoke(call).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::ToolNotFound, "{tool}: {error}");
            assert!(!error.message.contains("Did you mean"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_subject_is_not_there_for_those_outside_its_audience() {
    let invoker = gateway().build();
    let subject = Subject { audience: Audience::only(|_| false), ..read_of("resources/read") };
    let refused = invoker.admit(read_in(scope()), subject).await;
    assert_eq!(refused.err().map(|error| error.code), Some(ErrorCode::ToolNotFound));
}

#[tokio::test]
async fn a_read_that_a_scope_may_not_see_is_not_found() {
    let (ended, observer) = ended_codes();
    let invoker = gateway().observe(observer).build();
    let blind = scope().with_view(View::all().without(["mcp:x/resources/*"]));
    let refused = invoker.admit(read_in(blind.clone()), read_of("resources/read")).await;
    let expected = CallError::not_registered("mcp:x/resources/read");
    assert_eq!(refused.err(), Some(expected.with_execution(Execution::NotStarted)));

    let admitted = invoker.admit(read_in(blind.clone()), read_of("prompts/get")).await.unwrap();
    assert_eq!(admitted.run(|_| async { Ok(7) }).await, Ok(7));
    // Who asks for a list shows what is seen of it.
    let admitted = invoker.admit_list(read_in(blind), read_of("resources/list")).await.unwrap();
    assert_eq!(admitted.run(|_| async { Ok(8) }).await, Ok(8));
    assert_eq!(*ended.lock(), [Some(ErrorCode::ToolNotFound), None, None]);
}

#[tokio::test(start_paused = true)]
async fn a_scope_that_is_cancelled_cancels_its_reads() {
    let (ended, observer) = ended_codes();
    let never = builder(|_| ready(Ok(Output::default()))).observe(observer).gate(Forever).build();
    let invoker = gateway().build();
    // The call has a token of its own, as those of doors have.
    let read = |scope: &Scope| read_in(scope.clone()).with_cancelled(CancellationToken::new());

    let over = scope();
    let admitted = invoker.admit(read(&over), read_of("a")).await.unwrap();
    let reading = admitted.run(|context| async move {
        context.call.cancelled.cancelled().await;
        Err::<(), _>(CallError::cancelled())
    });
    let cancelling = async { over.cancelled.cancel() };
    let (read_outcome, ()) = tokio::join!(tokio::time::timeout(SECOND, reading), cancelling);
    assert_eq!(read_outcome.unwrap().unwrap_err().code, ErrorCode::Cancelled);

    let over = scope();
    let admitting = never.admit(read(&over), read_of("a"));
    let cancelling = async { over.cancelled.cancel() };
    let (refused, ()) = tokio::join!(tokio::time::timeout(SECOND, admitting), cancelling);
    assert_eq!(refused.unwrap().err().map(|error| error.code), Some(ErrorCode::Cancelled));
    assert_eq!(*ended.lock(), [Some(ErrorCode::Cancelled)]);
}

/// A gate that never decides.
struct Forever;

impl Gate for Forever {
    fn name(&self) -> &'static str {
        "forever"
    }

    fn check<'a>(&'a self, _: &'a mut Passage) -> Verdict<'a> {
        Verdict::Later(Box::pin(pending()))
    }
}

#[tokio::test]
async fn a_read_passes_the_same_gates_and_leaves_the_same_record() {
    let deny = |about: &PolicyRequest<'_>| match about.subject.id.as_str() {
        "mcp:x/secret" => Decision::Deny("not yours".into()),
        _ => Decision::Allow,
    };
    let (ended, observer) = ended_codes();
    let invoker = gateway().policy(deny).observe(observer).build();
    let (read, subject) = (|| read_in(scope()), read_of);

    let admitted = invoker.admit(read(), subject("public")).await.unwrap();
    assert_eq!(admitted.run(|_| async { Ok(7) }).await, Ok(7));
    let refused = invoker.admit(read(), subject("secret")).await;
    assert_eq!(refused.err().map(|error| error.code), Some(ErrorCode::Denied));
    drop(invoker.admit(read(), subject("public")).await.unwrap());
    let cancelled = read();
    cancelled.cancelled.cancel();
    assert!(invoker.admit(cancelled, subject("public")).await.is_err());
    let codes =
        [None, Some(ErrorCode::Denied), Some(ErrorCode::Cancelled), Some(ErrorCode::Cancelled)];
    assert_eq!(*ended.lock(), codes);
}
