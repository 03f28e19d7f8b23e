//! Decoding and bounds, without processes.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::*;

fn decoded(pieces: &[&[u8]]) -> String {
    let mut decoder = Decoder::default();
    let mut text: String = pieces.iter().map(|piece| decoder.decode(piece)).collect();
    text.push_str(decoder.finish());
    text
}

#[test]
fn pieces_of_characters_are_put_together() {
    let text = "aé漢😀z";
    for cut in 0..=text.len() {
        let (first, second) = text.as_bytes().split_at(cut);
        assert_eq!(decoded(&[first, second]), text, "cut at {cut}");
    }
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(decoded(&bytes), text);
}

#[test]
fn rubbish_is_replaced_as_the_standard_library_does() {
    let cases: [&[u8]; 6] =
        [b"\xff", b"a\xc3", b"\xe6\xbc", b"\xf0\x9f\x98", b"\xc3\xc3\xa9", b"\xed\xa0\x80x"];
    for case in cases {
        let expected = String::from_utf8_lossy(case);
        assert_eq!(decoded(&[case]), expected);
        let bytes: Vec<&[u8]> = case.chunks(1).collect();
        assert_eq!(decoded(&bytes), expected, "{case:?} byte by byte");
    }
}

#[test]
fn the_limit_cuts_between_characters() {
    let mut kept = Kept::default();
    let fill = "x".repeat(OUTPUT_BYTES_MAX - 1);
    assert_eq!(kept.push(&fill).len(), OUTPUT_BYTES_MAX - 1);
    assert_eq!(kept.push("é"), "");
    assert!(kept.0.truncated);
    assert_eq!(kept.push("x"), "", "nothing follows what was left out");
}

#[tokio::test]
async fn both_streams_are_read_to_their_ends() {
    let (stdout, mut out) = io::pipe().expect("a pipe");
    let (stderr, mut err) = io::pipe().expect("a pipe");
    let receiver =
        |pipe: io::PipeReader| pipe::Receiver::from_owned_fd(pipe.into()).expect("a pipe");
    let pieces = Arc::new(Mutex::new(Vec::new()));
    let live: LiveOutput = {
        let pieces = Arc::clone(&pieces);
        Arc::new(move |stream, text: &str| {
            pieces.lock().expect("lock").push((stream, text.to_owned()));
        })
    };
    let mut capture = Capture::new(receiver(stdout), receiver(stderr), Some(live));
    err.write_all(b"one").expect("written");
    capture.pump().await;
    out.write_all(b"two").expect("written");
    err.write_all(b"three").expect("written");
    capture.pump().await;
    drop((out, err));
    while capture.is_open() {
        capture.pump().await;
    }
    let (merged, stdout, stderr) = capture.finish();
    assert_eq!(
        (merged.text.as_str(), stdout.text.as_str(), stderr.text.as_str()),
        ("onetwothree", "two", "onethree")
    );
    let expected = [(Stream::Stderr, "one"), (Stream::Stdout, "two"), (Stream::Stderr, "three")];
    let pieces = pieces.lock().expect("lock");
    assert!(pieces.iter().map(|(stream, text)| (*stream, text.as_str())).eq(expected));
}
