//! What becomes of a task, as server-sent events.
//!
//! A stream reads the task's row whenever something may have changed, and so follows a task that
//! another process does, too; what a task says of its progress is heard where it is done. Nothing
//! is read ahead for a client that does not read.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_store::until_changed;
use toolbus_wire::message::a2a::AgentTaskState;

use super::Shared;
use super::call::Call;
use super::places::Place;
use crate::TaskIntake;
use crate::http_rows::TaskView;
use crate::intake::Listening;
use crate::protocol::{
    ErrorKind, RpcError, Version, artifact_event, artifacts_of, response, status_event, task_event,
};
use crate::received::TaskKey;
use crate::tables::HTTP_CHANGES;

/// How often a client that reads is told that the task goes on, where nothing else is said.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);

/// The events of one task for one client.
pub(super) struct TaskStream {
    intake: TaskIntake,
    key: TaskKey,
    id: Value,
    version: Version,
    /// The task as the client knows it.
    view: TaskView,
    listening: Listening,
    /// Told when the row may have changed, once it was looked at.
    changes: Option<watch::Receiver<u64>>,
    waiting: VecDeque<Value>,
    is_over: bool,
    until: Instant,
    stop: CancellationToken,
    place: Option<Place>,
}

/// Why a stream goes on.
enum Woken {
    Progress(Arc<str>),
    Look,
    End,
}

impl TaskStream {
    pub(super) fn new(shared: &Shared, call: &Call, key: TaskKey, view: TaskView) -> Self {
        let first = response(&call.id, &task_event(call.version, &view));
        Self {
            listening: shared.intake.worker().hub().listen(&key),
            intake: shared.intake.clone(),
            key,
            id: call.id.clone(),
            version: call.version,
            is_over: !view.is_open(),
            view,
            changes: None,
            waiting: VecDeque::from([first]),
            until: Instant::now(),
            stop: shared.stop.clone(),
            place: None,
        }
    }

    /// The answer that has its events, which ends then, and gives a place back.
    pub(super) fn until(self, until: Instant, place: Place) -> Response {
        Self { until, place: Some(place), ..self }.into_response()
    }

    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(event) = self.waiting.pop_front() {
                return Some(event);
            }
            if self.is_over {
                self.place = None;
                return None;
            }
            match self.wait().await {
                Woken::Progress(text) => self.push_progress(&text),
                Woken::Look => self.look().await,
                Woken::End => self.is_over = true,
            }
        }
    }

    async fn wait(&mut self) -> Woken {
        // What was written before it was listened is found by looking.
        if self.changes.is_none() {
            if let Ok(store) = self.intake.received().store.open().await {
                self.changes = Some(store.changes(HTTP_CHANGES));
            }
            return Woken::Look;
        }
        let look_interval = self.intake.worker().config().look_interval;
        // Every arm only waits.
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Woken::End,
            text = self.listening.next() => Woken::Progress(text),
            () = until_changed(self.changes.as_mut()) => Woken::Look,
            () = tokio::time::sleep(look_interval) => Woken::Look,
            () = tokio::time::sleep_until(self.until) => Woken::End,
        }
    }

    async fn look(&mut self) {
        if Instant::now() >= self.until {
            self.is_over = true;
            return;
        }
        match self.intake.received().view(&self.key).await {
            Ok(Some(view)) => self.follow(view),
            Ok(None) => self.fail(&RpcError::not_found()),
            Err(error) => {
                tracing::warn!(error = error.as_dyn(), "a stream cannot follow its task");
                let what = "the state of the agent cannot be used now";
                self.fail(&RpcError::new(ErrorKind::Internal, what));
            }
        }
    }

    fn follow(&mut self, view: TaskView) {
        while let Some(text) = self.listening.try_next() {
            self.push_progress(&text);
        }
        let known = std::mem::replace(&mut self.view, view).state;
        self.view.state = state_after(known, self.view.state);
        if self.view.is_open() {
            if self.view.state != known {
                self.push(status_event(self.version, &self.view, None));
            }
            return;
        }

        for artifact in artifacts_of(self.version, &self.view) {
            self.push(artifact_event(self.version, &self.view, artifact));
        }
        self.push(status_event(self.version, &self.view, None));
        self.is_over = true;
    }

    fn push_progress(&mut self, text: &str) {
        self.view.state = AgentTaskState::Working;
        self.push(status_event(self.version, &self.view, Some(text)));
    }

    fn push(&mut self, event: Value) {
        self.waiting.push_back(response(&self.id, &event));
    }

    fn fail(&mut self, error: &RpcError) {
        self.waiting.push_back(error.to_response(&self.id));
        self.is_over = true;
    }
}

/// The state of a task that was known to be in one state when its row was read in another. A row
/// that is read while the task begins is older than the progress that was heard meanwhile.
fn state_after(known: AgentTaskState, read: AgentTaskState) -> AgentTaskState {
    match (known, read) {
        (AgentTaskState::Working, AgentTaskState::Submitted) => known,
        _ => read,
    }
}

impl IntoResponse for TaskStream {
    fn into_response(self) -> Response {
        let events = stream::unfold(self, |mut stream| async move {
            let event = stream.next().await?;
            let event = Event::default().data(event.to_string());
            Some((Ok::<_, Infallible>(event), stream))
        });
        Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL)).into_response()
    }
}

#[cfg(test)]
mod tests;
