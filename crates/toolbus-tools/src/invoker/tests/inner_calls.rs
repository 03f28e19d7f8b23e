//! What a tool that calls others may say of itself when one of them fails.

use std::convert::identity;

use super::*;
use crate::call::InnerCall;
use crate::tool::Annotations;

/// What the tools that are called come to.
fn ends(error: CallError) -> impl Fn(Invocation) -> std::future::Ready<Outcome> {
    move |_| ready(Err(error.clone()))
}

fn busy() -> CallError {
    CallError::new(ErrorCode::Busy, "later")
}

/// Calls another tool without arguments.
async fn call_inner(call: &Invocation, tool: &str) -> Outcome {
    let scope = Arc::new(call.calls.scope(Door::Chain)?);
    call.calls.call(&scope, name(tool), json!({})).await
}

/// The error of a tool that is run by this function, and changed so. It may call `debit`, which is
/// done, `credit`, which fails with this error, and `wait`, which never ends.
async fn outer_error<F, Fut>(change: fn(Tool) -> Tool, credit: CallError, work: F) -> CallError
where
    F: Fn(Invocation) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Outcome> + Send + 'static,
{
    let registry = Registry::new();
    let named = |name| Tool::new(name, "", "test");
    let done = |_: Invocation| ready(Ok(Output::text("done")));
    registry.register(named("debit"), done).unwrap();
    registry.register(named("credit"), ends(credit)).unwrap();
    registry.register(named("wait"), |_: Invocation| pending()).unwrap();
    registry.register(change(named("transfer")), work).unwrap();

    let call = Call { tool: name("transfer"), ..call(json!({})) };
    Invoker::new(Arc::new(registry)).invoke(call).await.unwrap_err()
}

/// Debits, then credits.
async fn transfer(call: Invocation) -> Outcome {
    call_inner(&call, "debit").await?;
    call_inner(&call, "credit").await
}

#[tokio::test]
async fn a_tool_is_not_retryable_once_a_call_of_it_was_started() {
    let error = outer_error(identity, busy(), transfer).await;
    assert_eq!((error.code, error.execution), (ErrorCode::Busy, Execution::Started));
    assert!(!error.is_retryable, "a retry debits twice");

    // What the inner tool may repeat, the outer may not.
    let credit = CallError::timeout("credit", SECOND).of_repeatable();
    let error = outer_error(identity, credit, transfer).await;
    assert_eq!(error.code, ErrorCode::Timeout);
    assert!(!error.is_retryable);

    let unknown = CallError::new(ErrorCode::OutcomeUnknown, "lost");
    let error = outer_error(identity, unknown, transfer).await;
    assert_eq!((error.execution, error.is_retryable), (Execution::Unknown, false));
}

#[tokio::test]
async fn a_call_that_is_dropped_counts_as_started() {
    let work = |call: Invocation| async move {
        tokio::select! {
            biased;
            outcome = call_inner(&call, "wait") => outcome,
            outcome = call_inner(&call, "credit") => outcome,
        }
    };
    let error = outer_error(identity, busy(), work).await;
    assert_eq!((error.execution, error.is_retryable), (Execution::Started, false));
}

#[tokio::test]
async fn a_tool_none_of_whose_calls_was_started_may_be_tried_again() {
    let credit = |call: Invocation| async move { call_inner(&call, "credit").await };
    let error = outer_error(identity, busy(), credit).await;
    assert_eq!((error.execution, error.is_retryable), (Execution::NotStarted, true));
}

#[tokio::test]
async fn a_tool_that_may_run_twice_stays_retryable() {
    let idempotent = |tool: Tool| {
        let annotations = Annotations { idempotent: true, ..tool.annotations };
        Tool { annotations, ..tool }
    };
    let error = outer_error(idempotent, busy(), transfer).await;
    assert_eq!((error.execution, error.is_retryable), (Execution::Started, true));
}

#[tokio::test]
async fn an_inner_call_has_the_id_that_its_maker_gives_it() {
    let registry = Registry::new();
    let tell = |call: Invocation| ready(Ok(Output::text(call.id.to_string())));
    registry.register(Tool::new("tell", "", "test"), tell).unwrap();
    let outer = |call: Invocation| async move {
        let scope = Arc::new(call.calls.scope(Door::Chain)?);
        let id = CallId::parse("wisp-1-a").unwrap();
        let inner =
            InnerCall { id, tool: name("tell"), arguments: json!({}), execution: Some(SECOND) };
        call.calls.make(&scope, inner).await
    };
    registry.register(Tool::new("outer", "", "test"), outer).unwrap();

    let call = Call { tool: name("outer"), ..call(json!({})) };
    let output = Invoker::new(Arc::new(registry)).invoke(call).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("wisp-1-a"));
}
