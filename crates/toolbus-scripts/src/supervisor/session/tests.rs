//! A session with a supervisor that says what it is told to.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};

use super::*;
use crate::runner::Channel;

const END: &str = r#"end {"elapsed_ms": 1, "cpu_ms": 1, "memory_peak": 1, "code": 0}"#;

impl SupervisorInput for WriteHalf<DuplexStream> {
    async fn send(&mut self, message: &Bytes) -> io::Result<()> {
        self.write_all(message).await
    }
}

impl SupervisorOutput for ReadHalf<DuplexStream> {
    async fn receive(&mut self) -> Result<Bytes, String> {
        let mut bytes = vec![0; 1 << 10];
        match self.read(&mut bytes).await {
            Ok(0) | Err(_) => Err("it ended".to_owned()),
            Ok(count) => Ok(bytes[..count].to_vec().into()),
        }
    }
}

/// The other end of the streams of a session.
struct Peer {
    stream: DuplexStream,
    lines: u64,
}

impl Peer {
    async fn tell(&mut self, line: &str) {
        let line = format!("n {} {line}\n", self.lines);
        self.lines += 1;
        self.stream.write_all(line.as_bytes()).await.expect("somebody reads");
    }

    async fn hear(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head).await.expect("a message");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let mut body = vec![0; length as usize];
        self.stream.read_exact(&mut body).await.expect("all of it");
        (head[0], body)
    }
}

/// Runs a session beside `peer`, with streams that hold so many bytes.
async fn run(
    bytes: usize,
    channel: Channel,
    timeout: Duration,
    peer: impl AsyncFnOnce(&mut Peer),
) -> SessionEnd {
    let (ours, theirs) = tokio::io::duplex(bytes);
    let (mut output, mut input) = tokio::io::split(ours);
    let mut reports = ReportReader::new("n");
    let mut requests = Requests::new(Some(channel));
    let link = SupervisorLink { input: &mut input, output: &mut output, reports: &mut reports };
    let cancelled = CancellationToken::new();
    let session = Session { timeout, cancelled: &cancelled };
    let mut other = Peer { stream: theirs, lines: 0 };
    let running = session.run(protocol::go_message(), link, &mut requests, None);
    let speaking = async {
        assert_eq!(other.hear().await, (b'G', Vec::new()));
        other.tell("started").await;
        peer(&mut other).await;
        other
    };
    let (end, _other) = tokio::join!(running, speaking);
    end.expect("a session")
}

fn outcome(end: SessionEnd) -> Outcome {
    match end {
        SessionEnd::Reported(outcome) | SessionEnd::Stopped(outcome) => outcome,
        SessionEnd::Broken(_, reason) => panic!("{reason}"),
    }
}

#[tokio::test]
async fn requests_are_answered_as_they_come_and_end_with_the_script() {
    // The first is answered last, and the last never.
    let (first, released) = tokio::sync::oneshot::channel::<()>();
    let released = Arc::new(Mutex::new(Some(released)));
    let channel = Channel::to(move |number, body| {
        let released = (number == 0).then(|| released.lock().take()).flatten();
        async move {
            if let Some(released) = released {
                released.await.expect("it is released");
            }
            if number == 2 {
                std::future::pending::<()>().await;
            }
            body
        }
    });

    let end = run(1 << 10, channel, Duration::from_secs(30), async |peer| {
        for line in ["ask 0 last YQ==", "ask 1 last Yg==", "ask 2 last Yw=="] {
            peer.tell(line).await;
        }
        assert_eq!(peer.hear().await, (b'R', b"\0\0\0\x01b".to_vec()));
        first.send(()).expect("it waits");
        assert_eq!(peer.hear().await, (b'R', b"\0\0\0\0a".to_vec()));
        peer.tell("over").await;
        peer.tell(END).await;
    });
    assert_eq!(outcome(end.await).ending, Ending::Exited(0));
}

#[tokio::test]
async fn a_supervisor_that_does_not_read_holds_up_neither_output_nor_the_end() {
    let large = Bytes::from(vec![b'1'; 1 << 20]);
    let channel = Channel::to(move |_, _| std::future::ready(large.clone()));
    let end = run(64, channel, Duration::from_secs(30), async |peer| {
        peer.tell("ask 0 last YQ==").await;
        for _ in 0..1000 {
            peer.tell("out eA==").await;
        }
        peer.tell("over").await;
        peer.tell(END).await;
    });
    let outcome = outcome(end.await);
    assert_eq!(outcome.stdout.text.len(), 1000);
    assert_eq!(outcome.ending, Ending::Exited(0));
}

/// A kill that comes while a response is half sent is a message of its own.
#[tokio::test]
async fn a_script_is_stopped_between_two_messages() {
    let large = Bytes::from(vec![b'1'; 1 << 10]);
    let channel = Channel::to(move |_, _| std::future::ready(large.clone()));
    let end = run(64, channel, Duration::from_millis(10), async |peer| {
        peer.tell("ask 0 last YQ==").await;
        // sleeps: nothing is read until its time is over, which passes on another thread's clock.
        tokio::time::sleep(Duration::from_millis(10) + CLOCK_GRACE + KILL_TIMEOUT / 4).await;
        assert_eq!(peer.hear().await.0, b'R');
        assert_eq!(peer.hear().await, (b'K', Vec::new()));
        peer.tell(r#"end {"elapsed_ms": 1, "cpu_ms": 1, "memory_peak": 1, "cause": "timed_out"}"#)
            .await;
        assert_eq!(peer.hear().await, (b'A', Vec::new()));
    });
    let outcome = outcome(end.await);
    assert_eq!(outcome.ending, Ending::TimedOut);
    assert!(outcome.usage.is_some());
}
