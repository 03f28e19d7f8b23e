//! Notes of waiting calls, in the Lease of the manager that has them.
//!
//! A call that waits has not started. When its manager is lost, no other manager could tell: a
//! missing pod of its name is also true of a script that has run, and of one whose pod was deleted.
//! So there is a note of the call while it waits, and only that is proof.
//!
//! Invariants: a call starts after its note is known to be gone, and the manager that starts it has
//! taken the note; every change is for one version of the Lease, so of two managers that take a
//! note one has it, and a request that arrives late changes nothing; what is not known for certain
//! is not proof. A manager that takes a note leaves a mark in its place, by which it recognises its
//! own change, should the answer be lost. The mark is of no use to other managers, nor to this one
//! for long.

use std::time::Duration;

use futures_util::future::BoxFuture;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt as _;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};
use toolbus_scripts::runner::{CallKey, Error};
use uuid::Uuid;

use crate::errors;
use crate::leases::ManagerLeases;
use crate::pod_spec::{MANAGER, SELECTOR, call_label};
use crate::requests::{with_retry, with_timeout};

/// What the names of notes begin with, among the annotations of a Lease. The call follows.
const NOTE_PREFIX: &str = "waiting.toolbus.dev/";
/// The same of marks.
const MARK_PREFIX: &str = "taken.toolbus.dev/";
/// A call that waits no longer than this has no note: two requests would cost it more.
const NOTE_GRACE: Duration = Duration::from_millis(20);
/// Attempts to write a note down, and the pause after one that failed.
const ATTEMPTS_MAX: u32 = 3;
const RETRY_BACKOFF: Duration = Duration::from_millis(200);
/// How long a note may be looked for and taken away.
const TAKE_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the note stays of a call that waits no more and has not started: its caller gave it up,
/// or this process ends and gives the call back, and then the note is of use to the next manager.
const ABANDONED_TTL: Duration = Duration::from_secs(15);

/// Whether a note was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoteState {
    Written,
    Missing,
    Unknown,
}

impl ManagerLeases {
    /// Waits on behalf of a call that has not started, with a note of that.
    ///
    /// # Errors
    /// When the call must not start: another manager has taken its note, or that is unknown.
    pub(crate) async fn wait_with_note(
        &self,
        key: CallKey,
        mut waiting: BoxFuture<'_, ()>,
    ) -> Result<(), Error> {
        // Cancel-safe: the future is polled on where it was left.
        tokio::select! {
            () = &mut waiting => return Ok(()),
            () = sleep(NOTE_GRACE) => {}
        }

        let key = call_label(key);
        let mut note =
            StaleAnnotation { presence: self, name: Some(note_name(&key)), after: ABANDONED_TTL };
        let (noted, ()) = tokio::join!(self.write_note(&key), waiting);

        if noted != NoteState::Missing && !self.take_note(&key).await? {
            return Err(Error::OutcomeUnknown("another manager has this very call".to_owned()));
        }

        note.name = None;
        Ok(())
    }

    /// Takes the note that this call has not started; `false` where there is none.
    ///
    /// # Errors
    /// When it is unknown whether there is one.
    pub(crate) async fn take_unstarted_note(&self, key: CallKey) -> Result<bool, Error> {
        self.take_note(&call_label(key)).await
    }

    /// Takes the stale annotations, with the patch that removes them.
    pub(crate) fn take_stale_annotations(&self) -> (serde_json::Value, Vec<(Instant, String)>) {
        let now = Instant::now();
        let stale_annotations: Vec<_> =
            self.stale_annotations.lock().extract_if(.., |(from, _)| *from <= now).collect();
        let nulls: serde_json::Map<_, _> =
            stale_annotations.iter().map(|(_, name)| (name.clone(), json!(null))).collect();
        (nulls.into(), stale_annotations)
    }

    async fn write_note(&self, key: &str) -> NoteState {
        let mut unsure = NoteState::Missing;
        for _ in 0..ATTEMPTS_MAX {
            let noting = async {
                let own =
                    ListParams::default().labels(&format!("{SELECTOR},{MANAGER}={}", self.manager));
                match with_retry(|| self.leases.list(&own)).await?.items.first() {
                    Some(lease) => self
                        .patch_annotations(lease, json!({note_name(key): ""}))
                        .await
                        .map(|()| true),
                    None => Ok(false),
                }
            };

            match noting.await {
                Ok(true) => return NoteState::Written,
                Ok(false) => return unsure,
                Err(error) if errors::is_conflict(&error) => {}
                Err(error) if errors::is_transient(&error) => {
                    let error = errors::error_chain(&error);
                    tracing::debug!(%error, "failed to write a waiting note, retrying");
                    unsure = NoteState::Unknown;
                    sleep(RETRY_BACKOFF).await;
                }
                Err(error) => {
                    tracing::warn!(error = %errors::error_chain(&error), "failed to write a waiting note");
                    return unsure;
                }
            }
        }

        unsure
    }

    /// Removes a note, whichever manager wrote it; `false` where there is none.
    async fn take_note(&self, key: &str) -> Result<bool, Error> {
        let unknown = |text: String| Error::OutcomeUnknown(text);
        let end = Instant::now() + TAKE_TIMEOUT;
        // A request whose answer was lost may have taken it.
        let mut asked = false;
        let mut lost = false;
        let note = note_name(key);
        let mark = format!("{MARK_PREFIX}{key}");
        let own = Uuid::new_v4().simple().to_string();
        let selector = ListParams::default().labels(SELECTOR);
        let _mark =
            StaleAnnotation { presence: self, name: Some(mark.clone()), after: Duration::ZERO };

        loop {
            let taking = async {
                let leases = with_retry(|| self.leases.list(&selector)).await?.items;
                if leases.iter().any(|lease| lease.annotations().get(&mark) == Some(&own)) {
                    return Ok(true);
                }

                match leases.iter().find(|lease| lease.annotations().contains_key(&note)) {
                    Some(lease) => {
                        asked = true;
                        let taken = json!({note.as_str(): null, mark.as_str(): own});
                        self.patch_annotations(lease, taken).await.map(|()| true)
                    }
                    None => Ok(false),
                }
            };

            match taking.await {
                Ok(false) if asked => {
                    return Err(unknown("whose call it is was lost".to_owned()));
                }
                Ok(taken) => return Ok(taken),
                // Refused for certain.
                Err(error) if errors::is_conflict(&error) || errors::is_not_found(&error) => {
                    asked = lost;
                }
                Err(error) if errors::is_transient(&error) => lost = asked,
                Err(error) => return Err(unknown(errors::error_chain(&error))),
            }

            if Instant::now() + RETRY_BACKOFF >= end {
                return Err(unknown("the cluster does not say whether it began".to_owned()));
            }

            sleep(RETRY_BACKOFF).await;
        }
    }

    /// Changes annotations in this version of a Lease.
    async fn patch_annotations(
        &self,
        lease: &Lease,
        annotations: serde_json::Value,
    ) -> Result<(), kube::Error> {
        let patch = json!({"metadata": {
            "resourceVersion": lease.resource_version(),
            "annotations": annotations,
        }});
        let name = lease.name_any();
        let parameters = PatchParams::default();
        with_timeout(self.leases.patch(&name, &parameters, &Patch::Merge(&patch))).await.map(drop)
    }
}

/// Whether a Lease has notes of waiting calls.
pub(crate) fn has_notes(lease: &Lease) -> bool {
    lease.annotations().keys().any(|name| name.starts_with(NOTE_PREFIX))
}

/// An annotation that may exist. Once this is dropped, the annotation is removed some time later.
struct StaleAnnotation<'a> {
    presence: &'a ManagerLeases,
    /// `None` once it is known to be gone.
    name: Option<String>,
    after: Duration,
}

impl Drop for StaleAnnotation<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.presence.stale_annotations.lock().push((Instant::now() + self.after, name));
        }
    }
}

fn note_name(key: &str) -> String {
    format!("{NOTE_PREFIX}{key}")
}
