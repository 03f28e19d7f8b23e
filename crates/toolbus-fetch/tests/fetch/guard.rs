//! Which addresses are connected to.

use reqwest::header::HeaderValue;
use toolbus_fetch::Error;
use toolbus_testkit::scripted_server::Reply;

use crate::support::{CUT, Names, fetcher, fetcher_with, get, port_of, read, server};

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_without_a_connection() {
    let (server, base) = server(|_| Reply::body(200, "text/plain", "secret")).await;
    let fetcher = fetcher(&[]);
    let port = port_of(&base);
    for url in [
        base.clone(),
        format!("http://127.1:{port}/"),
        format!("http://2130706433:{port}/"),
        format!("http://[::ffff:127.0.0.1]:{port}/"),
        format!("http://0.0.0.0:{port}/"),
        "http://[::1]/".to_owned(),
        "http://10.0.0.1/".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
        "http://100.100.100.200/".to_owned(),
        "http://224.0.0.1/".to_owned(),
        "http://203.0.113.7/".to_owned(),
        "http://[64:ff9b::7f00:1]/".to_owned(),
    ] {
        let error = read(&fetcher, get(&url), CUT).await.expect_err(&url);
        assert!(matches!(error, Error::NotPublic(_)), "{url}: {error}");
        assert!(error.is_before_request());
    }
    assert!(server.asked().is_empty());
}

#[tokio::test]
async fn names_are_checked_by_what_they_resolve_to() {
    let (server, base) = server(|_| Reply::body(200, "text/plain", "secret")).await;
    let port = port_of(&base);
    let names = Names::default()
        .with("evil.test", &["127.0.0.1"])
        .with("several.test", &["10.0.0.1", "::1", "127.0.0.1"])
        .with("mapped.test", &["::ffff:127.0.0.1"])
        .with("metadata.test", &["169.254.169.254"]);
    let fetcher = fetcher_with(&[], names);

    for name in ["evil.test", "several.test", "mapped.test", "metadata.test", "evil.test."] {
        let error = read(&fetcher, get(&format!("http://{name}:{port}/")), CUT).await;
        let error = error.expect_err(name);
        let is_unknown = name.ends_with('.') && matches!(error, Error::Unreachable { .. });
        assert!(matches!(error, Error::NotPublic(_)) || is_unknown, "{name}: {error}");
    }
    assert!(server.asked().is_empty());

    let error = read(&fetcher, get("http://unknown.test/"), CUT).await.expect_err("no such name");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}

#[tokio::test]
async fn hosts_that_are_allowed_are_reached() {
    let (_server, base) = server(|_| Reply::body(200, "text/plain", "hello")).await;
    let port = port_of(&base);
    let names = || {
        Names::default()
            .with("pages.test", &["127.0.0.1"])
            .with("metadata.test", &["169.254.169.254"])
            .with("both.test", &["169.254.169.254", "127.0.0.1"])
    };
    for (allowed, url) in [
        ("127.0.0.1", base.clone()),
        (&format!("127.0.0.1:{port}"), base.clone()),
        ("127.0.0.0/8", format!("http://pages.test:{port}/")),
        ("pages.test", format!("http://pages.test:{port}/")),
        ("*.test", format!("http://both.test:{port}/")),
    ] {
        let fetcher = fetcher_with(&[allowed], names());
        let body = read(&fetcher, get(&url), CUT).await;
        assert_eq!(body.unwrap_or_else(|error| panic!("{allowed} {url}: {error}")).bytes, b"hello");
    }

    let other_port = format!("127.0.0.1:{}", 1);
    for (allowed, url) in [
        (other_port.as_str(), base.clone()),
        (other_port.as_str(), format!("http://pages.test:{port}/")),
        ("pages.test:1", format!("http://pages.test:{port}/")),
        // A name does not allow what a cloud tells its machines.
        ("*.test", "http://metadata.test/".to_owned()),
    ] {
        let fetcher = fetcher_with(&[allowed], names());
        let error = read(&fetcher, get(&url), CUT).await.expect_err(&url);
        assert!(matches!(error, Error::NotPublic(_)), "{allowed} {url}: {error}");
    }
}

#[tokio::test]
async fn a_connection_that_was_allowed_is_not_used_by_what_is_not() {
    let (server, base) = server(|_| Reply::body(200, "text/plain", "hello").with_length()).await;
    let port = port_of(&base);
    let fetcher = fetcher_with(&[], Names::default().with("own.test", &["127.0.0.1"]));
    let url = format!("http://own.test:{port}/");

    let mut internal = get(&url);
    internal.is_internal = true;
    assert_eq!(read(&fetcher, internal, CUT).await.expect("it answers").bytes, b"hello");
    let error = read(&fetcher, get(&url), CUT).await.expect_err("not internal");
    assert!(matches!(error, Error::NotPublic(_)), "{error}");
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn an_internal_address_is_reached_but_for_metadata() {
    let listed: [&[&str]; 2] = [&[], &["fd00::/8", "100.64.0.0/10", "0.0.0.0/1"]];
    for address in [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "[fd20:ce::254]",
        "[fd00:42::42]",
        "[::ffff:169.254.169.254]",
    ] {
        for allowed in listed {
            let mut request = get(&format!("http://{address}/"));
            request.is_internal = true;
            let error = read(&fetcher(allowed), request, CUT).await.expect_err(address);
            assert!(matches!(error, Error::NotPublic(_)), "{address}: {error}");
        }
    }
}

/// Whatever addresses they have.
#[tokio::test]
async fn names_of_metadata_lead_nowhere() {
    let (server, base) = server(|_| Reply::body(200, "text/plain", "secret")).await;
    let port = port_of(&base);
    let reach = async |allowed: &[&str], name: &str| {
        let names = Names::default()
            .with("metadata.google.internal", &["127.0.0.1"])
            .with("v1.metadata.goog", &["127.0.0.1"]);
        let mut request = get(&format!("http://{name}:{port}/"));
        request.is_internal = true;
        read(&fetcher_with(allowed, names), request, CUT).await
    };
    let listed: [&[&str]; 2] = [&[], &["*.google.internal", "*.metadata.goog"]];
    for name in ["metadata.google.internal", "v1.metadata.goog"] {
        for allowed in listed {
            let error = reach(allowed, name).await.expect_err(name);
            assert!(matches!(error, Error::NotPublic(_)), "{name}: {error}");
        }
    }
    assert!(server.asked().is_empty());

    let body = reach(&["127.0.0.1"], "metadata.google.internal").await.expect("it is listed");
    assert_eq!(body.bytes, b"secret");
}

#[tokio::test]
async fn what_is_no_request_of_http_is_refused() {
    let fetcher = fetcher(&["127.0.0.1"]);
    for (url, part) in [
        ("ftp://127.0.0.1/", "scheme 'ftp'"),
        ("file:///etc/passwd", "scheme 'file'"),
        ("http://user:hunter2@127.0.0.1/", "user name or a password"),
        ("http://user@127.0.0.1/", "user name or a password"),
    ] {
        let error = read(&fetcher, get(url), CUT).await.expect_err(url).to_string();
        assert!(error.contains(part) && !error.contains("hunter2"), "{error}");
    }
    let long = format!("http://127.0.0.1/{}", "x".repeat(10_000));
    assert!(read(&fetcher, get(&long), CUT).await.is_err());
}

#[tokio::test]
async fn errors_name_no_credential() {
    let mut request = get("http://127.0.0.1:1/?key=canary-query");
    let mut value = HeaderValue::from_static("Bearer canary-header");
    value.set_sensitive(true);
    request.credentials.insert("authorization", value);
    assert!(!format!("{request:?}").contains("canary-header"));
    let error = read(&fetcher(&["127.0.0.1"]), request, CUT).await.expect_err("nobody is there");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
}
