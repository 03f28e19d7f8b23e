//! `web_fetch`, line by line of its contract.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_testkit::scripted_server::{Part, Reply};
use toolbus_toolkits::web::{WebDeps, WebSettings};

use super::{AllLocal, WebBench, html};

async fn fetch(bench: &WebBench, path: &str) -> String {
    bench.say("web_fetch", json!({"url": format!("{}{path}", bench.base)})).await
}

async fn refusal(bench: &WebBench, path: &str) -> String {
    bench.fail("web_fetch", json!({"url": format!("{}{path}", bench.base)})).await
}

/// What stands below the lines.
fn content(text: &str) -> &str {
    text.split_once("--- Content ---\n\n").expect("a content").1
}

#[tokio::test]
async fn mx_w1_only_http_and_https() {
    let bench = WebBench::pages(|_| html("x")).await;
    for url in ["", "example.com", "/x", "ftp://example.com/", "file:///etc/passwd", "javascript:1"]
    {
        let text = bench.fail("web_fetch", json!({"url": url})).await;
        assert!(text.starts_with("Error: only http and https"), "{text}");
    }
    assert!(bench.server.asked().is_empty());
}

#[tokio::test]
async fn mx_w2_requests_look_like_a_browsers() {
    let bench = WebBench::pages(|path| match path {
        "/5" => html("there"),
        path => {
            let at: u32 = path.trim_start_matches('/').parse().expect("a number");
            Reply::empty(302).header("location", &format!("/{}", at + 1))
        }
    })
    .await;
    assert_eq!(content(&fetch(&bench, "/0").await), "there");
    let asked = bench.server.asked().remove(0);
    assert_eq!(asked.method, "GET");
    assert!(
        asked.headers["user-agent"].starts_with("Mozilla/5.0 ")
            && asked.headers.contains_key("accept")
    );
    assert!(asked.headers["accept-language"].starts_with("en-US"));
}

#[tokio::test]
async fn mx_w2_time_and_redirects_are_bounded() {
    let bench = WebBench::start(
        |asked| match asked.path.as_str() {
            "/slow" => html("x").then(Part::Hang),
            _ => Reply::empty(302).header("location", "/circle"),
        },
        |settings, _| settings.timeout = "500ms".parse().expect("a time"),
    )
    .await;
    let text = refusal(&bench, "/circle").await;
    assert!(text.contains("more than 5 redirects"), "{text}");
    let started = Instant::now();
    let text = refusal(&bench, "/slow").await;
    assert!(text.starts_with("Error: Request timed out after 0.5 s"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn mx_w3_other_statuses_are_errors() {
    let bench = WebBench::pages(|_| Reply::body(404, "text/html", "no such page")).await;
    assert_eq!(refusal(&bench, "/x").await, "Error: HTTP 404 fetching BASE/x");
}

#[tokio::test]
async fn mx_w4_two_million_bytes_are_the_limit() {
    let bench = WebBench::pages(|path| {
        let body = |length: usize| Reply::body(200, "text/plain", vec![b'x'; length]);
        match path {
            "/exact" => body(2_000_000),
            "/sized" => body(2_000_001).with_length(),
            _ => body(2_000_001),
        }
    })
    .await;
    assert!(fetch(&bench, "/exact").await.contains("(truncated from 2000000)"));
    assert_eq!(
        refusal(&bench, "/sized").await,
        "Error: Response too large (2,000,001 bytes, max 2,000,000 bytes)"
    );
    // Rule 5: it is not read to its end to know how long it is.
    assert_eq!(
        refusal(&bench, "/chunked").await,
        "Error: Response too large (over 2,000,000 bytes, max 2,000,000 bytes)"
    );
}

#[tokio::test]
async fn mx_w5_each_type_has_its_form() {
    let bench = WebBench::pages(|path| match path {
        "/html" => html("<title>T</title><p>a</p><p>b &amp; c</p>"),
        "/xhtml" => Reply::body(200, "application/xhtml+xml", "<p>a</p>"),
        "/json" => Reply::body(200, "application/json", "{\"a\":[1,{\"b\":null}]}"),
        // Rule 7.
        "/problem" => Reply::body(400 - 200, "application/problem+json", "{\"a\":1}"),
        "/broken" => Reply::body(200, "application/json", "{\"a\":"),
        "/text" => Reply::body(200, "text/plain", "<p>a</p>\n\n  b"),
        _ => Reply::body(200, "application/xml", "<a>\n<b/></a>"),
    })
    .await;
    for (path, expected) in [
        ("/html", "a\n\nb & c"),
        ("/xhtml", "a"),
        ("/json", "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ]\n}"),
        ("/problem", "{\n  \"a\": 1\n}"),
        ("/broken", "{\"a\":"),
        ("/text", "<p>a</p>\n\n  b"),
        ("/xml", "<a>\n<b/></a>"),
    ] {
        assert_eq!(content(&fetch(&bench, path).await), expected, "{path}");
    }
}

#[tokio::test]
async fn mx_w6_lines_stand_above_in_order() {
    let bench = WebBench::pages(|path| match path {
        "/from" => Reply::empty(301).header("location", "/to"),
        "/to" => html("<title> A \n &eacute; </title>abc"),
        _ => Reply::body(200, "text/plain; charset=utf-8", "abcdef"),
    })
    .await;
    assert_eq!(
        fetch(&bench, "/from").await,
        "URL: BASE/from\nFinal URL: BASE/to\nStatus: 200\nContent-Type: text/html\nTitle: A é\n\
         Length: 3 chars\n\n--- Content ---\n\nabc"
    );
    let arguments = json!({"url": format!("{}/x", bench.base), "maxChars": 4});
    assert_eq!(
        bench.say("web_fetch", arguments).await,
        "URL: BASE/x\nStatus: 200\nContent-Type: text/plain\n\
         Length: 4 chars (truncated from 6)\n\n--- Content ---\n\nabcd\n\n\
         [Content truncated at 4 characters]"
    );
}

#[tokio::test]
async fn mx_w7_a_length_that_is_the_limit_is_not_cut() {
    let bench = WebBench::pages(|path| {
        let length = path.trim_start_matches('/').parse().expect("a number");
        Reply::body(200, "text/plain", "é".repeat(length))
    })
    .await;
    assert!(fetch(&bench, "/50000").await.contains("Length: 50000 chars\n"));
    let text = fetch(&bench, "/50001").await;
    assert!(text.contains("Length: 50000 chars (truncated from 50001)"), "{}", &text[..200]);
    assert!(text.ends_with("é\n\n[Content truncated at 50000 characters]"));
}

#[tokio::test]
async fn a_page_of_too_many_elements_is_cut_and_says_so() {
    let bench = WebBench::pages(|_| html(format!("begin{}end", "<br>".repeat(200_000)))).await;
    let text = fetch(&bench, "/x").await;
    assert_eq!(content(&text), "begin\n\n[The page is longer, and was cut here.]");
}

#[tokio::test]
async fn rule_4_addresses_are_compared_as_they_are_normalized() {
    let bench = WebBench::pages(|_| html("x")).await;
    for path in ["", "/", "/#part", "/a/../"] {
        let text = fetch(&bench, path).await;
        assert!(!text.contains("Final URL"), "{path}: {text}");
    }
}

#[tokio::test]
async fn rule_6_the_charset_is_honoured() {
    let bench = WebBench::pages(|path| match path {
        "/latin1" => Reply::body(200, "text/html; charset=ISO-8859-1", b"<p>caf\xe9".to_vec()),
        "/wrong" => Reply::body(200, "text/html; charset=utf-8", b"<p>caf\xe9".to_vec()),
        "/unknown" => Reply::body(200, "text/html; charset=klingon", "<p>café"),
        _ => Reply::body(200, "text/html", "<p>café"),
    })
    .await;
    for (path, expected) in
        [("/latin1", "café"), ("/wrong", "caf\u{fffd}"), ("/unknown", "café"), ("/", "café")]
    {
        assert_eq!(content(&fetch(&bench, path).await), expected, "{path}");
    }
}

#[tokio::test]
async fn rule_8_a_limit_is_one_or_more() {
    let bench = WebBench::pages(|_| Reply::body(200, "text/plain", "a😀b")).await;
    let with = |chars: Value| json!({"url": bench.base, "maxChars": chars});
    for chars in [json!(0), json!(-1)] {
        let text = bench.fail("web_fetch", with(chars)).await;
        assert!(text.starts_with("Error: maxChars"), "{text}");
    }
    assert!(bench.server.asked().is_empty());
    assert_eq!(
        content(&bench.say("web_fetch", with(json!("2"))).await).lines().next(),
        Some("a😀")
    );
    assert_eq!(content(&bench.say("web_fetch", with(json!(1))).await).lines().next(), Some("a"));
}

#[tokio::test]
async fn rule_10_addresses_that_are_not_public_are_refused_on_every_hop() {
    let bench = WebBench::pages(|_| {
        Reply::empty(302).header("location", "http://169.254.169.254/latest/meta-data/")
    })
    .await;
    for url in [
        "http://127.0.0.1:1/",
        "http://localhost:1/",
        "http://[::1]/",
        "http://10.0.0.1/",
        &bench.base,
    ] {
        let text = bench.fail("web_fetch", json!({"url": url})).await;
        assert!(text.contains("not on the public Internet"), "{text}");
    }
}

#[tokio::test]
async fn rule_10_names_that_lead_to_private_addresses_are_refused() {
    let deps = || WebDeps { resolver: Arc::new(AllLocal), ..WebDeps::default() };
    let answer = |_: &_| html("<p>secret");
    let bench = WebBench::start_with_deps(answer, |_, _| {}, deps()).await;
    let port = bench.base.rsplit(':').next().expect("a port").to_owned();
    let url = format!("http://rebound.example:{port}/");
    for tool in ["web_fetch", "web_browse"] {
        let text = bench.fail(tool, json!({"url": url})).await;
        assert!(text.contains("not on the public Internet"), "{text}");
    }
    assert!(bench.server.asked().is_empty());

    // The allow-list switches that off for a name.
    let allow = |settings: &mut WebSettings, _: &str| {
        settings.allowed_hosts = vec!["*.example".parse().expect("an entry")];
    };
    let bench = WebBench::start_with_deps(answer, allow, deps()).await;
    let port = bench.base.rsplit(':').next().expect("a port").to_owned();
    let arguments = json!({"url": format!("http://inside.example:{port}/")});
    assert_eq!(content(&bench.say("web_fetch", arguments).await), "secret");
}

#[tokio::test]
async fn binaries_are_refused_with_a_reason() {
    let bench = WebBench::pages(|path| match path {
        "/pdf" => Reply::body(200, "application/pdf", "%PDF-1.7"),
        "/png" => Reply::body(200, "image/png", "x").then(Part::Forever(vec![0; 1000])),
        "/lying" => html("%PDF-1.7 xyz"),
        _ => Reply::body(200, "text/plain", b"PK\x03\x04\0\0".to_vec()),
    })
    .await;
    for (path, part) in
        [("/pdf", "application/pdf"), ("/png", "image/png"), ("/lying", "pdf"), ("/zip", "binary")]
    {
        let text = refusal(&bench, path).await;
        assert!(
            text.starts_with("Error") && text.contains(part) && text.contains("cannot be read"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn hostile_pages_are_bounded() {
    let bench = WebBench::pages(|path| match path {
        "/deep" => html("<div>".repeat(60_000) + "x"),
        "/lists" => html("<ul><li>".repeat(40_000)),
        "/attributes" => {
            html(format!("<p {}>x", (0..50_000).map(|at| format!("a{at} ")).collect::<String>()))
        }
        "/endless" => html("x").then(Part::Forever(b"<p>x".repeat(1000))),
        _ => Reply::body(200, "application/json", "[".repeat(1_000_000)),
    })
    .await;
    let started = Instant::now();
    for path in ["/deep", "/lists", "/attributes", "/json"] {
        fetch(&bench, path).await;
        let url = format!("{}{path}", bench.base);
        bench.say("web_browse", json!({"url": url})).await;
    }
    assert!(refusal(&bench, "/endless").await.contains("too large"));
    let text = bench.say("web_browse", json!({"url": format!("{}/endless", bench.base)})).await;
    assert!(text.contains("chunk(s) stored in working memory"), "{text}");
    assert!(started.elapsed() < Duration::from_secs(60));
}
