//! The requests to a server that have no answer yet, and the calls among them.
//!
//! A call that its caller has given up stays a call of the server: many servers go on with it, ask
//! and log. It counts until its answer comes or the connection ends, so that what the server wants
//! for it is never taken for the cause of another call.

use std::collections::{HashMap, HashSet};

use rmcp::model::{ProgressToken, RequestId};

use super::CallTag;

/// Most calls that were given up and not answered since. With more, it is no longer known which
/// call the server could mean, for as long as the connection lasts.
const UNANSWERED_MAX: usize = 1024;

/// Requests that wait for their answer. An answer to any other is not rmcp's to see: before the
/// handshake is done, it takes that for the end of the connection.
#[derive(Default)]
pub(super) struct PendingRequests {
    requests: HashMap<RequestId, Option<TaggedRequest>>,
    /// Calls whose progress is wanted, by their token.
    by_token: HashMap<ProgressToken, CallTag>,
    /// Calls that were given up, and that the server may still be working on.
    unanswered: HashSet<RequestId>,
    /// There were too many of those.
    has_lost_track: bool,
}

/// A request that belongs to a call or a listing.
struct TaggedRequest {
    tag: CallTag,
    token: Option<ProgressToken>,
}

impl PendingRequests {
    /// Adds a request that belongs to no call.
    pub(super) fn add(&mut self, id: RequestId) {
        self.requests.insert(id, None);
    }

    /// Adds the request of a call or a listing. With a token, its progress is wanted.
    pub(super) fn add_call(&mut self, id: RequestId, tag: CallTag, token: Option<ProgressToken>) {
        self.by_token.extend(token.clone().map(|token| (token, tag.clone())));
        self.requests.insert(id, Some(TaggedRequest { tag, token }));
    }

    /// Forgets the request that an answer with this id is for. False when nobody waits for it.
    pub(super) fn take_answered(&mut self, id: &RequestId) -> bool {
        self.take_by(id)
            // Some servers make a text of the number.
            || matches!(id, RequestId::String(text)
                if text.parse().is_ok_and(|number| self.take_by(&RequestId::Number(number))))
    }

    fn take_by(&mut self, id: &RequestId) -> bool {
        self.unanswered.remove(id);
        self.take(id).is_some()
    }

    /// Forgets a request that could not be sent.
    pub(super) fn take_unsent(&mut self, id: &RequestId) {
        self.take(id);
    }

    /// Forgets a request whose answer nobody wants any more. A call goes on counting as one of the
    /// server's.
    pub(super) fn give_up(&mut self, id: &RequestId) {
        if self.take(id).flatten().is_some_and(|tagged| !tagged.tag.is_listing()) {
            if self.unanswered.len() < UNANSWERED_MAX {
                self.unanswered.insert(id.clone());
            } else {
                self.has_lost_track = true;
            }
        }
    }

    fn take(&mut self, id: &RequestId) -> Option<Option<TaggedRequest>> {
        let tagged = self.requests.remove(id)?;
        if let Some(token) = tagged.as_ref().and_then(|tagged| tagged.token.as_ref()) {
            self.by_token.remove(token);
        }
        Some(tagged)
    }

    /// The call with this id, while it waits for its answer.
    pub(super) fn call(&self, id: &RequestId) -> Option<&CallTag> {
        self.tag(id).filter(|tag| !tag.is_listing())
    }

    /// The call or listing that an answer with this id is for.
    pub(super) fn answered_call(&self, id: &RequestId) -> Option<&CallTag> {
        match id {
            // Some servers make a text of the number.
            RequestId::String(text) if !self.requests.contains_key(id) => {
                self.tag(&RequestId::Number(text.parse().ok()?))
            }
            id => self.tag(id),
        }
    }

    fn tag(&self, id: &RequestId) -> Option<&CallTag> {
        self.requests.get(id)?.as_ref().map(|tagged| &tagged.tag)
    }

    /// The call whose progress has this token.
    pub(super) fn call_by_token(&self, token: &ProgressToken) -> Option<&CallTag> {
        self.by_token.get(token)
    }

    /// The call that the server is working on, when there can be but one.
    pub(super) fn only_call(&self) -> Option<&CallTag> {
        if !self.unanswered.is_empty() || self.has_lost_track {
            return None;
        }

        let tags = self.requests.values().flatten().map(|tagged| &tagged.tag);
        let mut calls = tags.filter(|tag| !tag.is_listing());
        calls.next().filter(|_| calls.next().is_none())
    }
}

#[cfg(test)]
impl PendingRequests {
    /// Whether nothing is kept that a call could be found by.
    pub(super) fn has_no_request(&self) -> bool {
        self.requests.is_empty() && self.by_token.is_empty()
    }
}

#[cfg(test)]
mod tests;
