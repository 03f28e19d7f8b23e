//! Redirects, hop by hop.

use std::sync::{Arc, OnceLock};

use reqwest::Method;
use reqwest::header::HeaderValue;
use toolbus_fetch::Error;
use toolbus_testkit::scripted_server::{Reply, Server};

use crate::support::{CUT, fetcher, get, port_of, read, server};

fn to(location: &str) -> Reply {
    Reply::empty(302).header("location", location)
}

#[tokio::test]
async fn redirects_are_followed_up_to_a_limit() {
    let (_server, base) = server(|path| {
        let at: u32 = path.trim_start_matches('/').parse().expect("a number");
        if at == 0 { Reply::body(200, "text/plain", "there") } else { to(&format!("/{}", at - 1)) }
    })
    .await;
    let fetcher = fetcher(&["127.0.0.1"]);

    let response = fetcher.send(get(&format!("{base}/5"))).await.expect("five are followed");
    assert_eq!((response.url.path(), response.status().as_u16()), ("/0", 200));
    let error = fetcher.send(get(&format!("{base}/6"))).await.expect_err("six are not");
    assert!(matches!(error, Error::Redirects(5)), "{error}");
}

#[tokio::test]
async fn a_circle_ends() {
    let (server, base) = server(|_| to("/")).await;
    let error = fetcher(&["127.0.0.1"]).send(get(&base)).await.expect_err("a circle");
    assert!(matches!(error, Error::Redirects(5)), "{error}");
    assert_eq!(server.asked().len(), 6);
}

#[tokio::test]
async fn each_hop_is_checked() {
    let (hidden, hidden_base) = server(|_| Reply::body(200, "text/plain", "secret")).await;
    let elsewhere = hidden_base.clone();
    let (_server, base) = server(move |path| match path {
        "/metadata" => to("http://169.254.169.254/latest/meta-data/iam/"),
        "/mapped" => to("http://[::ffff:a9fe:a9fe]/"),
        "/decimal" => to("http://2852039166/"),
        "/private" => to("http://10.1.2.3/"),
        "/port" => to(&elsewhere),
        "/file" => to("file:///etc/passwd"),
        "/user" => to("http://user:password@127.0.0.1/"),
        "/twice" => to("/metadata"),
        "/broken" => to("http://[::1"),
        _ => Reply::empty(404),
    })
    .await;
    // This server alone is allowed, with its port.
    let fetcher = fetcher(&[&format!("127.0.0.1:{}", port_of(&base))]);

    for path in ["/metadata", "/mapped", "/decimal", "/private", "/port", "/twice"] {
        let error = read(&fetcher, get(&format!("{base}{path}")), CUT).await.expect_err(path);
        assert!(matches!(error, Error::NotPublic(_)), "{path}: {error}");
    }
    for path in ["/file", "/user", "/broken"] {
        let error = read(&fetcher, get(&format!("{base}{path}")), CUT).await.expect_err(path);
        assert!(
            matches!(error, Error::Scheme(_) | Error::UserInfo | Error::Redirect(_)),
            "{path}: {error}"
        );
    }
    assert!(hidden.asked().is_empty());
}

#[tokio::test]
async fn what_an_internal_address_redirects_to_is_checked() {
    let (hidden, hidden_base) = server(|_| Reply::body(200, "text/plain", "secret")).await;
    let (_server, base) = server(move |_| to(&hidden_base)).await;
    let mut request = get(&base);
    request.is_internal = true;
    let error = read(&fetcher(&[]), request, CUT).await.expect_err("another origin");
    assert!(matches!(error, Error::NotPublic(_)), "{error}");
    assert!(hidden.asked().is_empty());
}

/// A server that sends on to another, which sends back to it.
async fn there_and_back() -> (Server, String, Server, String) {
    let back = Arc::new(OnceLock::<String>::new());
    let known = Arc::clone(&back);
    let (relay, relay_base) =
        server(move |_| to(&format!("{}/chosen", known.get().expect("it is set")))).await;
    let onward = relay_base.clone();
    let (first, first_base) = server(move |path| match path {
        "/" => to(&onward),
        _ => Reply::body(200, "text/plain", "secret"),
    })
    .await;
    back.set(first_base.clone()).expect("it is set once");
    (first, first_base, relay, relay_base)
}

#[tokio::test]
async fn nobody_in_between_uses_the_credentials() {
    let (first, base, relay, _) = there_and_back().await;
    let mut request = get(&base);
    request.credentials.insert("authorization", HeaderValue::from_static("Bearer canary"));
    read(&fetcher(&["127.0.0.1"]), request, CUT).await.expect("it is followed");
    let carried: Vec<_> =
        first.asked().iter().map(|asked| asked.headers.contains_key("authorization")).collect();
    assert_eq!(carried, [true, false]);
    assert!(!relay.only_request().headers.contains_key("authorization"));
}

#[tokio::test]
async fn nobody_in_between_leads_into_a_network() {
    let (first, base, relay, relay_base) = there_and_back().await;
    let mut request = get(&base);
    request.is_internal = true;
    let allowed = format!("127.0.0.1:{}", port_of(&relay_base));
    let error = read(&fetcher(&[&allowed]), request, CUT).await.expect_err("not from elsewhere");
    assert!(matches!(error, Error::NotPublic(_)), "{error}");
    assert_eq!((first.asked().len(), relay.asked().len()), (1, 1));
}

#[tokio::test]
async fn credentials_stay_with_their_origin() {
    let (other, other_base) = server(|_| Reply::body(200, "text/plain", "other")).await;
    let (own, base) = server(move |path| match path {
        "/own" => to("/there"),
        "/other" => to(&other_base),
        _ => Reply::body(200, "text/plain", "own"),
    })
    .await;
    let fetcher = fetcher(&["127.0.0.1"]);
    for path in ["/own", "/other"] {
        let mut request = get(&format!("{base}{path}"));
        request.headers.insert("accept", HeaderValue::from_static("text/plain"));
        request.credentials.insert("authorization", HeaderValue::from_static("Bearer canary"));
        read(&fetcher, request, CUT).await.expect("it is followed");
    }

    for asked in own.asked() {
        assert_eq!(asked.headers.get("authorization").map(String::as_str), Some("Bearer canary"));
    }
    let asked = other.only_request();
    assert!(!format!("{:?}", asked.headers).contains("canary"), "{asked:?}");
    assert_eq!(asked.headers.get("accept").map(String::as_str), Some("text/plain"));
    assert!(!asked.headers.contains_key("referer"));
}

#[tokio::test]
async fn only_reading_requests_are_sent_on() {
    let (server, base) = server(|_| to("/there")).await;
    let mut request = get(&base);
    request.method = Method::POST;
    let response = fetcher(&["127.0.0.1"]).send(request).await.expect("an answer");
    assert_eq!(response.status().as_u16(), 302);
    assert_eq!(server.asked().len(), 1);
}
