//! `deploy/dashboards`: every panel and every alert has something to show, and knows what it speaks
//! of. A real fleet works and fails on purpose, and sends its metrics to a real Prometheus.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use toolbus_telemetry::Kind;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::prometheus::Prometheus;
use toolbus_testkit::rabbit::{self, Node, Vhost};
use toolbus_testkit::{eventually, grafana};

use super::page;
use crate::support::*;

mod clients;

/// A query, and where it stands.
#[derive(Debug)]
struct Query {
    place: String,
    text: String,
    /// What must have a result at some time for it to have something to show.
    shows: String,
}

impl Query {
    /// Of a panel. What is no number is nothing to show, and where nothing is shown as 0, neither
    /// is that.
    fn of_panel(place: String, text: String) -> Self {
        let least = if text.contains("or vector(0)") { "> 0" } else { ">= 0" };
        let shows = format!("({text}) {least}");
        Self { place, text, shows }
    }

    /// Of an alert, which has nothing to show as long as its condition does not hold.
    fn of_alert(place: String, text: String) -> Self {
        Self { place, shows: text.clone(), text }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/dashboards")
}

fn dashboards() -> Vec<Value> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let is_dashboard = |path: &PathBuf| path.extension().is_some_and(|end| end == "json");
    let mut paths: Vec<_> = files.filter(is_dashboard).collect();
    paths.sort();
    assert_eq!(paths.len(), 5, "{paths:?}");
    let read = |path: &PathBuf| serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    paths.iter().map(read).collect()
}

/// The queries of all panels, with what Grafana fills in.
fn panel_queries() -> Vec<Query> {
    let mut queries = Vec::new();
    for dashboard in dashboards() {
        for panel in dashboard["panels"].as_array().unwrap() {
            let is_row = panel["type"] == "row";
            let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
            assert_eq!(targets.is_empty(), is_row, "{panel}");
            for target in targets {
                let text = target["expr"].as_str().unwrap().replace("$__rate_interval", "30s");
                assert!(!text.contains('$'), "{text}");
                let place = format!("{}, {}", dashboard["title"], panel["title"]);
                queries.push(Query::of_panel(place, text));
            }
        }
    }
    queries
}

#[test]
fn dashboards_are_what_grafana_takes() {
    let Some(mistakes) = grafana::mistakes(&dashboards()) else { return };
    assert_eq!(mistakes, "");
}

#[test]
fn dashboards_can_be_told_apart_and_panels_lie_side_by_side() {
    let mut ids = BTreeSet::new();
    for dashboard in dashboards() {
        assert!(ids.insert(dashboard["uid"].to_string()), "{} is there twice", dashboard["uid"]);
        let mut panels = BTreeSet::new();
        let mut cells = BTreeSet::new();
        for panel in dashboard["panels"].as_array().unwrap() {
            let title = &panel["title"];
            assert!(panels.insert(panel["id"].as_u64().unwrap()), "{title}: its id is taken");
            let says = panel["type"] == "row" || panel["description"].is_string();
            assert!(says, "{title} does not say what it shows");
            let at = |name: &str| panel["gridPos"][name].as_u64().unwrap();
            assert!(at("x") + at("w") <= 24, "{title} is outside");
            for cell in (at("x")..at("x") + at("w"))
                .flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
            {
                assert!(cells.insert(cell), "{title} lies on another panel");
            }
        }
    }
}

/// A fleet whose metrics go to the store, on a broker of its own.
struct Stage<'a> {
    store: &'a Prometheus,
    node: Node,
    vhost: &'a Vhost,
    bus: String,
    servers: Servers,
}

impl Stage<'_> {
    fn launch(&self, program: &str) -> Launch {
        self.exporting(launch(program, &self.bus))
    }

    /// A program whose metrics go to the store.
    fn exporting(&self, launch: Launch) -> Launch {
        launch
            .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", self.store.endpoint())
            .env("OTEL_METRIC_EXPORT_INTERVAL", "500")
            .env("OTEL_LOGS_EXPORTER", "none")
            // Nobody listens there: what cannot be exported is counted, too.
            .env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:9/v1/traces")
            .env("OTEL_BSP_SCHEDULE_DELAY", "200")
    }

    async fn bridge(&self) -> Service {
        let bridge = self.launch("mcp-bridge").arg("--mcp-config").arg(self.servers.file());
        // It requires no grant, and counts those that are wrong.
        start(bridge.env("TOOLBUS_GRANTS__KEY", "a key of grants that nobody else has")).await
    }

    /// Asks the agent to run a tool, and waits for what becomes of it.
    async fn call(&self, stranger: &Stranger<'_>, tool: &str, arguments: Value) -> Value {
        stranger.ask(&Frame::tool("tool.invoke", tool, &arguments)).await.body
    }

    async fn script(&self, stranger: &Stranger<'_>, script: &str) -> Value {
        let arguments = json!({"script": script, "timeout_seconds": 1});
        self.call(stranger, "execute_python_script", arguments).await
    }

    async fn mcp(&self, stranger: &Stranger<'_>, tool: &str) -> Value {
        let arguments = json!({"server_name": "marks", "tool_name": tool});
        self.call(stranger, "mcp_invoke_tool", arguments).await
    }

    /// Waits until the store has something at some time for this query.
    async fn shown(&self, query: &str) {
        eventually(LIMIT, async || {
            ensure!(!self.store.ever(query).await?.is_empty(), "nothing for {query}");
            Ok(())
        })
        .await;
    }
}

/// Nobody is there who runs scripts.
async fn without_manager(stage: &Stage<'_>, stranger: &Stranger<'_>) {
    let unroutable = r#"sum(messaging_client_sent_messages_total{error_type="unroutable",messaging_destination_template="script.invoke"})"#;
    for count in 1..=3 {
        stage.script(stranger, "print(1)").await;
        // Exported before the next one, which is seen as an increase.
        stage.shown(&format!("{unroutable} >= {count}")).await;
    }
}

/// Scripts that end in every way, and some for which there is no place.
async fn scripts_end(stage: &Stage<'_>, stranger: &Stranger<'_>) {
    for _ in 0..3 {
        stage.script(stranger, "print('well')").await;
        stage.script(stranger, "raise SystemExit(3)").await;
        for _ in 0..2 {
            stage.script(stranger, "import os; os.kill(os.getpid(), 9)").await;
        }
        // The first has the one place of its agent until its time is up.
        let slow = json!({"script": "import time; time.sleep(60)", "timeout_seconds": 1});
        for _ in 0..2 {
            stranger.send(&Frame::tool("tool.invoke", "execute_python_script", &slow)).await;
        }
        stranger.take(ANSWERS, 2).await;
        let arguments = json!({"script": "", "pip_packages": ["no such requirement"]});
        stage.call(stranger, "execute_python_script", arguments).await;
    }
}

/// A server that is lost again and again, a bridge that dies with a call, and that call again.
async fn servers_die(stage: &Stage<'_>, stranger: &Stranger<'_>, mut bridge: Service) -> Service {
    for count in 1..=5 {
        stage.mcp(stranger, "mark").await;
        stage.mcp(stranger, "die").await;
        let lost = "sum(toolbus_mcp_server_connections_lost_total)";
        stage.shown(&format!("{lost} >= {count}")).await;
    }
    let arguments = json!({"server_name": "marks", "tool_name": "wait"});
    let call = Frame::tool("tool.invoke", "mcp_invoke_tool", &arguments);
    stranger.send(&call).await;
    eventually(LIMIT, async || {
        stage.servers.marks().contains(&"wait".to_owned()).then_some(()).context("not called yet")
    })
    .await;
    bridge.process().kill();
    let bridge = stage.bridge().await;
    stranger.take(ANSWERS, 1).await;
    stranger.ask(&call).await;
    bridge
}

/// What nobody can handle, and what nobody asked for.
async fn strange_messages(stage: &Stage<'_>, stranger: &Stranger<'_>) {
    let unreadable = Frame::new("tool.invoke", "RockBot.Tools.ToolInvokeRequest", "{");
    stranger.send(&unreadable.without_reply_topic()).await;
    let wrong = Frame::tool("tool.invoke.mcp", "mark", &json!({}));
    stranger.ask(&wrong.header("rb-rb-grant", json!("1.2.bm9ib2R5.bm9uZQ"))).await;
    let bindings = stage.vhost.bindings().await.unwrap();
    let mut patterns = bindings.iter().map(|binding| &binding.routing_key);
    let of_agent = patterns.find_map(|key| key.strip_prefix("tool.*.RockBot.")).unwrap();
    let topic = format!("tool.result.RockBot.{of_agent}");
    let properties = Frame::new("", "RockBot.Tools.ToolInvokeResponse", "{}").properties;
    assert!(stage.vhost.publish("rockbot", &topic, properties, b"{}").await.unwrap());
}

/// A bridge that requires grants is sent a call without one, as a stranger with the broker's
/// credentials sends it.
async fn grant_is_missing(stage: &Stage<'_>) {
    let vhost = stage.node.vhost().await.unwrap();
    let bridge = stage.exporting(launch("mcp-bridge", &vhost.amqp_url()));
    let bridge = bridge
        .arg("--mcp-config")
        .arg(stage.servers.file())
        .env("TOOLBUS_GRANTS__KEY", "a key of grants that nobody else has")
        .env("TOOLBUS_GRANTS__REQUIRED", "true");
    let _bridge = start(bridge).await;

    let stranger = Stranger::new(&vhost, &[]).await;
    let call = Frame::tool("tool.invoke.mcp", "mark", &json!({}));
    let answer = stranger.ask(&call.header("rb-mcp-server", json!("marks"))).await;
    assert_eq!(answer.body["code"], "denied", "{answer:?}");
    stage.shown(r#"toolbus_grant_checks_total{toolbus_grant_result="missing_refused"}"#).await;
}

/// The alert on grants tells of wrong ones and of missing ones, and of none that was let pass.
async fn every_refused_grant_is_alerted(store: &Prometheus, queries: &[Query]) {
    let alert = queries.iter().find(|query| query.place.contains("ToolbusGrantRefused")).unwrap();
    let series = store.ever(&alert.shows).await.unwrap();
    let results: BTreeSet<_> =
        series.iter().filter_map(|one| one["metric"]["toolbus_grant_result"].as_str()).collect();
    assert_eq!(results, BTreeSet::from(["mismatch", "missing_refused"]));
}

/// The broker blocks, dies and comes back.
async fn broker_fails(stage: &mut Stage<'_>, stranger: &Stranger<'_>) {
    // The broker blocks who publishes: the bridge does, each second while a call runs.
    let arguments = json!({"server_name": "marks", "tool_name": "wait"});
    stranger.send(&Frame::tool("tool.invoke", "mcp_invoke_tool", &arguments)).await;
    stage.shown("sum(toolbus_bus_requests_waiting) > 0").await;
    stage.node.block_publishers().await.unwrap();
    stage.shown("toolbus_rabbitmq_connection_blocked == 1").await;
    stage.node.unblock_publishers().await.unwrap();
    stage.node.crash().await.unwrap();
    stage.shown("toolbus_rabbitmq_connection_up == 0").await;
    stage.node.start_again().await.unwrap();
}

#[tokio::test]
async fn every_panel_and_alert_has_something_to_show() {
    let Some(node) = rabbit::node().await else { return };
    let rules = folder().join("alerts.yml");
    let Some(store) = Prometheus::start(&node.metrics_address(), &[rules]).await else { return };
    let vhost = node.vhost().await.unwrap();
    let broken = json!({"command": "false"});
    let servers = Servers::with(&[("broken", broken)]);
    let (store, vhost, bus) = (&store, &vhost, vhost.amqp_url());
    let mut stage = Stage { store, node, vhost, bus, servers };
    let agent = stage.launch("agent-host").args(["serve", "--mcp", "127.0.0.1:0"]);
    let agent = start(agent).await;
    let stranger = Stranger::new(vhost, &[]).await;

    without_manager(&stage, &stranger).await;
    let manager = stage.launch("scripts-manager");
    let manager = manager.env("TOOLBUS_AGENTS__MAX_CONCURRENT", "1");
    let mut manager = start(manager.env("TOOLBUS_AGENTS__MAX_WAITING", "0")).await;
    let bridge = stage.bridge().await;
    scripts_end(&stage, &stranger).await;
    let openrouter = clients::call(&stage, &agent).await;
    let bridge = servers_die(&stage, &stranger, bridge).await;
    strange_messages(&stage, &stranger).await;
    grant_is_missing(&stage).await;
    broker_fails(&mut stage, &stranger).await;
    manager.process().terminate(LIMIT).await.unwrap();

    for _ in 0..120 {
        stranger.send(&Frame::script("print(1)")).await;
    }

    let mut queries = panel_queries();
    for group in store.rule_groups().await.unwrap() {
        for rule in group["rules"].as_array().unwrap() {
            for told in ["summary", "description", "runbook"] {
                assert!(rule["annotations"][told].is_string(), "{} has no {told}", rule["name"]);
            }
            let text = rule["query"].as_str().unwrap().to_owned();
            queries.push(Query::of_alert(rule["name"].to_string(), text));
        }
    }

    assert!(queries.len() > 60, "{} queries", queries.len());
    eventually(LIMIT, async || {
        let mut empty = Vec::new();
        // Only on a cluster do pods wait for scripts: the tests of scripts-manager see to these.
        for query in queries.iter().filter(|query| !query.text.contains("_scripts_warm_")) {
            if store.ever(&query.shows).await?.is_empty() {
                empty.push(query);
            }
        }
        ensure!(empty.is_empty(), "{} of {} are empty: {empty:#?}", empty.len(), queries.len());
        Ok(())
    })
    .await;
    every_service_is_shown(store, &queries).await;
    every_refused_grant_is_alerted(store, &queries).await;
    names_are_on_the_page(store, &queries).await;
    drop((agent, bridge, openrouter));
}

/// Between them, the panels of services have all four.
async fn every_service_is_shown(store: &Prometheus, queries: &[Query]) {
    for (title, expected) in [
        ("Calls by service", &["agent-host", "mcp-bridge", "scripts-manager"][..]),
        ("MCP requests by service", &["agent-host", "openrouter-mcp"][..]),
    ] {
        let query = queries.iter().find(|query| query.place.ends_with(&format!("\"{title}\"")));
        let series = store.ever(&query.unwrap().shows).await.unwrap();
        let shown: BTreeSet<_> =
            series.iter().filter_map(|one| one["metric"]["job"].as_str()).collect();
        assert_eq!(shown, BTreeSet::from_iter(expected.iter().copied()), "{title}");
    }
}

/// No query speaks of a metric that the page does not, and the programs send no other.
async fn names_are_on_the_page(store: &Prometheus, queries: &[Query]) {
    let text = std::fs::read_to_string(folder().join("../../docs/telemetry.md")).unwrap();
    let mut known = BTreeSet::new();
    for metric in page::metrics() {
        let name = page::prometheus_name(metric);
        match metric.kind {
            Kind::Histogram(_) => {
                known.extend(["bucket", "sum", "count"].map(|end| format!("{name}_{end}")));
            }
            _ => drop(known.insert(name)),
        }
    }

    for query in queries {
        for name in store.names_in(&query.text).await.unwrap() {
            let is_on_page = known.contains(&name) || text.contains(&format!("`{name}`"));
            assert!(is_on_page, "{}: docs/telemetry.md has no {name}", query.place);
        }
    }

    let ours = ["rockbot_", "toolbus_", "messaging_", "mcp_", "gen_ai_"];
    for name in store.metrics().await.unwrap() {
        let is_ours = ours.iter().any(|prefix| name.starts_with(prefix));
        assert!(!is_ours || known.contains(&name), "docs/telemetry.md has no {name}");
    }
}
