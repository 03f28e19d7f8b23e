//! Tools by what they are for: from the command line, over HTTP, and for an MCP client.

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::eventually;
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::{Finished, Launch, Service};

use crate::support::*;

/// The token of a client that may give out keys.
const ADMIN: &str = "c4nary-of-an-admin";

/// A store of a test's own, and the time server.
struct DiscoveryBench {
    servers: Servers,
    store: TempDir,
}

impl DiscoveryBench {
    fn new() -> Option<Self> {
        let time = servers::time()?;
        let servers = Servers::with(&[("time", time.to_json())]);
        Some(Self { servers, store: tempfile::tempdir().unwrap() })
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        let store = format!("sqlite:{}", self.store.path().join("state.db").display());
        let launch = Launch::new("agent-host").args(arguments).env("TOOLBUS_STORE", store);
        launch.env("TOOLBUS_MCP__CONFIG", self.servers.file())
    }

    async fn run(&self, arguments: &[&str]) -> Finished {
        self.launch(arguments).run(LIMIT).await.unwrap()
    }
}

#[tokio::test]
async fn tools_are_searched_listed_and_called_from_the_command_line() {
    let Some(bench) = DiscoveryBench::new() else { return };
    let found = bench.run(&["search", "what", "time", "is", "it", "in", "a", "timezone"]).await;
    assert!(found.status.success(), "{found:?}");
    assert!(found.stdout.starts_with("1. time__"), "{found:?}");
    let found = bench.run(&["search", "convert a time", "--limit", "1", "--json"]).await;
    let json: Value = serde_json::from_str(&found.stdout).unwrap();
    assert_eq!(json["tools"][0]["name"], "time__convert_time");
    assert_eq!(
        (&json["tools"][0]["server"], &json["by_words_alone"]),
        (&json!("time"), &json!(true))
    );
    let none = bench.run(&["search", "zyzzyva"]).await;
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    for wrong in [&["search", "x", "--limit", "51"][..], &["search", "x", "--category", "y"]] {
        assert_eq!(bench.run(wrong).await.status.code(), Some(2), "{wrong:?}");
    }

    let listed = bench.run(&["discover", "time"]).await;
    assert_eq!(
        listed.stdout, "time (custom, 2 tools)\n  convert_time, get_current_time\n",
        "{listed:?}"
    );
    let arguments = json!({"timezone": "Europe/Berlin"}).to_string();
    let called = bench.run(&["exec", "time/get_current_time", &arguments]).await;
    assert!(called.status.success() && called.stdout.contains("Europe/Berlin"), "{called:?}");
    let unknown = bench.run(&["exec", "time/none", "{}"]).await;
    assert_eq!(unknown.status.code(), Some(1), "{unknown:?}");
}

/// It is told once as it happens, and by the outcome.
#[tokio::test]
async fn a_tool_of_a_server_that_is_not_connected_is_told_why() {
    let servers = Servers::with(&[("absent", json!({"command": "no-such-program"}))]);
    let bench = DiscoveryBench { servers, store: tempfile::tempdir().unwrap() };
    let away = bench.run(&["exec", "absent/any", "{}"]).await;
    let said = "tool_not_found: MCP server 'absent' is not connected: its command \"no-such-program\" \
                cannot be started";
    assert!(away.status.code() == Some(1) && away.stderr.contains(said), "{away:?}");
    assert_eq!(away.stderr.matches("cannot be started").count(), 2, "{away:?}");
}

#[tokio::test]
async fn an_mcp_client_searches_over_standard_input() {
    let Some(bench) = DiscoveryBench::new() else { return };
    let call = json!({"name": "search_tools", "arguments": {"query": "convert a time"}});
    let lines = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}),
    ];
    let input = lines.map(|line| format!("{line}\n")).concat();
    let served = bench.launch(&["serve", "--mcp-search"]).stdin(input).run(LIMIT).await.unwrap();
    assert!(served.status.success(), "{served:?}");
    let answers: Vec<Value> =
        served.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["result"]["protocolVersion"], "2024-11-05");
    let text = answers[1]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("1. time__convert_time (time, "), "{text}");
    assert_eq!(answers.len(), 2);
}

/// A client of the interface over HTTP.
struct ApiClient {
    client: reqwest::Client,
    base: String,
}

impl ApiClient {
    async fn of(service: &Service) -> Self {
        let (_, status) = service.look("/status").await.unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        let base = format!("http://{}/v1", status["details"]["http"].as_str().unwrap());
        Self { client: toolbus_testkit::http_client_builder().build().unwrap(), base }
    }

    async fn post(&self, path: &str, key: &str, body: Value) -> (u16, Value) {
        let request = self.client.post(format!("{}/{path}", self.base)).bearer_auth(key);
        let response = request.json(&body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }
}

/// Without a model there is no agent, and the tools are served all the same.
#[tokio::test]
async fn tools_are_found_and_called_over_http_and_learned_from() {
    let Some(bench) = DiscoveryBench::new() else { return };
    let settings = "[discovery]\nenabled = true\n[http]\naddress = \"127.0.0.1:0\"\n\
                    [http.tool_api]\nenabled = true\nadmins = [\"root\"]\n";
    let file = bench.store.path().join("toolbus.toml");
    std::fs::write(&file, format!("{settings}[http.tokens]\nroot = \"{ADMIN}\"\n")).unwrap();
    let launch = bench.launch(&["serve", "--config"]).arg(&file);
    let mut service = start(launch).await;
    let api = ApiClient::of(&service).await;

    let (status, made) = api
        .post(
            "keys",
            ADMIN,
            json!({"name": "ci", "kind": "test", "role": "executor", "plan": "pro"}),
        )
        .await;
    assert_eq!(status, 201, "{made}");
    let key = made["data"]["key"].as_str().unwrap().to_owned();
    assert!(key.starts_with("acx_test_"));
    let found = eventually(LIMIT, async || {
        let (status, found) =
            api.post("retrieve_tools", &key, json!({"query": "convert a time"})).await;
        anyhow::ensure!(status == 200, "{found}");
        anyhow::ensure!(found["data"]["tools"][0]["name"] == "time__convert_time", "{found}");
        Ok(found)
    })
    .await;
    assert_eq!(found["data"]["tools"][0]["server"], "time");

    let call = json!({"tool_name": "time/get_current_time", "params": {"timezone": "UTC"}});
    let (status, called) = api.post("execute_tool", &key, call).await;
    assert_eq!((status, &called["data"]["status"]), (200, &json!("success")), "{called}");
    // What was called is what the ranking knows.
    eventually(LIMIT, async || {
        let query = json!({"query": "current time", "debug": true});
        let (_, found) = api.post("retrieve_tools", &key, query).await;
        let tools = found["data"]["tools"].as_array().cloned().unwrap_or_default();
        let used = tools.iter().find(|tool| tool["name"] == "time__get_current_time");
        let history = used.map(|tool| tool["factors"]["user_history"].as_f64().unwrap_or(0.0));
        anyhow::ensure!(history.is_some_and(|history| history > 0.9), "{found}");
        Ok(())
    })
    .await;

    let (status, refused) = api.post("execute_tool", "acx_test_wrong", json!({})).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("INVALID_TOKEN")), "{refused}");
    let logs = service.process().logs();
    assert!(!logs.contains(&key) && !logs.contains(ADMIN), "{logs}");
}

/// One port for programs and for MCP clients: tokens hold for both, and names are each one's own.
#[tokio::test]
async fn programs_and_mcp_clients_share_a_port() {
    let Some(bench) = DiscoveryBench::new() else { return };
    let file = bench.store.path().join("toolbus.toml");
    // Another process may take the port first.
    let mut attempts = 0;
    let service = loop {
        attempts += 1;
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let settings = format!(
            "[discovery]\nenabled = true\n[mcp_face]\naddress = \"127.0.0.1:{port}\"\n\
             allowed_hosts = [\"face.example\"]\n[http]\naddress = \"127.0.0.1:{port}\"\n\
             [http.tool_api]\nenabled = true\nadmins = [\"root\"]\n\
             [http.tokens]\nroot = \"{ADMIN}\"\n"
        );
        std::fs::write(&file, settings).unwrap();
        let mut service = bench.launch(&["serve", "--config"]).arg(&file).start().unwrap();
        match service.ready(LIMIT).await {
            Ok(_) => break service,
            Err(error) => assert!(attempts < 3, "{error}"),
        }
    };
    let api = ApiClient::of(&service).await;
    let mcp = mcp_url(&service, "mcpFace").await;
    assert_eq!(mcp.trim_end_matches("/mcp"), api.base.trim_end_matches("/v1"));

    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let ask = async |token: &str, host: Option<&str>| {
        let request = api.client.post(&mcp).json(&initialize).bearer_auth(token);
        let request = request.header("accept", "application/json, text/event-stream");
        let request = match host {
            Some(host) => request.header("host", host),
            None => request,
        };
        request.send().await.unwrap()
    };
    assert_eq!(ask(ADMIN, None).await.status(), 200);
    let refused = ask("wrong", None).await;
    assert_eq!(refused.status(), 401);
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    let page = mcp.trim_end_matches("mcp");
    assert_eq!(api.client.get(page).send().await.unwrap().status(), 401);
    let health = api.client.get(format!("{}/health", api.base)).send().await.unwrap();
    assert_eq!(health.status(), 200, "how it is, everybody may ask");
    let (status, refused) = api.post("retrieve_tools", "wrong", json!({"query": "x"})).await;
    assert_eq!((status, &refused["error"]["code"]), (401, &json!("INVALID_TOKEN")), "{refused}");
    let (status, found) = api.post("retrieve_tools", ADMIN, json!({"query": "time"})).await;
    assert_eq!(status, 200, "{found}");

    // Names that one may be reached by are not the other's.
    assert_eq!(ask(ADMIN, Some("face.example")).await.status(), 200);
    assert_eq!(ask(ADMIN, Some("evil.example")).await.status(), 403);
    let servers = api.client.get(format!("{}/servers", api.base)).bearer_auth(ADMIN);
    let servers = servers.header("host", "face.example").send().await.unwrap();
    assert_eq!(servers.status(), 403);
}

#[tokio::test]
async fn cx_r7_where_tools_are_in_their_lives_is_shown() {
    let Some(bench) = DiscoveryBench::new() else { return };
    let off = bench.run(&["tools", "--json"]).await;
    assert!(off.status.success() && !off.stdout.contains("lifecycle"), "{off:?}");
    let run = async |arguments: &[&str]| {
        let launch = bench.launch(arguments).env("TOOLBUS_DISCOVERY__ENABLED", "true");
        launch.run(LIMIT).await.unwrap()
    };
    let tools = run(&["tools"]).await;
    assert!(tools.stdout.contains(" [discoverable]\n"), "{tools:?}");
    let tools = run(&["tools", "--json"]).await;
    let tools: Value = serde_json::from_str(&tools.stdout).unwrap();
    assert_eq!(tools["tools"][0]["lifecycle"], "discoverable");
}

/// `config` changes the file that `serve` reads, and `health` asks what that serves.
#[tokio::test]
async fn cx_c1_settings_are_changed_and_the_service_is_asked_how_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolbus.toml");
    let launch = |arguments: &[&str]| {
        let launch = Launch::new("agent-host").arg("--config").arg(&file).args(arguments.iter());
        launch.env("TOOLBUS_STORE", format!("sqlite:{}", folder.path().join("s.db").display()))
    };
    let run = async |arguments: &[&str]| launch(arguments).run(LIMIT).await.unwrap();

    let nobody = run(&["health"]).await;
    assert_eq!(nobody.status.code(), Some(2), "{nobody:?}");
    let path = run(&["config", "path"]).await;
    assert_eq!(path.stdout, format!("{}\n", file.display()), "{path:?}");
    for (key, value) in [("discovery.enabled", "true"), ("http.tool_api.enabled", "true")] {
        let set = run(&["config", "set", key, value]).await;
        assert!(set.status.success(), "{set:?}");
    }
    let wrong = run(&["config", "set", "discovery.enabld", "true"]).await;
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
    assert!(wrong.stderr.contains("did you mean `enabled`?"), "{wrong:?}");
    let shown = run(&["config", "show"]).await;
    let line = format!("enabled = true  # {}:2\n", file.display());
    assert!(shown.stdout.contains(&line), "{shown:?}");

    let set = run(&["config", "set", "http.address", "127.0.0.1:0"]).await;
    assert!(set.status.success(), "{set:?}");
    let mut service = start(launch(&["serve"])).await;
    let api = ApiClient::of(&service).await;
    let healthy = run(&["health", "--url", &api.base]).await;
    assert_eq!((&*healthy.stdout, healthy.status.code()), ("healthy\n", Some(0)), "{healthy:?}");
    let port = run(&["health", "--health", &service.health().to_string()]).await;
    assert_eq!((&*port.stdout, port.status.code()), ("healthy\n", Some(0)), "{port:?}");
    service.process().terminate(LIMIT).await.unwrap();
    let gone = run(&["health", "--url", &api.base, "--json"]).await;
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert!(gone.stdout.contains("\"unhealthy\""), "{gone:?}");
}
