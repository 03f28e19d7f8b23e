//! Scripts that may have begun: those of calls that come again, and those whose streams broke before
//! they were heard to start.
//!
//! Invariants: a script is handed over again to its own pod alone, whose first process starts one
//! script, once, whoever says so how often; it gets another pod only when it is proved that it never
//! began in the first, and only from him who deletes that one while it is his.

use kube::ResourceExt as _;
use toolbus_scripts::runner::{Error, Outcome, Run, Script};

use crate::pod_lifecycle::Kept;
use crate::release::Whose;
use crate::requests::within;
use crate::runner::{Met, Shared};
use crate::start_detection::{self, Begun};
use crate::{errors, pod_spec, protocol};

/// How often a script is handed over to one pod.
const HANDOVERS: u32 = 3;

impl Shared {
    /// A call that a manager had which is lost, or has lost it: if its pod is there, it is this
    /// manager's from now on. Otherwise it may have run, and is not run again. `None` when its pod is
    /// proof that it has not begun; that pod is gone then.
    pub(crate) async fn again(
        &self,
        script: &Script,
        run: &Run,
        limits: &protocol::Settings,
    ) -> Result<Option<Outcome>, Error> {
        let kept = tokio::select! {
            kept = self.keeper.adopt(run.key, run.begin_by()) => kept?,
            () = run.cancelled.cancelled() => return Err(Error::Cancelled),
        };
        let Some(mut kept) = kept else {
            let text = "the manager that had it was lost, and it has no pod (any more)";
            return Err(Error::OutcomeUnknown(text.to_owned()));
        };
        self.name_in_trace(&kept.name);
        tracing::info!(pod = kept.name, "adopted the pod of a call that came again");
        match self.find_out(&mut kept, script, run, limits).await? {
            Met::Outcome(outcome) => Ok(Some(outcome)),
            Met::Unbegun(reason) => {
                tracing::warn!(reason, "a pod ended before its script started");
                self.make_way(kept, script, run).await
            }
        }
    }

    /// Puts away the pod in which a script never began, so that it may begin in another. Gives its
    /// outcome where somebody else has taken it over, who finds the same, and begins it.
    pub(crate) async fn make_way(
        &self,
        kept: Kept,
        script: &Script,
        run: &Run,
    ) -> Result<Option<Outcome>, Error> {
        match kept.make_way(run.begin_by()).await {
            Whose::Own => Ok(None),
            Whose::Another => self.alongside(script, run).await.map(Some),
            Whose::Unknown => Err(whose_is_unknown()),
        }
    }

    /// A call that another manager runs at this moment: it was sent twice. Both give its outcome.
    pub(crate) async fn alongside(&self, script: &Script, run: &Run) -> Result<Outcome, Error> {
        let unknown = |text: String| {
            Error::OutcomeUnknown(format!("another manager has this very call: {text}"))
        };
        let pod = within(run.begin_by(), self.keeper.find(run.key)).await;
        let pod = pod.map_err(|error| unknown(errors::chain(&error)))?;
        let pod = pod.ok_or_else(|| unknown("its pod is gone".to_owned()))?;
        let nonce =
            pod_spec::nonce(&pod).ok_or_else(|| unknown("its pod is none of ours".to_owned()))?;
        let name = pod.name_any();
        self.name_in_trace(&name);
        let mut follower = self.keeper.follow(&name);
        self.life(&name, nonce, script, run).resume(&mut follower).await
    }

    /// A script in a pod of its own, which gets no other.
    pub(crate) async fn to_its_end(
        &self,
        kept: &mut Kept,
        script: &Script,
        run: &Run,
        limits: &protocol::Settings,
    ) -> Result<Outcome, Error> {
        if let Some(outcome) = self.in_pod(kept, script, run, limits).await? {
            return Ok(outcome);
        }
        match self.find_out(kept, script, run, limits).await? {
            Met::Outcome(outcome) => Ok(outcome),
            Met::Unbegun(reason) => Err(never_began(&reason)),
        }
    }

    /// The outcome of a script in its pod, which has it, or had it handed over, or is to get it.
    pub(crate) async fn find_out(
        &self,
        kept: &mut Kept,
        script: &Script,
        run: &Run,
        limits: &protocol::Settings,
    ) -> Result<Met, Error> {
        let mut failed = None;
        for _ in 0..=HANDOVERS {
            let Kept { name, nonce, follower, .. } = &mut *kept;
            let looking =
                start_detection::look(&self.pods, (name, nonce), follower, run.begin_by());
            let begun = tokio::select! {
                begun = looking => begun?,
                // It is deleted next; whether it began is nobody's concern any more.
                () = run.cancelled.cancelled() => return Err(Error::Cancelled),
            };
            tracing::info!(pod = name, ?begun, "looked whether a script began");
            match (begun, failed.take()) {
                (Begun::Yes, _) => {
                    let life = self.life(name, nonce, script, run);
                    return life.resume(follower).await.map(Met::Outcome);
                }
                (Begun::Never(reason), _) => return Ok(Met::Unbegun(reason)),
                (Begun::NotYet, Some(error)) => return Err(error),
                (Begun::NotYet, None) => {}
            }
            match self.in_pod(kept, script, run, limits).await {
                Ok(Some(outcome)) => return Ok(Met::Outcome(outcome)),
                Ok(None) => {}
                // It may have begun by another's word meanwhile.
                Err(error) => failed = Some(error),
            }
        }
        Err(Error::OutcomeUnknown("its pod cannot be spoken to".to_owned()))
    }
}

/// What a caller is told where another manager may have the call, and the pod that it had here.
pub(crate) fn whose_is_unknown() -> Error {
    Error::OutcomeUnknown(
        "the cluster does not tell whether another manager has its pod".to_owned(),
    )
}

/// What a caller is told of a script that did not begin in any of its pods.
pub(crate) fn never_began(reason: &str) -> Error {
    Error::Failed(format!("the pod ended before the script started: {reason}"))
}
