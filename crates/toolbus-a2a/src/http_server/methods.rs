//! What the methods do.

use std::time::Duration;

use axum::response::{IntoResponse as _, Response};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use toolbus_store::until_changed;
use toolbus_tools::canonical::sha256_hex;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::a2a::{AgentMessage, AgentTaskRequest, AgentTaskState, ROLE_USER};

use super::Shared;
use super::call::{Call, is_id};
use super::places::{NoPlace, Place};
use super::streams::TaskStream;
use crate::answers::{About, answer_of, body_of};
use crate::config::ms;
use crate::http_rows::{HttpCancel, ListFilter, NewEntry, NotEntered, OpenLimits, TaskView};
use crate::protocol::{
    ErrorKind, Method, RpcError, SendParams, TaskParams, Version, WrittenMessage, response,
    state_name, task_json,
};
use crate::received::TaskKey;
use crate::tables::HTTP_CHANGES;
use crate::worker::REQUEST_BYTES_MAX;
use crate::{Error, TaskEnd};

/// Most parts of a message.
pub(super) const PARTS_MAX: usize = 64;
/// How long a task may take to end that was cancelled, beyond the grace that its work has.
const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// How long a stream may go on after the time of its task.
const STREAM_GRACE: Duration = Duration::from_secs(15);
/// Tasks of a page: where nobody says, and at most.
const PAGE_DEFAULT: i64 = 50;
const PAGE_MAX: i64 = 100;
/// How much a page may have, in bytes of answers. Those that are left out are on the next.
const PAGE_BYTES_MAX: usize = 4 << 20;

/// The parameters of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListParams {
    context_id: Option<String>,
    status: Option<String>,
    page_size: Option<i64>,
    page_token: Option<String>,
    history_length: Option<i64>,
    status_timestamp_after: Option<String>,
    include_artifacts: Option<bool>,
}

impl Shared {
    pub(super) async fn answer(&self, call: &Call) -> Result<Response, RpcError> {
        let result = match call.method {
            Method::Send => self.send(call).await?,
            Method::Stream => {
                // What there is no place for is not begun.
                let until = self.stream_end();
                let place = self.place(call, until)?;
                let (key, view) = self.enter(call, &call.params()?).await?;
                return Ok(TaskStream::new(self, call, key, view).until(until, place));
            }
            Method::Subscribe => {
                let (key, view) = self.find(call).await?;
                if view.is_over() {
                    let what = "the task is over: there is nothing to subscribe to";
                    return Err(RpcError::new(ErrorKind::UnsupportedOperation, what));
                }
                let until = self.stream_end();
                let place = self.place(call, until)?;
                return Ok(TaskStream::new(self, call, key, view).until(until, place));
            }

            Method::Get => {
                let (_, view) = self.find(call).await?;
                task_json(call.version, &view, true)
            }
            Method::List => self.list(call).await?,
            Method::Cancel => self.cancel(call).await?,
            Method::Push => return Err(no_push()),
            Method::ExtendedCard => {
                let kind = match call.version {
                    Version::V1 => ErrorKind::UnsupportedOperation,
                    Version::V03 => ErrorKind::ExtendedCardNotConfigured,
                };
                return Err(RpcError::new(kind, "the agent has one card, for everybody"));
            }
        };
        Ok(axum::Json(response(&call.id, &result)).into_response())
    }

    async fn send(&self, call: &Call) -> Result<Value, RpcError> {
        let params: SendParams = call.params()?;
        let until = Instant::now() + self.config.wait_timeout;
        // What there is no place for is not begun.
        let place = params.is_blocking().then(|| self.place(call, until)).transpose()?;
        let (key, mut view) = self.enter(call, &params).await?;
        if place.is_some() && view.is_open() {
            view = self.wait(&key, until).await?;
        }
        let task = task_json(call.version, &view, true);
        Ok(match call.version {
            Version::V1 => json!({"task": task}),
            Version::V03 => task,
        })
    }

    /// Writes down what is asked, and says what is known of it.
    async fn enter(
        &self,
        call: &Call,
        params: &SendParams,
    ) -> Result<(TaskKey, TaskView), RpcError> {
        if self.places.is_closed() {
            return Err(busy(NoPlace::Stopping.to_string()));
        }
        if params.wants_push() {
            return Err(no_push());
        }
        check_history_length(params.history_length())?;
        let (entry, is_answer) = self.read_entry(call, params).await?;

        let key = entry.key.clone();
        let limits =
            OpenLimits { of_client: self.config.client_open_max, of_all: self.config.open_max };
        let received = self.intake.received();
        let entered = match is_answer {
            true => received.enter_answer(entry, limits).await,
            false => received.enter(entry, limits).await,
        };
        entered.map_err(|error| unavailable(&error))?.map_err(not_entered)?;
        self.intake.worker().wake();
        let view = self.view(&key).await?.ok_or_else(RpcError::not_found)?;
        Ok((key, view))
    }

    /// What is asked, and whether it answers what a task has asked.
    async fn read_entry(
        &self,
        call: &Call,
        params: &SendParams,
    ) -> Result<(NewEntry, bool), RpcError> {
        let WrittenMessage { message_id, context_id, task_id, .. } = &params.message;
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let (context_id, task_id) = (filled(context_id), filled(task_id));
        if !is_id(message_id) || context_id.as_ref().is_some_and(|context_id| !is_id(context_id)) {
            let what = "messageId and contextId are short texts without control characters";
            return Err(RpcError::invalid_params(what));
        }
        let message = read_message(&params.message)?;
        let skill = self.skill(params)?;

        // The same message of a client is the same task.
        let agent = self.intake.worker().agent();
        let id = sha256_hex(&format!("{agent}\n{}\n{message_id}\ntask", call.caller));
        let id = id[..32].to_owned();
        let key = call.key(task_id.as_ref().unwrap_or(&id))?;
        let new_context_id = new_id();
        let asked_in = match &task_id {
            Some(_) => self.view(&key).await?.ok_or_else(RpcError::not_found)?.context_id,
            None => context_id.clone().unwrap_or_else(|| new_context_id.clone()),
        };
        let request = AgentTaskRequest { task_id: id, context_id: Some(asked_in), skill, message };
        let request = body_of(&request);
        if request.len() > 2 * REQUEST_BYTES_MAX {
            return Err(RpcError::invalid_params("the message is too long"));
        }
        let entry = NewEntry {
            key,
            message_id: message_id.clone(),
            context_id,
            new_context_id,
            lineage: call.lineage,
            timeout_ms: ms(self.intake.worker().config().task_timeout),
            request,
        };
        Ok((entry, task_id.is_some()))
    }

    /// The skill that is asked for: the one that is named, else the only one that there is.
    fn skill(&self, params: &SendParams) -> Result<String, RpcError> {
        let worker = self.intake.worker();
        if let Some(skill) = params.skill() {
            let checked = worker.check_skill(skill);
            checked.map_err(|refusal| RpcError::invalid_params(refusal.message))?;
            return Ok(skill.to_owned());
        }
        let card = worker.config().card.as_ref();
        Ok(match card.and_then(|card| card.skills.as_deref()) {
            Some([skill]) => skill.id.clone(),
            _ => String::new(),
        })
    }

    async fn list(&self, call: &Call) -> Result<Value, RpcError> {
        let params: ListParams = call.params()?;
        check_history_length(params.history_length)?;
        let count = params.page_size.filter(|size| *size != 0).unwrap_or(PAGE_DEFAULT);
        if !(1..=PAGE_MAX).contains(&count) {
            return Err(RpcError::invalid_params(format!("pageSize is 1 to {PAGE_MAX}")));
        }
        let token = params.page_token.as_deref().unwrap_or_default();
        let offset = if token.is_empty() { Ok(0) } else { token.parse::<u32>() };
        let offset = offset.map_err(|_| RpcError::invalid_params("pageToken is none of ours"))?;
        let since = params.status_timestamp_after.filter(|since| !since.is_empty());
        let since = since.map(|since| since.parse::<Timestamp>()).transpose();
        let since = since
            .map_err(|_| RpcError::invalid_params("statusTimestampAfter is a time of RFC 3339"))?;
        let since_ms = since.map_or(0, Timestamp::as_millisecond);
        let filter = ListFilter {
            context_id: params.context_id.filter(|context_id| is_id(context_id)),
            state: read_state(params.status.as_deref())?,
            since_ms,
            offset: i64::from(offset),
            count,
        };

        let received = self.intake.received();
        let (ids, total) =
            received.list(&call.caller, &filter).await.map_err(|error| unavailable(&error))?;
        let (mut tasks, mut bytes) = (Vec::new(), 0);
        for id in &ids {
            // One may have been forgotten meanwhile.
            let Some(view) = self.view(&call.key(id)?).await? else { continue };
            bytes += view.answer.as_ref().map_or(0, |answer| answer.body.len());
            if bytes > PAGE_BYTES_MAX && !tasks.is_empty() {
                break;
            }
            let with_artifacts = params.include_artifacts == Some(true);
            tasks.push(task_json(call.version, &view, with_artifacts));
        }

        let next = filter.offset + i64::try_from(tasks.len()).unwrap_or(i64::MAX);
        let is_last = next >= total || tasks.is_empty();
        let next = if is_last { String::new() } else { next.to_string() };
        let page_size = tasks.len();
        Ok(json!({
            "tasks": tasks, "nextPageToken": next, "pageSize": page_size, "totalSize": total,
        }))
    }

    async fn cancel(&self, call: &Call) -> Result<Value, RpcError> {
        let (key, view) = self.find(call).await?;
        let not_cancelable = |what: &str| RpcError::new(ErrorKind::TaskNotCancelable, what);
        if view.state == AgentTaskState::Working && !self.intake.worker().can_stop() {
            return Err(not_cancelable("the work of this agent cannot be stopped"));
        }

        let about = About { id: &key.id, context_id: Some(&view.context_id) };
        let cancelled = answer_of(about, TaskEnd::Canceled);
        let noted = self.intake.received().cancel_http(&key, cancelled).await;
        match noted.map_err(|error| unavailable(&error))? {
            HttpCancel::NotFound => return Err(RpcError::not_found()),
            HttpCancel::Ended => return Err(not_cancelable("the task is over")),
            HttpCancel::Noted => {}
        }
        let grace = self.intake.worker().config().cancel_grace + CANCEL_GRACE;
        let until = Instant::now() + grace;
        // Without a place it is answered with the task as it is now.
        let place = self.place(call, until).ok();
        let until = if place.is_some() { until } else { Instant::now() };
        let view = self.wait(&key, until).await?;
        Ok(task_json(call.version, &view, true))
    }

    /// When a stream ends whose task has not: later than any task does.
    fn stream_end(&self) -> Instant {
        Instant::now() + self.intake.worker().config().task_timeout + STREAM_GRACE
    }

    fn place(&self, call: &Call, until: Instant) -> Result<Place, RpcError> {
        self.places.take(&call.caller, until).map_err(|no_place| busy(no_place.to_string()))
    }

    /// The task that is meant.
    async fn find(&self, call: &Call) -> Result<(TaskKey, TaskView), RpcError> {
        let params: TaskParams = call.params()?;
        check_history_length(params.history_length)?;
        let key = call.key(&params.id)?;
        let view = self.view(&key).await?.ok_or_else(RpcError::not_found)?;
        Ok((key, view))
    }

    pub(super) async fn view(&self, key: &TaskKey) -> Result<Option<TaskView>, RpcError> {
        let view = self.intake.received().view(key).await.map_err(|error| unavailable(&error))?;
        Ok(view.map(|mut view| {
            if view.state == AgentTaskState::Working {
                view.progress = self.intake.worker().hub().last(key);
            }
            view
        }))
    }

    /// Waits until a task does not go on, or until then.
    async fn wait(&self, key: &TaskKey, until: Instant) -> Result<TaskView, RpcError> {
        let store = self.intake.received().store.open().await;
        let store = store.map_err(|error| unavailable(&error.into()))?;
        let mut changes = store.changes(HTTP_CHANGES);
        loop {
            changes.mark_unchanged();
            let view = self.view(key).await?.ok_or_else(RpcError::not_found)?;
            if !view.is_open() || Instant::now() >= until || self.stop.is_cancelled() {
                return Ok(view);
            }
            // What another process writes may go unheard.
            let look_interval = self.intake.worker().config().look_interval;
            let look_at = until.min(Instant::now() + look_interval);
            // Every arm only waits.
            tokio::select! {
                () = until_changed(Some(&mut changes)) => {}
                () = tokio::time::sleep_until(look_at) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }
}

pub(super) fn read_message(written: &WrittenMessage) -> Result<AgentMessage, RpcError> {
    if !matches!(&*written.role, "ROLE_USER" | "user") {
        return Err(RpcError::invalid_params("the role of a client's message is that of the user"));
    }
    if written.parts.is_empty() || written.parts.len() > PARTS_MAX {
        return Err(RpcError::invalid_params(format!("a message has 1 to {PARTS_MAX} parts")));
    }
    if written.parts.iter().any(|part| part.is_file()) {
        let what = "the agent takes parts of text and of data, and no files";
        return Err(RpcError::new(ErrorKind::ContentTypeNotSupported, what));
    }
    let parts: Option<Vec<_>> = written.parts.iter().map(|part| part.clone().into_part()).collect();
    let parts = parts.ok_or_else(|| RpcError::invalid_params("a part has text or data"))?;
    Ok(AgentMessage { role: ROLE_USER.to_owned(), parts, metadata: None })
}

/// A task has no history here, which fits every length that is wished for.
fn check_history_length(length: Option<i64>) -> Result<(), RpcError> {
    match length {
        Some(..0) => Err(RpcError::invalid_params("historyLength is not negative")),
        _ => Ok(()),
    }
}

fn read_state(name: Option<&str>) -> Result<Option<AgentTaskState>, RpcError> {
    let states = [
        AgentTaskState::Submitted,
        AgentTaskState::Working,
        AgentTaskState::InputRequired,
        AgentTaskState::Completed,
        AgentTaskState::Failed,
        AgentTaskState::Canceled,
    ];
    let Some(name) = name.filter(|name| !matches!(*name, "" | "TASK_STATE_UNSPECIFIED")) else {
        return Ok(None);
    };

    match name {
        // Tasks of this agent are never so.
        "TASK_STATE_REJECTED" | "TASK_STATE_AUTH_REQUIRED" => Ok(Some(AgentTaskState::Other(-1))),
        _ => states
            .into_iter()
            .find(|state| state_name(Version::V1, *state) == name)
            .map(Some)
            .ok_or_else(|| RpcError::invalid_params("status is none that is known")),
    }
}

fn not_entered(why: NotEntered) -> RpcError {
    match why {
        NotEntered::Full => busy("as many tasks are open as there may be".to_owned()),
        NotEntered::NotFound => RpcError::not_found(),
        NotEntered::OtherContext => {
            RpcError::invalid_params("the task is in another context than the message")
        }
        NotEntered::NotWaiting(state) => {
            let state = state_name(Version::V03, state);
            let what = format!("the task is {state}, and takes no message now");
            RpcError::new(ErrorKind::UnsupportedOperation, what)
        }
    }
}

fn busy(what: String) -> RpcError {
    RpcError::new(ErrorKind::Busy, what)
}

fn no_push() -> RpcError {
    RpcError::new(ErrorKind::PushNotSupported, "the agent pushes no notifications")
}

fn unavailable(error: &Error) -> RpcError {
    tracing::warn!(error = error.as_dyn(), "tasks of clients over HTTP cannot be kept");
    RpcError::new(ErrorKind::Internal, "the state of the agent cannot be used now")
}
