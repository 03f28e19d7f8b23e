//! Results that go around rmcp, as they were written.
//!
//! rmcp's results are typed: a member that it does not know is lost in them, a number that no `f64`
//! holds changes, and a value takes up to thirty times its text. So a handler keeps the result of
//! its request in a [`ResultSlot`] and gives rmcp a stand-in, and the body of the response has the
//! result put in the stand-in's place. A slot belongs to one HTTP request and goes with its
//! response. What a client of the older era may ask for again, because its stream broke off, is
//! kept for a while in [`RecentResults`].

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::MetaObject;
use rmcp::service::RequestContext;
use serde_json::{Map, json};
use toolbus_json::Limits;
use toolbus_wire::envelope::new_id;
use toolbus_wire::json::RawJson;

/// The member of a stand-in's `_meta` that names what it stands for.
const STAND_IN: &str = "toolbus/stand-in";
/// Longest event that may have a stand-in, in bytes.
const STAND_IN_BYTES_MAX: usize = 16 << 10;
/// What the name in a stand-in may have. What a server says may be in the same event.
const STAND_IN_LIMITS: Limits = Limits::of_bytes(STAND_IN_BYTES_MAX);
/// The members that rmcp gives a result for the era of its client, where the server has not.
const ERA_MEMBERS: [&str; 3] = ["resultType", "ttlMs", "cacheScope"];
/// Most bytes of the results that clients of one path may ask for again.
const RECENT_BYTES_MAX: usize = 8 << 20;

/// A result, and what names it in its stand-in.
struct WrittenResult {
    name: String,
    result: RawJson,
}

/// The result of one request, on its way around rmcp. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct ResultSlot(Arc<Mutex<Option<WrittenResult>>>);

impl ResultSlot {
    /// The slot of the HTTP request that a request came with.
    pub(crate) fn of(context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<Parts>();
        parts.and_then(|parts| parts.extensions.get::<Self>()).cloned().unwrap_or_default()
    }

    /// Keeps the result, and returns the meta of its stand-in.
    pub(crate) fn keep(&self, result: RawJson) -> MetaObject {
        let name = new_id();
        let meta = Map::from_iter([(STAND_IN.to_owned(), json!(name))]);
        *self.0.lock() = Some(WrittenResult { name, result });
        MetaObject(meta)
    }

    fn find(&self, name: &str) -> Option<RawJson> {
        let kept = self.0.lock();
        kept.as_ref().filter(|kept| kept.name == name).map(|kept| kept.result.clone())
    }
}

/// The latest results of the sessions of one path. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct RecentResults(Arc<Mutex<VecDeque<WrittenResult>>>);

impl RecentResults {
    /// Keeps a result for as long as there is room. One that is too large is not kept.
    fn keep(&self, name: &str, result: &RawJson) {
        let mut recent = self.0.lock();
        let bytes = |kept: &VecDeque<WrittenResult>| {
            kept.iter().map(|kept| kept.result.text().len()).sum::<usize>()
        };
        recent.push_back(WrittenResult { name: name.to_owned(), result: result.clone() });
        while bytes(&recent) > RECENT_BYTES_MAX {
            recent.pop_front();
        }
    }

    fn find(&self, name: &str) -> Option<RawJson> {
        let recent = self.0.lock();
        recent.iter().find(|kept| kept.name == name).map(|kept| kept.result.clone())
    }
}

/// The response with the result of its request in the place of the stand-in.
pub(crate) fn put_in_place(
    response: Response,
    slot: ResultSlot,
    recent: Option<RecentResults>,
) -> Response {
    let kind = response.headers().get(CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }

    response.map(|body| {
        let events = body.into_data_stream().flat_map(move |frame| {
            let frames = match frame {
                Ok(event) => fill_event(event, &slot, recent.as_ref()),
                // The stream is over.
                Err(_) => Vec::new(),
            };
            stream::iter(frames.into_iter().map(Ok::<_, Infallible>))
        });
        Body::from_stream(events)
    })
}

/// The parts of an event. One without a stand-in is as it was.
fn fill_event(event: Bytes, slot: &ResultSlot, recent: Option<&RecentResults>) -> Vec<Bytes> {
    match read_stand_in(&event) {
        None => vec![event],
        Some(stand_in) => {
            let from_slot = slot.find(&stand_in.name);
            if let (Some(result), Some(recent)) = (&from_slot, recent) {
                recent.keep(&stand_in.name, result);
            }
            let result = from_slot.or_else(|| recent?.find(&stand_in.name));
            let result = result.unwrap_or_else(lost_result);
            stand_in.fill(&event, &result)
        }
    }
}

/// A stand-in, and where it is in its event.
struct StandIn {
    name: String,
    /// The result that stands in, as rmcp wrote it.
    placeholder: RawJson,
    /// Where its text begins and ends.
    from: usize,
    to: usize,
}

fn read_stand_in(event: &[u8]) -> Option<StandIn> {
    if event.len() > STAND_IN_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(event).ok().filter(|text| text.contains(STAND_IN))?;
    let data = text.lines().find_map(|line| line.strip_prefix("data: "))?;
    let message = RawJson::parse(data.to_owned()).ok()?;
    let placeholder = message.member("result")?;
    let name = placeholder.member("_meta")?.member(STAND_IN)?;
    let name = toolbus_json::from_str(name.text(), &STAND_IN_LIMITS).ok()?;

    // It is the only value of the event that is this text: it has the name in it.
    let from = text.find(placeholder.text())?;
    let to = from + placeholder.text().len();
    Some(StandIn { name, placeholder, from, to })
}

impl StandIn {
    /// The event with the result in it.
    fn fill(&self, event: &Bytes, result: &RawJson) -> Vec<Bytes> {
        let [wanted, given] =
            [&self.placeholder, result].map(|of| ERA_MEMBERS.map(|name| of.member(name)));
        let changes = ERA_MEMBERS.into_iter().zip(wanted.iter().zip(&given));
        let changes = changes.filter_map(|(name, (wanted, given))| {
            // A client of the older era has no such members.
            let is_other = given.is_some() != wanted.is_some();
            let has_to_go = given.is_none() || name == "resultType";
            (is_other && has_to_go).then_some((name, wanted.as_ref()))
        });
        let changes: Vec<_> = changes.collect();
        // It may be long, so it is copied once at most.
        let result =
            if changes.is_empty() { result.clone() } else { result.with_members(&changes) };
        vec![event.slice(..self.from), on_one_line(result), event.slice(self.to..)]
    }
}

/// The text of a value without line ends, which end an event. There are none within its texts.
fn on_one_line(value: RawJson) -> Bytes {
    if value.text().contains(['\n', '\r']) {
        return value.text().replace(['\n', '\r'], " ").into();
    }
    struct Text(RawJson);
    impl AsRef<[u8]> for Text {
        fn as_ref(&self) -> &[u8] {
            self.0.text().as_bytes()
        }
    }
    Bytes::from_owner(Text(value))
}

/// What a client gets that comes back for a result too late.
fn lost_result() -> RawJson {
    let text = "outcome_unknown: the call has ended, and its result is no longer kept";
    RawJson::of(&json!({"content": [{"type": "text", "text": text}], "isError": true}))
}

#[cfg(test)]
mod tests;
