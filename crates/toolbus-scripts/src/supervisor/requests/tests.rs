//! Requests without streams: reports in, messages out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::*;

/// Requests whose answers are the request itself, and how often each was sent.
fn echoing() -> (Channel, Arc<Mutex<Vec<u32>>>) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let sending = Arc::clone(&sent);
    let channel = Channel::to(move |number, body| {
        sending.lock().push(number);
        std::future::ready(body)
    });
    (channel, sent)
}

fn request(number: u32, body: &[u8]) -> Report {
    Report::Request { number, piece: body.to_vec(), is_last: true }
}

fn taken(requests: &mut Requests, report: Report) {
    assert_eq!(requests.accept(report), Ok(None));
}

fn next(requests: &mut Requests) -> Option<Bytes> {
    requests.next_message().now_or_never()
}

#[test]
fn a_request_gets_its_response_and_its_place_is_free() {
    let (channel, sent) = echoing();
    let mut requests = Requests::new(Some(channel));
    let piece = |piece: &[u8]| Report::Request { number: 0, piece: piece.to_vec(), is_last: false };
    taken(&mut requests, piece(b"a"));
    taken(&mut requests, piece(b"b"));
    assert_eq!(next(&mut requests), None);
    taken(&mut requests, request(0, b"c"));
    assert_eq!(next(&mut requests), Some(protocol::response_message(0, b"abc")));
    assert_eq!(next(&mut requests), None);
    taken(&mut requests, Report::Answered(0));
    assert!(requests.open.is_empty());
    assert_eq!(*sent.lock(), [0]);
    assert_eq!(requests.accept(Report::Started), Ok(Some(Report::Started)));
}

#[test]
fn without_a_channel_each_is_answered_with_an_error() {
    let mut requests = Requests::new(None);
    taken(&mut requests, request(0, b"1"));
    let message = next(&mut requests).expect("a response");
    assert!(message.ends_with(br#""message":"nobody answers this script"}}"#), "{message:?}");
}

#[test]
fn what_no_supervisor_reports_is_refused() {
    let requests = || Requests::new(Some(echoing().0));
    assert!(requests().accept(request(1, b"")).is_err());

    let mut long = requests();
    let piece = vec![b' '; CHANNEL_BODY_BYTES_MAX];
    taken(&mut long, Report::Request { number: 0, piece, is_last: false });
    assert!(long.accept(request(0, b" ")).is_err());

    let mut many = requests();
    for number in 0..64 {
        taken(&mut many, request(number, b"1"));
    }
    assert!(many.accept(request(64, b"1")).is_err());
}

#[test]
fn responses_wait_until_those_before_were_handed_over() {
    let large = Bytes::from(vec![b' '; CHANNEL_BODY_BYTES_MAX]);
    let mut requests =
        Requests::new(Some(Channel::to(move |_, _| std::future::ready(large.clone()))));
    for number in 0..3 {
        taken(&mut requests, request(number, b"1"));
    }
    assert!(next(&mut requests).is_some());
    assert_eq!(next(&mut requests), None);
    taken(&mut requests, Report::Answered(0));
    assert!(next(&mut requests).is_some());
    assert_eq!(next(&mut requests), None);

    // Longer than it may be.
    let large = Bytes::from(vec![b' '; CHANNEL_BODY_BYTES_MAX + 1]);
    let mut requests =
        Requests::new(Some(Channel::to(move |_, _| std::future::ready(large.clone()))));
    taken(&mut requests, request(0, b"1"));
    let message = next(&mut requests).expect("a response");
    assert!(message.windows(9).any(|part| part == b"too_large"), "{message:?}");
}

#[test]
fn what_is_read_again_is_not_sent_again() {
    let (channel, sent) = echoing();
    let mut requests = Requests::new(Some(channel));
    let all = [request(0, b"a"), Report::Answered(0), request(1, b"b"), request(2, b"c")];
    for report in all.clone() {
        taken(&mut requests, report);
        next(&mut requests);
    }
    taken(&mut requests, Report::Request { number: 3, piece: b"half".into(), is_last: false });

    // Over other streams, of which it is not known at once that they carry anything.
    requests.rewind();
    requests.pause_until("new".to_owned());
    for report in all {
        taken(&mut requests, report);
    }
    taken(&mut requests, request(3, b"d"));
    assert_eq!(next(&mut requests), None);
    taken(&mut requests, Report::Mark("new".to_owned()));
    let messages: Vec<Bytes> = std::iter::from_fn(|| next(&mut requests)).collect();
    let expected: [(u32, &[u8]); 3] = [(1, b"b"), (2, b"c"), (3, b"d")];
    for (number, body) in expected {
        assert!(messages.contains(&protocol::response_message(number, body)), "{messages:?}");
    }
    assert_eq!(messages.len(), 3);
    assert_eq!(*sent.lock(), [0, 1, 2, 3]);
}

#[test]
fn of_the_past_only_what_is_open_is_sent() {
    let (channel, sent) = echoing();
    let mut requests = Requests::of_adopted(Some(channel));
    requests.pause_until("now".to_owned());
    taken(&mut requests, request(0, b"a"));
    taken(&mut requests, request(1, b"b"));
    taken(&mut requests, Report::Answered(0));
    taken(&mut requests, Report::Mark("then".to_owned()));
    assert_eq!(next(&mut requests), None);
    taken(&mut requests, Report::Mark("now".to_owned()));
    assert_eq!(next(&mut requests), Some(protocol::response_message(1, b"b")));
    taken(&mut requests, request(2, b"c"));
    assert_eq!(next(&mut requests), Some(protocol::response_message(2, b"c")));
    assert_eq!(*sent.lock(), [1, 2]);
}

#[test]
fn what_is_closed_or_over_drops_what_is_open() {
    struct Open(Arc<AtomicU32>);

    impl Drop for Open {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    for end in [Report::Closed, Report::Over] {
        let open = Arc::new(AtomicU32::new(0));
        let opening = Arc::clone(&open);
        let channel = Channel::to(move |_, body| {
            opening.fetch_add(1, Ordering::Relaxed);
            let open = Open(Arc::clone(&opening));
            async move {
                let _open = open;
                let never = Semaphore::new(0);
                drop(never.acquire().await);
                body
            }
        });
        let mut requests = Requests::new(Some(channel));
        taken(&mut requests, request(0, b"a"));
        assert_eq!(next(&mut requests), None);
        assert_eq!(open.load(Ordering::Relaxed), 1);
        requests.accept(end).expect("a report");
        assert_eq!(open.load(Ordering::Relaxed), 0);
        assert_eq!(next(&mut requests), None);
    }
}
