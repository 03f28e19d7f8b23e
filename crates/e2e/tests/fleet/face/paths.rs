//! What is at which path, for clients that make their own of it and for people without any.

use super::faithful::RawClient;
use super::*;

struct Answer {
    status: u16,
    kind: String,
    text: String,
}

impl Host {
    /// The address without a path.
    fn root(&self) -> &str {
        self.url.strip_suffix("/mcp").unwrap()
    }

    async fn send(&self, request: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let (method, path) = request.split_once(' ').unwrap();
        let http = toolbus_testkit::http_client_builder().timeout(LIMIT).build().unwrap();
        let url = format!("{}{path}", self.root());
        let mut request = http.request(method.parse().unwrap(), url).body(body.to_owned());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }

        let answer = request.send().await.unwrap();
        let kind = answer.headers().get("content-type");
        let kind = kind.map_or("", |kind| kind.to_str().unwrap()).to_owned();
        Answer { status: answer.status().as_u16(), kind, text: answer.text().await.unwrap() }
    }
}

#[tokio::test]
async fn a_server_is_reached_by_a_path_that_ends_in_mcp() {
    let Some((host, servers)) = Host::start().await else { return };
    let at = |what: Value| {
        let mut step = what;
        step["url"] = format!("{}/marks/mcp", host.root()).into();
        step
    };
    for (era, protocol) in ERAS {
        let call = json!({"do": "call", "tool": "mark", "arguments": {}});
        let [listed, called] = host.does(era, [at(json!({"do": "list"})), at(call)]).await;
        assert_eq!(
            (names(&listed), &listed["protocol"]),
            (vec!["mark", "wait", "die"], &json!(protocol))
        );
        assert_eq!(called["content"], json!([{"type": "text", "text": "mark: done"}]));
    }
    assert_eq!(servers.marks(), ["mark", "mark"]);

    // With all that a client is told at the other.
    let url = |path: &str| format!("{}{path}", host.root());
    let one = RawClient::connect(url("/everything/mcp")).await.introduction;
    let other = RawClient::connect(url("/mcp/everything")).await.introduction;
    assert!(one["instructions"].is_string(), "{one}");
    assert_eq!(one, other);
}

#[tokio::test]
async fn clients_are_told_how_the_agents_tools_are_found() {
    let Some((host, _servers)) = Host::start().await else { return };
    let told = RawClient::connect(host.url.clone()).await.introduction;
    let told = told["instructions"].as_str().unwrap_or_else(|| panic!("{told}"));
    assert!(
        told.starts_with("These are the tools of the agent RockBot, run by Toolbus."),
        "{told}"
    );
    for part in ["scripts", "get_tool_guide", "tool_search", "mcp_invoke_tool"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(told.len() < 2_000, "{told}");
}

#[tokio::test]
async fn people_are_shown_where_clients_connect() {
    let Some((host, _servers)) = Host::start().await else { return };
    let page = host.send("GET /", &[], "").await;
    assert_eq!((page.status, &*page.kind), (200, "text/plain; charset=utf-8"));
    for path in ["  /mcp  ", "  /mcp/everything  ", "  /mcp/marks  "] {
        assert!(page.text.contains(path), "{path}: {}", page.text);
    }
    let page = host.send("GET /", &[("accept", "text/html")], "").await;
    assert!(page.kind.starts_with("text/html") && page.text.contains("/mcp/everything"));
    let head = host.send("HEAD /", &[], "").await;
    assert_eq!((head.status, &*head.text), (200, ""));
    let stranger = host.send("GET /", &[("host", "evil.example.com")], "").await;
    assert!(stranger.status == 403 && !stranger.text.contains("everything"), "{}", stranger.text);

    let lost = host.send("GET /sse", &[], "").await;
    assert!(lost.status == 404 && lost.text.contains("GET / lists"), "{}", lost.text);
}

#[tokio::test]
async fn bodies_that_are_no_messages_are_told_in_json_rpc() {
    let Some((host, _servers)) = Host::start().await else { return };
    let headers =
        [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    for path in ["/mcp", "/mcp/everything", "/everything/mcp"] {
        for (body, code) in [("{\"jsonrpc\": ", -32700), ("[1]", -32600)] {
            let told = host.send(&format!("POST {path}"), &headers, body).await;
            assert_eq!((told.status, &*told.kind), (400, "application/json"), "{}", told.text);
            let error: Value = serde_json::from_str(&told.text).unwrap();
            assert_eq!((&error["error"]["code"], &error["id"]), (&json!(code), &Value::Null));
        }
    }
}

/// Null for what is not given is how some models write it.
#[tokio::test]
async fn null_is_an_argument_that_is_not_given() {
    let Some((host, _servers)) = Host::start().await else { return };
    let script = json!({"script": "print(6 * 7)", "timeout_seconds": null, "input_files": null});
    let details = json!({"server_name": "marks", "tool_name": null});
    for (era, _) in ERAS {
        let [ran, told] = host
            .does(
                era,
                [
                    host.call("", "execute_python_script", script.clone()),
                    host.call("", "mcp_get_service_details", details.clone()),
                ],
            )
            .await;
        assert_eq!(ran["content"], json!([{"type": "text", "text": "42\n"}]), "{era}");
        assert!(told["content"].to_string().contains("Leaves a mark."), "{era}: {told}");
    }
}
