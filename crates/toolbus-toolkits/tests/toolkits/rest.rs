//! REST endpoints, from a server on loopback.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_testkit::scripted_server::{Asked, Part, Reply, Server};
use toolbus_toolkits::CredentialPlaces;
use toolbus_toolkits::rest::openapi::import;
use toolbus_toolkits::rest::{
    self, AuthType, OpenApiDocument, Rest, RestDeps, RestEndpoint, RestMethod, RestSettings,
};
use toolbus_tools::call::{Outcome, Output};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Invoker, Registry};
use toolbus_wire::{ErrorCode, Execution};

use crate::support::{Vault, call};

const TOKEN: &str = "canary-token-of-an-endpoint";

struct RestBench {
    server: Server,
    invoker: Invoker,
    vault: Arc<Vault>,
}

fn endpoint(method: RestMethod, url_template: &str) -> RestEndpoint {
    RestEndpoint {
        name: "call".to_owned(),
        description: "Calls.".to_owned(),
        url_template: url_template.into(),
        method,
        parameters_schema: Some(json!({"type": "object"}).to_string()),
        internal: true,
        ..RestEndpoint::default()
    }
}

impl RestBench {
    /// `BASE` in an address stands for the server.
    async fn start(
        answer: impl FnMut(&Asked) -> Reply + Send + 'static,
        endpoints: Vec<RestEndpoint>,
    ) -> Self {
        let server = Server::answering_any(answer).await;
        let base = server.url.strip_suffix("/v1").expect("it ends so").to_owned();
        let endpoints = endpoints.into_iter().map(|endpoint| RestEndpoint {
            url_template: endpoint.url_template.expose().replace("BASE", &base).into(),
            origin: endpoint.origin.map(|_| base.clone()),
            ..endpoint
        });
        let timeout = "1s".parse().expect("a time");
        let settings =
            RestSettings { endpoints: endpoints.collect(), timeout, ..RestSettings::default() };

        let vault = Arc::new(Vault::default());
        let environment = |name: &str| match name {
            "TOKEN" => Some(TOKEN.to_owned()),
            "BROKEN" => Some("canary\r\nX-Evil: 1".to_owned()),
            _ => None,
        };
        let credentials = CredentialPlaces {
            environment: Some(Arc::new(environment)),
            vault: Some(vault.clone()),
        };
        let deps = RestDeps { credentials, ..RestDeps::default() };
        let registry = Registry::new();
        let rest = Rest::new(&settings, deps).expect("they can be used");
        rest::register(&registry, rest).expect("names");
        Self { server, invoker: Invoker::builder(Arc::new(registry)).build(), vault }
    }

    async fn one(reply: Reply, endpoint: RestEndpoint) -> Self {
        Self::start(move |_| reply.clone(), vec![endpoint]).await
    }

    async fn outcome(&self, arguments: Value) -> Outcome {
        call(&self.invoker, "call", arguments).await
    }

    async fn output(&self, arguments: Value) -> Output {
        self.outcome(arguments).await.expect("an output")
    }
}

fn ok() -> Reply {
    Reply::json(200, &json!({"ok": true}))
}

#[tokio::test]
async fn an_endpoint_of_the_specification_is_called() {
    let written = json!({
        "Name": "call",
        "Description": "Get current weather for a city",
        "UrlTemplate": "BASE/v1/current?city={city}",
        "Method": "GET",
        "ParametersSchema": "{ \"type\": \"object\", \"properties\": { \"city\": { \"type\": \"string\" } } }",
        "AuthType": "api_key",
        "AuthEnvVar": "TOKEN",
        "ApiKeyHeader": "X-Weather",
        "internal": true
    });
    let endpoint: RestEndpoint = serde_json::from_value(written).expect("it is read");
    let bench = RestBench::one(ok(), endpoint).await;
    let output = bench.output(json!({"city": "New York"})).await;
    assert_eq!((output.content.as_deref(), output.is_error), (Some("{\"ok\":true}"), false));
    let asked = bench.server.only_request();
    assert_eq!(asked.path, "/v1/current?city=New%20York");
    assert_eq!(asked.headers["x-weather"], TOKEN);
    assert!(!asked.headers.contains_key("authorization"));
}

#[tokio::test]
async fn arguments_cannot_leave_their_place() {
    let bench = RestBench::one(ok(), endpoint(RestMethod::Get, "BASE/users/{id}/x?k=own")).await;
    for id in ["../../admin", "a?k=evil", "a#b", "a\r\nX: y", "%2e%2e"] {
        assert!(!bench.output(json!({"id": id})).await.is_error);
    }
    for asked in bench.server.asked() {
        assert!(asked.path.starts_with("/users/") && asked.path.ends_with("/x?k=own"), "{asked:?}");
        assert!(!asked.headers.contains_key("x"));
    }
    let error = bench.outcome(json!({"id": ".."})).await.expect_err("refused");
    assert_eq!(error.code, ErrorCode::InvalidArguments);
}

#[tokio::test]
async fn bodies_are_the_arguments_or_one_of_them() {
    let all = RestEndpoint { send_body_as_json: true, ..endpoint(RestMethod::Post, "BASE/{id}") };
    let bench = RestBench::one(ok(), all.clone()).await;
    bench.output(json!({"id": 7, "text": "x", "none": null})).await;
    // Null clears a member of a body, and is no argument of an address.
    let asked = bench.server.only_request();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/7"));
    assert_eq!(asked.headers["content-type"], "application/json");
    assert_eq!(asked.body, json!({"id": 7, "text": "x", "none": null}));
    bench.output(json!({"id": null})).await;
    assert_eq!(bench.server.asked()[1].path, "/%7Bid%7D");

    let one = RestEndpoint { body_argument: Some("body".to_owned()), ..all.clone() };
    let bench = RestBench::one(ok(), RestEndpoint { method: RestMethod::Patch, ..one }).await;
    bench.output(json!({"id": 7, "body": [1, 2]})).await;
    assert_eq!(bench.server.only_request().body, json!([1, 2]));

    // A request that reads has none, and neither has one that is not told to.
    for endpoint in [
        RestEndpoint { method: RestMethod::Get, ..all.clone() },
        RestEndpoint { method: RestMethod::Delete, ..all.clone() },
        RestEndpoint { send_body_as_json: false, ..all },
    ] {
        let bench = RestBench::one(ok(), endpoint).await;
        bench.output(json!({"id": 7})).await;
        assert_eq!(bench.server.only_request().body, Value::Null);
    }
}

#[tokio::test]
async fn other_statuses_are_errors_with_their_body() {
    for (reply, expected, is_error) in [
        (Reply::body(404, "text/plain", "no such user"), "HTTP 404: no such user", true),
        (Reply::empty(500), "HTTP 500", true),
        (Reply::empty(204).with_length(), "HTTP 204", false),
        (Reply::body(201, "text/plain; charset=latin1", b"caf\xe9".to_vec()), "café", false),
        (
            Reply::body(200, "image/png", "x"),
            "HTTP 200: the answer is image/png, which cannot be read as text",
            true,
        ),
    ] {
        let bench = RestBench::one(reply, endpoint(RestMethod::Get, "BASE/")).await;
        let output = bench.output(json!({})).await;
        assert_eq!((output.content.as_deref(), output.is_error), (Some(expected), is_error));
    }
}

#[tokio::test]
async fn what_a_caller_may_conclude_follows_the_method() {
    let slow = || ok().then(Part::Wait(Duration::from_secs(30)));
    let bench = RestBench::one(slow(), endpoint(RestMethod::Get, "BASE/")).await;
    let error = bench.outcome(json!({})).await.expect_err("slow");
    assert_eq!((error.code, error.is_retryable), (ErrorCode::Timeout, true));

    // It was answered: what it did is done.
    let bench = RestBench::one(slow(), endpoint(RestMethod::Post, "BASE/")).await;
    let output = bench.output(json!({})).await;
    assert!(output.is_error && output.content.expect("a text").contains("was answered"));

    let silent = Server::answering(|_| Reply::empty(200)).await;
    let url = silent.url.clone();
    let bench = RestBench::one(ok(), endpoint(RestMethod::Post, &url)).await;
    let error = bench.outcome(json!({})).await.expect_err("it hangs up");
    assert_eq!((error.code, error.is_retryable), (ErrorCode::OutcomeUnknown, false));

    let nobody = endpoint(RestMethod::Post, "http://127.0.0.1:1/");
    let error = RestBench::one(ok(), nobody).await.outcome(json!({})).await.expect_err("nobody");
    assert_eq!((error.code, error.execution), (ErrorCode::ExecutionFailed, Execution::NotStarted));
}

#[tokio::test]
async fn endpoints_that_are_not_internal_reach_the_public_internet_only() {
    let public = |url: &str| RestEndpoint { internal: false, ..endpoint(RestMethod::Get, url) };
    for url in ["BASE/", "http://localhost:1/", "http://169.254.169.254/", "http://10.0.0.1/{x}"] {
        let bench = RestBench::one(ok(), public(url)).await;
        let error = bench.outcome(json!({"x": "y"})).await.expect_err("refused");
        assert!(error.message.contains("not on the public Internet"), "{error}");
        assert_eq!(error.execution, Execution::NotStarted);
        assert!(bench.server.asked().is_empty());
    }
    // What an internal one redirects to is checked.
    let to_metadata = Reply::empty(302).header("location", "http://169.254.169.254/");
    let bench = RestBench::one(to_metadata, endpoint(RestMethod::Get, "BASE/")).await;
    assert!(bench.outcome(json!({})).await.is_err());
}

fn with_vault(method: RestMethod) -> RestEndpoint {
    RestEndpoint {
        auth_type: AuthType::Bearer,
        auth_credential: Some("${vault:token}".to_owned().into()),
        ..endpoint(method, "BASE/")
    }
}

#[tokio::test]
async fn a_token_that_is_refused_in_the_middle_is_read_anew() {
    let answer = |asked: &Asked| match asked.headers.get("authorization").map(String::as_str) {
        Some("Bearer second-token") => ok(),
        Some(said) => Reply::body(401, "text/plain", format!("'{said}' is no longer valid")),
        None => Reply::empty(403),
    };
    let bench = RestBench::start(answer, vec![with_vault(RestMethod::Get)]).await;
    let error = bench.outcome(json!({})).await.expect_err("there is none yet");
    assert_eq!((error.code, error.execution), (ErrorCode::AuthRequired, Execution::NotStarted));
    assert_eq!(error.message, "the vault has no token of rest:call");

    bench.vault.set("rest:call", "token", "first-token");
    let output = bench.output(json!({})).await;
    let text = output.content.expect("a text");
    assert!(
        output.is_error && text.starts_with("HTTP 401") && !text.contains("first-token"),
        "{text}"
    );

    bench.vault.set("rest:call", "token", "second-token");
    assert!(!bench.output(json!({})).await.is_error);
}

#[tokio::test]
async fn no_secret_is_in_a_result_an_error_or_a_definition() {
    let canary = |auth_type, variable: &str, method| RestEndpoint {
        auth_type,
        auth_env_var: Some(variable.to_owned()),
        ..endpoint(method, "BASE/")
    };
    let repeats = |asked: &Asked| {
        let headers = format!("{:?}", asked.headers);
        Reply::body(if asked.method == "GET" { 200 } else { 400 }, "text/plain", headers)
    };
    for method in [RestMethod::Get, RestMethod::Post] {
        for auth_type in [AuthType::Bearer, AuthType::ApiKey] {
            let bench = RestBench::start(repeats, vec![canary(auth_type, "TOKEN", method)]).await;
            let text = bench.output(json!({})).await.content.expect("a text");
            assert!(text.contains("user-agent") && !text.contains("canary"), "{text}");
            let tools = format!("{:?}", bench.invoker.registry().snapshot().tools()[0].tool);
            assert!(!tools.contains("canary"));
        }
    }

    // A credential with a line break would be another header.
    let bench =
        RestBench::start(repeats, vec![canary(AuthType::ApiKey, "BROKEN", RestMethod::Get)]).await;
    let error = bench.outcome(json!({})).await.expect_err("refused");
    assert_eq!(error.code, ErrorCode::AuthRequired);
    assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    assert!(bench.server.asked().is_empty());

    let settings = RestEndpoint {
        auth_credential: Some(TOKEN.to_owned().into()),
        ..canary(AuthType::Bearer, "TOKEN", RestMethod::Get)
    };
    let shown = format!("{settings:?} {}", serde_json::to_string(&settings).expect("JSON"));
    assert!(!shown.contains("canary"), "{shown}");
}

#[tokio::test]
async fn risks_follow_methods_unless_they_are_set() {
    let named = |name: &str, method, risk| RestEndpoint {
        name: name.to_owned(),
        risk,
        ..endpoint(method, "BASE/")
    };
    let endpoints = vec![
        named("get", RestMethod::Get, None),
        named("post", RestMethod::Post, None),
        named("delete", RestMethod::Delete, None),
        named("search", RestMethod::Post, Some(Risk::Low)),
        named("logout", RestMethod::Get, Some(Risk::Critical)),
    ];
    let bench = RestBench::start(|_| ok(), endpoints).await;
    let snapshot = bench.invoker.registry().snapshot();
    let risk = |name: &str| {
        let mut tools = snapshot.tools().iter();
        tools.find(|entry| entry.tool.name == name).expect("a tool").tool.risk
    };
    for (name, expected) in [
        ("get", Risk::Low),
        ("post", Risk::High),
        ("delete", Risk::High),
        ("search", Risk::Low),
        ("logout", Risk::Critical),
    ] {
        assert_eq!(risk(name), Some(expected), "{name}");
    }
}

#[tokio::test]
async fn answers_are_bounded() {
    let endless = || Reply::body(200, "text/plain", "x").then(Part::Forever(vec![b'x'; 10_000]));
    let bench = RestBench::one(endless(), endpoint(RestMethod::Get, "BASE/")).await;
    let error = bench.outcome(json!({})).await.expect_err("endless");
    assert!(error.message.contains("more than 2097152 bytes"), "{error}");
    let bench = RestBench::one(endless(), endpoint(RestMethod::Put, "BASE/")).await;
    let text = bench.output(json!({})).await.content.expect("a text");
    assert!(text.starts_with("HTTP 200: the request was answered"), "{text}");
}

#[tokio::test]
async fn an_imported_operation_can_be_called() {
    let document = json!({
        "openapi": "3.1.0", "servers": [{"url": "https://api.example/"}],
        "paths": {"/users/{id}": {"put": {
            "operationId": "call",
            "parameters": [
                {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
                {"name": "tag", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                {"name": "dry", "in": "query", "schema": {"type": "boolean"}}
            ],
            "requestBody": {"required": true, "content": {"application/json": {"schema": {
                "type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]
            }}}}
        }}}
    });
    let options = OpenApiDocument {
        server: Some("http://127.0.0.1:9".parse().expect("a URL")),
        auth_type: AuthType::Bearer,
        auth_credential: Some("${TOKEN}".to_owned().into()),
        internal: true,
        ..OpenApiDocument::default()
    };
    let mut endpoints = import(&document, &options).expect("it is imported");
    let template = endpoints[0].url_template.expose().replace("http://127.0.0.1:9", "BASE");
    endpoints[0].url_template = template.into();
    let bench = RestBench::start(|_| ok(), endpoints).await;

    let arguments = json!({"id": "a/b", "tag": ["x", "y z"], "body": {"name": "n"}});
    assert!(!bench.output(arguments).await.is_error);
    let asked = bench.server.only_request();
    assert_eq!(
        (asked.method.as_str(), asked.path.as_str()),
        ("PUT", "/users/a%2Fb?tag=x&tag=y%20z")
    );
    assert_eq!(asked.body, json!({"name": "n"}));
    assert_eq!(asked.headers["authorization"], format!("Bearer {TOKEN}"));

    for wrong in
        [json!({"id": "a"}), json!({"body": {"name": "n"}}), json!({"id": "a", "body": {}})]
    {
        let error = bench.outcome(wrong).await.expect_err("the schema refuses it");
        assert_eq!(error.code, ErrorCode::InvalidArguments);
    }
}

/// MX-R6: the first of two tools of one name stays.
#[tokio::test]
async fn an_endpoint_whose_name_is_taken_is_left_out() {
    let named = |name: &str, description: &str| RestEndpoint {
        name: name.to_owned(),
        description: description.to_owned(),
        ..endpoint(RestMethod::Get, "https://api.example/")
    };
    let registry = Registry::new();
    for (description, names) in [("first", &["a"][..]), ("second", &["a", "b"])] {
        let endpoints = names.iter().map(|name| named(name, description)).collect();
        let settings = RestSettings { endpoints, ..RestSettings::default() };
        let rest = Rest::new(&settings, RestDeps::default()).expect("they can be used");
        rest::register(&registry, rest).expect("there is room");
    }
    let snapshot = registry.snapshot();
    let told = snapshot.tools().iter().map(|entry| entry.tool.description.as_str());
    assert_eq!(told.collect::<Vec<_>>(), ["first", "second"]);
}
