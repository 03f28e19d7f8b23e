//! The program under test, and one call of one of its tools.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_testkit::process::{Launch, Service};

use crate::upstream::KEY;

/// Within this everything is there that should be.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A running `openrouter-mcp`.
pub(crate) struct Program {
    pub(crate) service: Service,
    client: Client,
}

/// An MCP client of it.
#[derive(Clone)]
pub(crate) struct Client {
    /// Where it serves MCP, without a path.
    pub(crate) url: String,
    http: reqwest::Client,
}

impl std::ops::Deref for Program {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

/// How a call ended.
#[derive(Debug, PartialEq)]
pub(crate) struct Ended {
    pub(crate) is_error: bool,
    pub(crate) text: String,
    /// The code, the HTTP status and the wait of an error.
    pub(crate) error: Value,
}

/// It, asking at `upstream`, without a key.
pub(crate) fn keyless(upstream: &str) -> Launch {
    Launch::new("openrouter-mcp")
        .args(["--listen", "127.0.0.1:0"])
        .env("OpenRouter__BaseUrl", upstream)
        .env("TOOLBUS_LOG", "trace")
        .env("NO_PROXY", "127.0.0.1")
}

/// It, asking at `upstream`, with the key.
pub(crate) fn with_key(upstream: &str) -> Launch {
    keyless(upstream).env("OPENROUTER_API_KEY", KEY)
}

impl Program {
    /// Starts it and waits until it is ready.
    pub(crate) async fn start(launch: Launch) -> Self {
        let mut service = launch.start().unwrap();
        service.ready(LIMIT).await.unwrap();
        let (_, status) = service.look("/status").await.unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        let url = format!("http://{}", status["details"]["mcp"].as_str().unwrap());
        toolbus_runtime::tls::install();
        let http = toolbus_testkit::http_client_builder().timeout(LIMIT).build().unwrap();
        Self { service, client: Client { url, http } }
    }

    /// A client that does not need the program itself.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    /// Everything that it wrote so far.
    pub(crate) fn written(&mut self) -> String {
        let process = self.service.process();
        process.stdout() + &process.stderr()
    }
}

impl Client {
    /// Sends one JSON-RPC request to a path; the status and the body of the answer.
    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> (u16, String) {
        let mut request = self
            .http
            .post(format!("{}{path}", self.url))
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = request.body(body.to_string()).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// The status and the body of a GET.
    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        let answer = self.http.get(format!("{}{path}", self.url)).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Ended {
        let headers = [("mcp-protocol-version", "2025-11-25")];
        let (status, body) = self.post("/mcp", &headers, &request(tool, arguments)).await;
        assert_eq!(status, 200, "{body}");
        Ended::read(&serde_json::from_str::<Value>(&body).unwrap()["result"])
    }
}

/// A call of a tool as JSON-RPC.
pub(crate) fn request(tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

impl Ended {
    /// Reads a tool's result.
    pub(crate) fn read(result: &Value) -> Self {
        let content = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
        assert_eq!(content.len(), 1, "{result}");
        Self {
            is_error: result["isError"] == true,
            text: content[0]["text"].as_str().unwrap().to_owned(),
            error: result["structuredContent"]["error"].clone(),
        }
    }

    /// A success with this text.
    pub(crate) fn success(text: &str) -> Self {
        Self { is_error: false, text: text.to_owned(), error: Value::Null }
    }
}
