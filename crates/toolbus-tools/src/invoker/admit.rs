//! Admission: what is no tool passes the gates too.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde_json::Value;
use toolbus_bus::{CallContext, Interruption};
use tracing::Instrument as _;

use super::{Invoker, Recording, cancel_with};
use crate::call::{Call, CallError};
use crate::gate::{Passage, charge_budget};
use crate::grant::Permit;
use crate::observe::CallStatus;
use crate::scope::Scope;
use crate::subject::Subject;
use crate::tool::TIMEOUT_DEFAULT;

/// A read that has passed every gate. It is recorded when it was run; one that is dropped instead
/// is recorded as cancelled.
pub struct Admitted<'a> {
    recording: Recording<'a>,
    context: CallContext,
    permit: Permit,
    /// Cancels the read when it is cancelled itself.
    scope: Arc<Scope>,
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
    /// A subject that the scope may not see is not there.
    ///
    /// # Errors
    /// Why it may not be made; that is recorded.
    pub async fn admit(&self, call: Call, subject: Subject) -> Result<Admitted<'_>, CallError> {
        let is_seen = call.scope.sees(&subject);
        self.admit_if(is_seen, call, subject).await
    }

    /// The same for a list whose entries are each a subject of their own. Whoever asks for it shows
    /// the scope only those that it sees, so the view does not decide about the list itself.
    ///
    /// # Errors
    /// Why it may not be made; that is recorded.
    pub async fn admit_list(
        &self,
        call: Call,
        subject: Subject,
    ) -> Result<Admitted<'_>, CallError> {
        self.admit_if(true, call, subject).await
    }

    async fn admit_if(
        &self,
        is_seen: bool,
        mut call: Call,
        subject: Subject,
    ) -> Result<Admitted<'_>, CallError> {
        let recording = self.inner.recorder.begin(&call);
        recording.record_subject(&subject);
        let time = call.time;
        let scope = Arc::clone(&call.scope);
        let cancelled = call.cancelled.child_token();
        call.cancelled = cancelled.clone();
        let progress = recording.stamp_progress(call.progress.clone());
        let asker = call.asker.clone();
        let span = recording.span().clone();
        let signer = self.inner.grant_signer.as_ref();
        let mut held = Vec::new();

        let passing = async {
            charge_budget(&call).inspect_err(|_| recording.refused_by("budget"))?;
            if !is_seen {
                recording.refused_by("look-up");
                return Err(CallError::not_registered(subject.id.as_str()));
            }
            let mut passage = Passage::new(call, None, subject, Value::Null);
            let passed = self.pass_gates(&mut passage, &recording).await;
            held = passage.take_held();
            passed.map(|()| Permit::new(&passage.subject, &passage.call.scope, signer))
        };
        let passing = AssertUnwindSafe(passing).catch_unwind().instrument(span);
        let passed = cancel_with(&scope.cancelled, &cancelled, passing).await;
        let passed = passed.unwrap_or_else(|_| Err(super::panic_error(&recording)));

        match passed {
            Ok(permit) => {
                // Its time begins only now, as a tool's does.
                let deadline = time.execution_deadline(TIMEOUT_DEFAULT, None);
                let context = CallContext { deadline, cancelled, progress, asker };
                Ok(Admitted { recording, context, permit, scope, _held: held })
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
        let Self { recording, context, permit, scope, _held } = self;
        let deadline = context.deadline;
        let cancelled = context.cancelled.clone();
        let span = recording.span().clone();
        recording.started();
        let read = read(ReadContext { call: context, permit });

        // A read that is dropped has no effect.
        let read = pin!(read);
        let reading = deadline.enforce(&cancelled, Duration::ZERO, read);
        let reading = cancel_with(&scope.cancelled, &cancelled, reading.instrument(span));
        let ended = match reading.await {
            Ok(ended) => ended,
            Err(Interruption::Cancelled) => Err(CallError::cancelled()),
            Err(Interruption::TimedOut) => {
                Err(CallError::timeout(recording.tool(), deadline.asked()).of_repeatable())
            }
        };

        recording.end_with(ended.as_ref().map(|_| CallStatus::Ok));
        ended
    }
}
