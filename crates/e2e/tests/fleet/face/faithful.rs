//! A client behind the fleet sees a server as one that is connected to it: member by member, and
//! digit by digit.

use toolbus_wire::json::RawJson;

use super::*;

/// A client that reads nothing into types. It has a session of 2025-11-25.
pub(super) struct RawClient {
    http: reqwest::Client,
    url: String,
    session: String,
    requests: u32,
    /// What the server said of itself in the handshake.
    pub(super) introduction: Value,
}

impl RawClient {
    pub(super) async fn connect(url: String) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = toolbus_testkit::http_client_builder().timeout(LIMIT).build().unwrap();
        let mut client =
            Self { http, url, session: String::new(), requests: 0, introduction: Value::Null };
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {"form": {}, "url": {}}, "sampling": {}},
            "clientInfo": {"name": "raw", "version": "1"},
        });
        let response = client.post("initialize", &hello.to_string()).await;
        client.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let text = response.text().await.unwrap();
        let hello: Value = serde_json::from_str(Self::result_in(&text).unwrap().text()).unwrap();
        client.introduction =
            json!({"serverInfo": hello["serverInfo"], "instructions": hello["instructions"]});
        let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
        client.send(initialized.to_owned()).await;
        client
    }

    async fn send(&self, body: String) -> reqwest::Response {
        let request = self
            .http
            .post(&self.url)
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json")
            .header("mcp-protocol-version", "2025-11-25");
        let request = match &*self.session {
            "" => request,
            session => request.header("mcp-session-id", session),
        };
        request.body(body).send().await.unwrap()
    }

    async fn post(&mut self, method: &str, params: &str) -> reqwest::Response {
        self.requests += 1;
        let id = self.requests;
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        self.send(body).await
    }

    /// What the server answers: the text of its result, or of its error.
    async fn ask(&mut self, method: &str, params: &str) -> String {
        let response = self.post(method, params).await;
        let text = response.text().await.unwrap();
        let mut errors = Self::messages_in(&text);
        let error =
            || errors.find_map(|message| Some(format!("error {}", message.member("error")?)));
        let result = Self::result_in(&text).map(|result| result.to_string());
        result.or_else(error).unwrap_or_else(|| panic!("{method} {params}: {text}"))
    }

    fn messages_in(body: &str) -> impl Iterator<Item = RawJson> {
        let events = body.lines().filter_map(|line| line.strip_prefix("data: "));
        let whole = body.starts_with('{').then_some(body);
        events.chain(whole).filter_map(|message| RawJson::parse(message.to_owned()).ok())
    }

    fn result_in(body: &str) -> Option<RawJson> {
        Self::messages_in(body).find_map(|message| message.member("result"))
    }

    pub(super) async fn value(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.ask(method, &params.to_string()).await;
        serde_json::from_str(&answer).unwrap_or_else(|_| Value::from(answer))
    }
}

/// The arguments that each tool of `server-everything` is called with. A tool that is not here
/// fails the test: it is new.
fn arguments_of(tool: &str) -> Option<Value> {
    Some(match tool {
        "echo" => json!({"message": "hi"}),
        "get-annotated-message" => json!({"messageType": "error", "includeImage": true}),
        "get-resource-links" => json!({"count": 3}),
        "get-resource-reference" => json!({"resourceType": "Text", "resourceId": 1}),
        "get-structured-content" => json!({"location": "Chicago"}),
        "get-sum" => json!({"a": 1, "b": 2}),
        "get-tiny-image" | "get-env" => json!({}),
        "gzip-file-as-resource" => json!({
            "name": "x.gz", "data": "data:text/plain;base64,aGk=", "outputType": "resource",
        }),
        "trigger-long-running-operation" => json!({"duration": 1, "steps": 2}),
        // They change what later calls see, in one session and not in the other.
        "toggle-simulated-logging" | "toggle-subscriber-updates" => return None,
        // Their servers ask for a task, or their client for input.
        "simulate-research-query" => return None,
        tool if tool.starts_with("trigger-") => return None,
        other => panic!("what are the arguments of {other}?"),
    })
}

/// Without what is the moment's or the connection's, which nobody could repeat.
fn repeatable(mut value: Value) -> Value {
    if let Some(content) = value.get_mut("content").and_then(Value::as_array_mut) {
        content.retain(|block| {
            let text = block["text"].as_str().unwrap_or_default();
            !text.contains("created at") && !text.contains("Resource 1")
        });
        // A resource within a result says when it was made, to the second.
        for block in content {
            if let Some(Value::String(text)) = block.pointer_mut("/resource/text") {
                text.truncate(text.find("created at").unwrap_or(text.len()));
            }
        }
    }
    value
}

#[tokio::test]
async fn a_server_is_the_same_behind_the_fleet_and_by_itself() {
    let (Some(kit), Some(everything)) = (servers::time(), servers::everything_http().await) else {
        return;
    };
    let servers = Servers::with(&[("everything", everything.to_json())]);
    let launch = Launch::new("agent-host").arg("--mcp-config").arg(servers.file());
    let host = Host::serve(launch, kit.command, None).await;
    host.wait_for(&["everything"]).await;
    check_same(&everything.url(), &host).await;
}

#[tokio::test]
async fn a_server_is_the_same_behind_a_broker() {
    let Some(everything) = servers::everything_http().await else { return };
    let servers = Servers::with(&[("everything", everything.to_json())]);
    let Some(host) = Host::with_servers(&servers, &["everything"]).await else { return };
    check_same(&everything.url(), &host).await;
}

/// Everything that can be had of `server-everything` is the same directly and behind a host.
async fn check_same(everything: &str, host: &Host) {
    let mut direct = RawClient::connect(everything.to_owned()).await;
    let mut behind = RawClient::connect(format!("{}/everything", host.url)).await;
    assert!(direct.introduction["instructions"].is_string(), "{}", direct.introduction);
    assert_eq!(behind.introduction, direct.introduction);
    let mut same = async |method: &str, params: Value| {
        let expected = direct.value(method, &params).await;
        let told = behind.value(method, &params).await;
        let (told, expected) = (repeatable(told), repeatable(expected));
        assert_eq!(told, expected, "{method} {params}");
        expected
    };

    for method in ["resources/list", "resources/templates/list", "prompts/list"] {
        same(method, json!({})).await;
    }
    let tools = same("tools/list", json!({})).await;
    let tools = tools["tools"].as_array().unwrap();
    assert!(tools.iter().any(|tool| tool.get("execution").is_some()), "{tools:?}");
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap());
    let calls = names.filter_map(|name| Some((name, arguments_of(name)?)));
    let calls: Vec<_> = calls.collect();
    assert!(calls.len() > 8, "{calls:?}");
    for (name, arguments) in calls {
        same("tools/call", json!({"name": name, "arguments": arguments})).await;
    }

    let wrong = json!({"name": "get-sum", "arguments": {"a": "one"}});
    same("tools/call", wrong).await;
    for uri in ["demo://resource/static/document/architecture.md", "demo://nothing"] {
        same("resources/read", json!({"uri": uri})).await;
    }
    for (name, arguments) in [
        ("simple-prompt", json!({})),
        ("args-prompt", json!({"city": "Chicago", "state": "Illinois"})),
        ("nothing", json!({})),
    ] {
        same("prompts/get", json!({"name": name, "arguments": arguments})).await;
    }
}
