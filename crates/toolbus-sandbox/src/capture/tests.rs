//! Two pipes, without processes.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use super::*;

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

    let mut capture = OutputCapture::new(receiver(stdout), receiver(stderr), Some(live));

    err.write_all(b"one").expect("written");
    capture.pump_output().await;
    out.write_all(b"two").expect("written");
    err.write_all(b"three").expect("written");
    capture.pump_output().await;
    drop((out, err));

    while capture.is_open() {
        capture.pump_output().await;
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
