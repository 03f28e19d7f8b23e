//! The filter of frames as targets of a fuzzer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::io::{AsyncRead, AsyncReadExt as _};
use lapin::protocol::basic::parse_properties;

use super::repair::{Kind, repair_frame};
use super::{FilteredStream, Greeting};

/// Longest frame that was agreed on.
const FRAME_BYTES_MAX: usize = 4 << 10;
/// Most pieces that a stream is cut into.
const PIECES_MAX: usize = 512;

/// Repairs the payload of a method and of properties, and reads a greeting. Asserts that nothing is
/// left to repair, and that the AMQP library survives what is left.
pub fn payloads(bytes: &[u8]) {
    for kind in [Kind::Method, Kind::Header] {
        let mut once = bytes.to_vec();
        repair_frame(kind, &mut once);
        let mut twice = once.clone();
        repair_frame(kind, &mut twice);
        assert!(once == twice, "{kind:?}: {}", once.escape_ascii());

        // Behind class, weight and size of the body.
        if kind == Kind::Header
            && let Some(properties) = once.get(12..)
        {
            let _ = parse_properties(properties);
        }
    }

    let greeting = Greeting::default();
    greeting.read(&mut bytes.to_vec());
    let broker = greeting.broker().unwrap_or_default();
    assert!(!broker.chars().any(char::is_control), "{broker:?}");
}

/// Filters a stream of frames. Asserts that what comes out does not depend on the pieces that the
/// stream comes in, that nothing is added, and that it is not changed when it is filtered again.
pub fn stream(bytes: &[u8]) {
    let filtered = filter(bytes, bytes.len());
    assert!(filtered.len() <= bytes.len());

    let in_pieces = filter(bytes, bytes.len().div_ceil(PIECES_MAX));
    assert!(in_pieces == filtered, "{}", in_pieces.escape_ascii());
    let again = filter(&filtered, filtered.len());
    assert!(again == filtered, "{}", again.escape_ascii());
}

/// What comes out of a stream that comes in pieces of a length.
fn filter(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut stream = FilteredStream::new(Pieces { left: bytes, length }, FRAME_BYTES_MAX);
    let mut all = Vec::new();
    let read = stream.read_to_end(&mut all).now_or_never().expect("nothing is waited for");
    assert_eq!(read.ok(), Some(all.len()));
    all
}

/// A stream that comes in pieces.
struct Pieces<'a> {
    left: &'a [u8],
    length: usize,
}

impl AsyncRead for Pieces<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let left = self.left;
        let length = left.len().min(self.length).min(target.len());
        target[..length].copy_from_slice(&left[..length]);
        self.left = &left[length..];
        Poll::Ready(Ok(length))
    }
}
