//! An OpenRouter that is out of order, and one that means harm: each ends in a typed error that
//! says what to do, in time, and the key is in none of them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_testkit::process::Launch;

use crate::support::*;
use crate::upstream::*;

const HTML: &[(&str, &str)] = &[("content-type", "text/html; charset=utf-8")];

/// Small limits, so that they are met soon.
fn limited(upstream: &str) -> Launch {
    with_key(upstream)
        .env("TOOLBUS_OPENROUTER__TIMEOUT", "1s")
        .env("TOOLBUS_OPENROUTER__ANSWER_MAX", "64KiB")
        .env("TOOLBUS_OPENROUTER__CONCURRENCY", "2")
}

/// What becomes of a call when this is said.
async fn told(say: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> (Ended, Upstream) {
    let upstream = Upstream::saying(say).await;
    let mut program = Program::start(limited(&upstream.url)).await;
    let begun = Instant::now();
    let ended = program.call("get_credits", json!({})).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(!program.written().contains("5ec2e7c0ffee"), "the key is logged");
    assert!(!ended.text.contains("5ec2e7c0ffee"), "{}", ended.text);
    // Nothing of it stays.
    assert_eq!(program.get("/health").await.0, 200);
    (ended, upstream)
}

async fn check(bytes: Vec<u8>, code: &str, expected: &str) -> Value {
    let (ended, upstream) = told(move |_| Say::Bytes(bytes.clone())).await;
    check_error(&ended, code, expected);
    assert_eq!(upstream.asked().len(), 1, "it is asked once, and nothing else is");
    ended.error
}

fn check_error(ended: &Ended, code: &str, expected: &str) {
    assert!(ended.is_error, "{ended:?}");
    assert_eq!(ended.error["code"], code, "{}", ended.text);
    assert_eq!(ended.error["message"], ended.text);
    assert!(ended.text.contains(expected), "{}", ended.text);
}

fn refusal(status: u16, message: &str) -> Vec<u8> {
    json_answer(status, json!({"error": {"code": status, "message": message}}).to_string())
}

#[tokio::test]
async fn what_openrouter_refuses_is_told_with_its_own_words() {
    let text = "OpenRouter API error 401 for '/credits': User not found. This needs a management";
    check(refusal(401, "User not found."), "unauthorized", text).await;
    check(refusal(402, "Insufficient credits"), "payment_required", "Insufficient credits. ").await;
    check(refusal(403, "Only management keys"), "forbidden", "management key").await;
    check(refusal(404, "Gone"), "not_found", "'/credits': Gone").await;
    check(refusal(500, "Oops"), "upstream_failed", "try again").await;
    check(refusal(503, "Busy"), "upstream_failed", "Busy").await;
    let html = answer(502, HTML, "<html><h1>Bad gateway</h1>");
    check(html, "upstream_failed", "error 502 for '/credits': (it says so in HTML)").await;
    check(answer(529, &[], ""), "upstream_failed", "(it says nothing)").await;
}

#[tokio::test]
async fn a_wait_is_told_as_openrouter_asks_for_it() {
    let slow = json!({"error": {"code": 429, "message": "Slow down"}}).to_string();
    let limited = answer(429, &[("retry-after", "17")], &slow);
    let error = check(limited, "rate_limited", "Slow down. Try again in 17 s").await;
    assert_eq!((&error["retryAfterMs"], &error["isRetryable"]), (&json!(17_000), &json!(true)));
    let error = check(answer(429, &[("retry-after", "soon")], &slow), "rate_limited", "Wait").await;
    assert_eq!(error["retryAfterMs"], Value::Null);
}

#[tokio::test]
async fn what_is_no_answer_of_the_api_is_not_passed_on() {
    let html = answer(200, HTML, "<!DOCTYPE html><p>Log in to the hotel's network");
    check(html, "unusable_answer", "it is no JSON but text/html").await;
    check(json_answer(200, ""), "unusable_answer", "empty").await;
    check(json_answer(200, r#"{"data": {"total"#), "unusable_answer", "EOF").await;
    check(json_answer(200, r#"{"data": 1} {"data": 2}"#), "unusable_answer", "trailing").await;
    check(json_answer(200, b"{\"data\": \"\xff\"}"), "unusable_answer", "no JSON").await;
    check(json_answer(204, ""), "unusable_answer", "empty").await;
    check(b"SSH-2.0-OpenSSH_9\r\n\r\n".to_vec(), "broken_answer", "try again").await;
    check(Vec::new(), "broken_answer", "ended too early").await;
    let mut cut = json_answer(200, CREDITS);
    cut.truncate(cut.len() - 5);
    check(cut, "broken_answer", "ended too early").await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = Upstream::by_the_book().await;
    for status in [301, 302, 307, 308] {
        let location = format!("{}/credits", elsewhere.url);
        let redirect = answer(status, &[("location", &location)], "");
        check(redirect, "unusable_answer", "redirect").await;
        check(answer(status, &[("location", "/api/v1/key")], ""), "unusable_answer", "base_url")
            .await;
    }
    assert_eq!(elsewhere.asked(), []);
}

#[tokio::test]
async fn size_and_time_have_limits() {
    let large = json_answer(200, format!("[\"{}\"]", "x".repeat(64 * 1024)));
    check(large, "too_large", "more than 65536 bytes").await;
    let fits = format!("[\"{}\"]", "x".repeat(64 * 1024 - 4));
    let (ended, _) = told({
        let fits = fits.clone();
        move |_| Say::Bytes(json_answer(200, &fits))
    })
    .await;
    assert_eq!(ended, Ended::success(&fits));
    // Without a length, and without an end.
    let head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = [b"1000\r\n".to_vec(), vec![b' '; 4096], b"\r\n".to_vec()].concat();
    let (ended, _) = told(move |_| Say::Forever(head.to_vec(), chunk.clone())).await;
    check_error(&ended, "too_large", "65536");
    let (ended, _) = told(|_| Say::AndHang(Vec::new())).await;
    check_error(&ended, "timeout", "within 1s");
    let (ended, _) = told(|_| Say::AndHang(head.to_vec())).await;
    check_error(&ended, "timeout", "within 1s");
    // Headers that never end.
    let line = b"x-more: of the same\r\n".to_vec();
    let (ended, _) =
        told(move |_| Say::Forever(b"HTTP/1.1 200 OK\r\n".to_vec(), line.clone())).await;
    check_error(&ended, "broken_answer", "");
    // An error's text is shortened, and one that never ends is given up.
    let long = refusal(500, &"word ".repeat(5_000));
    let (ended, _) = told(move |_| Say::Bytes(long.clone())).await;
    assert!(ended.text.len() < 800, "{}", ended.text.len());
    let (ended, _) =
        told(|_| Say::AndHang(b"HTTP/1.1 500 Oops\r\ncontent-length: 10\r\n\r\n".to_vec())).await;

    assert!(ended.is_error, "{ended:?}");
}

#[tokio::test]
async fn the_key_is_masked_where_it_comes_back() {
    let echo = |asked: &Asked| {
        let sent = asked.header("authorization").to_owned();
        json_answer(400, json!({"error": {"message": format!("bad header {sent}")}}).to_string())
    };
    let (ended, _) = told(move |asked| Say::Bytes(echo(asked))).await;
    check_error(&ended, "refused", "bad header Bearer ***");
    let (ended, _) = told(|asked| {
        Say::Bytes(json_answer(200, json!([asked.header("authorization")]).to_string()))
    })
    .await;
    assert_eq!(ended, Ended::success(r#"["Bearer ***"]"#));
}

#[tokio::test]
async fn nobody_is_there() {
    // A port that was just free.
    let gone = Upstream::by_the_book().await.url;
    let program = Program::start(limited(&gone)).await;
    let ended = program.call("get_credits", json!({})).await;
    check_error(&ended, "unreachable", "try again");
}

#[tokio::test]
async fn what_is_too_much_is_refused_at_once_and_what_is_given_up_makes_room() {
    let upstream = Upstream::saying(|_| Say::AndHang(Vec::new())).await;
    let launch = limited(&upstream.url).env("TOOLBUS_OPENROUTER__TIMEOUT", "60s");
    let program = Program::start(launch).await;
    let call = || program.call("get_credits", json!({}));
    let asked = async |count: usize| {
        let mut seen = 0;
        toolbus_testkit::eventually(LIMIT, async || {
            seen += upstream.asked().len();
            anyhow::ensure!(seen >= count, "{seen}");
            Ok(())
        })
        .await;
    };

    // Two hang; the third has no room. Then their clients go away, and there is some again.
    tokio::select! {
        _ = async { tokio::join!(call(), call()) } => panic!("nobody answers"),
        ended = async { asked(2).await; call().await } => check_error(&ended, "busy", "Try again"),
    }

    tokio::select! {
        _ = call() => {}
        () = asked(1) => return,
    }

    // The first one may have come before the others were gone.
    toolbus_testkit::eventually(LIMIT, async || {
        tokio::select! {
            ended = call() => anyhow::bail!("{ended:?}"),
            () = asked(1) => Ok(()),
        }
    })
    .await;
}
