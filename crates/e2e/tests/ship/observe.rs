//! The profile `observe`, run with the collector and the store of metrics that it names: what the
//! services tell comes to where the dashboards and the alerts look for it.
//!
//! Jaeger and Grafana cannot be had here. A second collector stands where Jaeger is and writes down
//! what comes; what Grafana reads is held against the rest by its text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use toolbus_testkit::otlp::{self, Span};

use crate::support::{repository, until};

/// Where the second collector writes, in its container and in the fleet's folder.
const RECEIVED: &str = "received";

/// Writes what is laid over the compose file, and says where.
pub(crate) fn overlay(folder: &Path) -> std::path::PathBuf {
    let received = folder.join(RECEIVED);
    fs::create_dir(&received).unwrap();
    // The collector is another user there.
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(&received, all).unwrap();
    let settings = folder.join("traces.json");
    let text = json!({
        "receivers": {"otlp": {"protocols": {"http": {"endpoint": "0.0.0.0:4318"}}}},
        "exporters": {"file": {"path": "/received/spans.jsonl", "flush_interval": "100ms"}},
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["file"]}},
        },
    });

    fs::write(&settings, text.to_string()).unwrap();
    let soon = json!({"environment": {"OTEL_METRIC_EXPORT_INTERVAL": "1000"}});
    let overlay = json!({"services": {
        "collector": {"image": "toolbus.local/collector:1"},
        "prometheus": {"image": "toolbus.local/prometheus:1"},
        "jaeger": {
            "image": "toolbus.local/collector:1",
            "command": ["--config=/etc/traces.json"],
            "volumes": [
                format!("{}:/etc/traces.json:ro", settings.display()),
                format!("{}:/received", received.display()),
            ],
        },
        "grafana": {"image": "toolbus.local/collector:1", "scale": 0},
        "agent-host": soon, "mcp-bridge": soon, "scripts-manager": soon, "openrouter-mcp": soon,
    }});
    let path = folder.join("overlay.json");
    fs::write(&path, overlay.to_string()).unwrap();

    path
}

/// The store at this address has what the services and the broker tell, and has read the alerts.
pub(crate) fn check_metrics(address: &str) {
    let jobs = || -> anyhow::Result<()> {
        let named: BTreeSet<_> = query(address, "count by (job) (toolbus_rabbitmq_connection_up)")?
            .iter()
            .filter_map(|series| series["metric"]["job"].as_str().map(str::to_owned))
            .collect();
        let expected = ["agent-host", "mcp-bridge", "scripts-manager"].map(str::to_owned);
        ensure!(named == BTreeSet::from(expected), "{named:?}");
        for query_of_broker in ["rabbitmq_connections", "rabbitmq_detailed_queue_messages_ready"] {
            ensure!(!query(address, query_of_broker)?.is_empty(), "no {query_of_broker}");
        }
        ensure!(!query(address, "rockbot_tool_invocations_total")?.is_empty(), "no calls");
        let away = query(address, "up == 0")?;
        ensure!(away.is_empty(), "{away:?}");
        Ok(())
    };

    until(jobs);
    let alerts = fs::read_to_string(repository("deploy/dashboards/alerts.yml")).unwrap();
    let written = alerts.matches("- alert: ").count();
    until(|| {
        let answer = api(address, "rules", "")?;
        let groups = answer["groups"].as_array().context("no groups")?;
        let rules: Vec<_> = groups.iter().flat_map(|group| group["rules"].as_array()).collect();
        let rules: Vec<_> = rules.into_iter().flatten().collect();
        ensure!(rules.len() == written, "{} of {written}", rules.len());
        let ill = rules.iter().find(|rule| rule["health"] != "ok");
        ensure!(ill.is_none(), "{ill:?}");
        Ok(())
    });
}

fn query(address: &str, text: &str) -> anyhow::Result<Vec<Value>> {
    let answer = api(address, "query", text)?;
    Ok(answer["result"].as_array().cloned().unwrap_or_default())
}

fn api(address: &str, path: &str, text: &str) -> anyhow::Result<Value> {
    let mut url = reqwest::Url::parse(&format!("http://{address}/api/v1/{path}"))?;
    url.query_pairs_mut().append_pair("query", text);
    // Being second is no error: any provider will do for a client that speaks no TLS.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut answer: Value = runtime.block_on(async {
        let client = toolbus_testkit::http_client_builder().build()?;
        client.get(url).send().await?.json().await
    })?;
    ensure!(answer["status"] == "success", "{answer}");
    Ok(answer["data"].take())
}

/// A call is one trace from the agent to the service that answers it.
pub(crate) fn check_traces(folder: &Path) {
    let file = folder.join(RECEIVED).join("spans.jsonl");
    until(|| {
        let text = fs::read_to_string(&file).context("nothing has come yet")?;
        let mut services: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for Span { trace_id, service, .. } in otlp::spans_in(&text)? {
            services.entry(trace_id).or_default().insert(service);
        }
        for worker in ["mcp-bridge", "scripts-manager"] {
            let whole = BTreeSet::from(["agent-host", worker].map(str::to_owned));
            let found = services.values().any(|services| services.is_superset(&whole));
            ensure!(found, "no trace has {whole:?}: {:?}", services.values());
        }
        Ok(())
    });
}

/// What Grafana is given is where it is told to look, and what the dashboards ask is there.
pub(crate) fn check_grafana(configuration: &Value) {
    let grafana = &configuration["services"]["grafana"];
    let mounts: BTreeMap<_, _> = grafana["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mount| (mount["target"].as_str().unwrap(), mount["source"].as_str().unwrap()))
        .collect();
    let text = |path: &str| fs::read_to_string(repository(path)).unwrap();
    let provider = text("deploy/compose/observe/grafana/dashboards/toolbus.yaml");
    let folder = provider.split("path: ").nth(1).unwrap().split('}').next().unwrap();
    assert_eq!(Path::new(mounts[folder]), repository("deploy/dashboards"));

    for kind in ["dashboards", "datasources"] {
        let given = mounts[format!("/etc/grafana/provisioning/{kind}").as_str()];
        assert_eq!(Path::new(given), repository("deploy/compose/observe/grafana").join(kind));
    }

    // A service of this name, at this port, is what the source's URL says; the dashboards take
    // whatever source is of the type `prometheus`.
    let sources = text("deploy/compose/observe/grafana/datasources/toolbus.yaml");
    assert!(sources.contains("type: prometheus\n"), "{sources}");

    for line in sources.lines().filter_map(|line| line.trim().strip_prefix("url: ")) {
        let url = reqwest::Url::parse(line).unwrap();
        let service = &configuration["services"][url.host_str().unwrap()];
        let ports = service["ports"].as_array().unwrap();
        let open = |port: &Value| port["target"].as_u64() == url.port().map(u64::from);
        assert!(ports.iter().any(open), "{line}: {ports:?}");
        let networks = service["networks"].as_object().unwrap();
        let shared = grafana["networks"].as_object().unwrap();
        assert!(networks.keys().any(|name| shared.contains_key(name)), "{line} cannot be reached");
    }
}
