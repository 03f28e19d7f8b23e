//! Shaping an output takes of the time of its call.

use super::*;

/// A step that never ends. `entered` fires when an output has come to it.
struct Hangs {
    entered: CancellationToken,
    dropped: Dropped,
}

impl Shape for Hangs {
    fn shape<'a>(&'a self, output: Output, _of: ShapeContext<'a>) -> BoxFuture<'a, Output> {
        let dropped = self.dropped.clone();
        Box::pin(async move {
            self.entered.cancel();
            dropped.never_ends().await.unwrap_or(output)
        })
    }
}

/// An invoker whose tool ends at once and whose outputs are never shaped.
fn hanging() -> (Invoker, CancellationToken, Dropped) {
    let entered = CancellationToken::new();
    let dropped = Dropped::default();
    let shape = Hangs { entered: entered.clone(), dropped: dropped.clone() };

    let builder = builder(|_| ready(Ok(Output::text("ran"))));
    (builder.shape(Arc::new(shape)).build(), entered, dropped)
}

#[tokio::test(start_paused = true)]
async fn a_shape_that_hangs_ends_at_the_deadline_of_the_call() {
    let (invoker, _, dropped) = hanging();
    let started_at = Instant::now();
    let outcome = tokio::time::timeout(60 * SECOND, invoker.invoke(call(json!({})))).await;
    let error = outcome.expect("it has a limit").unwrap_err();

    assert_eq!(error.message, "tool 'work' did not end within 7000 ms");
    assert_eq!((error.code, error.execution), (ErrorCode::Timeout, Execution::Started));
    assert_eq!((error.is_retryable, dropped.count()), (false, 1));
    assert!((7 * SECOND..8 * SECOND).contains(&started_at.elapsed()));
}

#[tokio::test(start_paused = true)]
async fn a_shape_that_hangs_ends_when_the_call_is_cancelled() {
    let (invoker, entered, dropped) = hanging();
    let call = call(json!({}));
    let cancelled = call.cancelled.clone();
    let cancelling = async {
        entered.cancelled().await;
        cancelled.cancel();
        Instant::now()
    };

    let invoking = tokio::time::timeout(SECOND, invoker.invoke(call));
    let (outcome, cancelled_at) = tokio::join!(invoking, cancelling);
    let error = outcome.expect("it has a limit").unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Cancelled, Execution::Started));
    assert_eq!((error.is_retryable, dropped.count()), (false, 1));
    assert!(cancelled_at.elapsed() < SECOND);
}
