//! From a pod that waits to one that has its script: the claim, and what is proven before the start.
//!
//! The script is on its way while the cluster is asked to grant the claim, so the pod has made it
//! ready to run by then. The word that starts it is the caller's to give, once both are certain.

use std::time::Duration;

use kube::api::{Patch, PatchParams};
use tokio::time::{Instant, timeout_at};
use toolbus_scripts::runner::{CallKey, Run, Script};

use crate::attach::Frame;
use crate::pod_lifecycle::Kept;
use crate::pod_startup::Born;
use crate::protocol::Report;
use crate::release::Whose;
use crate::requests::repeated;
use crate::warm_pool::{Claimed, NotHere, Parts, Waiting};
use crate::{errors, pod_spec, protocol, runner};

/// How long claiming may take. A cluster that is slower than this is no faster at making a pod, but
/// the script is not to wait for both.
const CLAIM_LIMIT: Duration = Duration::from_secs(2);
/// How long the script may be on its way.
const HANDOVER_LIMIT: Duration = Duration::from_secs(2);
/// Attempts to claim one pod: the cluster itself changes it now and then.
const ATTEMPTS: u32 = 3;

/// Why a pod has not taken a script. The script has not started, and never will in it.
pub(crate) enum Refused {
    /// The pod is gone or of no use.
    Lost(String),
    /// It is not this manager's any more.
    Taken,
    /// Somebody else has taken it over since it was claimed for this call, which is his to begin now,
    /// or may have.
    NotHere(NotHere),
    /// The cluster is in trouble, or the script is not wanted any more.
    NotNow,
}

/// Claims a pod for a call and hands the script over, all but the word to start it. The pod is
/// deleted when it is refused.
pub(crate) async fn over(
    parts: &Parts,
    template: &str,
    mut waiting: Waiting,
    (script, run): (&Script, &Run),
) -> Result<Claimed, Refused> {
    let Waiting { kept, born, made, .. } = &mut waiting;
    // Whether the pod may have become this call's.
    let mut may_be_claimed = false;
    let claimed = async {
        let claim = claim(parts, template, (kept, *made), (script, run), &mut may_be_claimed);
        timeout_at(run.until(CLAIM_LIMIT), claim).await.unwrap_or(Err(Refused::NotNow))
    };
    let sent = async {
        let sent = timeout_at(run.until(HANDOVER_LIMIT), send(born, script)).await;
        sent.unwrap_or_else(|_| Err("it does not take a script".to_owned())).map_err(Refused::Lost)
    };
    // Side by side: what the pod has of a script is of no effect before the word to start it, and a
    // pod that was sent one is deleted unless it was claimed for it.
    let work = async { tokio::try_join!(claimed, sent).map(drop) };
    // Dropped half way, the pod is deleted all the same.
    let done = tokio::select! {
        done = work => done,
        () = run.cancelled.cancelled() => Err(Refused::NotNow),
    };
    match done {
        Ok(()) => Ok(Claimed { kept: waiting.kept, born: waiting.born }),
        Err(refused @ (Refused::Taken | Refused::NotHere(_))) => {
            waiting.kept.leave();
            Err(refused)
        }
        // Nobody finds it by this call.
        Err(refused) if !may_be_claimed => Err(refused),
        // Before the script gets another pod: it must not be found with two.
        Err(refused) => match waiting.kept.give_up(run.begin_by()).await {
            Whose::Own => Err(refused),
            Whose::Another => Err(Refused::NotHere(NotHere::Elsewhere)),
            Whose::Unknown => Err(Refused::NotHere(NotHere::Unknown)),
        },
    }
}

/// Makes the pod this call's, which the cluster grants once. `may_be` says whether it may have, also
/// when this is dropped half way.
async fn claim(
    parts: &Parts,
    template: &str,
    (kept, made): (&Kept, Instant),
    (script, run): (&Script, &Run),
    may_be: &mut bool,
) -> Result<(), Refused> {
    let name = &kept.name;
    let mut version = kept.follower.known.borrow().version.clone();
    for _ in 0..ATTEMPTS {
        let known = match version.take() {
            Some(version) => version,
            None => match look(parts, template, (name, run.key)).await? {
                Seen::Waiting(version) => version,
                Seen::Claimed => return Ok(()),
            },
        };
        let life = made.elapsed() + CLAIM_LIMIT + HANDOVER_LIMIT + script.timeout;
        let patch = pod_spec::claim((run.key, &run.call_id), life, &known);
        let parameters = PatchParams::default();
        let before = std::mem::replace(may_be, true);
        match parts.pods.patch_metadata(name, &parameters, &Patch::Merge(patch)).await {
            Ok(_) => return Ok(()),
            Err(error) if errors::is_not_found(&error) => {
                *may_be = before;
                return Err(Refused::Lost("it was deleted".to_owned()));
            }
            // It was changed, perhaps by this very claim: an answer may have been lost.
            Err(error) if errors::is_conflict(&error) || errors::is_unanswered(&error) => {
                tracing::debug!(pod = name, error = %errors::chain(&error), "claiming again");
            }
            Err(error) => {
                *may_be = before || !errors::is_refusal(&error);
                return Err(trouble(&error));
            }
        }
    }
    Err(Refused::Lost("it changes all the time".to_owned()))
}

/// A pod that is to be claimed, as it is now.
enum Seen {
    /// It may be claimed, in this version.
    Waiting(String),
    /// It is this call's already.
    Claimed,
}

async fn look(
    parts: &Parts,
    template: &str,
    (name, key): (&str, CallKey),
) -> Result<Seen, Refused> {
    let pod = repeated(|| parts.pods.get_metadata_opt(name)).await;
    let pod = pod.map_err(|error| trouble(&error))?;
    let pod = pod.ok_or_else(|| Refused::Lost("it was deleted".to_owned()))?;
    match pod_spec::owner_for(&pod.metadata, key) {
        Some(owner) if owner == parts.manager => return Ok(Seen::Claimed),
        Some(_) => return Err(Refused::NotHere(NotHere::Elsewhere)),
        None => {}
    }
    if !pod_spec::is_warm(&pod.metadata, &parts.manager, template) {
        return Err(Refused::Taken);
    }
    Ok(Seen::Waiting(pod.metadata.resource_version.unwrap_or_default()))
}

fn trouble(error: &kube::Error) -> Refused {
    tracing::warn!(error = %errors::chain(error), "a warm pod could not be claimed");
    Refused::NotNow
}

/// Sends the script, and waits until the pod says that it has all of it.
async fn send(born: &mut Born, script: &Script) -> Result<(), String> {
    let request = protocol::prepare(&runner::limits(script), script);
    born.input.send(&request).await.map_err(|error| errors::chain(&error))?;
    loop {
        match born.output.next().await {
            Frame::Stdout(bytes) => {
                let reports = born.reports.accept(&bytes).map_err(|error| errors::chain(&error))?;
                if reports.contains(&Report::Taken) {
                    return Ok(());
                }
            }
            Frame::Stderr(_) => {}
            Frame::Closed(reason) => return Err(reason),
        }
    }
}
