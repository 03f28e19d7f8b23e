use std::collections::VecDeque;

use futures_util::FutureExt as _;
use futures_util::io::AsyncReadExt as _;

use super::*;

/// A stream that comes in pieces, with a pause before each.
struct Pieces {
    left: VecDeque<Vec<u8>>,
    is_pause: bool,
}

impl Pieces {
    fn of(bytes: &[u8], length: usize) -> Self {
        Self { left: bytes.chunks(length).map(<[u8]>::to_vec).collect(), is_pause: false }
    }
}

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        target: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.is_pause = !self.is_pause;
        if self.is_pause {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }

        let Some(mut piece) = self.left.pop_front() else { return Poll::Ready(Ok(0)) };
        let length = piece.len().min(target.len());
        target[..length].copy_from_slice(&piece[..length]);

        if length < piece.len() {
            self.left.push_front(piece.split_off(length));
        }

        Poll::Ready(Ok(length))
    }
}

fn read(bytes: &[u8], length: usize) -> Vec<u8> {
    read_within(usize::MAX, bytes, length)
}

/// Reads with a limit for frames, in pieces of a length.
fn read_within(limit: usize, bytes: &[u8], length: usize) -> Vec<u8> {
    let mut guarded = FilteredStream::new(Pieces::of(bytes, length), limit);
    let mut all = Vec::new();
    let mut reading = Box::pin(guarded.read_to_end(&mut all));
    // Every pause wakes at once, so to poll on is to wait.
    while (&mut reading).now_or_never().is_none() {}
    drop(reading);
    all
}

fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let size = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[kind, 0, 1], &size[..], payload, &[206]].concat()
}

/// A delivery: its method with a bad topic, its properties with a bad id, and a body of any octets.
fn delivery(body: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let of = |topic: &[u8], id: &[u8]| {
        let method = [&[0, 60, 0, 60, 1, b'c'], &[0; 9][..], &[1, b'x', 2], topic].concat();
        let header = [&[0, 60], &[0; 10][..], &[0, 0x80, 2], id].concat();
        [frame(1, &method), frame(2, &header), frame(3, body), frame(8, &[])].concat()
    };
    (of(b"\xfft", b"i\xfe"), of(b"?t", b"i?"))
}

#[test]
fn frames_are_repaired_however_they_come() {
    let body: Vec<u8> = (0..=255).cycle().take(1_000).collect();
    let (sent, expected) = delivery(&body);
    let (sent, expected) = (sent.repeat(3), expected.repeat(3));
    for length in [1, 2, 3, 7, 8, 63, 1_000, 5_000] {
        assert!(read(&sent, length) == expected, "in pieces of {length}");
    }
}

#[test]
fn large_frames_pass() {
    let body = vec![0xff; 3 << 20];
    let (sent, expected) = delivery(&body);
    assert!(read(&sent, 100_000) == expected);

    // A header as large as a frame may be: 300 KiB in one header, then 2 MiB, which is not looked
    // into any more.
    for (length, is_repaired) in [(300 << 10, true), (2 << 20, false)] {
        let length_octets = u32::try_from(length).unwrap().to_be_bytes();
        let table_length = u32::try_from(length + 7).unwrap().to_be_bytes();
        let table =
            [&table_length[..], &[1, 0xff, b'S'], &length_octets, &vec![0xff; length]].concat();
        let header = [&[0, 60], &[0; 10][..], &[0x20, 0], &table].concat();
        let sent = frame(2, &header);
        let got = read(&sent, 10_000);
        assert_eq!(got.len(), sent.len());
        assert_eq!(got[HEAD_BYTES + 12 + 2 + 4 + 1] == b'?', is_repaired);
    }
}

#[test]
fn properties_that_are_too_long_are_left_out() {
    let header = |rest: &[u8]| frame(2, &[&[0, 60, 0, 0], &[7; 8][..], rest].concat());
    let text = vec![b'x'; 4_000];
    let table = [&4_007_u32.to_be_bytes()[..], b"\x01hS", &4_000_u32.to_be_bytes(), &text].concat();
    let long = header(&[&[0x20, 0], &table[..]].concat());
    let (before, after) = (frame(1, b"\0\x3c\0\x14"), frame(3, &text));
    let sent = [&before[..], &long, &after, &long, &after].concat();
    let mark = header(b"\x40\0\x09oversized");
    let expected = [&before[..], &mark, &after, &mark, &after].concat();

    for length in [1, 7, 31, 32, 33, 500, 100_000] {
        assert!(read_within(2 << 10, &sent, length) == expected, "in pieces of {length}");
        assert!(read_within(long.len(), &sent, length) == sent, "in pieces of {length}");
    }
}

#[test]
fn what_is_no_frame_passes() {
    let (delivery, _) = delivery(b"body");
    for sent in [&b"AMQP\0\0\x09\x01 and whatever \xff"[..], b"", b"\x01\0", &delivery[..20]] {
        assert_eq!(read(sent, 5), sent);
    }
}
