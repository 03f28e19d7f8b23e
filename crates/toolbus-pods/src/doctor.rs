//! What is the matter with the cluster of the settings, for `doctor`: whether it answers, what this
//! service may do there, and whether the namespace holds the pods in it. Nothing is made.

use std::time::Duration;

use kube::{Client, Config};
use tokio::time::timeout;
use toolbus_config::{Finding, on_one_line};

use crate::connect::connect;
use crate::namespace::{Unavailable, check_rights, list_missing_safeguards};
use crate::requests::with_retry;
use crate::settings::KubernetesSettings;

/// How long the cluster may take to answer all questions.
const EXAMINE_TIMEOUT: Duration = Duration::from_secs(15);
const CLUSTER: &str = "cluster";
const RIGHTS: &str = "rights";
const NAMESPACE: &str = "namespace";
const WAY_TO_CLUSTER: &str = "correct KUBECONFIG, or run in a pod with a service account";

/// Looks at the cluster that kubectl would take, as a manager does that starts.
pub async fn examine(settings: &KubernetesSettings) -> Vec<Finding> {
    let config = match Config::infer().await.map_err(kube::Error::InferConfig) {
        Ok(config) => config,
        Err(error) => {
            let error = Unavailable::Configuration(error);
            return vec![Finding::wrong(CLUSTER, on_one_line(&error)).mended_by(WAY_TO_CLUSTER)];
        }
    };
    let address = config.cluster_url.host().unwrap_or_default().to_owned();
    let client = match connect(config) {
        Ok(client) => client,
        Err(error) => {
            let error = Unavailable::Configuration(error);
            return vec![Finding::wrong(CLUSTER, on_one_line(&error)).mended_by(WAY_TO_CLUSTER)];
        }
    };

    let asked = timeout(EXAMINE_TIMEOUT, ask(&client, settings, &address)).await;
    asked.unwrap_or_else(|_| {
        let detail = format!("{address} did not answer within {EXAMINE_TIMEOUT:?}");
        vec![Finding::wrong(CLUSTER, detail).mended_by(WAY_TO_CLUSTER)]
    })
}

async fn ask(client: &Client, settings: &KubernetesSettings, address: &str) -> Vec<Finding> {
    let version = match with_retry(|| client.apiserver_version()).await {
        Ok(version) => version.git_version,
        Err(error) => {
            let error = Unavailable::Cluster(error);
            let detail = format!("{address}: {}", on_one_line(&error));
            return vec![Finding::wrong(CLUSTER, detail).mended_by(WAY_TO_CLUSTER)];
        }
    };

    let (rights, safeguards) = tokio::join!(
        check_rights(client, &settings.namespace),
        list_missing_safeguards(client, &settings.namespace),
    );
    vec![
        Finding::ok(CLUSTER, format!("Kubernetes {version} at {address}")),
        describe_rights(&settings.namespace, rights),
        describe_namespace(settings, safeguards),
    ]
}

fn describe_rights(namespace: &str, rights: Result<(), Unavailable>) -> Finding {
    match rights {
        Ok(()) => {
            Finding::ok(RIGHTS, format!("all that a manager needs in the namespace {namespace}"))
        }
        Err(error) => Finding::wrong(RIGHTS, on_one_line(&error)).mended_by(
            "bind the Role that the chart makes (helm/toolbus/templates/scripts.yaml) to this \
             account",
        ),
    }
}

fn describe_namespace(
    settings: &KubernetesSettings,
    safeguards: Result<Vec<&'static str>, Unavailable>,
) -> Finding {
    let namespace = &settings.namespace;

    match safeguards {
        Ok(missing) if missing.is_empty() => {
            Finding::ok(NAMESPACE, format!("{namespace} is there and holds the pods in it"))
        }
        Ok(missing) => {
            let detail = format!("{namespace} lacks {}", missing.join(", "));
            let finding = match settings.allow_unguarded_namespace {
                true => Finding::note(NAMESPACE, detail),
                false => Finding::wrong(NAMESPACE, detail),
            };
            finding.mended_by("add it, or set kubernetes.allow_unguarded_namespace")
        }
        Err(Unavailable::Namespace(name)) if settings.prepare_namespace => {
            Finding::ok(NAMESPACE, format!("{name} is made at start"))
        }
        Err(Unavailable::Namespace(name)) => {
            Finding::wrong(NAMESPACE, format!("there is no namespace {name}"))
                .mended_by("make it, or scripts-manager --prepare-namespace")
        }
        Err(error) => Finding::wrong(NAMESPACE, on_one_line(&error))
            .mended_by("let this account get namespaces, and list policies and quotas there"),
    }
}
