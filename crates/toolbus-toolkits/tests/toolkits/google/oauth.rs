//! Logins, refreshes and logouts.

use std::sync::Arc;
use std::time::Duration;

use reqwest::{Url, redirect};
use serde_json::json;
use toolbus_testkit::google::{Answer, CLIENT_SECRET, Google as Server, TOKEN_MARK};
use toolbus_testkit::scripted_server::{Asked, Part, Reply};
use toolbus_toolkits::google::{GoogleDeps, GoogleLogin, OAuthError, Product};

use super::{Bench, deps, settings, silent};
use crate::support::Vault;

const REDIRECT: &str = "http://127.0.0.1:9/callback";

fn any(_: &str, _: &Asked) -> Answer {
    Answer::Json(json!({"id": "x"}))
}

async fn login(server: &Server, products: &[Product]) -> GoogleLogin {
    let deps: GoogleDeps = deps(&Arc::new(Vault::default()));
    GoogleLogin::new(&settings(server), &deps, products).await.expect("a client")
}

/// Where the browser ends that opens this page.
async fn browse(url: &Url) -> Url {
    let client = toolbus_testkit::http_client_builder().redirect(redirect::Policy::none()).build();
    let response = client.expect("a client").get(url.clone()).send().await.expect("a page");
    let location = response.headers().get("location").expect("a redirect");
    location.to_str().expect("text").parse().expect("a URL")
}

#[tokio::test]
async fn mx_g6_calls_that_start_together_make_one_refresh() {
    let Some(bench) = Bench::start(any).await else { return };
    let read = || bench.say("gmail_read", json!({"messageId": "x"}));
    let event = || bench.say("calendar_get_event", json!({"eventId": "x"}));
    tokio::join!(read(), read(), read(), event(), event());
    assert_eq!(bench.server.refreshes(), 2);
    read().await;
    event().await;
    assert_eq!(bench.server.refreshes(), 2);
}

#[tokio::test]
async fn a_token_that_is_refused_in_mid_call_is_refreshed_once() {
    let Some(bench) = Bench::start(any).await else { return };
    bench.say("gmail_read", json!({"messageId": "x"})).await;
    bench.server.forget_access_tokens();
    let arguments = json!({"to": "a@x.org", "subject": "s", "body": "b"});
    bench.say("gmail_send", arguments).await;
    assert_eq!(bench.server.refreshes(), 2);
    // What was read, what was refused and what was sent.
    assert_eq!(bench.server.asked().len(), 3);

    bench.server.refuse_access_tokens();
    let text = bench.fail("gmail_read", json!({"messageId": "x"})).await;
    assert!(text.contains("agent-host login google"), "{text}");
    assert_eq!((bench.server.refreshes(), bench.server.asked().len()), (3, 5));
}

#[tokio::test]
async fn a_login_that_is_over_is_said_to_be() {
    let Some(bench) = Bench::start(silent).await else { return };
    bench.vault.set("google", "GMAIL_TOKEN", "canary-token-revoked");
    let text = bench.fail("gmail_read", json!({"messageId": "x"})).await;
    let expected = "the login for Gmail is over or was revoked: run `agent-host login google`";
    assert_eq!(text, expected);
    bench.vault.set("google", "GMAIL_TOKEN", "");
    let text = bench.fail("gmail_read", json!({"messageId": "x"})).await;
    assert_eq!(text, "nobody has logged in for Gmail: run `agent-host login google`");
}

#[tokio::test]
async fn a_logout_and_another_login_count_at_once() {
    let Some(bench) = Bench::start(any).await else { return };
    bench.say("gmail_read", json!({"messageId": "x"})).await;
    let other = bench.server.new_refresh_token(Product::Gmail.scopes());
    bench.vault.set("google", "GMAIL_TOKEN", &other);
    bench.say("gmail_read", json!({"messageId": "x"})).await;
    assert_eq!(bench.server.refreshes(), 2);
    bench.vault.set("google", "GMAIL_TOKEN", "");
    bench.fail("gmail_read", json!({"messageId": "x"})).await;
}

#[tokio::test]
async fn answers_of_a_refresh_that_are_none_are_errors() {
    let quick = |settings: &mut toolbus_toolkits::GoogleSettings| {
        settings.timeout = "3s".parse().expect("a time");
    };
    let Some(bench) = Bench::start_with(silent, quick).await else { return };
    let token =
        |text: &str| Reply::json(200, &json!({"access_token": text, "token_type": "Bearer"}));
    let kept = bench.server.new_refresh_token(Product::Gmail.scopes());
    bench.vault.set("google", "GMAIL_TOKEN", &kept);
    let said = format!("{CLIENT_SECRET} {kept}");
    for reply in [
        token("a\nb: c"),
        token(""),
        token(&"x".repeat(10_000)),
        Reply::body(200, "text/html", "<html>"),
        Reply::json(200, &json!({"access_token": 7})),
        Reply::json(400, &json!({"error": "invalid_client", "error_description": said})),
        Reply::json(500, &json!({})),
        Reply::empty(302).header("location", "https://evil.example/"),
        Reply::body(200, "application/json", "{").then(Part::Forever(vec![b' '; 65_536])),
        Reply::body(200, "application/json", "{").then(Part::Hang),
    ] {
        bench.server.refresh_with(reply);
        let text = bench.fail("gmail_read", json!({"messageId": "x"})).await;
        assert!(text.starts_with("the access token cannot be refreshed: "), "{text}");
    }
}

#[tokio::test]
async fn a_token_without_a_scope_is_told_to_log_in_again() {
    let Some(bench) = Bench::start(any).await else { return };
    let token = bench.server.new_refresh_token(&Product::Gmail.scopes()[..1]);
    bench.vault.set("google", "GMAIL_TOKEN", &token);
    bench.say("gmail_read", json!({"messageId": "x"})).await;
    let text = bench.fail("gmail_send", json!({"to": "a@x", "subject": "", "body": ""})).await;
    assert!(text.contains("agent-host login google"), "{text}");
}

#[tokio::test]
async fn a_person_logs_in_by_a_browser() {
    let Some(server) = Server::start(silent).await else { return };
    let login = login(&server, &Product::ALL).await;
    let started = login.begin_in_browser(REDIRECT);
    let scopes = started.url.query_pairs().find(|(name, _)| name == "scope").expect("scopes").1;
    let expected = "https://www.googleapis.com/auth/gmail.readonly \
                    https://www.googleapis.com/auth/gmail.send \
                    https://www.googleapis.com/auth/calendar.events";
    assert_eq!(scopes, expected);
    assert!(!started.url.as_str().contains(CLIENT_SECRET));

    let answer = browse(&started.url).await;
    let granted = login.finish_in_browser(started, &answer).await.expect("a token");
    server.assert_valid();
    assert!(granted.refresh_token.starts_with(TOKEN_MARK));
    assert_eq!(granted.products, Product::ALL);
}

#[tokio::test]
async fn the_answer_of_another_login_is_refused() {
    let Some(server) = Server::start(silent).await else { return };
    let login = login(&server, &[Product::Gmail]).await;
    let (mine, other) = (login.begin_in_browser(REDIRECT), login.begin_in_browser(REDIRECT));
    let mut answer = browse(&other.url).await;
    let error = login.finish_in_browser(mine, &answer).await.err().expect("an error");
    assert!(matches!(error, OAuthError::State), "{error}");

    // A code that somebody else's challenge is for.
    let mine = login.begin_in_browser(REDIRECT);
    let code =
        answer.query_pairs().find(|(name, _)| name == "code").expect("a code").1.into_owned();
    answer.set_query(Some(&format!("state={}&code={code}", mine.state)));
    let error = login.finish_in_browser(mine, &answer).await.err().expect("an error");
    assert!(
        matches!(&error, OAuthError::Refused { code, .. } if code == "invalid_grant"),
        "{error}"
    );

    let mine = login.begin_in_browser(REDIRECT);
    answer.set_query(Some(&format!("state={}&error=access_denied", mine.state)));
    let error = login.finish_in_browser(mine, &answer).await.err().expect("an error");
    assert_eq!(error.to_string(), "Google refused: access_denied");
}

#[tokio::test]
async fn a_product_that_the_person_leaves_out_is_not_granted() {
    let Some(server) = Server::start(silent).await else { return };
    server.deny("https://www.googleapis.com/auth/gmail.send");
    let login = login(&server, &Product::ALL).await;
    let started = login.begin_in_browser(REDIRECT);
    let answer = browse(&started.url).await;
    let granted = login.finish_in_browser(started, &answer).await.expect("a token");
    assert_eq!(granted.products, [Product::Calendar]);
}

#[tokio::test]
async fn a_person_logs_in_on_a_device() {
    let Some(server) = Server::start(silent).await else { return };
    server.script_device(vec!["authorization_pending"]);
    let login = login(&server, &[Product::Calendar]).await;
    let started = login.begin_on_device().await.expect("a code");
    assert_eq!((&*started.url, &*started.code), ("https://www.google.com/device", "ABCD-EFGH"));
    let limit = Duration::from_secs(30);
    let granted = login.finish_on_device(&started, limit).await.expect("a token");
    assert_eq!(granted.products, [Product::Calendar]);
}

#[tokio::test]
async fn a_device_that_is_refused_says_why() {
    let Some(server) = Server::start(silent).await else { return };
    let login = login(&server, &[Product::Calendar]).await;
    let limit = Duration::from_secs(30);
    for code in ["access_denied", "expired_token"] {
        let started = login.begin_on_device().await.expect("a code");
        server.script_device(vec![code]);
        let error = login.finish_on_device(&started, limit).await.err().expect("an error");
        assert!(
            matches!(&error, OAuthError::Refused { code: found, .. } if found == code),
            "{error}"
        );
    }
    server.script_device(vec!["invalid_scope"]);
    let error = login.begin_on_device().await.err().expect("an error");
    assert_eq!(error.to_string(), "Google refused: invalid_scope");
}

/// Waits longer than before after it, and no longer than the limit.
#[tokio::test]
async fn a_device_slows_down() {
    let Some(server) = Server::start(silent).await else { return };
    let login = login(&server, &[Product::Calendar]).await;
    let started = login.begin_on_device().await.expect("a code");
    server.script_device(vec!["slow_down"]);
    let before = std::time::Instant::now();
    let limit = Duration::from_secs(30);
    login.finish_on_device(&started, limit).await.expect("a token");
    assert!(before.elapsed() >= Duration::from_secs(6), "{:?}", before.elapsed());

    server.script_device(vec!["authorization_pending"; 100]);
    let limit = Duration::from_secs(2);
    let error = login.finish_on_device(&started, limit).await.err().expect("an error");
    assert!(matches!(error, OAuthError::TimedOut(_)), "{error}");
}

#[tokio::test]
async fn a_logout_revokes_the_token() {
    let Some(server) = Server::start(silent).await else { return };
    let token = server.new_refresh_token(Product::Gmail.scopes());
    let login = login(&server, &[]).await;
    login.revoke(&token).await.expect("it is revoked");
    assert_eq!(server.revoked(), std::slice::from_ref(&token));
    let error = login.revoke(&token).await.expect_err("it is gone");
    assert_eq!(error.to_string(), "Google refused: invalid_token");

    let said = format!("no {token} of {CLIENT_SECRET}");
    server.revoke_with(Reply::json(503, &json!({"error": "down", "error_description": said})));
    let error = login.revoke(&token).await.expect_err("it is down").to_string();
    assert!(!error.contains(TOKEN_MARK) && !error.contains(CLIENT_SECRET), "{error}");
}
