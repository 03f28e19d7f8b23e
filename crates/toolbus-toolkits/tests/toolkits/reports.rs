//! LinkedIn's pages and Anthropic's reports, from a server on loopback.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_testkit::scripted_server::{Reply, Server};
use toolbus_toolkits::CredentialPlaces;
use toolbus_toolkits::LinkedInSettings;
use toolbus_toolkits::anthropic_usage::{self, AnthropicUsageSettings};
use toolbus_toolkits::linkedin::{self, LinkedIn};
use toolbus_tools::call::Output;
use toolbus_tools::{Invoker, Registry};

use crate::support::call;

const ADMIN_KEY: &str = "canary-admin-key";

struct Bench {
    server: Server,
    base: String,
    invoker: Invoker,
}

impl Bench {
    async fn start(reply: Reply) -> Self {
        let server = Server::answering_any(move |_| reply.clone()).await;
        let base = server.url.strip_suffix("/v1").expect("it ends so").to_owned();
        let url = Some(base.parse().expect("a URL"));
        let registry = Registry::new();

        let settings = LinkedInSettings { base_url: url.clone(), ..LinkedInSettings::default() };
        let linkedin = LinkedIn::new(&settings).expect("a client");
        linkedin::register(&registry, linkedin).expect("names");
        let settings =
            AnthropicUsageSettings { base_url: url, ..AnthropicUsageSettings::default() };
        let environment =
            |name: &str| (name == "ANTHROPIC_ADMIN_API_KEY").then(|| ADMIN_KEY.to_owned());
        let places = CredentialPlaces { environment: Some(Arc::new(environment)), vault: None };
        assert!(anthropic_usage::register(&registry, &settings, &places).expect("a name"));
        Self { server, base, invoker: Invoker::builder(Arc::new(registry)).build() }
    }

    async fn output(&self, tool: &str, arguments: Value) -> Output {
        call(&self.invoker, tool, arguments).await.unwrap_or_else(|error| panic!("{tool}: {error}"))
    }

    async fn say(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(!output.is_error, "{:?}", output.content);
        output.content.expect("a text").replace(&self.base, "BASE")
    }

    async fn fail(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(output.is_error, "{:?}", output.content);
        output.content.expect("a text").replace(&self.base, "BASE")
    }
}

fn html(text: &str) -> Reply {
    Reply::body(200, "text/html; charset=utf-8", text)
}

fn card(title: &str, rest: &str) -> String {
    format!(
        "<li><div class='base-card base-search-card'>\
         <a class='base-card__full-link' href='/jobs/view/1?refId=x'><span>t</span></a>\
         <h3 class='base-search-card__title'> {title} </h3>{rest}</div></li>"
    )
}

#[tokio::test]
async fn mx_l1_a_limit_is_a_text_and_ten_by_default() {
    let bench = Bench::start(html("")).await;
    for limit in [json!("3"), json!(4), json!("x"), json!(null), json!("0"), json!("5000")] {
        bench.say("linkedin_jobs", json!({"keyword": "rust", "limit": limit})).await;
    }
    let counts = bench
        .server
        .asked()
        .into_iter()
        .map(|asked| asked.path.rsplit("count=").next().expect("a count").to_owned());
    let counts = counts.collect::<Vec<_>>();
    assert_eq!(counts, ["3", "4", "10", "10", "10", "100"]);
    let text = bench.fail("linkedin_jobs", json!({"keyword": " "})).await;
    assert!(text.starts_with("Error"), "{text}");
}

#[tokio::test]
async fn mx_l2_and_l3_filters_are_in_the_address() {
    let bench = Bench::start(html("")).await;
    bench
        .say(
            "linkedin_jobs",
            json!({
                "keyword": "rust & c", "location": "Berlin", "dateSincePosted": "Past Week",
                "jobType": "full-time", "remoteFilter": "remote", "experienceLevel": "entry level",
                "limit": "5", "sortBy": "recent"
            }),
        )
        .await;
    bench.say("linkedin_jobs", json!({
        "keyword": "rust", "dateSincePosted": "yesterday", "sortBy": "relevant", "jobType": "x"
    })).await;
    let asked = bench.server.asked();
    let path = "/jobs-guest/jobs/api/seeMoreJobPostings/search";
    assert_eq!(
        asked[0].path,
        format!(
            "{path}?keywords=rust+%26+c&location=Berlin&f_TPR=r604800&f_JT=F&f_WT=2&f_E=2&start=0&count=5&sortBy=DD"
        )
    );
    assert_eq!(asked[1].path, format!("{path}?keywords=rust&start=0&count=10"));
}

#[tokio::test]
async fn mx_l4_jobs_are_listed() {
    let full = card(
        "Rust &amp; C++",
        "<h4 class='base-search-card__subtitle'><a href=/c>Acme</a></h4>\
        <span class='job-search-card__location'>Berlin,\n Germany</span>\
        <span class='job-search-card__salary-info'>€1</span><time datetime=x>2 days ago</time>",
    );
    let page =
        format!("<ul>{full}{}{}{}</ul>", card(" ", ""), card("Second", ""), card("Third", ""));
    let bench = Bench::start(html(&page)).await;
    assert_eq!(
        bench.say("linkedin_jobs", json!({"keyword": "rust", "limit": "2"})).await,
        "1. Rust & C++\n   Company: Acme\n   Location: Berlin, Germany\n   Posted: 2 days ago\n   \
         Salary: €1\n   URL: BASE/jobs/view/1\n\n\
         2. Second\n   Company: Not listed\n   Location: Not listed\n   Posted: Not listed\n   \
         Salary: Not listed\n   URL: BASE/jobs/view/1"
    );

    let none = Bench::start(html("<p>x")).await;
    let text = none.say("linkedin_jobs", json!({"keyword": "rust"})).await;
    assert!(text.starts_with("No job postings found"), "{text}");
    let refused = Bench::start(Reply::empty(429)).await;
    let text = refused.fail("linkedin_jobs", json!({"keyword": "rust"})).await;
    assert_eq!(text, "Error fetching LinkedIn jobs: HTTP 429");
}

#[tokio::test]
async fn mx_l5_a_job_is_described() {
    let page = "<h1 class='top-card-layout__title'>Rust</h1><a class='topcard__org-name-link'> Acme </a>\
        <span class='topcard__flavor topcard__flavor--bullet'>Berlin</span>\
        <div class='show-more-less-html__markup'><p>Do things.</p><ul><li>a</li><li>b</li></ul></div>";
    let bench = Bench::start(html(page)).await;
    let arguments = json!({"url": format!("{}/jobs/view/1", bench.base)});
    assert_eq!(
        bench.say("linkedin_job_detail", arguments).await,
        "Title: Rust\nCompany: Acme\nLocation: Berlin\n\n--- Job Description ---\n\nDo things.\n\n- a\n- b"
    );
    // No other host is asked in its name.
    for url in
        ["https://example.com/jobs/view/1", "https://evil-linkedin.com/", "x", "file:///etc/passwd"]
    {
        let text = bench.fail("linkedin_job_detail", json!({"url": url})).await;
        assert!(text.contains("on LinkedIn"), "{text}");
    }

    let blocked = Bench::start(html("<p>Sign in")).await;
    let arguments = json!({"url": format!("{}/jobs/view/1", blocked.base)});
    let text = blocked.say("linkedin_job_detail", arguments.clone()).await;
    assert!(text.contains("blocked"), "{text}");
    let gone = Bench::start(Reply::empty(404)).await;
    let arguments = json!({"url": format!("{}/jobs/view/1", gone.base)});
    assert!(gone.fail("linkedin_job_detail", arguments).await.contains("HTTP 404"));
}

#[tokio::test]
async fn mx_u1_to_u3_reports_are_asked_for_and_shown() {
    let bench = Bench::start(Reply::json(200, &json!({"data": [1]}))).await;
    let text = bench
        .say(
            "anthropic_usage",
            json!({
                "action": "usage", "starting_at": "2026-01-01T00:00:00+02:00", "ending_at": "x y",
                "bucket_width": "1h", "group_by": ["model", "a&b"], "limit": "7"
            }),
        )
        .await;
    assert_eq!(text, "Token Usage Report:\n{\n  \"data\": [\n    1\n  ]\n}");
    let cost =
        bench.say("anthropic_usage", json!({"action": "cost", "starting_at": "2026-01-01"})).await;
    assert!(cost.starts_with("Cost Report:\n"));
    let code = json!({"action": "claude_code", "starting_at": "2026-01-01"});
    assert!(bench.say("anthropic_usage", code).await.starts_with("Claude Code Usage Report:\n"));

    let asked = bench.server.asked();
    let paths: Vec<_> = asked.iter().map(|asked| asked.path.as_str()).collect();
    assert_eq!(
        paths,
        [
            "/v1/organizations/usage_report/messages?starting_at=2026-01-01T00%3A00%3A00%2B02%3A00\
         &ending_at=x%20y&bucket_width=1h&group_by[]=model&group_by[]=a%26b&limit=7",
            "/v1/organizations/cost_report?starting_at=2026-01-01",
            "/v1/organizations/usage_report/claude_code?starting_at=2026-01-01",
        ]
    );
    assert_eq!(asked[0].headers["x-api-key"], ADMIN_KEY);
    assert_eq!(asked[0].headers["anthropic-version"], "2023-06-01");
}

#[tokio::test]
async fn mx_u4_costs_are_in_dollars_and_others_are_left() {
    let report = json!({"data": [{"amount": "12.5", "currency": "USD"}]});
    let bench = Bench::start(Reply::json(200, &report)).await;
    let cost = bench.say("anthropic_usage", json!({"action": "cost", "starting_at": "x"})).await;
    assert!(cost.contains("\"amount_usd\": 0.12") && !cost.contains("\"amount\""), "{cost}");
    let usage = bench.say("anthropic_usage", json!({"action": "usage", "starting_at": "x"})).await;
    assert!(usage.contains("\"amount\": \"12.5\""), "{usage}");
}

#[tokio::test]
async fn mx_u5_failures_have_their_texts_without_the_key() {
    let bench =
        Bench::start(Reply::json(401, &json!({"error": format!("bad key {ADMIN_KEY}")}))).await;
    let text = bench.fail("anthropic_usage", json!({"action": "spend", "starting_at": "x"})).await;
    assert!(text.contains("usage, cost, claude_code"), "{text}");
    // Rule 18.
    let hourly = json!({"action": "cost", "starting_at": "x", "bucket_width": "1h"});
    assert!(bench.fail("anthropic_usage", hourly).await.contains("'1d'"));
    assert!(bench.server.asked().is_empty());

    // Rule 25.
    let text = bench.fail("anthropic_usage", json!({"action": "cost", "starting_at": "x"})).await;
    assert!(
        text.contains("HTTP 401") && text.contains("bad key") && !text.contains("canary"),
        "{text}"
    );
}

#[test]
fn mx_r5_without_a_key_there_is_no_tool() {
    for key in [None, Some(String::new())] {
        let environment = move |_: &str| key.clone();
        let places = CredentialPlaces { environment: Some(Arc::new(environment)), vault: None };
        let registry = Registry::new();
        let settings = AnthropicUsageSettings::default();
        assert!(!anthropic_usage::register(&registry, &settings, &places).expect("no name"));
        assert!(registry.snapshot().tools().is_empty());
    }
}
