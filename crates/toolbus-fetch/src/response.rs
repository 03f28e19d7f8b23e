//! The answer to a request, and its body within limits.

use std::time::Duration;

use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::content_type::ContentType;
use crate::encoding::Unpacker;
use crate::error::{Error, root_cause};

/// How much more than the limit may come packed, in bytes: packing adds a little to what cannot be
/// made smaller, and packs that hold nothing must end, too.
const PACKED_EXTRA_BYTES: u64 = 64 << 10;

/// The answer to a request, whose body is still to come.
#[derive(Debug)]
pub struct FetchResponse {
    /// Where it came from, after all redirects.
    pub url: Url,
    response: Response,
    deadline: Instant,
    timeout: Duration,
}

/// How much of a body is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimit {
    /// Most bytes, unpacked.
    pub bytes_max: usize,
    /// What becomes of a larger one.
    pub oversize: Oversize,
}

/// What becomes of a body that is too large.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Oversize {
    /// It is refused.
    Refuse,
    /// Its beginning is taken.
    Cut,
}

/// A body, unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Body {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// There was more.
    pub is_cut: bool,
}

impl FetchResponse {
    pub(crate) fn new(url: Url, response: Response, deadline: Instant, timeout: Duration) -> Self {
        Self { url, response, deadline, timeout }
    }

    /// The status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }

    /// The headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// What it says that it is.
    #[must_use]
    pub fn content_type(&self) -> ContentType {
        let written = self.headers().get(CONTENT_TYPE).map(|value| value.as_bytes());
        ContentType::parse(&String::from_utf8_lossy(written.unwrap_or_default()))
    }

    /// Reads the body.
    ///
    /// # Errors
    /// When it is too large, packed in an unknown way, breaks off, or the time is over.
    pub async fn read(mut self, limit: BodyLimit) -> Result<Body, Error> {
        let BodyLimit { bytes_max, oversize } = limit;
        let encoding = self.response.headers().get_all(CONTENT_ENCODING).iter();
        let encoding: Vec<_> =
            encoding.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let mut unpacker = Unpacker::of(&encoding.join(", "), bytes_max)?;

        let declared = match unpacker.is_packed() {
            true => None,
            false => self.response.content_length(),
        };
        let too_large = Error::TooLarge { bytes: declared, max: bytes_max };
        if oversize == Oversize::Refuse && declared.is_some_and(|bytes| bytes > bytes_max as u64) {
            return Err(too_large);
        }

        match self.read_into(&mut unpacker, bytes_max as u64 + PACKED_EXTRA_BYTES).await? {
            false => Ok(Body { bytes: unpacker.take(), is_cut: false }),
            true if oversize == Oversize::Refuse => Err(too_large),
            true => Ok(Body { bytes: unpacker.take(), is_cut: true }),
        }
    }

    /// Reads to the end or to a limit, and says whether it was a limit.
    async fn read_into(&mut self, unpacker: &mut Unpacker, wire_max: u64) -> Result<bool, Error> {
        let mut left = wire_max;
        loop {
            let received = timeout_at(self.deadline, self.response.chunk()).await;
            let chunk = received
                .map_err(|_| Error::TimedOut(self.timeout))?
                .map_err(|error| Error::Broken(root_cause(&error)))?;
            let Some(chunk) = chunk else { break };

            let unpacked = unpacker.push(&chunk);
            if unpacker.is_over() {
                return Ok(true);
            }
            unpacked.map_err(|error| Error::Encoding(error.to_string()))?;
            let Some(rest) = left.checked_sub(chunk.len() as u64) else { return Ok(true) };
            left = rest;
        }

        let finished = unpacker.finish();
        if unpacker.is_over() {
            return Ok(true);
        }
        finished.map_err(|error| Error::Encoding(error.to_string()))?;
        Ok(false)
    }
}
