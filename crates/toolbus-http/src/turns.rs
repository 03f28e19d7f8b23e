//! `POST /v1/turns`.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Deserialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_agent::{Said, TurnContext, TurnReport, sessions};
use toolbus_bus::Asker;
use toolbus_json::Limits;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::envelope::new_id;

use crate::event_queue::EventQueue;
use crate::refusal::Refusal;
use crate::turn_message::TurnMessage;
use crate::{BODY_BYTES_MAX, Shared};

/// How often a client that reads events is told that the turn goes on, where nothing else is said.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// The header by which a request that is sent again is known.
const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Longest such key, in bytes.
const KEY_BYTES_MAX: usize = 200;
/// What a request may have: it has two members.
const REQUEST_LIMITS: Limits = Limits::of_bytes(BODY_BYTES_MAX).with_values(1_024);

/// What is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TurnRequest {
    /// What the user says.
    text: String,
    /// The session that it is said in. Without one, a new session.
    session: Option<String>,
}

/// A turn that may be had.
struct Admitted {
    said: Said,
    scope: Scope,
    session: SessionId,
    place: OwnedSemaphorePermit,
}

pub(crate) async fn answer(
    State(shared): State<Arc<Shared>>,
    head: Parts,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    match admit(&shared, &head, body) {
        Ok(admitted) if wants_events(&head.headers) => {
            stream_events(&shared, admitted).into_response()
        }
        Ok(admitted) => wait_for_end(&shared, admitted).await,
        Err(refusal) => refusal.into_response(),
    }
}

fn admit(
    shared: &Shared,
    head: &Parts,
    body: Result<Bytes, BytesRejection>,
) -> Result<Admitted, Refusal> {
    let client = shared.visitors.admit(head)?;
    let headers = &head.headers;
    let is_json =
        headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        });
    // A page can send other types to anybody without being asked.
    if !is_json {
        let what = "a request is application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_type", what));
    }
    let body = body.map_err(|rejected| {
        Refusal::new(rejected.status(), "invalid_request", rejected.body_text())
    })?;
    let request: TurnRequest = toolbus_json::from_slice(&body, &REQUEST_LIMITS)
        .map_err(|error| Refusal::invalid(error.to_string()))?;
    if request.text.trim().is_empty() {
        return Err(Refusal::invalid("there is nothing to say: text is empty"));
    }
    let session = match request.session {
        Some(session) => SessionId::parse(session),
        None => SessionId::parse(format!("session/{}", new_id())),
    };
    let session = session.map_err(|error| Refusal::invalid(error.to_string()))?;
    let said = Said::by_person(request.text, key_of(headers)?);

    let place = Arc::clone(&shared.places).try_acquire_owned().map_err(|_| {
        if shared.places.is_closed() {
            let what = "the agent is about to stop";
            return Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", what);
        }
        let what = format!("{} turns are under way, and that is the limit", shared.deps.turns_max);
        Refusal::new(StatusCode::TOO_MANY_REQUESTS, "busy", what)
    })?;
    let scope = scope_of(shared, client, &session);
    Ok(Admitted { said, scope, session, place })
}

fn scope_of(shared: &Shared, client: Principal, session: &SessionId) -> Scope {
    let scope = shared.deps.agent.turn_scope(
        &[Door::Http, Door::Turn],
        &shared.deps.name,
        client,
        session.clone(),
    );
    Scope { cancelled: CancellationToken::new(), ..scope }
}

fn key_of(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(None) };
    match key.to_str() {
        Ok(key) if (1..=KEY_BYTES_MAX).contains(&key.len()) => Ok(Some(key.to_owned())),
        _ => {
            let what = format!("{IDEMPOTENCY_KEY} is 1 to {KEY_BYTES_MAX} printable characters");
            Err(Refusal::invalid(what))
        }
    }
}

fn wants_events(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepts.flat_map(|value| value.split(',')).any(|kind| {
        kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("text/event-stream")
    })
}

/// A turn whose client is told what happens.
fn stream_events(
    shared: &Arc<Shared>,
    admitted: Admitted,
) -> Sse<impl stream::Stream<Item = Result<Event, Infallible>> + use<>> {
    let reading = start(shared, admitted);
    let events = stream::unfold(reading, |reading| async {
        let message = reading.queue.next().await?;
        let data = serde_json::to_string(&message).unwrap_or_default();
        Some((Ok(Event::default().event(message.name()).data(data)), reading))
    });
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE_INTERVAL))
}

/// A turn whose client wants its end alone.
async fn wait_for_end(shared: &Arc<Shared>, admitted: Admitted) -> Response {
    let reading = start(shared, admitted);
    while let Some(message) = reading.queue.next().await {
        match message {
            TurnMessage::End { .. } => return axum::Json(message).into_response(),
            TurnMessage::Error(error) => {
                let status = error["status"].as_u64().and_then(|code| u16::try_from(code).ok());
                let status = status.and_then(|code| StatusCode::from_u16(code).ok());
                let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                return (status, axum::Json(error)).into_response();
            }
            _ => {}
        }
    }
    let what = "the agent stopped before the turn had ended; it goes on when the session is used";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", what).into_response()
}

/// A client that reads. When it goes away, its turn is cancelled, unless it can come back for it.
struct Reading {
    queue: Arc<EventQueue>,
    _cancel: Option<DropGuard>,
}

/// Starts the turn in a task of its own, so that it comes to its end also where its client goes.
fn start(shared: &Arc<Shared>, admitted: Admitted) -> Reading {
    let Admitted { said, scope, session, place } = admitted;
    let queue = Arc::new(EventQueue::default());
    let cancel = said.id.is_none().then(|| scope.cancelled.clone().drop_guard());
    let reading = Reading { queue: Arc::clone(&queue), _cancel: cancel };

    let (shared, scope) = (Arc::clone(shared), Arc::new(scope));
    shared.turns.clone().spawn(async move {
        let stop = shared.stop.clone();
        let turn = take_turn(&shared, &scope, said, &session, &queue);
        let _ = stop.run_until_cancelled(turn).await;
        queue.close();
        drop(place);
    });
    reading
}

async fn take_turn(
    shared: &Shared,
    scope: &Arc<Scope>,
    said: Said,
    session: &SessionId,
    queue: &EventQueue,
) {
    let can_come_back = said.id.is_some();
    let tell = |message| {
        if queue.push(message).is_err() && !can_come_back {
            scope.cancelled.cancel();
        }
    };
    tell(TurnMessage::Session { session: session.to_string() });

    let context = TurnContext {
        scope: Arc::clone(scope),
        asker: Asker::none(),
        on_event: &|event| {
            if let Some(message) = TurnMessage::of(event) {
                tell(message);
            }
        },
    };
    let report = shared.deps.agent.say(context, said).await;
    tell(end_of(report, session));
}

fn end_of(report: Result<TurnReport, sessions::Error>, session: &SessionId) -> TurnMessage {
    match report {
        Ok(report) => TurnMessage::End { report, session: session.to_string() },
        Err(error) => {
            let (status, code) = match &error {
                sessions::Error::Busy(_) => (StatusCode::CONFLICT, "session_busy"),
                sessions::Error::Store(_) => (StatusCode::SERVICE_UNAVAILABLE, "store_unavailable"),
                _ => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
            };
            if status != StatusCode::CONFLICT {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "a turn cannot be had");
            }
            let mut value = Refusal::new(status, code, error.to_string()).to_value();
            value["status"] = status.as_u16().into();
            TurnMessage::Error(value)
        }
    }
}
