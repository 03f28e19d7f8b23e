//! A message to a server over streamable HTTP, and what it answers.
//!
//! It is as rmcp has it, but for what is in an answer: that is looked at before rmcp reads it, see
//! [`WireState::look_at`].

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures_util::stream;
use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{
    ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use reqwest::{Response, StatusCode};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;
use rmcp::transport::common::http_header::HEADER_SESSION_ID;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, StreamableHttpPostResponse,
};
use sse_stream::Sse;
use tokio_util::io::StreamReader;
use toolbus_json::Limits;

use super::batch::{BATCH_MAX, Batch};
use super::intercept::{Reading, WireState};
use super::older_sse::read_scope;
use super::requested_pause::RequestedPause;
use super::sse_events::{Event, EventReader};
use super::stdio::too_long_text;
use super::stream_watch::EventStream;
use super::{MESSAGE_BYTES_MAX, MESSAGE_LIMITS, unusable_answer};
use crate::http::Error;

const JSON: &str = "application/json";
const EVENT_STREAM: &str = "text/event-stream";
/// Longest body of a refusal that is read, in bytes.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
/// What the message in a refusal may have.
const REFUSAL_LIMITS: Limits = Limits::of_bytes(REFUSAL_BYTES_MAX);

/// A message that is to be sent.
pub(super) struct Post<'a> {
    pub(super) address: &'a str,
    pub(super) message: &'a ClientJsonRpcMessage,
    pub(super) session: Option<&'a str>,
    pub(super) token: Option<String>,
    pub(super) headers: &'a HashMap<HeaderName, HeaderValue>,
    /// Where the pause goes that the server may ask for, whatever else it answers.
    pub(super) pause: &'a RequestedPause,
}

impl Post<'_> {
    /// Sends the message, and reads what is answered.
    pub(super) async fn send(
        self,
        client: &reqwest::Client,
        wire: &Arc<WireState>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        let mut request = client
            .post(self.address)
            .header(ACCEPT, [EVENT_STREAM, JSON].join(", "))
            .header(CONTENT_TYPE, JSON);
        for (name, value) in self.headers {
            request = request.header(name, value);
        }
        if let Some(session) = self.session {
            request = request.header(HEADER_SESSION_ID, session);
        }
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }

        let response = request.body(WireState::write(self.message)?).send().await?;
        let status = response.status();
        if let Some(refused) = auth_refusal(status, response.headers())? {
            return Err(refused);
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && self.session.is_some() {
            return Err(Error::SessionExpired);
        }
        if !status.is_success() {
            return self.read_refusal(response).await;
        }
        self.read_answer(response, wire).await
    }

    fn is_request(&self) -> bool {
        matches!(self.message, JsonRpcMessage::Request(_))
    }

    async fn read_answer(
        &self,
        response: Response,
        wire: &Arc<WireState>,
    ) -> Result<StreamableHttpPostResponse, Error> {
        // Some servers answer what is no request with an empty success.
        if response.content_length() == Some(0) && !self.is_request() {
            return Ok(StreamableHttpPostResponse::Accepted);
        }

        let session = session_of(response.headers());
        let kind = text_of(response.headers(), &CONTENT_TYPE);
        let is_of_kind = |wanted| kind.as_ref().is_some_and(|kind| kind.starts_with(wanted));
        if is_of_kind(EVENT_STREAM) {
            return Ok(StreamableHttpPostResponse::Sse(events_of(response, wire), session));
        }
        if !is_of_kind(JSON) {
            return Err(Error::UnexpectedContentType(kind));
        }

        let body = read_body(response, MESSAGE_BYTES_MAX).await?;
        if let Some(batch) = Batch::read(&body) {
            return read_batch(&batch, session, wire);
        }
        let read = match wire.look_at(body) {
            Reading::Message(message) => Ok(*message),
            Reading::Text(text) => {
                toolbus_json::from_slice(&text, &MESSAGE_LIMITS).map_err(|error| error.to_string())
            }
            Reading::TooManyValues(_) => Err("it has too many values".to_owned()),
        };
        match read {
            Ok(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
            Err(_) if !self.is_request() => Ok(StreamableHttpPostResponse::Accepted),
            Err(why) => Err(Error::UnexpectedServerResponse(
                format!("the answer is not a valid MCP message: {why}").into(),
            )),
        }
    }

    async fn read_refusal(&self, response: Response) -> Result<StreamableHttpPostResponse, Error> {
        let status = response.status();
        let session = session_of(response.headers());
        let kind = text_of(response.headers(), &CONTENT_TYPE);
        let is_json = kind.is_some_and(|kind| kind.starts_with(JSON));
        let is_overload = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
        let retry_after = text_of(response.headers(), &RETRY_AFTER);
        let overload = || Error::from(HttpStatusError::new(status.as_u16(), retry_after.clone()));
        if is_overload {
            self.pause.begin_if_asked(&overload());
        }
        if status == StatusCode::TOO_MANY_REQUESTS || (is_overload && !is_json) {
            return Err(overload());
        }

        let body = read_body(response, REFUSAL_BYTES_MAX).await.unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        let is_about_rights = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        let message: Result<RxJsonRpcMessage<RoleClient>, _> =
            toolbus_json::from_str(&body, &REFUSAL_LIMITS);
        let error = match message {
            Ok(message @ JsonRpcMessage::Error(_)) => Some(message),
            _ => None,
        };

        if let Some(answer) = self.refused_discovery(status, error.as_ref(), &body) {
            return Ok(answer);
        }
        match error {
            Some(error) if is_json && !is_about_rights => {
                Ok(StreamableHttpPostResponse::Json(error, session))
            }
            _ if is_overload => Err(overload()),
            _ => Err(Error::UnexpectedServerResponse(format!("HTTP {status}: {body}").into())),
        }
    }

    /// A server of the older era refuses the first request of the newer one in its own words, and
    /// seldom with the request's id. The handshake then goes on in the older era.
    fn refused_discovery(
        &self,
        status: StatusCode,
        error: Option<&RxJsonRpcMessage<RoleClient>>,
        body: &str,
    ) -> Option<StreamableHttpPostResponse> {
        let JsonRpcMessage::Request(request) = self.message else { return None };
        let is_refused = matches!(request.request, ClientRequest::DiscoverRequest(_))
            && self.session.is_none()
            && status.is_client_error()
            && !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if !is_refused {
            return None;
        }

        let error = match error {
            Some(JsonRpcMessage::Error(error)) => error.error.clone(),
            _ => ErrorData::invalid_request(format!("refused with HTTP {status}: {body}"), None),
        };
        let answer = JsonRpcMessage::error(error, Some(request.id.clone()));
        Some(StreamableHttpPostResponse::Json(answer, None))
    }
}

/// Several messages in one answer.
fn read_batch(
    batch: &Batch<'_>,
    session: Option<String>,
    wire: &Arc<WireState>,
) -> Result<StreamableHttpPostResponse, Error> {
    if batch.length > BATCH_MAX {
        let what = "the answer has too many messages".to_owned();
        return Err(Error::UnexpectedServerResponse(what.into()));
    }
    let messages = batch.messages.iter();
    let events =
        messages.filter_map(|message| look_at_message(Sse::default().data(message.get()), wire));
    let events: Vec<_> = events.map(Ok).collect();
    Ok(StreamableHttpPostResponse::Sse(stream::iter(events).boxed(), session))
}

/// The error of a response that asks for a token, or for one with more rights.
fn auth_refusal(status: StatusCode, headers: &HeaderMap) -> Result<Option<Error>, Error> {
    if !matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
        return Ok(None);
    }
    let Some(challenge) = headers.get(WWW_AUTHENTICATE) else { return Ok(None) };
    let challenge = challenge
        .to_str()
        .map_err(|_| Error::UnexpectedServerResponse("the challenge is no text".into()))?;

    Ok(Some(if status == StatusCode::UNAUTHORIZED {
        Error::AuthRequired(AuthRequiredError::new(challenge.to_owned()))
    } else {
        let scope = read_scope(challenge);
        Error::InsufficientScope(InsufficientScopeError::new(challenge.to_owned(), scope))
    }))
}

fn session_of(headers: &HeaderMap) -> Option<String> {
    headers.get(HEADER_SESSION_ID)?.to_str().ok().map(str::to_owned)
}

fn text_of(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// The whole body, counted before it is kept.
async fn read_body(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let too_large = || Error::ResponseBodyTooLarge { max_size: bytes_max };
    if response.content_length().is_some_and(|length| length > bytes_max as u64) {
        return Err(too_large());
    }
    // Where the length is known, no doubling moves what is there.
    let length = response.content_length().and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(length.unwrap_or_default());
    while let Some(chunk) = response.chunk().await? {
        if chunk.len() > bytes_max - body.len() {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The events of a response, each looked at before rmcp reads it. One that is too long ends the
/// call that it answers, and no other.
fn events_of(response: Response, wire: &Arc<WireState>) -> EventStream {
    let bytes = response.bytes_stream().map_err(io::Error::other).boxed();
    let reader = EventReader::new(StreamReader::new(bytes), MESSAGE_BYTES_MAX);

    let events = stream::unfold(reader, async move |mut reader| {
        loop {
            let data = match reader.next().await {
                Event::End => return None,
                Event::Whole(_, data) => String::from_utf8(data)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
                Event::Cut(line) => {
                    let Some(id) = line.answered_request() else { continue };
                    let error = unusable_answer(too_long_text(line.length));
                    let answer = RxJsonRpcMessage::<RoleClient>::error(error, Some(id));
                    serde_json::to_string(&answer).unwrap_or_default()
                }
            };

            let place = reader.take_place();
            let event = Sse { event: None, data: Some(data), id: place.id, retry: place.retry };
            return Some((Ok(event), reader));
        }
    });
    look_at_events(events.boxed(), wire)
}

/// Looks at the message of each event, and puts what is to be read in its place. Where an event has
/// a batch, there is one for each message of it.
pub(super) fn look_at_events(events: EventStream, wire: &Arc<WireState>) -> EventStream {
    let wire = Arc::clone(wire);
    let looked_at = events.map_ok(move |event| {
        let events = look_at_event(event, &wire).into_iter();
        stream::iter(events.map(Ok))
    });
    looked_at.try_flatten().boxed()
}

fn look_at_event(event: Sse, wire: &WireState) -> Vec<Sse> {
    let data = event.data.as_deref().unwrap_or_default();
    let Some(batch) = Batch::read(data.as_bytes()) else {
        return look_at_message(event, wire).into_iter().collect();
    };

    batch.log_dropped(wire.server());
    let messages = batch.messages.iter();
    let alone =
        messages.filter_map(|message| look_at_message(Sse::default().data(message.get()), wire));
    let mut alone: Vec<_> = alone.collect();

    // A stream that is resumed goes on after the whole event.
    if let Some(last) = alone.last_mut() {
        last.id = event.id;
        last.retry = event.retry;
    }
    alone
}

/// Looks at the message of an event, and puts what is to be read in its place; `None` where nothing
/// is.
fn look_at_message(mut event: Sse, wire: &WireState) -> Option<Sse> {
    let Some(data) = event.data.take_if(|data| !data.is_empty()) else { return Some(event) };
    let instead = match wire.look_at(data.into_bytes()) {
        Reading::Text(data) => {
            event.data = String::from_utf8(data).ok();
            return Some(event);
        }
        Reading::Message(message) => *message,
        Reading::TooManyValues(id) => {
            RxJsonRpcMessage::<RoleClient>::error(super::stdio::too_many_values(), Some(id?))
        }
    };
    event.data = serde_json::to_string(&instead).ok();
    Some(event)
}

#[cfg(test)]
mod tests;
