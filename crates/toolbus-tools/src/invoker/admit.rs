//! Admission: what is no tool passes the gates too.

use std::any::Any;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use serde_json::Value;
use toolbus_bus::CallContext;
use tracing::Instrument as _;

use super::{Invoker, Recording};
use crate::call::{Call, CallError};
use crate::gate::{Passage, charge_budget};
use crate::grant::Permit;
use crate::subject::Subject;
use crate::tool::TIMEOUT_DEFAULT;

/// A read that has passed every gate. It is recorded when it was run; one that is dropped instead
/// is recorded as cancelled.
pub struct Admitted<'a> {
    recording: Recording<'a>,
    context: CallContext,
    permit: Permit,
    /// Let go of after the record.
    _held: Vec<Box<dyn Any + Send>>,
}

/// What a read is made with.
#[derive(Debug)]
#[non_exhaustive]
pub struct ReadContext {
    /// Deadline, cancellation, progress and questions.
    pub call: CallContext,
    /// Leave to have a worker make it.
    pub permit: Permit,
}

impl Invoker {
    /// Has a read pass the gates: a prompt, a resource, a completion or a subscription, which is no
    /// tool but reaches into the same places. The call's tool names the kind of read, and `subject`
    /// is what is read.
    ///
    /// # Errors
    /// Why it may not be made; that is recorded.
    pub async fn admit(&self, call: Call, subject: Subject) -> Result<Admitted<'_>, CallError> {
        let recording = self.inner.recorder.begin(&call);
        recording.record_subject(&subject);
        let time = call.time;
        let cancelled = call.cancelled.clone();
        let progress = recording.stamp_progress(call.progress.clone());
        let asker = call.asker.clone();
        let span = recording.span().clone();
        let grant_key = self.inner.grant_key.as_ref();
        let mut held = Vec::new();

        let passing = async {
            charge_budget(&call)?;
            let mut passage = Passage::new(call, None, subject, Value::Null);
            let passed = self.pass_gates(&mut passage, &recording).await;
            held = passage.take_held();
            passed.map(|()| Permit::new(&passage.subject, &passage.call.scope, grant_key))
        };
        let passed = AssertUnwindSafe(passing).catch_unwind().instrument(span).await;
        let passed = passed.unwrap_or_else(|_| Err(super::panic_error(&recording)));

        match passed {
            Ok(permit) => {
                // Its time begins only now, as a tool's does.
                let deadline = time.execution_deadline(TIMEOUT_DEFAULT);
                let context = CallContext { deadline, cancelled, progress, asker };
                Ok(Admitted { recording, context, permit, _held: held })
            }
            Err(error) => {
                let error = recording.complete(error);
                recording.end_with(Err(&error));
                Err(error)
            }
        }
    }
}

impl Admitted<'_> {
    /// Makes the read, within its time, and records how it ended.
    ///
    /// # Errors
    /// The error of the read, or that it was cancelled or out of time.
    pub async fn run<T, Fut>(self, read: impl FnOnce(ReadContext) -> Fut) -> Result<T, CallError>
    where
        Fut: Future<Output = Result<T, CallError>>,
    {
        let Self { recording, context, permit, _held } = self;
        let deadline = context.deadline;
        let cancelled = context.cancelled.clone();
        let span = recording.span().clone();
        recording.started();
        let read = read(ReadContext { call: context, permit });

        // Every arm only waits; a read that is dropped has no effect.
        let ended = async {
            tokio::select! {
                biased;
                ended = read => ended,
                () = cancelled.cancelled() => Err(CallError::cancelled()),
                () = tokio::time::sleep_until(deadline.at()) => {
                    Err(CallError::timeout(recording.tool(), deadline.asked()).of_repeatable())
                }
            }
        };
        let ended = ended.instrument(span).await;

        recording.end_with(ended.as_ref().map(|_| ()));
        ended
    }
}
