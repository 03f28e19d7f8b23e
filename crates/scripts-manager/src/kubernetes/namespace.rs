//! The namespace that the pods live in: what must be there before the first of them.

use std::time::Duration;

use k8s_openapi::api::authorization::v1::SelfSubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::timeout;

use super::settings::KubernetesSettings;
use super::{errors, packages};

/// How long the checks may take, all together.
const LIMIT: Duration = Duration::from_secs(15);
const POLICY: &str = "toolbus-deny-all";

/// What this service does to pods: verb, resource, subresource.
const RIGHTS: [(&str, &str, &str); 9] = [
    ("create", "pods", ""),
    ("get", "pods", ""),
    ("list", "pods", ""),
    ("watch", "pods", ""),
    ("delete", "pods", ""),
    ("patch", "pods", ""),
    ("create", "pods", "attach"),
    ("get", "pods", "attach"),
    ("get", "pods", "log"),
];

/// Why scripts cannot run in pods here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is no configuration of a cluster.
    #[error("no cluster is configured: set KUBECONFIG, or run in a pod with a service account")]
    Configuration(#[source] kube::Error),
    /// The cluster cannot be asked.
    #[error("the cluster does not answer")]
    Cluster(#[source] kube::Error),
    /// The cluster is too slow.
    #[error("the cluster did not answer within {LIMIT:?}")]
    Slow,
    /// Rights are missing.
    #[error("in the namespace {namespace} this service may not: {missing}")]
    Rights {
        /// The namespace.
        namespace: String,
        /// Verbs and resources.
        missing: String,
    },
    /// The namespace is missing.
    #[error("there is no namespace {0}: make it, or set kubernetes.prepare_namespace")]
    Namespace(String),
    /// The namespace could not be prepared.
    #[error("the namespace {namespace} cannot be prepared")]
    Preparation {
        /// The namespace.
        namespace: String,
        /// What the cluster said.
        #[source]
        source: kube::Error,
    },
}

/// Checks the namespace and the rights there, after preparing it where that is asked for.
pub(super) async fn check(
    client: &Client,
    settings: &KubernetesSettings,
) -> Result<(), Unavailable> {
    let checks = async {
        if settings.prepare_namespace {
            prepare(client, &settings.namespace).await?;
            if settings.packages.index.is_some() {
                prepare_packages(client, settings).await?;
            }
        }
        rights(client, &settings.namespace).await?;
        exists(client, &settings.namespace).await?;
        policy(client, &settings.namespace).await;
        Ok(())
    };
    timeout(LIMIT, checks).await.unwrap_or(Err(Unavailable::Slow))
}

async fn rights(client: &Client, namespace: &str) -> Result<(), Unavailable> {
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let mut missing = Vec::new();
    for (verb, resource, subresource) in RIGHTS {
        let review = serde_json::from_value(json!({
            "spec": {"resourceAttributes": {
                "namespace": namespace, "verb": verb, "resource": resource,
                "subresource": subresource,
            }},
        }));
        let review: SelfSubjectAccessReview = review.expect("the template is a review");
        let answer =
            reviews.create(&PostParams::default(), &review).await.map_err(Unavailable::Cluster)?;
        if !answer.status.is_some_and(|status| status.allowed) {
            missing
                .push(format!("{verb} {resource}/{subresource}").trim_end_matches('/').to_owned());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Unavailable::Rights { namespace: namespace.to_owned(), missing: missing.join(", ") })
}

/// A namespace may be looked at by few, so a missing right proves nothing; lists are empty in one
/// that is not there.
async fn exists(client: &Client, namespace: &str) -> Result<(), Unavailable> {
    match Api::<Namespace>::all(client.clone()).get_opt(namespace).await {
        Ok(None) => Err(Unavailable::Namespace(namespace.to_owned())),
        Ok(Some(_)) => Ok(()),
        Err(error) => {
            tracing::debug!(error = %errors::chain(&error), "whether the namespace is there is unknown");
            Ok(())
        }
    }
}

/// Says so when no policy keeps pods from the network. Scripts cannot open sockets all the same: the
/// pod's own filter holds from the first byte on.
async fn policy(client: &Client, namespace: &str) {
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), namespace);
    match policies.list(&ListParams::default()).await {
        Ok(list) if list.items.iter().any(denies_all) => {}
        Ok(_) => tracing::warn!(
            namespace,
            "no NetworkPolicy denies all traffic of the pods: only their own filter keeps scripts from the network"
        ),
        Err(error) => tracing::warn!(
            namespace,
            error = %errors::chain(&error),
            "whether a NetworkPolicy denies all traffic of the pods is unknown"
        ),
    }
}

/// Whether a policy selects every pod and lets nothing in or out.
fn denies_all(policy: &NetworkPolicy) -> bool {
    let Some(spec) = &policy.spec else { return false };
    let all = spec.pod_selector.as_ref().is_none_or(|selector| {
        selector.match_labels.as_ref().is_none_or(|labels| labels.is_empty())
            && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
    });
    let both = ["Ingress", "Egress"]
        .iter()
        .all(|kind| spec.policy_types.iter().flatten().any(|listed| listed == kind));
    let nothing = spec.ingress.as_ref().is_none_or(Vec::is_empty)
        && spec.egress.as_ref().is_none_or(Vec::is_empty);
    all && both && nothing
}

/// Makes the namespace and its policy. What is there already stays as it is.
async fn prepare(client: &Client, namespace: &str) -> Result<(), Unavailable> {
    let failed = |source| Unavailable::Preparation { namespace: namespace.to_owned(), source };
    let described = serde_json::from_value(json!({
        "metadata": {
            "name": namespace,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    }));
    let described: Namespace = described.expect("the template is a namespace");
    let namespaces: Api<Namespace> = Api::all(client.clone());
    made(namespaces.create(&PostParams::default(), &described).await).map_err(failed)?;
    let described = serde_json::from_value(json!({
        "metadata": {"name": POLICY},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    }));
    let described: NetworkPolicy = described.expect("the template is a policy");
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), namespace);
    made(policies.create(&PostParams::default(), &described).await).map_err(failed)
}

/// Makes the way out of packages pods, anew where it has changed.
async fn prepare_packages(
    client: &Client,
    settings: &KubernetesSettings,
) -> Result<(), Unavailable> {
    let policy = packages::policy(&settings.packages);
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), &settings.namespace);
    let name = policy.metadata.name.clone().unwrap_or_default();
    let apply = PatchParams::apply("toolbus-scripts-manager").force();
    let failed =
        |source| Unavailable::Preparation { namespace: settings.namespace.clone(), source };
    policies.patch(&name, &apply, &Patch::Apply(&policy)).await.map(drop).map_err(failed)
}

fn made<K>(result: Result<K, kube::Error>) -> Result<(), kube::Error> {
    match result {
        Err(error) if !errors::is_there(&error) => Err(error),
        _ => Ok(()),
    }
}
