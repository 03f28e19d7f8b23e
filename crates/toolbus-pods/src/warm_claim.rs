//! The claim of a warm pod for a call, and the hand-over of the script up to its start.
//!
//! The script is sent while the cluster is asked to grant the claim, so the pod has made it ready
//! to run by then. The word that starts it is the caller's to give, once both are certain.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use tokio::time::{Instant, timeout_at};
use toolbus_scripts::supervisor::protocol::{self, Report};

use crate::attach::ContainerFrame;
use crate::pod_lifecycle::OwnedPod;
use crate::pod_startup::ReadyPod;
use crate::release::ReleaseOutcome;
use crate::requests::with_retry;
use crate::runner::ScriptCall;
use crate::warm_pool::{CallConflict, ClaimedPod, WarmPod, WarmPoolDeps};
use crate::{errors, pod_spec};

/// How long claiming may take. A cluster that is slower than this is no faster at making a pod, but
/// the script is not to wait for both.
const CLAIM_TIMEOUT: Duration = Duration::from_secs(2);
/// How long the hand-over of the script may take.
const HANDOVER_TIMEOUT: Duration = Duration::from_secs(2);
/// Attempts to claim one pod: the cluster itself changes it now and then.
const ATTEMPTS_MAX: u32 = 3;

/// Why a pod was not given a script. The script has not started, and never will in it.
pub(crate) enum ClaimRefusal {
    /// The pod is gone or of no use.
    PodLost(String),
    /// It is not this manager's any more.
    PodTaken,
    /// Another manager has adopted it since it was claimed for this call, or may have: the call is
    /// that manager's to start.
    CallConflict(CallConflict),
    /// The cluster is in trouble, or the call was cancelled.
    Interrupted,
}

/// A claim of a warm pod for a call.
struct PodClaim<'a> {
    deps: &'a WarmPoolDeps,
    /// The digest of the description that all warm pods of this manager have.
    template: &'a str,
    pod: &'a OwnedPod,
    requested_at: Instant,
    call: &'a ScriptCall<'a>,
}

/// Claims a pod for a call and hands the script over, all but the word to start it. The pod is
/// deleted when it is refused.
pub(crate) async fn hand_over_script(
    deps: &WarmPoolDeps,
    template: &str,
    warm_pod: WarmPod,
    call: &ScriptCall<'_>,
) -> Result<ClaimedPod, ClaimRefusal> {
    let run = call.run;
    let WarmPod { mut pod, mut ready, requested_at, .. } = warm_pod;
    // From now on it may be this call's, and then goes where the call goes.
    pod.detached = call.detached.clone();
    // Whether the pod may have become this call's. Written as soon as that is so, for the claim may
    // be dropped half way.
    let mut may_be_claimed = false;

    let pod_claim = PodClaim { deps, template, pod: &pod, requested_at, call };
    let claimed = async {
        let claim = pod_claim.claim_pod(&mut may_be_claimed);
        timeout_at(run.wait_deadline(CLAIM_TIMEOUT), claim)
            .await
            .unwrap_or(Err(ClaimRefusal::Interrupted))
    };
    let sent = async {
        let sent =
            timeout_at(run.wait_deadline(HANDOVER_TIMEOUT), send_script(&mut ready, call)).await;
        sent.unwrap_or_else(|_| Err("the pod does not take a script".to_owned()))
            .map_err(ClaimRefusal::PodLost)
    };

    // Side by side: what the pod has of a script is of no effect before the word to start it, and a
    // pod that was sent one is deleted unless it was claimed for it.
    let work = async { tokio::try_join!(claimed, sent).map(drop) };
    // Dropped half way, the pod is deleted all the same.
    let done = tokio::select! {
        done = work => done,
        () = run.cancelled.cancelled() => Err(ClaimRefusal::Interrupted),
    };

    match done {
        Ok(()) => Ok(ClaimedPod { pod, ready }),
        Err(refused @ (ClaimRefusal::PodTaken | ClaimRefusal::CallConflict(_))) => {
            pod.remove_owner();
            Err(refused)
        }
        // No other manager finds it by this call.
        Err(refused) if !may_be_claimed => Err(refused),
        // Before the script gets another pod: it must not be found with two.
        Err(refused) => match pod.release(run.start_deadline()).await {
            ReleaseOutcome::Released => Err(refused),
            ReleaseOutcome::OwnedElsewhere => {
                Err(ClaimRefusal::CallConflict(CallConflict::OwnedElsewhere))
            }
            ReleaseOutcome::Unknown => Err(ClaimRefusal::CallConflict(CallConflict::Unknown)),
        },
    }
}

/// A pod that is to be claimed, as the cluster has it now.
enum ClaimView {
    /// It may be claimed, in this version.
    Claimable(String),
    /// It is this call's already.
    Claimed,
}

impl PodClaim<'_> {
    /// Makes the pod this call's, which the cluster grants once. `may_be_claimed` says whether it
    /// may have, also when this is dropped half way.
    async fn claim_pod(&self, may_be_claimed: &mut bool) -> Result<(), ClaimRefusal> {
        let name = &self.pod.name;
        let run = self.call.run;
        let mut version = self.pod.follower.observed.borrow().version.clone();

        for _ in 0..ATTEMPTS_MAX {
            let known = match version.take() {
                Some(version) => version,
                None => match self.inspect_pod().await? {
                    ClaimView::Claimable(version) => version,
                    ClaimView::Claimed => return Ok(()),
                },
            };

            let age = self.requested_at.elapsed();
            let lifetime = age + CLAIM_TIMEOUT + HANDOVER_TIMEOUT + self.call.script.timeout;
            let patch = pod_spec::claim_patch(run.key, &run.call_id, lifetime, &known);
            let parameters = PatchParams::default();
            let before = std::mem::replace(may_be_claimed, true);
            let patched =
                self.deps.pods.patch_metadata(name, &parameters, &Patch::Merge(patch)).await;

            match patched {
                Ok(_) => return Ok(()),
                Err(error) if errors::is_not_found(&error) => {
                    *may_be_claimed = before;
                    return Err(ClaimRefusal::PodLost("the pod was deleted".to_owned()));
                }
                // It was changed, perhaps by this very claim: an answer may have been lost.
                Err(error) if errors::is_conflict(&error) || errors::is_unanswered(&error) => {
                    let error = errors::error_chain(&error);
                    tracing::debug!(pod = name, %error, "retrying the claim of a warm pod");
                }
                Err(error) => {
                    *may_be_claimed = before || !errors::is_refusal(&error);
                    return Err(self.interrupt(&error));
                }
            }
        }

        Err(ClaimRefusal::PodLost("the pod changes all the time".to_owned()))
    }

    async fn inspect_pod(&self) -> Result<ClaimView, ClaimRefusal> {
        let deps = self.deps;
        let pod = with_retry(|| deps.pods.get_metadata_opt(&self.pod.name)).await;
        let pod = pod.map_err(|error| self.interrupt(&error))?;
        let pod = pod.ok_or_else(|| ClaimRefusal::PodLost("the pod was deleted".to_owned()))?;

        match pod_spec::manager_for_call(&pod.metadata, self.call.run.key) {
            Some(manager) if manager == deps.manager => return Ok(ClaimView::Claimed),
            Some(_) => return Err(ClaimRefusal::CallConflict(CallConflict::OwnedElsewhere)),
            None => {}
        }

        if !pod_spec::is_warm(&pod.metadata, &deps.manager, self.template) {
            return Err(ClaimRefusal::PodTaken);
        }

        Ok(ClaimView::Claimable(pod.metadata.resource_version.unwrap_or_default()))
    }

    /// Logs an error of the cluster, and gives the claim up.
    fn interrupt(&self, error: &kube::Error) -> ClaimRefusal {
        let error = errors::error_chain(error);
        tracing::warn!(pod = self.pod.name, %error, "failed to claim a warm pod");
        ClaimRefusal::Interrupted
    }
}

/// Sends the script, and waits until the pod says that it has all of it.
async fn send_script(ready: &mut ReadyPod, call: &ScriptCall<'_>) -> Result<(), String> {
    let request = protocol::prepare_message(&call.limits, call.script);
    ready.input.send(&request).await.map_err(|error| errors::error_chain(&error))?;
    loop {
        match ready.output.next().await {
            ContainerFrame::Stdout(bytes) => {
                let reports =
                    ready.reports.accept(&bytes).map_err(|error| errors::error_chain(&error))?;
                if reports.contains(&Report::Taken) {
                    return Ok(());
                }
            }
            ContainerFrame::Stderr(_) => {}
            ContainerFrame::Closed(reason) => return Err(reason),
        }
    }
}
