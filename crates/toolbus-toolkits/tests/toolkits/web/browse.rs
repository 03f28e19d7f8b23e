//! `web_browse`: pages in markdown, long ones in working memory, and GitHub's API.

use std::sync::Arc;

use serde_json::json;
use toolbus_testkit::scripted_server::Reply;
use toolbus_toolkits::web::{WebDeps, WebSettings};
use toolbus_tools::call::Call;

use super::{AllLocal, WebBench, html};

async fn browse(bench: &WebBench, path: &str) -> String {
    bench.say("web_browse", json!({"url": format!("{}{path}", bench.base)})).await
}

#[tokio::test]
async fn a_page_is_its_title_and_its_content() {
    let bench = WebBench::pages(|path| match path {
        "/titled" => {
            html("<title>T &amp; U</title><nav>menu</nav><h2>A</h2><p>b <a href=/c>c</a></p>")
        }
        "/plain" => Reply::body(200, "text/plain", "# as it is\n"),
        "/moved" => Reply::empty(302).header("location", "/below/there"),
        "/below/there" => html("<a href=x>y</a>"),
        _ => html("<p>a</p><script>x</script>"),
    })
    .await;
    for (path, expected) in [
        ("/titled", "# T & U\n\n## A\n\nb [c](BASE/c)"),
        ("/plain", "# as it is\n"),
        ("/untitled", "a"),
        // Links are about where the page came from.
        ("/moved", "[y](BASE/below/x)"),
    ] {
        assert_eq!(browse(&bench, path).await, expected, "{path}");
    }
    let asked = bench.server.asked().remove(0);
    assert!(asked.headers["user-agent"].contains("Chrome/131"));
}

#[tokio::test]
async fn failures_have_their_text() {
    let bench = WebBench::pages(|path| match path {
        "/pdf" => Reply::body(200, "application/pdf", "x"),
        _ => Reply::empty(503),
    })
    .await;
    for (url, expected) in [
        (" ".to_owned(), "Missing required argument: url"),
        (format!("{}/x", bench.base), "Failed to fetch page: HTTP 503"),
        (
            format!("{}/pdf", bench.base),
            "Failed to fetch page: it is application/pdf, which cannot be read as text",
        ),
        (
            "http://169.254.169.254/".to_owned(),
            "Failed to fetch page: 169.254.169.254 is not on the public Internet, and not among the \
             hosts that are allowed",
        ),
        (
            "file:///etc/passwd".to_owned(),
            "Failed to fetch page: the scheme 'file' is not supported: only http and https are",
        ),
    ] {
        assert_eq!(bench.fail("web_browse", json!({"url": url})).await, expected);
    }
}

fn long_page() -> String {
    let section =
        |at: usize| format!("<h2>Part | {at}</h2><p>{}</p>", format!("word{at} ").repeat(400));
    format!("<title>Long</title>{}", (0..5).map(section).collect::<String>())
}

#[tokio::test]
async fn a_long_page_is_kept_in_chunks() {
    let bench = WebBench::pages(|_| html(long_page())).await;
    let text = browse(&bench, "/big").await;
    let port = bench.base.rsplit(':').next().expect("a port");
    let key = |suffix: &str| format!("session/s1/web-http___127.0.0.1_{port}_big-{suffix}");
    let expected = format!(
        "Page \"Long\" has been split into 5 chunk(s) stored in working memory.\n\
         A document outline is stored at key `{}`.\n\
         Call GetFromWorkingMemory(key) for each relevant chunk BEFORE drawing conclusions.\n\
         Do not summarise based on this index alone.\n\n\
         | # | Heading | Key |\n|---|---------|-----|\n| 0 | Part \\| 0 | `{}` |\n",
        key("index"),
        key("chunk0")
    );
    assert!(text.starts_with(&expected), "{text}\n{expected}");

    let outline = bench.say("get_from_working_memory", json!({"key": key("index")})).await;
    assert!(
        outline.starts_with("## Document Outline") && outline.contains("**Part | 4**"),
        "{outline}"
    );
    let chunk = bench.say("get_from_working_memory", json!({"key": key("chunk4")})).await;
    assert!(chunk.starts_with("word4 word4") && !chunk.contains("word3"), "{chunk}");
    let list = bench.say("list_working_memory", json!({})).await;
    assert!(list.contains("category: web") && list.contains("expires in 29m"), "{list}");

    // The same page again takes the place of the first.
    browse(&bench, "/big").await;
    let again = bench.say("list_working_memory", json!({})).await;
    assert_eq!(list.lines().count(), again.lines().count());
}

#[tokio::test]
async fn a_page_of_exactly_the_threshold_is_not_split() {
    let bench = WebBench::pages(|path| {
        let length = path.trim_start_matches('/').parse().expect("a number");
        Reply::body(200, "text/plain", "x".repeat(length))
    })
    .await;
    assert_eq!(browse(&bench, "/8000").await.len(), 8000);
    let text = browse(&bench, "/8001").await;
    assert!(
        text.contains("has been split into 3 chunk(s)") && text.contains("| 0 | Section 0 |"),
        "{text}"
    );
}

#[tokio::test]
async fn without_a_session_a_long_page_is_cut() {
    let bench = WebBench::pages(|_| Reply::body(200, "text/plain", "x".repeat(9_000))).await;
    let scope = crate::support::scope();
    let call = Call::by_name(&scope, "web_browse", json!({"url": bench.base})).expect("a name");
    let text = bench.invoker.invoke(call).await.expect("it answers").content.expect("a text");
    assert_eq!(text, format!("{}\n\n[Content truncated — 1000 chars omitted]", "x".repeat(8_000)));
}

#[tokio::test]
async fn chunks_are_never_more_than_memory_takes() {
    let bench = WebBench::pages(|_| Reply::body(200, "text/plain", "word ".repeat(600_000))).await;
    let text = browse(&bench, "/huge").await;
    let rows = text.lines().filter(|line| line.ends_with("` |")).count();
    assert!((20..=49).contains(&rows), "{rows}");
}

async fn github(answer: impl Fn(&str) -> Reply + Send + 'static) -> WebBench {
    WebBench::start(
        move |asked| answer(&asked.path),
        |settings, base| {
            settings.github_api = Some(format!("{base}/api").parse().expect("a URL"));
            settings.allowed_hosts.clear();
        },
    )
    .await
}

#[tokio::test]
async fn issues_and_pull_requests_come_from_the_api() {
    let bench = github(|path| {
        assert!(path.starts_with("/api/repos/o/r/"), "{path}");
        let body = if path.contains("issues") { json!("It is\r\nbroken.") } else { json!(null) };
        Reply::json(
            200,
            &json!({
                "title": "A bug", "state": "open", "user": {"login": "somebody"},
                "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-02T00:00:00Z",
                "labels": [{"name": "bug"}, "old"], "html_url": "https://github.com/o/r/issues/7",
                "body": body
            }),
        )
    })
    .await;
    let issue =
        bench.say("web_browse", json!({"url": "https://github.com/o/r/issues/7#issuecomment-1"}));
    assert_eq!(
        issue.await,
        "# Issue #7: A bug [o/r]\n\n**Repository:** o/r\n**State:** open\n**Author:** somebody\n\
         **Created:** 2026-01-01T00:00:00Z\n**Updated:** 2026-01-02T00:00:00Z\n\
         **Labels:** bug, old\n**URL:** https://github.com/o/r/issues/7\n\n---\n\nIt is\nbroken."
    );
    let pull = bench.say("web_browse", json!({"url": "https://github.com/o/r/pull/8/files"})).await;
    assert!(
        pull.starts_with("# PR #8: A bug [o/r]") && pull.ends_with("(no description)"),
        "{pull}"
    );

    let asked = bench.server.asked();
    assert_eq!(asked[0].path, "/api/repos/o/r/issues/7");
    assert_eq!(asked[1].path, "/api/repos/o/r/pulls/8");
    assert_eq!(asked[0].headers["accept"], "application/vnd.github.v3+json");
    assert_eq!(asked[0].headers["user-agent"], "RockBot/1.0");
    assert!(!asked[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn where_the_api_refuses_the_page_is_fetched() {
    let deps = WebDeps { resolver: Arc::new(AllLocal), ..WebDeps::default() };
    let at = |settings: &mut WebSettings, base: &str| {
        settings.github_api = Some(base.parse().expect("a URL"));
    };
    let bench = WebBench::start_with_deps(|_| Reply::empty(403), at, deps).await;
    let text = bench.fail("web_browse", json!({"url": "https://github.com/o/r/issues/7"})).await;
    assert!(text.contains("github.com is not on the public Internet"), "{text}");
    assert_eq!(bench.server.only_request().path, "/repos/o/r/issues/7");
}
