//! The broker dies and comes back: nothing that it had confirmed is lost, and every process finds
//! its way back by itself.

use anyhow::ensure;
use serde_json::{Value, json};
use toolbus_testkit::process::Service;
use toolbus_testkit::{eventually, rabbit};

use crate::support::*;

async fn is_ready(service: &Service, ready: bool) -> Value {
    let expected = if ready { 200 } else { 503 };
    eventually(LIMIT, async || {
        let (status, body) = service.look("/readyz").await?;
        ensure!(status == expected, "{status}: {body}");
        Ok(serde_json::from_str(&body)?)
    })
    .await
}

#[tokio::test]
async fn every_process_and_every_call_lives_through_a_crash() {
    let Some(mut node) = rabbit::node().await else { return };
    let vhost = node.vhost().await.unwrap();
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let (bridge, manager, serve) = tokio::join!(bridge(&bus, &servers), scripts(&bus), serve(&bus));
    let stranger = Stranger::new(&vhost, &[]).await;

    let arguments = json!({"server_name": "marks", "tool_name": "wait"});
    let running = invocation(&bus, "mcp_invoke_tool", &arguments).args(["--timeout", "10m"]);
    let running = running.run(2 * LIMIT);
    let crash = async {
        servers.wait_for_marks(&["wait"]).await;
        node.crash().await.unwrap();
        for service in [&bridge, &manager, &serve] {
            let report = is_ready(service, false).await;
            assert_eq!(report["components"]["bus"]["state"], "down", "{report}");
        }
        node.start_again().await.unwrap();
        for service in [&bridge, &manager, &serve] {
            is_ready(service, true).await;
        }
        servers.open_gate();
    };

    let (ended, ()) = tokio::join!(running, crash);
    assert_eq!(Outcome::of(ended.unwrap()).content(), "wait: done");
    assert_eq!(servers.marks(), ["wait"], "the call was redelivered, and ran once");

    // The next calls go through the processes that lived through it.
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    let arguments = json!({"script": "print('served')"});
    let served = Frame::tool("tool.invoke", "execute_python_script", &arguments);
    assert_eq!(stranger.ask(&served).await.body["content"], "served\n");
}

#[tokio::test]
async fn a_request_that_waits_is_answered_after_the_broker_comes_back() {
    let Some(mut node) = rabbit::node().await else { return };
    let vhost = node.vhost().await.unwrap();
    let bus = vhost.amqp_url();
    let mut manager = scripts(&bus).await;
    let stranger = Stranger::new(&vhost, &[]).await;
    let waiting = async |manager: &mut Service| {
        assert_eq!(manager.process().terminate(LIMIT).await.unwrap().code(), Some(0));
        let frame = Frame::script("print('waited')");
        stranger.send(&frame).await;
        frame
    };

    let answer = async |frame: Frame| {
        // A broker that crashes forgets what was taken out of a queue; answers come again then.
        loop {
            for answer in stranger.take(ANSWERS, 1).await {
                if answer.properties["correlation_id"] == frame.correlation_id() {
                    return Answer::of(&answer).body;
                }
            }
        }
    };

    let frame = waiting(&mut manager).await;
    node.restart().await.unwrap();
    let mut manager = scripts(&bus).await;
    assert_eq!(answer(frame).await["output"], "waited\n");

    let frame = waiting(&mut manager).await;
    node.crash().await.unwrap();
    node.start_again().await.unwrap();
    let _manager = scripts(&bus).await;
    let answer = answer(frame).await;
    // A broker that has crashed does not know any more which messages it had handed out, and calls
    // them all redelivered. Then nobody can tell that this one was not begun.
    let is_unknown = answer["reason"] == "outcome_unknown";
    assert!(is_unknown || answer["output"] == "waited\n", "{answer}");
}

#[tokio::test]
async fn what_was_announced_during_an_outage_is_known_after_it() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let (old, new) = (Servers::called("old", &[]), Servers::called("new", &[]));
    let mut first = bridge(&bus, &old).await;
    let mut agent = serve(&bus).await;
    let knows = async |agent: &Service, servers: Value| {
        eventually(LIMIT, async || {
            let status: Value = serde_json::from_str(&agent.look("/status").await?.1)?;
            ensure!(status["details"]["mcpServers"] == servers, "{status}");
            Ok(())
        })
        .await;
    };

    knows(&agent, json!(["old"])).await;

    // The agent hears nothing while it is stopped in its tracks and its queue is gone.
    agent.process().pause().unwrap();
    assert_eq!(first.process().terminate(LIMIT).await.unwrap().code(), Some(0));
    eventually(LIMIT, async || {
        vhost.close_connections().await?;
        let queues = vhost.queues().await?;
        let own = queues.iter().find(|queue| queue.name.starts_with("rockbot.inventory."));
        ensure!(own.is_none(), "{own:?}");
        anyhow::Ok(())
    })
    .await;
    let second = bridge(&bus, &new).await;
    eventually(LIMIT, async || {
        let (_, status) = second.look("/status").await?;
        ensure!(status.contains("\"connected\""), "{status}");
        Ok(())
    })
    .await;
    agent.process().resume().unwrap();

    // Nobody says any more that the old one is gone, so it is taken for away.
    eventually(2 * LIMIT, async || {
        let status: Value = serde_json::from_str(&agent.look("/status").await?.1)?;
        let details = &status["details"];
        ensure!(details["mcpServers"] == json!(["new"]), "{status}");
        ensure!(details["mcpServersAway"] == json!(["old"]), "{status}");
        Ok(())
    })
    .await;
}

/// While the broker is away nothing is said not to be there that is there before and after.
#[tokio::test]
async fn direct_tools_and_an_open_session_live_through_an_outage() {
    let Some(mut node) = rabbit::node().await else { return };
    let vhost = node.vhost().await.unwrap();
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let bridge = bridge(&bus, &servers).await;
    let host = launch("agent-host", &bus).env("TOOLBUS_DIRECT_TOOLS", "true");
    let host = start(host.args(["serve", "--mcp", "127.0.0.1:0"])).await;
    let url = mcp_url(&host, "mcpFace").await;
    eventually(LIMIT, async || {
        let (_, status) = host.look("/status").await?;
        ensure!(status.contains("\"marks\""), "{status}");
        Ok(())
    })
    .await;

    let own = Client::connect(&url).await;
    let before = eventually(LIMIT, async || {
        let names = own.tool_names().await;
        ensure!(names.iter().any(|name| name == "marks__mark"), "{names:?}");
        Ok(names)
    })
    .await;
    let at_server = Client::connect(&format!("{url}/marks")).await;
    assert_eq!(at_server.text_of("mark").await, "mark: done");

    node.crash().await.unwrap();
    is_ready(&host, false).await;
    assert_eq!(own.tool_names().await, before, "each is in its place while the broker is away");
    for (client, tool) in [(&own, "marks__mark"), (&at_server, "mark")] {
        let told = client.text_of(tool).await;
        assert!(told.starts_with("unroutable: "), "{tool}: {told}");
    }

    node.start_again().await.unwrap();
    is_ready(&bridge, true).await;
    is_ready(&host, true).await;
    for (client, tool) in [(&own, "marks__mark"), (&at_server, "mark")] {
        eventually(LIMIT, async || {
            let told = client.text_of(tool).await;
            ensure!(told == "mark: done", "{tool}: {told}");
            Ok(())
        })
        .await;
    }
    assert_eq!(own.tool_names().await, before, "each is in its place afterwards");
}

/// A client of the older era of the protocol, which has a session from its handshake on. Every
/// request of it must be answered with 200: a session that is lost is 404.
struct Client {
    http: reqwest::Client,
    url: String,
    session: String,
}

impl Client {
    async fn connect(url: &str) -> Self {
        // Being second is no error: any provider will do for a client that speaks no TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = toolbus_testkit::http_client_builder().build().unwrap();
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let mut client = Self { http, url: url.to_owned(), session: String::new() };
        let answer = client.post("initialize", Some(1), params).await;
        client.session = answer.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        client.post("notifications/initialized", None, json!({})).await;
        client
    }

    async fn post(&self, method: &str, id: Option<u32>, params: Value) -> reqwest::Response {
        let mut message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        if let Some(id) = id {
            message["id"] = json!(id);
        }

        let mut request = self
            .http
            .post(&self.url)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(message.to_string());
        if !self.session.is_empty() {
            request = request.header("mcp-session-id", &self.session);
        }
        let answer = request.timeout(LIMIT).send().await.unwrap();
        assert!(answer.status().is_success(), "{method} at {}: {}", self.url, answer.status());
        answer
    }

    async fn ask(&self, method: &str, params: Value) -> Value {
        let text = self.post(method, Some(1), params).await.text().await.unwrap();
        let lines = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        messages.find(|message| message["id"] == 1).unwrap_or_else(|| panic!("{text}"))
    }

    async fn tool_names(&self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({})).await;
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The text that a call ends with, be it an error.
    async fn text_of(&self, tool: &str) -> String {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": {}})).await;
        let text = answer["result"]["content"][0]["text"].as_str();
        text.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }
}
