//! What goes wrong around a script, and what its caller is told.

use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, ResourceQuota};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolbus_pods::settings::KubernetesSettings;
use toolbus_pods::{KubernetesRunner, Unavailable};
use toolbus_scripts::runner::{Ending, Error, Run, Runner};

use crate::once::Place;
use crate::proxy::Proxy;
use crate::support::{NAMESPACE, bystander, client, config, pods_of, script, settings, unwatched};

/// Runs a script under these settings, which must fail, soon, leave no pod, and disturb nobody.
async fn failure(settings: KubernetesSettings) -> Option<Error> {
    let client = client().await?;
    let runner = KubernetesRunner::start(client.clone(), settings).await.expect("a runner");
    let call_id = format!("failing {:?}", Instant::now());
    let run = Run::alone(&call_id);
    let start = Instant::now();
    let failing = async { (runner.run(script("print(1)"), run).await, Instant::now()) };
    let ((outcome, told), ()) = tokio::join!(failing, bystander());
    assert!(told - start < Duration::from_secs(15), "{:?}", told - start);
    runner.idle().await;
    assert!(pods_of(&client, &call_id).await.is_empty());
    Some(outcome.expect_err("it cannot run"))
}

#[tokio::test]
async fn an_image_that_is_not_there_is_told_with_its_reason() {
    let settings = KubernetesSettings { image: "127.0.0.1:1/none:1".to_owned(), ..settings() };
    let Some(error) = failure(settings).await else { return };
    assert!(matches!(&error, Error::Failed(text) if text.contains("ErrImagePull")), "{error}");
}

#[tokio::test]
async fn a_node_without_room_is_busy() {
    let settings = KubernetesSettings {
        cpu_request: "1000".to_owned(),
        cpu_limit: "1000".to_owned(),
        ..settings()
    };
    let Some(error) = failure(settings).await else { return };
    assert!(matches!(&error, Error::Busy(text) if text.contains("Insufficient cpu")), "{error}");
}

/// Settings of a namespace that may have no more than so many pods. `None` without a cluster.
async fn with_quota(pods: u32) -> Option<KubernetesSettings> {
    let client = client().await?;
    let namespace = format!("toolbus-test-quota-{pods}");
    let settings = KubernetesSettings { namespace, ..settings() };
    // The namespace first.
    KubernetesRunner::start(client.clone(), settings.clone()).await.expect("a runner");
    let quotas: Api<ResourceQuota> = Api::namespaced(client, &settings.namespace);
    let quota = serde_json::json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"},
        "spec": {"hard": {"pods": pods.to_string()}},
    });
    let apply = PatchParams::apply("toolbus-test");
    quotas.patch("few", &apply, &Patch::Apply(&quota)).await.expect("a quota");
    Some(settings)
}

#[tokio::test]
async fn a_quota_that_is_used_up_is_busy() {
    let Some(settings) = with_quota(0).await else { return };
    let Some(error) = failure(settings).await else { return };
    assert!(matches!(&error, Error::Busy(text) if text.contains("quota")), "{error}");
}

#[tokio::test]
async fn a_quota_that_pods_use_up_which_are_about_to_go_is_waited_for() {
    let Some(settings) = with_quota(1).await else { return };
    let client = client().await.expect("a cluster");
    let runner = KubernetesRunner::start(client, settings).await.expect("a runner");
    for number in 0..3 {
        let outcome = runner.run(script(&format!("print({number})")), unwatched()).await;
        assert_eq!(outcome.expect("an outcome").output.text, format!("{number}\n"));
    }
}

#[tokio::test]
async fn a_description_that_the_cluster_refuses_is_told() {
    let settings = KubernetesSettings { memory_limit: "1Mi".to_owned(), ..settings() };
    let Some(error) = failure(settings).await else { return };
    assert!(matches!(&error, Error::Failed(text) if text.contains("Invalid")), "{error}");
}

#[tokio::test]
async fn a_namespace_that_is_not_there_and_missing_rights_are_told_at_start() {
    let Some(client) = client().await else { return };
    let nowhere = KubernetesSettings {
        namespace: "toolbus-test-nowhere".to_owned(),
        prepare_namespace: false,
        ..settings()
    };
    let refused = KubernetesRunner::start(client, nowhere).await.err().expect("refused");
    assert!(matches!(refused, Unavailable::Namespace(_)), "{refused}");

    let mut config = config().await.expect("a cluster");
    config.auth_info.impersonate = Some("nobody".to_owned());
    let nobody = toolbus_pods::connect(config).expect("a client");
    let settings = KubernetesSettings { prepare_namespace: false, ..settings() };
    let refused = KubernetesRunner::start(nobody, settings).await.err().expect("refused");
    assert!(refused.to_string().contains("get pods/attach"), "{refused}");
}

#[tokio::test]
async fn a_namespace_that_does_not_hold_its_pods_is_refused_unless_it_is_allowed() {
    let Some(place) = Place::new("unguarded").await else { return };
    let client = client().await.expect("a cluster");
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), &place.settings.namespace);
    let all = ListParams::default();
    quotas.delete_collection(&DeleteParams::default(), &all).await.expect("no quota");

    let settings = KubernetesSettings { prepare_namespace: false, ..place.settings.clone() };
    let refused = KubernetesRunner::start(client.clone(), settings.clone()).await.err();
    let refused = refused.expect("refused").to_string();
    assert!(refused.contains("lacks a ResourceQuota: add it, or set"), "{refused}");

    let settings = KubernetesSettings { allow_unguarded_namespace: true, ..settings };
    let runner = KubernetesRunner::start(client, settings).await.expect("it is allowed");
    runner.leave().await.expect("left");
}

#[tokio::test]
async fn a_pod_that_is_deleted_while_its_script_runs_has_no_known_outcome() {
    let Some(client) = client().await else { return };
    let runner = KubernetesRunner::start(client.clone(), settings()).await.expect("a runner");
    let heard = CancellationToken::new();
    let live = {
        let heard = heard.clone();
        move |_, _: &str| heard.cancel()
    };
    let call_id = format!("deleted {}", std::process::id());
    let run = Run { live: Some(Arc::new(live)), ..Run::alone(&call_id) };
    let deleting = async {
        heard.cancelled().await;
        let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        let pod = pods_of(&client, &call_id).await.pop().expect("a pod");
        let name = pod.metadata.name.expect("a name");
        pods.delete(&name, &DeleteParams::default().grace_period(0)).await.expect("deleted");
        Instant::now()
    };
    let source = "import time\nprint('here')\ntime.sleep(15)";
    let running = async { (runner.run(script(source), run).await, Instant::now()) };
    let ((outcome, told), deleted, ()) = tokio::join!(running, deleting, bystander());
    assert!(matches!(outcome, Err(Error::OutcomeUnknown(_))), "{outcome:?}");
    assert!(told - deleted < Duration::from_secs(5), "{:?}", told - deleted);
    runner.idle().await;
}

#[tokio::test]
async fn streams_that_are_cut_are_made_good_by_the_log() {
    let Some((proxy, client)) = Proxy::to_cluster().await else { return };
    let runner = KubernetesRunner::start(client.clone(), settings()).await.expect("a runner");
    let heard = CancellationToken::new();
    let told: Arc<Mutex<Vec<String>>> = Arc::default();
    let live = {
        let (heard, told) = (heard.clone(), Arc::clone(&told));
        move |_, text: &str| {
            told.lock().push(text.to_owned());
            heard.cancel();
        }
    };
    let run = Run { live: Some(Arc::new(live)), ..unwatched() };
    let cutting = async {
        heard.cancelled().await;
        proxy.cut();
    };
    let source = "import sys, time\nprint('before')\ntime.sleep(1)\nprint('after', file=sys.stderr)\nsys.exit(5)";
    let (outcome, (), ()) = tokio::join!(runner.run(script(source), run), cutting, bystander());
    let outcome = outcome.expect("an outcome");
    assert_eq!(
        (outcome.output.text.as_str(), outcome.ending),
        ("before\nafter\n", Ending::Exited(5))
    );
    // What was live before the cut is not told again, and the rest is live all the same.
    assert_eq!(*told.lock(), ["before\n", "after\n"]);
    runner.idle().await;
}
