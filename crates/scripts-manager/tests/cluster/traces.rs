//! The trace of a call reaches the pod of its script: whoever reads it finds the pod by its name.

use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;
use toolbus_testkit::eventually;
use toolbus_testkit::otlp::Collector;
use toolbus_testkit::process::Launch;
use toolbus_testkit::rabbit;

use crate::support::{NAMESPACE, client};

const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn the_trace_of_a_script_names_its_pod() {
    let Some(client) = client().await else { return };
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(collector) = Collector::start().await else { return };
    let launch = |program: &str| {
        Launch::new(program)
            .arg("--bus")
            .arg(vhost.amqp_url())
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint())
            .env("OTEL_BSP_SCHEDULE_DELAY", "100")
    };
    let manager = launch("scripts-manager")
        .args(["--runner", "kubernetes", "--prepare-namespace"])
        .env("KUBECONFIG", std::env::var_os("TOOLBUS_TEST_KUBECONFIG").expect("a cluster"))
        .env("TOOLBUS_KUBERNETES__NAMESPACE", NAMESPACE)
        .env("TOOLBUS_KUBERNETES__CPU_REQUEST", "10m");
    let mut manager = manager.start().expect("a process");
    manager.ready(LIMIT).await.expect("ready");

    let call = launch("agent-host").args(["invoke", "execute_python_script", "-", "--json"]);
    let arguments = json!({"script": "raise SystemExit(3)"});
    call.stdin(arguments.to_string()).run(LIMIT).await.expect("a call");
    let run = eventually(LIMIT, async || {
        let spans = collector.spans()?;
        let run = spans.iter().find(|span| span.name == "script.run").context("no span yet")?;
        let parent = spans.iter().find(|span| Some(&span.span_id) == run.parent_id.as_ref());
        let parent = parent.context("no parent yet")?;
        assert_eq!((&*parent.name, &*parent.service), ("process", "scripts-manager"));
        anyhow::Ok(run.clone())
    })
    .await;
    assert_eq!(run.attributes["toolbus.scripts.runner"], "kubernetes");
    assert_eq!(run.attributes["process.exit.code"], "3");
    assert_eq!(run.attributes["k8s.namespace.name"], NAMESPACE);
    // The pod is gone; what the cluster noted of it is still there.
    let events: Api<Event> = Api::namespaced(client, NAMESPACE);
    let pod = &run.attributes["k8s.pod.name"];
    let of_pod = ListParams::default().fields(&format!("involvedObject.name={pod}"));
    let noted = events.list(&of_pod).await.expect("events").items;
    assert!(!noted.is_empty(), "the cluster has noted nothing of a pod {pod:?}");
}
