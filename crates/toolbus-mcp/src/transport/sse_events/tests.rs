//! Streams, and the events in them.

use super::*;

async fn events(stream: &str, length_max: usize) -> Vec<Event> {
    let mut reader = EventReader::new(stream.as_bytes(), length_max);
    let mut events = Vec::new();
    loop {
        match reader.next().await {
            Event::End => return events,
            event => events.push(event),
        }
    }
}

fn whole(name: &str, data: &str) -> Event {
    Event::Whole(name.to_owned(), data.as_bytes().to_vec())
}

#[tokio::test]
async fn events_of_every_shape() {
    let check = async |stream: &str, expected: &[Event]| {
        assert_eq!(events(stream, 100).await, expected, "{stream:?}");
    };
    check("event: endpoint\ndata: /message?a=1\n\n", &[whole("endpoint", "/message?a=1")]).await;
    check("\u{feff}data:x\r\n\r\n", &[whole("message", "x")]).await;
    check("data: a\ndata:  b\ndata\n\n", &[whole("message", "a\n b\n")]).await;
    check(": ping\n\nid: 7\nretry: 1\n\nevent: e\n\ndata: x\n\n", &[whole("message", "x")]).await;
    check("datas: x\n\ndata: unfinished\n", &[]).await;
}

#[tokio::test]
async fn of_what_is_too_long_the_edges_are_kept() {
    let long = "x".repeat(2_000);
    let message = format!("{{\"id\":7,{long}}}");
    // One line that is too long, many lines that are, and one as long as it may be.
    let stream = format!(
        "event: message\ndata: {message}\r\n\ndata: {long}\ndata: end\n\ndata: {}\n\n",
        "y".repeat(1_000)
    );
    let events = events(&stream, 1_000).await;
    let [Event::Cut(first), Event::Cut(second), last] = &events[..] else { panic!("{events:?}") };
    assert!(first.head.starts_with(b"{\"id\":7,x") && first.tail.ends_with(b"x}"));
    assert!(second.head.starts_with(b"xxx"));
    assert_eq!(*last, whole("message", &"y".repeat(1_000)));

    let lines = "data: 0123456789\n".repeat(100);
    let events = super::tests::events(&format!("{lines}\ndata: z\n\n"), 100).await;
    let [Event::Cut(cut), last] = &events[..] else { panic!("{events:?}") };
    assert!(cut.head.starts_with(b"0123456789\n0123456789"));
    assert_eq!(*last, whole("message", "z"));
}
