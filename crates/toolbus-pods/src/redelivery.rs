//! Scripts that may have started already: those of redelivered calls, and those whose streams broke
//! before their start was reported.
//!
//! Invariants: a script is handed over again to its own pod alone, whose first process starts one
//! script, once, however often it is told to; it gets another pod only when it is proved that it
//! never started in the first, and only from the manager that deletes that pod while it owns it.

use kube::ResourceExt as _;
use toolbus_scripts::runner::{Error, Outcome};

use crate::pod_lifecycle::OwnedPod;
use crate::release::ReleaseOutcome;
use crate::requests::until_deadline;
use crate::runner::{PodAttempt, RunnerInner, ScriptCall};
use crate::script_session::ScriptSession;
use crate::start_detection::{self, StartState};
use crate::{errors, pod_spec};

/// How often a script is handed over to one pod.
const HANDOVERS_MAX: u32 = 3;

impl RunnerInner {
    /// Resumes a redelivered call, which a manager had that is lost, or that lost the call: if its
    /// pod exists, this manager adopts it. Otherwise the script may have run, and is not run again.
    /// `None` when its pod is proof that it has not started; that pod is deleted then.
    pub(crate) async fn resume_redelivered(
        &self,
        call: &ScriptCall<'_>,
    ) -> Result<Option<Outcome>, Error> {
        let run = call.run;
        let adopted = tokio::select! {
            adopted = self.keeper.adopt_pod(run.key, run.start_deadline()) => adopted?,
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
        };
        let Some(mut pod) = adopted else {
            let text = "the manager that had the call was lost, and the call has no pod (any more)";
            return Err(Error::OutcomeUnknown(text.to_owned()));
        };
        pod.detached = call.detached.clone();

        self.record_pod_in_span(&pod.name);
        tracing::info!(pod = pod.name, "adopted the pod of a redelivered call");

        match self.settle_start(&mut pod, call).await? {
            PodAttempt::Finished(outcome) => Ok(Some(outcome)),
            PodAttempt::NeverStarted(reason) => {
                tracing::warn!(pod = pod.name, reason, "pod ended before its script started");
                self.release_for_retry(pod, call).await
            }
        }
    }

    /// Deletes the pod in which a script never started, so that it may start in another. Returns
    /// the outcome where another manager has adopted the pod: that one finds the same, and starts
    /// it.
    pub(crate) async fn release_for_retry(
        &self,
        pod: OwnedPod,
        call: &ScriptCall<'_>,
    ) -> Result<Option<Outcome>, Error> {
        match pod.release_and_confirm(call.run.start_deadline()).await {
            ReleaseOutcome::Released => Ok(None),
            ReleaseOutcome::OwnedElsewhere => self.await_other_manager(call).await.map(Some),
            ReleaseOutcome::Unknown => Err(ownership_unknown()),
        }
    }

    /// Waits for the outcome of a call that another manager runs at this moment, because it was
    /// sent twice. Both managers respond with the same outcome.
    pub(crate) async fn await_other_manager(
        &self,
        call: &ScriptCall<'_>,
    ) -> Result<Outcome, Error> {
        let unknown = |text: String| {
            Error::OutcomeUnknown(format!("another manager has this very call: {text}"))
        };
        let run = call.run;
        let pod = until_deadline(run.start_deadline(), self.keeper.find_call_pod(run.key)).await;
        let pod = pod.map_err(|error| unknown(errors::error_chain(&error)))?;
        let pod = pod.ok_or_else(|| unknown("its pod is gone".to_owned()))?;
        let nonce = pod_spec::nonce_of(&pod)
            .ok_or_else(|| unknown("its pod is none of ours".to_owned()))?;

        let name = pod.name_any();
        self.record_pod_in_span(&name);
        let mut follower = self.keeper.follow_pod(&name);
        let session = self.open_session(&name, nonce, call);
        // The other manager answers the script's requests.
        ScriptSession { channel: None, ..session }.resume(&mut follower).await
    }

    /// Runs a script in a pod of its own to its end, without a second pod if that one is lost.
    pub(crate) async fn run_to_end(
        &self,
        pod: &mut OwnedPod,
        call: &ScriptCall<'_>,
    ) -> Result<Outcome, Error> {
        if let Some(outcome) = self.run_in_pod(pod, call).await? {
            return Ok(outcome);
        }
        match self.settle_start(pod, call).await? {
            PodAttempt::Finished(outcome) => Ok(outcome),
            PodAttempt::NeverStarted(reason) => Err(never_started(&reason)),
        }
    }

    /// Finds out whether a script started in its pod: one that did is followed to its end, one that
    /// has not is handed over again.
    pub(crate) async fn settle_start(
        &self,
        pod: &mut OwnedPod,
        call: &ScriptCall<'_>,
    ) -> Result<PodAttempt, Error> {
        let run = call.run;
        let mut failure = None;
        for _ in 0..=HANDOVERS_MAX {
            let OwnedPod { name, nonce, follower, .. } = &mut *pod;
            let session = self.open_session(name, nonce, call);
            let detection = start_detection::detect_start(&session, follower, run.start_deadline());
            let start = tokio::select! {
                start = detection => start?,
                // It is deleted next; whether it started makes no difference any more.
                () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            };
            tracing::info!(pod = name, %start, "checked whether the script started");

            match (start, failure.take()) {
                (StartState::Started, _) => {
                    return session.resume(follower).await.map(PodAttempt::Finished);
                }
                (StartState::NeverStarted(reason), _) => {
                    return Ok(PodAttempt::NeverStarted(reason));
                }
                (StartState::NotYet, Some(error)) => return Err(error),
                (StartState::NotYet, None) => {}
            }

            match self.run_in_pod(pod, call).await {
                Ok(Some(outcome)) => return Ok(PodAttempt::Finished(outcome)),
                Ok(None) => {}
                // Another manager may have started it meanwhile, so it is looked at once more.
                Err(error) => failure = Some(error),
            }
        }

        Err(Error::OutcomeUnknown("the pod of the script does not answer".to_owned()))
    }
}

/// The error of a call that another manager may have adopted, with the pod that it had here.
pub(crate) fn ownership_unknown() -> Error {
    Error::OutcomeUnknown(
        "the cluster does not tell whether another manager has its pod".to_owned(),
    )
}

/// The error of a script that did not start in any of its pods.
pub(crate) fn never_started(reason: &str) -> Error {
    Error::Failed(format!("the pod ended before the script started: {reason}"))
}
