//! Gmail's tools: what they print, and what Google is sent.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use toolbus_testkit::google::{Answer, api_error};
use toolbus_testkit::scripted_server::Asked;

use super::{Bench, query_of, silent};

fn mail(id: &str, headers: &[(&str, &str)]) -> Value {
    let headers = headers.iter().map(|(name, value)| json!({"name": name, "value": value}));
    json!({
        "id": id, "threadId": "t", "snippet": "Tea &amp; &#39;cake&#39;",
        "payload": {"mimeType": "text/plain", "headers": headers.collect::<Vec<_>>(),
                    "body": {"size": 0}}
    })
}

/// The message that was sent.
fn sent(asked: &Asked) -> String {
    let raw = asked.body["raw"].as_str().expect("a message");
    assert!(!raw.contains('='), "{raw}");
    let bytes = URL_SAFE_NO_PAD.decode(raw).expect("base64url");
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn mx_g1_mails_are_listed_in_blocks() {
    let api = |method: &str, asked: &Asked| {
        Answer::Json(match method {
            "gmail.users.messages.list" if query_of(asked)["q"] == "nothing" => {
                json!({"resultSizeEstimate": 0})
            }
            "gmail.users.messages.list" => {
                json!({"messages": [{"id": "m1", "threadId": "t"}, {"id": "m2"}, {"id": "m3"}]})
            }
            _ if asked.path.contains("/m1?") => mail(
                "m1",
                &[("FROM", "Ana <ana@x.org>"), ("date", "Mon, 2 Mar 2026"), ("Subject", "Tea")],
            ),
            _ => mail("m2", &[]),
        })
    };
    let Some(bench) = Bench::start(api).await else { return };
    let text = bench.say("gmail_search", json!({"query": "a & b", "maxResults": "2"})).await;
    let expected = "ID: m1\nDate: Mon, 2 Mar 2026\nFrom: Ana <ana@x.org>\nSubject: Tea\n\
                    Snippet: Tea & 'cake'\n\nID: m2\nDate: \nFrom: \nSubject: \n\
                    Snippet: Tea & 'cake'";
    assert_eq!(text, expected);
    let asked = bench.server.asked();
    assert_eq!(Value::from(query_of(&asked[0])), json!({"q": "a & b", "maxResults": "2"}));
    let expected = json!({"format": "metadata", "metadataHeaders": ["From", "Subject", "Date"]});
    assert_eq!(Value::from(query_of(&asked[1])), expected);
    assert_eq!(asked.len(), 3);

    let text = bench.say("gmail_search", json!({"query": "nothing"})).await;
    assert_eq!(text, "No emails found matching your query.");
    assert_eq!(query_of(&bench.server.asked()[3])["maxResults"], "10");
}

#[tokio::test]
async fn mx_g2_a_mail_is_read() {
    let api = |_: &str, asked: &Asked| {
        let data = URL_SAFE_NO_PAD.encode("<p>Hello <b>you</b></p>");
        Answer::Json(match asked.path.contains("empty") {
            true => mail("empty", &[]),
            false => json!({
                "id": "m", "payload": {
                    "mimeType": "text/html", "body": {"data": data, "size": 3},
                    "headers": [{"name": "from", "value": "a@x.org"}, {"name": "TO", "value": "b@x.org"},
                        {"name": "Date", "value": "now"}, {"name": "Subject", "value": "S"}]
                }
            }),
        })
    };
    let Some(bench) = Bench::start(api).await else { return };
    let text = bench.say("gmail_read", json!({"messageId": "m"})).await;
    assert_eq!(text, "From: a@x.org\nTo: b@x.org\nDate: now\nSubject: S\n\nHello you");
    let text = bench.say("gmail_read", json!({"messageId": "empty"})).await;
    assert_eq!(text, "From: \nTo: \nDate: \nSubject: \n\n(no text content)");
    assert_eq!(query_of(&bench.server.asked()[0])["format"], "full");
}

#[tokio::test]
async fn mx_g3_a_mail_is_sent() {
    let api = |_: &str, _: &Asked| Answer::Json(json!({"id": "sent-1", "labelIds": ["SENT"]}));
    let Some(bench) = Bench::start(api).await else { return };
    let arguments = json!({"to": "ana@x.org, Bo <bo@x.org>", "subject": "Hi", "body": "one\ntwo"});
    let text = bench.say("gmail_send", arguments).await;
    assert!(text.contains("sent-1"), "{text}");
    let expected = "To: ana@x.org,\r\n \"Bo\" <bo@x.org>\r\nSubject: Hi\r\nMIME-Version: 1.0\r\n\
                    Content-Type: text/plain; charset=\"UTF-8\"\r\n\
                    Content-Transfer-Encoding: 7bit\r\n\r\none\r\ntwo";
    assert_eq!(sent(&bench.server.asked()[0]), expected);

    bench.say("gmail_send", json!({"to": "a@x.org", "subject": "", "body": "grüße ✓"})).await;
    let message = sent(&bench.server.asked()[1]);
    let (head, body) = message.split_once("\r\n\r\n").expect("a body");
    assert!(head.is_ascii() && head.contains("Content-Transfer-Encoding: base64"), "{head}");
    let body = STANDARD.decode(body.replace("\r\n", "")).expect("base64");
    assert_eq!(String::from_utf8(body).expect("UTF-8"), "grüße ✓");
}

#[tokio::test]
async fn rule_13_line_breaks_in_headers_are_refused() {
    let Some(bench) = Bench::start(silent).await else { return };
    for wrong in ["\r\nBcc: eve@x.org", "\nBcc: eve@x.org", "\r", "\0", "\u{85}x"] {
        for name in ["to", "subject"] {
            let mut arguments = json!({"to": "a@x.org", "subject": "s", "body": "b"});
            arguments[name] = format!("{}{wrong}", arguments[name].as_str().expect("text")).into();
            let text = bench.fail("gmail_send", arguments).await;
            assert!(text.starts_with(&format!("{name} must not contain line breaks")), "{text}");
        }
    }
    for to in ["", "nobody", "ä@x.org", "a@x.org <", "<a@x.org", "a b@x.org"] {
        bench.fail("gmail_send", json!({"to": to, "subject": "s", "body": "b"})).await;
    }
    assert_eq!(bench.server.refreshes(), 0);
}

#[tokio::test]
async fn rule_13_headers_beyond_ascii_are_encoded() {
    let api = |_: &str, _: &Asked| Answer::Json(json!({"id": "1"}));
    let Some(bench) = Bench::start(api).await else { return };
    let arguments = json!({"to": "\"Jörg, Ä\" <j@x.org>", "subject": "Grüße", "body": "x"});
    bench.say("gmail_send", arguments).await;
    let message = sent(&bench.server.asked()[0]);
    let name = STANDARD.encode("Jörg, Ä");
    assert!(message.starts_with(&format!("To: =?UTF-8?B?{name}?= <j@x.org>\r\n")), "{message}");
    assert!(message.contains("\r\nSubject: =?UTF-8?B?R3LDvMOfZQ==?=\r\n"), "{message}");
}

#[tokio::test]
async fn mx_g4_errors_name_the_tool() {
    let api =
        |_: &str, _: &Asked| Answer::Reply(api_error(404, "Requested entity was\nnot found."));
    let Some(bench) = Bench::start(api).await else { return };
    let calls = [
        ("gmail_search", json!({"query": "x"})),
        ("gmail_read", json!({"messageId": "x"})),
        ("gmail_send", json!({"to": "a@x.org", "subject": "s", "body": "b"})),
        ("calendar_list_events", json!({})),
        (
            "calendar_create_event",
            json!({"summary": "s", "start": "2026-01-01", "end": "2026-01-02"}),
        ),
        ("calendar_get_event", json!({"eventId": "x"})),
    ];
    for (tool, arguments) in calls {
        let text = bench.fail(tool, arguments).await;
        assert_eq!(text, "HTTP 404 from Google: Requested entity was not found.");
    }
    bench.server.assert_valid();
}
