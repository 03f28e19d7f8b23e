//! The startup of a pod, from its creation until its first process answers.
//!
//! Nobody says when a container begins to run (the cluster learns of it up to a second later), so
//! attaching is tried until it succeeds. An attempt that comes too early is refused, or accepted
//! and closed at once; either way it is made again. That the first process answers proves both
//! directions of the connection, before the script is entrusted to it.

use std::time::Duration;

use bytes::Bytes;
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_scripts::runner::Error;
use toolbus_scripts::supervisor::protocol::{self, Report, ReportReader};

use crate::attach::{ContainerFrame, ContainerInput, ContainerOutput, attach};
use crate::errors;
use crate::pod_watch::{ObservedPod, PodFollower};

/// Between two attempts: a part of the time that the pod has taken so far, so that one that starts
/// at once is not waited for, and one whose image is pulled for a minute is not asked hundreds of
/// times.
const ATTACH_INTERVAL: Duration = Duration::from_millis(10);
const ATTACH_INTERVAL_MAX: Duration = Duration::from_secs(1);
const ATTACH_INTERVAL_PARTS: u32 = 20;
/// Attaching before a node has the pod is in vain, so that is waited for; not longer than this, in
/// case the watch is behind.
const SCHEDULE_TIMEOUT: Duration = Duration::from_millis(150);
/// After this without an answer the first process is asked again.
const HELLO_INTERVAL: Duration = Duration::from_millis(250);
/// How long a volume or the pod's sandbox may be missing after the node first said so. The node
/// tries again every few seconds, and often succeeds: the volume was still on its way from another
/// node, or the network plugin had no address free for a moment.
const START_DELAY_GRACE: Duration = Duration::from_secs(30);
const COMPLAINT_BYTES_MAX: usize = 2 << 10;

/// A pod whose first process answers, with the streams to it.
pub(crate) struct ReadyPod {
    pub(crate) input: ContainerInput,
    pub(crate) output: ContainerOutput,
    pub(crate) reports: ReportReader,
}

/// The startup of one pod.
pub(crate) struct PodStartup<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) nonce: &'a str,
    /// When it must answer.
    pub(crate) by: Instant,
    /// How long no node may take it.
    pub(crate) unscheduled: Duration,
    pub(crate) cancelled: &'a CancellationToken,
}

/// How long what may pass is waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartGraces {
    /// A volume or a sandbox that is missing.
    pub(crate) delay: Duration,
    /// No node that takes the pod: another script may end and make room, or a node be added.
    pub(crate) unscheduled: Duration,
}

/// What is known of a pod that does not answer yet.
#[derive(Default)]
struct StartupSigns {
    /// What its first process complains of.
    complaint: Vec<u8>,
    /// Why the last attempt to attach was in vain.
    refusal: String,
}

impl PodStartup<'_> {
    /// Waits until the pod answers, or for the first reason why it never will.
    pub(crate) async fn wait_ready(&self, follower: &mut PodFollower) -> Result<ReadyPod, Error> {
        let mut observed = follower.observed.clone();
        let start = Instant::now();
        let mut signs = StartupSigns::default();

        let answers = async {
            let scheduled = observed.wait_for(|observed| observed.scheduled);
            // Either way attaching is tried: it is the one thing that tells for certain.
            let _ = timeout(SCHEDULE_TIMEOUT, scheduled).await;
            let mut attempts = 0_u32;

            loop {
                attempts += 1;
                if let Some(ready) = self.try_attach(&mut signs).await {
                    let elapsed = start.elapsed().as_secs_f64();
                    tracing::debug!(attempts, elapsed, "pod answers");
                    return ready;
                }

                let part = start.elapsed() / ATTACH_INTERVAL_PARTS;
                sleep(part.clamp(ATTACH_INTERVAL, ATTACH_INTERVAL_MAX)).await;
            }
        };

        let failure = tokio::select! {
            ready = answers => return Ok(ready),
            () = self.cancelled.cancelled() => return Err(Error::Cancelled),
            error = wait_for_failure(follower, self.graces()) => Some(error),
            () = sleep_until(self.by) => None,
        };

        let failure = failure.unwrap_or_else(|| {
            startup_timeout(&follower.observed.borrow(), start.elapsed(), &signs)
        });
        let said = String::from_utf8_lossy(&signs.complaint).trim().to_owned();
        Err(match failure {
            Error::Failed(text) if !said.is_empty() => Error::Failed(format!("{text}: {said}")),
            failure => failure,
        })
    }

    fn graces(&self) -> StartGraces {
        StartGraces { delay: START_DELAY_GRACE, unscheduled: self.unscheduled }
    }

    /// Tries once to attach; `None` when it has to be tried again.
    async fn try_attach(&self, signs: &mut StartupSigns) -> Option<ReadyPod> {
        let (mut input, mut output) = match attach(self.client, self.namespace, self.name).await {
            Ok(halves) => halves,
            Err(error) => {
                tracing::trace!(%error, "attaching to the pod was refused");
                signs.refusal = errors::error_chain(&error);
                return None;
            }
        };

        let hello: Bytes = protocol::hello_message(self.nonce);
        let mut reports = ReportReader::joining_late(self.nonce);
        loop {
            input.send(&hello).await.ok()?;
            let again = Instant::now() + HELLO_INTERVAL;
            while let Ok(frame) = tokio::time::timeout_at(again, output.next()).await {
                match frame {
                    ContainerFrame::Stdout(bytes) => {
                        // Nothing but this can be the first that is heard.
                        if reports.accept(&bytes).ok()?.contains(&Report::Ready) {
                            return Some(ReadyPod { input, output, reports });
                        }
                    }
                    ContainerFrame::Stderr(bytes) => {
                        let room = COMPLAINT_BYTES_MAX.saturating_sub(signs.complaint.len());
                        signs.complaint.extend_from_slice(&bytes[..bytes.len().min(room)]);
                    }
                    ContainerFrame::Closed(reason) => {
                        tracing::trace!(reason, "attached to the pod too early");
                        signs.refusal = reason;
                        return None;
                    }
                }
            }
        }
    }
}

/// The error of a pod that has not answered in its time, as far as the reason is known.
fn startup_timeout(observed: &ObservedPod, after: Duration, signs: &StartupSigns) -> Error {
    if let Some(reason) = &observed.unschedulable {
        return no_room(reason);
    }

    if let Some(reason) = &observed.start_delay {
        return cannot_start(reason);
    }

    // What it complains of is part of the error in any case.
    let refusal = if signs.complaint.is_empty() && !signs.refusal.is_empty() {
        format!(", and it cannot be attached to: {}", signs.refusal)
    } else {
        String::new()
    };

    Error::Failed(format!("the pod did not start within {after:.1?}{refusal}"))
}

fn no_room(reason: &str) -> Error {
    Error::Busy(format!("no node has room: {reason}"))
}

fn cannot_start(reason: &str) -> Error {
    Error::Failed(format!("the pod cannot start: {reason}"))
}

/// Waits until it is certain that the pod will not start.
pub(crate) async fn wait_for_failure(follower: &mut PodFollower, graces: StartGraces) -> Error {
    let observed = &mut follower.observed;
    let is_final = |observed: &ObservedPod| {
        observed.start_failure.is_some() || observed.container_end.is_some() || observed.deleted
    };

    loop {
        let seen = observed.borrow_and_update().clone();
        if let Some(reason) = seen.start_failure {
            return cannot_start(&reason);
        }

        if let Some(ended) = seen.container_end {
            let code =
                ended.exit_code.map(|code| format!(", exit code {code}")).unwrap_or_default();
            return Error::Failed(format!(
                "the pod ended before the script started: {}{code} {}",
                ended.reason, ended.message
            ));
        }

        if seen.deleted {
            return Error::Failed("the pod was deleted before the script started".to_owned());
        }

        let changed = match (seen.start_delay, seen.unschedulable) {
            (None, None) => observed.changed().await,
            (Some(reason), _) => {
                let over = observed.wait_for(|seen| seen.start_delay.is_none() || is_final(seen));
                match timeout(graces.delay, over).await {
                    Ok(changed) => changed.map(drop),
                    Err(_) => return cannot_start(&reason),
                }
            }
            (None, Some(reason)) => {
                let better = observed.wait_for(|observed| observed.scheduled || is_final(observed));
                match timeout(graces.unscheduled, better).await {
                    Ok(changed) => changed.map(drop),
                    Err(_) => return no_room(&reason),
                }
            }
        };

        if changed.is_err() {
            // The watch is gone, which says nothing about the pod.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests;
