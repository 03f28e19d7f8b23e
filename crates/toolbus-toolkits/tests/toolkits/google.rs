//! Gmail and Calendar, from a server that checks each request against what Google publishes of its
//! APIs.

mod calendar;
mod gmail;
mod hostile;
mod oauth;

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use toolbus_testkit::google::{
    Answer, CLIENT_ID, CLIENT_SECRET, Google as Server, TOKEN_MARK, api_error,
};
use toolbus_testkit::scripted_server::Asked;
use toolbus_toolkits::CredentialPlaces;
use toolbus_toolkits::GoogleSettings;
use toolbus_toolkits::google::{self, Error, Google, GoogleDeps, Product};
use toolbus_tools::call::Output;
use toolbus_tools::tool::Risk;
use toolbus_tools::{Invoker, Registry};

use crate::guides::examples;
use crate::support::{Vault, call};

/// Half past eleven at night in London, and the next day in Berlin.
const NOW: &str = "2026-03-01T23:30:00Z";

/// A server, and the tools at it.
struct Bench {
    server: Server,
    vault: Arc<Vault>,
    invoker: Invoker,
}

impl Bench {
    /// With a person who has logged in for both products. `None` skips the test.
    async fn start(api: impl FnMut(&str, &Asked) -> Answer + Send + 'static) -> Option<Self> {
        Self::start_with(api, |_| {}).await
    }

    async fn start_with(
        api: impl FnMut(&str, &Asked) -> Answer + Send + 'static,
        change: impl FnOnce(&mut GoogleSettings),
    ) -> Option<Self> {
        let server = Server::start(api).await?;
        let vault = Arc::new(Vault::default());
        for product in Product::ALL {
            let token = server.new_refresh_token(product.scopes());
            vault.set("google", product.token_name(), &token);
        }

        let mut settings = settings(&server);
        change(&mut settings);
        let google = Google::new(&settings, deps(&vault)).expect("a client");
        let registry = Registry::new();
        google::register(&registry, google).expect("names");
        let invoker = Invoker::builder(Arc::new(registry)).build();
        Some(Self { server, vault, invoker })
    }

    async fn output(&self, tool: &str, arguments: Value) -> Output {
        let outcome = call(&self.invoker, tool, arguments).await;
        let output = outcome.unwrap_or_else(|error| panic!("{tool}: {error}"));
        let text = output.content.as_deref().expect("a text");
        for secret in [TOKEN_MARK, CLIENT_SECRET] {
            assert!(!text.contains(secret), "{text}");
        }
        output
    }

    async fn say(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        self.server.assert_valid();
        assert!(!output.is_error, "{:?}", output.content);
        output.content.expect("a text")
    }

    /// What a tool says that fails, after the words that each begins with.
    async fn fail(&self, tool: &str, arguments: Value) -> String {
        let output = self.output(tool, arguments).await;
        assert!(output.is_error, "{:?}", output.content);
        let text = output.content.expect("a text");
        let message = text.strip_prefix(&format!("Error in {tool}: "));
        message.unwrap_or_else(|| panic!("{text}")).to_owned()
    }
}

fn settings(server: &Server) -> GoogleSettings {
    let url = |path: &str| Some(format!("{}{path}", server.url()).parse().expect("a URL"));
    GoogleSettings {
        client_id: Some(CLIENT_ID.to_owned().into()),
        client_secret: Some("${vault:CLIENT_SECRET}".to_owned().into()),
        gmail_url: url(""),
        calendar_url: url(""),
        authorize_url: url("/oauth/authorize"),
        token_url: url("/oauth/token"),
        device_url: url("/oauth/device"),
        revoke_url: url("/oauth/revoke"),
        ..GoogleSettings::default()
    }
}

fn deps(vault: &Arc<Vault>) -> GoogleDeps {
    vault.set("google", "CLIENT_SECRET", CLIENT_SECRET);
    GoogleDeps {
        credentials: CredentialPlaces { environment: None, vault: Some(vault.clone()) },
        clock: Arc::new(|| NOW.parse::<Timestamp>().expect("a time")),
        ..GoogleDeps::default()
    }
}

/// An API that is not to be asked.
fn silent(method: &str, _: &Asked) -> Answer {
    panic!("{method} is asked")
}

/// The query of a request.
fn query_of(asked: &Asked) -> Map<String, Value> {
    let query = asked.path.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let url = reqwest::Url::parse(&format!("http://x/?{query}")).expect("a URL");
    let mut pairs = Map::new();
    for (name, value) in url.query_pairs() {
        let value = Value::from(value.into_owned());
        match pairs.get_mut(&*name) {
            None => {
                pairs.insert(name.into_owned(), value);
            }
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = json!([first.take(), value]),
        }
    }
    pairs
}

#[tokio::test]
async fn mx_r3_and_mx_r5_tools_need_both_the_id_and_the_secret() {
    let key = |text: &str| Some(text.to_owned().into());
    let environment = |id: &'static str, secret: &'static str| {
        let find = move |name: &str| match name {
            "GOOGLE_CLIENT_ID" => Some(id.to_owned()),
            "GOOGLE_CLIENT_SECRET" => Some(secret.to_owned()),
            _ => None,
        };
        CredentialPlaces { environment: Some(Arc::new(find)), vault: None }
    };
    let open = |settings: &GoogleSettings, credentials| {
        Google::new(settings, GoogleDeps { credentials, ..GoogleDeps::default() })
    };
    let lacks = |settings: &GoogleSettings, credentials, expected: &str| {
        let Err(Error::NoClient { setting, .. }) = open(settings, credentials) else {
            panic!("there are tools");
        };
        assert_eq!(setting, expected);
    };

    let unset = GoogleSettings::default();
    lacks(&unset, environment("", ""), "google.client_id");
    lacks(&unset, environment("id", ""), "google.client_secret");
    lacks(&unset, environment("id", "  "), "google.client_secret");
    lacks(&unset, environment("", "secret"), "google.client_id");
    let empty = GoogleSettings { client_id: key(""), client_secret: key("x"), ..unset.clone() };
    lacks(&empty, environment("", ""), "google.client_id");

    let written = GoogleSettings { client_id: key("a"), client_secret: key("b"), ..unset.clone() };
    for (settings, environment) in
        [(&unset, environment("id", "secret")), (&written, environment("", ""))]
    {
        let registry = Registry::new();
        let google = open(settings, environment).expect("both are there");
        google::register(&registry, google).expect("names");
        let snapshot = registry.snapshot();
        let risks =
            snapshot.tools().iter().map(|entry| (&*entry.tool.name, entry.tool.risk_at_gates()));
        let mut risks: Vec<_> = risks.collect();
        risks.sort_by_key(|(name, _)| *name);
        let expected = [
            ("calendar_create_event", Risk::High),
            ("calendar_get_event", Risk::Low),
            ("calendar_list_events", Risk::Low),
            ("gmail_read", Risk::Low),
            ("gmail_search", Risk::Low),
            ("gmail_send", Risk::High),
        ];
        assert_eq!(risks, expected);
    }
}

#[tokio::test]
async fn rule_25_neither_errors_nor_debug_texts_hold_a_secret() {
    // The server repeats what it was sent.
    let api = |_: &str, asked: &Asked| {
        let sent = &asked.headers["authorization"];
        Answer::Reply(api_error(403, &format!("{sent} and {CLIENT_SECRET}")))
    };
    let Some(bench) = Bench::start(api).await else { return };
    assert!(!format!("{:?}", settings(&bench.server)).contains("canary-client-id"));
    let text = bench.fail("gmail_read", json!({"messageId": "1"})).await;
    assert_eq!(text, "HTTP 403 from Google: Bearer *** and ***");
    bench.server.refuse_access_tokens();
    bench.fail("gmail_read", json!({"messageId": "1"})).await;
    bench.vault.set("google", "GMAIL_TOKEN", "canary-token-unknown");
    let text = bench.fail("gmail_read", json!({"messageId": "1"})).await;
    assert!(text.contains("agent-host login google"), "{text}");
}

#[tokio::test]
async fn every_example_of_the_guide_can_be_called() {
    let api = |method: &str, _: &Asked| {
        Answer::Json(match method {
            "gmail.users.messages.get" | "gmail.users.messages.send" => json!({"id": "m1"}),
            "calendar.events.insert" | "calendar.events.get" => json!({"id": "e1"}),
            _ => json!({}),
        })
    };
    let Some(bench) = Bench::start(api).await else { return };
    let guide = google::guide();
    assert!(guide.document.len() < 2_500);
    let mut names = Vec::new();
    for line in guide.document.lines() {
        let Some((tool, arguments)) = line.split_once(" {") else { continue };
        let arguments = serde_json::from_str(&format!("{{{arguments}")).expect(line);
        bench.say(tool, arguments).await;
        names.push(tool);
    }
    assert_eq!(names, Product::ALL.map(Product::tools).concat());
}

#[tokio::test]
async fn every_call_of_the_guide_gives_a_result() {
    let api = |_: &str, asked: &Asked| {
        Answer::Json(match asked.path.split('?').next().unwrap_or_default() {
            path if path.ends_with("/messages") => json!({"messages": []}),
            path if path.ends_with("/events") && asked.method == "GET" => json!({"items": []}),
            _ => json!({"id": "one"}),
        })
    };
    let Some(bench) = Bench::start(api).await else { return };
    let examples = examples(&google::guide().document);
    let called: Vec<_> = examples.iter().map(|(tool, _)| tool.clone()).collect();
    let registered = bench.invoker.registry().snapshot();
    let registered: Vec<_> =
        registered.tools().iter().map(|entry| entry.tool.name.clone()).collect();
    assert_eq!(called, registered);
    for (tool, arguments) in examples {
        bench.say(&tool, arguments).await;
    }
}
