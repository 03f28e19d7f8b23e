//! Ids, answers and sizes that mean harm.

use std::time::Duration;

use serde_json::json;
use toolbus_testkit::google::Answer;
use toolbus_testkit::scripted_server::{Asked, Part, Reply};

use super::{Bench, silent};

#[tokio::test]
async fn ids_leave_their_segment_of_the_path_never() {
    let api = |_: &str, _: &Asked| Answer::Json(json!({"id": "x"}));
    let Some(bench) = Bench::start(api).await else { return };
    for id in ["../../../calendar/v3", "x/..", "a?alt=media", "a#b", "%2e%2e", "..%2f", "é \\"] {
        bench.say("gmail_read", json!({"messageId": id})).await;
        let arguments = json!({"eventId": id, "calendarId": id});
        bench.say("calendar_get_event", arguments).await;
    }
    for asked in bench.server.asked() {
        let path = asked.path.split('?').next().expect("a path").to_owned();
        let segments: Vec<_> = path.split('/').collect();
        assert!(matches!(segments.len(), 7), "{path}");
        assert!(!segments.contains(&"..") && segments[1..].iter().all(|s| !s.is_empty()), "{path}");
    }
}

#[tokio::test]
async fn ids_that_are_none_are_refused() {
    let Some(bench) = Bench::start(silent).await else { return };
    let long = "x".repeat(2_000);
    for id in ["", " ", ".", "..", "a\nb", long.as_str()] {
        let text = bench.fail("gmail_read", json!({"messageId": id})).await;
        assert!(text.contains("is not an id of Google's"), "{text}");
        bench.fail("calendar_get_event", json!({"eventId": id})).await;
    }
    bench.fail("calendar_list_events", json!({"calendarId": ".."})).await;
}

#[tokio::test]
async fn answers_that_are_none_are_errors() {
    let deep = |depth: usize| {
        let open = r#"{"mimeType":"multipart/mixed","parts":["#.repeat(depth);
        format!(r#"{{"id":"m","payload":{open}{}}}"#, "]}".repeat(depth))
    };
    let replies = [
        Reply::body(200, "application/json", deep(10_000)),
        Reply::body(200, "application/json", "[1"),
        Reply::body(200, "application/json", "[]"),
        Reply::body(200, "text/html", "<html>"),
        Reply::body(200, "application/json", "{}").then(Part::Forever(vec![b' '; 65_536])),
        Reply::body(200, "application/json", "{").then(Part::Hang),
        Reply::body(200, "application/json", "{").then(Part::Break),
        Reply::empty(302).header("location", "https://evil.example/"),
        Reply::body(500, "text/html", "x").then(Part::Forever(vec![b'x'; 65_536])),
        Reply::json(403, &json!({"error": {"message": 7}})),
        Reply::json(429, &json!({"error": {"message": "x\n".repeat(5_000)}})),
    ];
    let count = replies.len();
    let mut replies = replies.into_iter();
    let api = move |_: &str, _: &Asked| Answer::Reply(replies.next().expect("a reply"));
    let quick = |settings: &mut toolbus_toolkits::GoogleSettings| {
        settings.timeout = "5s".parse().expect("a time");
    };
    let Some(bench) = Bench::start_with(api, quick).await else { return };
    for at in 0..count {
        let failing = bench.fail("gmail_read", json!({"messageId": "x"}));
        let text = tokio::time::timeout(Duration::from_secs(30), failing).await.expect("in time");
        assert!(text.len() < 1_000 && !text.contains('\n'), "{at}: {text}");
    }
}

#[tokio::test]
async fn wrong_members_are_passed_over() {
    let odd = json!({
        "messages": [{"id": 7}, null, "x"], "items": [null, 7, {"id": [], "start": "x"}],
        "payload": {"headers": {"a": 1}, "parts": 7, "mimeType": ["x"]}, "snippet": {},
        "attendees": [7], "recurrence": [7], "conferenceData": {"entryPoints": "x"}, "start": 1
    });
    let api = move |_: &str, _: &Asked| Answer::Reply(Reply::json(200, &odd));
    let Some(bench) = Bench::start(api).await else { return };
    let text = bench.say("gmail_search", json!({"query": "x"})).await;
    assert_eq!(text, "No emails found matching your query.");
    bench.say("gmail_read", json!({"messageId": "x"})).await;
    bench.say("calendar_list_events", json!({})).await;
    bench.say("calendar_get_event", json!({"eventId": "x"})).await;
}

#[tokio::test]
async fn more_than_was_asked_for_is_not_shown() {
    let many: Vec<_> = (0..1_000).map(|at| json!({"id": format!("m{at}")})).collect();
    let api = move |method: &str, _: &Asked| {
        Answer::Reply(match method {
            "gmail.users.messages.list" => Reply::json(200, &json!({"messages": many})),
            "calendar.events.list" => Reply::json(200, &json!({"items": many})),
            _ => Reply::json(200, &json!({"id": "m"})),
        })
    };
    let Some(bench) = Bench::start(api).await else { return };
    let text = bench.say("gmail_search", json!({"query": "x", "maxResults": 3})).await;
    assert_eq!(text.matches("ID: ").count(), 3);
    let text = bench.say("calendar_list_events", json!({"maxResults": 4})).await;
    assert_eq!(text.matches("ID: ").count(), 4);
}
