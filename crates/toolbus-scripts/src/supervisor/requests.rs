//! The requests of one script to its caller, between its supervisor and its [`Channel`].
//!
//! It outlives the streams: where these break and all reports are read again, a request that was
//! seen is not sent again, and a response that may be lost is. Invariants: at most
//! [`CHANNEL_OPEN_MAX`] requests are open, each with its body or its response in memory and never
//! both for long; responses of about [`UNCONFIRMED_BYTES_MAX`] and one more are on the way to the
//! supervisor, whatever the script reads; a request gets one response.

use std::collections::{HashMap, VecDeque};
use std::future::pending;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;

use super::protocol::{self, Report};
use crate::runner::{CHANNEL_BODY_BYTES_MAX, CHANNEL_OPEN_MAX, Channel, error_response};

/// Bytes of responses on their way that the script has not been handed, past which no more are
/// sent.
const UNCONFIRMED_BYTES_MAX: usize = 1 << 20;

/// The requests of one script.
pub struct Requests {
    channel: Option<Channel>,
    /// Number of the next request that has not been seen.
    next: u32,
    /// What has arrived of it.
    arriving: Vec<u8>,
    /// Nothing is sent until this mark is reported, over streams that were just attached.
    paused_until: Option<String>,
    /// Requests of the past, without a response so far, of which it is not known yet whether they
    /// have one. `None` where the whole past is known.
    past: Option<VecDeque<(u32, Bytes)>>,
    /// Requests that are being answered.
    running: FuturesUnordered<BoxFuture<'static, (u32, Bytes)>>,
    /// Requests whose response the script has not been handed, and the response once it is there.
    open: HashMap<u32, Option<Bytes>>,
    /// Responses to be sent.
    unsent: VecDeque<u32>,
    /// Bytes of responses that were sent and not confirmed.
    unconfirmed_bytes: usize,
}

impl Requests {
    /// Those of a script that is about to start.
    #[must_use]
    pub fn new(channel: Option<Channel>) -> Self {
        Self {
            channel,
            next: 0,
            arriving: Vec::new(),
            paused_until: None,
            past: None,
            running: FuturesUnordered::new(),
            open: HashMap::new(),
            unsent: VecDeque::new(),
            unconfirmed_bytes: 0,
        }
    }

    /// Those of a script that was started by another runner. What the reports tell up to the first
    /// mark is its past: of that, only requests without a response are sent.
    #[must_use]
    pub fn of_adopted(channel: Option<Channel>) -> Self {
        Self { past: Some(VecDeque::new()), ..Self::new(channel) }
    }

    /// Sends nothing until a [mark](protocol::mark_message) of this text is reported, which proves
    /// that what is sent over new streams arrives. What was sent over others may be lost, and is
    /// sent again then; the supervisor ignores what it has.
    pub fn pause_until(&mut self, mark: String) {
        self.paused_until = Some(mark);
        self.unconfirmed_bytes = 0;
        self.unsent.clear();
        let answered = self.open.iter().filter(|(_, response)| response.is_some());
        self.unsent.extend(answered.map(|(number, _)| *number));
    }

    /// The mark that is waited for.
    #[must_use]
    pub fn awaited_mark(&self) -> Option<&str> {
        self.paused_until.as_deref()
    }

    /// Whether the script's requests are answered here.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        self.channel.is_some()
    }

    /// All reports are read again from the first.
    pub fn rewind(&mut self) {
        self.arriving.clear();
    }

    /// Drops what is open: nobody waits for responses any more.
    pub fn close(&mut self) {
        self.running.clear();
        self.open.clear();
        self.past = None;
        self.unsent.clear();
        self.arriving = Vec::new();
        self.unconfirmed_bytes = 0;
    }

    /// Takes a report of requests, and gives back any other.
    ///
    /// # Errors
    /// What no supervisor reports.
    pub fn accept(&mut self, report: Report) -> Result<Option<Report>, String> {
        match report {
            Report::Request { number, piece, is_last } => {
                self.take_piece(number, &piece, is_last)?
            }
            Report::Answered(number) => self.confirm(number),
            Report::Closed => self.close(),
            Report::Mark(mark) => self.resume(&mark),
            other => {
                if matches!(other, Report::Over) {
                    self.close();
                }
                return Ok(Some(other));
            }
        }

        Ok(None)
    }

    /// Waits for the next message to the supervisor. Cancel-safe.
    pub async fn next_message(&mut self) -> Bytes {
        if self.paused_until.is_some() {
            return pending().await;
        }

        loop {
            if self.unconfirmed_bytes < UNCONFIRMED_BYTES_MAX
                && let Some(number) = self.unsent.pop_front()
            {
                if let Some(Some(response)) = self.open.get(&number) {
                    self.unconfirmed_bytes += response.len();
                    return protocol::response_message(number, response);
                }
                continue;
            }

            // While no more are sent, none are taken either: whoever answers holds them.
            if !self.unsent.is_empty() {
                return pending().await;
            }
            match self.running.next().await {
                Some((number, response)) => self.take_response(number, response),
                None => return pending().await,
            }
        }
    }

    fn take_piece(&mut self, number: u32, piece: &[u8], is_last: bool) -> Result<(), String> {
        // It was seen before.
        if number < self.next {
            return Ok(());
        }

        if number != self.next || self.open.len() >= CHANNEL_OPEN_MAX {
            return Err(format!("request {number} of the script is out of order"));
        }

        if self.arriving.len() + piece.len() > CHANNEL_BODY_BYTES_MAX {
            return Err(format!("request {number} of the script is too long"));
        }

        self.arriving.extend_from_slice(piece);

        if is_last {
            self.next += 1;
            self.open.insert(number, None);
            let body = Bytes::from(std::mem::take(&mut self.arriving));
            match &mut self.past {
                Some(past) => past.push_back((number, body)),
                None => self.send(number, body),
            }
        }

        Ok(())
    }

    fn send(&mut self, number: u32, body: Bytes) {
        match &self.channel {
            Some(channel) => {
                let response = channel.request(number, body);
                self.running.push(Box::pin(async move { (number, response.await) }));
            }
            None => {
                let response = error_response("unsupported", "nobody answers this script");
                self.take_response(number, response);
            }
        }
    }

    fn take_response(&mut self, number: u32, response: Bytes) {
        let bytes = response.len();
        let response = if bytes > CHANNEL_BODY_BYTES_MAX {
            let why = format!("a response of {bytes} bytes is over {CHANNEL_BODY_BYTES_MAX}");
            error_response("too_large", &why)
        } else {
            response
        };

        self.open.insert(number, Some(response));
        self.unsent.push_back(number);
    }

    fn confirm(&mut self, number: u32) {
        if let Some(past) = &mut self.past {
            past.retain(|(open, _)| *open != number);
        }
        if let Some(Some(response)) = self.open.remove(&number) {
            self.unconfirmed_bytes = self.unconfirmed_bytes.saturating_sub(response.len());
        }
    }

    fn resume(&mut self, mark: &str) {
        if self.paused_until.as_deref() != Some(mark) {
            return;
        }

        self.paused_until = None;
        for (number, body) in self.past.take().into_iter().flatten() {
            self.send(number, body);
        }
    }
}

#[cfg(test)]
mod tests;
