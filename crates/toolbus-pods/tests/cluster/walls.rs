//! Walls that are asked for by configuration: runtime classes, user namespaces.

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use toolbus_scripts::runner::{Ending, Error, Outcome, Run, Runner};

use crate::once::{LIMIT, Place};
use crate::support::{client, script};

/// Tells who the users of its namespace are outside of it.
const USERS: &str = "print(open('/proc/self/uid_map').read().split())";

/// Makes a class with this handler.
async fn class(name: &str, handler: &str) -> Option<()> {
    let classes: Api<RuntimeClass> = Api::all(client().await?);
    let described = json!({
        "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass",
        "metadata": {"name": name}, "handler": handler,
    });
    let apply = PatchParams::apply("toolbus-test").force();
    classes.patch(name, &apply, &Patch::Apply(&described)).await.expect("a class");
    Some(())
}

/// Runs a script in a place of its own, which is empty again afterwards.
async fn outcome(place: &Place, source: &str) -> Result<Outcome, Error> {
    let runner = place.runner(client().await.expect("a cluster")).await;
    let outcome = runner.run(script(source), Run::alone("call_1")).await;
    runner.idle().await;
    place.is_empty(LIMIT).await;
    outcome
}

/// What the caller is told of a class that no script can run in.
async fn refusal(name: &str, class: &str) -> Option<Error> {
    let mut place = Place::new(name).await?;
    place.settings.runtime_class = Some(class.to_owned());
    Some(outcome(&place, "print(1)").await.expect_err("it cannot run"))
}

#[tokio::test]
async fn a_script_runs_in_the_class_that_is_configured() {
    const CLASS: &str = "toolbus-test-runc";
    if class(CLASS, "runc").await.is_none() {
        return;
    }
    let Some(mut place) = Place::new("class").await else { return };
    place.settings.runtime_class = Some(CLASS.to_owned());
    let looking = async { place.started().await.spec.and_then(|spec| spec.runtime_class_name) };
    let source = "import time\ntime.sleep(5)\nprint(1)";
    let (outcome, class) = tokio::join!(outcome(&place, source), looking);
    assert_eq!(outcome.expect("it runs").output.text, "1\n");
    assert_eq!(class.as_deref(), Some(CLASS));
}

#[tokio::test]
async fn a_class_that_nobody_knows_is_refused_with_its_name() {
    let Some(error) = refusal("class-unknown", "toolbus-test-unknown").await else { return };
    let Error::Unavailable(text) = &error else { panic!("{error:?}") };
    assert!(text.contains("RuntimeClass \"toolbus-test-unknown\" not found"), "{text}");
}

#[tokio::test]
async fn a_class_that_the_node_has_no_handler_for_is_told() {
    const CLASS: &str = "toolbus-test-nothing";
    if class(CLASS, "nothing").await.is_none() {
        return;
    }
    let Some(error) = refusal("class-nothing", CLASS).await else { return };
    let is_told = matches!(&error, Error::Failed(text) if text.contains("\"nothing\""));
    assert!(is_told, "{error:?}");
}

/// Whether every node says of itself that its runtime can give pods user namespaces.
async fn nodes_have_user_namespaces() -> bool {
    let nodes: Api<Node> = Api::all(client().await.expect("a cluster"));
    let nodes = nodes.list(&ListParams::default()).await.expect("nodes").items;
    nodes.iter().all(|node| {
        let handlers =
            node.status.iter().flat_map(|status| status.runtime_handlers.iter().flatten());
        let mut features = handlers.filter_map(|handler| handler.features.as_ref());
        features.any(|features| features.user_namespaces == Some(true))
    })
}

/// Where the node can have them it does, and where it cannot nothing weaker is tried.
#[tokio::test]
async fn a_script_has_a_user_namespace_of_its_own_or_does_not_run() {
    let Some(mut place) = Place::new("users").await else { return };
    let of_all = outcome(&place, USERS).await.expect("it runs").output.text;
    place.settings.user_namespaces = true;
    let outcome = outcome(&place, USERS).await;

    if nodes_have_user_namespaces().await {
        let outcome = outcome.expect("it runs");
        assert_eq!(outcome.ending, Ending::Exited(0));
        assert_ne!(outcome.output.text, of_all);
    } else {
        let Err(Error::Failed(text)) = &outcome else { panic!("{outcome:?}") };
        assert!(text.contains("user namespace"), "{text}");
    }
}
