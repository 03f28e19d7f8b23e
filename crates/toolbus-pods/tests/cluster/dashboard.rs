//! The panels about warm pods, each over a real pool: what a fleet without a cluster cannot show.

use std::path::Path;
use std::time::Duration;

use anyhow::ensure;
use serde_json::{Value, json};
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::prometheus::Prometheus;
use toolbus_testkit::{eventually, rabbit};

use crate::support::client;

const LIMIT: Duration = Duration::from_secs(120);
/// Of this test alone, so that the pool's pods are its own.
const NAMESPACE: &str = "toolbus-test-dashboard";

/// The queries of the panels below the row about warm pods, with what Grafana fills in.
fn queries() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/dashboards/scripts.json");
    let dashboard: Value =
        serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let panels = panels.skip_while(|panel| panel["title"] != "Warm pods");
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let texts = targets.map(|target| target["expr"].as_str().expect("a query"));
    texts.map(|text| text.replace("$__rate_interval", "30s")).collect()
}

/// Waits until the store has something for a query.
async fn shown(store: &Prometheus, query: &str) {
    eventually(LIMIT, async || {
        ensure!(!store.ever(query).await?.is_empty(), "nothing for {query}");
        Ok(())
    })
    .await;
}

/// Waits until a pod waits: by the manager's own word, for the store is behind it.
async fn filled(manager: &Service) {
    eventually(LIMIT, async || {
        let (_, status) = manager.look("/status").await?;
        let status: Value = serde_json::from_str(&status)?;
        ensure!(status["details"]["warm"]["waiting"] == 1, "{status}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn every_panel_about_warm_pods_has_something_to_show() {
    if client().await.is_none() {
        return;
    }
    let Some(vhost) = rabbit::vhost().await else { return };
    // It is about no broker: nothing listens there.
    let Some(store) = Prometheus::start("127.0.0.1:9", &[]).await else { return };
    let launch = |program: &str| Launch::new(program).arg("--bus").arg(vhost.amqp_url());
    let manager = launch("scripts-manager")
        .args(["--runner", "kubernetes", "--prepare-namespace"])
        .env("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", store.endpoint())
        .env("OTEL_METRIC_EXPORT_INTERVAL", "500")
        .env("KUBECONFIG", std::env::var_os("TOOLBUS_TEST_KUBECONFIG").expect("a cluster"))
        .env("TOOLBUS_KUBERNETES__NAMESPACE", NAMESPACE)
        .env("TOOLBUS_KUBERNETES__CPU_REQUEST", "10m")
        .env("TOOLBUS_KUBERNETES__WARM__SIZE", "1");
    let mut manager = manager.start().expect("a process");
    manager.ready(LIMIT).await.expect("ready");

    // The first of each is where a series begins, and the second where it rises.
    for count in 1..=2 {
        filled(&manager).await;
        let call = launch("agent-host").args(["invoke", "execute_python_script", "-", "--json"]);
        let arguments = json!({"script": "print(1)"});
        let called = call.stdin(arguments.to_string()).run(LIMIT).await.expect("a call");
        assert!(called.status.success(), "{called:?}");
        let hits = r#"toolbus_scripts_warm_claims_total{toolbus_reason="hit"}"#;
        shown(&store, &format!("{hits} == {count}")).await;
    }
    let queries = queries();
    assert_eq!(queries.len(), 5, "{queries:?}");
    for query in &queries {
        assert!(query.contains("toolbus_scripts_warm_"), "{query} has another place");
        // More than nothing: what is no number is no series.
        shown(&store, &format!("({query}) > 0")).await;
    }
    manager.process().terminate(LIMIT).await.expect("its end");
}
