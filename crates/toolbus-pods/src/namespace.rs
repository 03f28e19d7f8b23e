//! The namespace of the pods: its checks and preparation before the first pod.

use std::fmt::Debug;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceRule, SelfSubjectAccessReview, SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};
use k8s_openapi::api::core::v1::{LimitRange, Namespace, ResourceQuota};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::Role;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::time::timeout;

use crate::requests::with_retry;
use crate::settings::KubernetesSettings;
use crate::{errors, packages};

/// How long the checks may take, all together.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
const POLICY_NAME: &str = "toolbus-deny-all";
const BOUNDS_NAME: &str = "toolbus-bounds";
/// Most pods in a namespace that is made here. Where it has to be more, the operator makes it.
const PODS_MAX: &str = "64";
/// The label by which a namespace says what pods may be in it.
const LEVEL_LABEL: &str = "pod-security.kubernetes.io/enforce";

/// The Role that this service needs in the namespace, and all that it needs: the verbs that it
/// uses.
const ROLE: &str = include_str!("role.json");

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
    #[error("the cluster did not answer within {CHECK_TIMEOUT:?}")]
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
    /// The namespace does not hold the pods in it.
    #[error(
        "the namespace {namespace} lacks {missing}: add it, or set \
         kubernetes.allow_unguarded_namespace"
    )]
    Unguarded {
        /// The namespace.
        namespace: String,
        /// What it should have.
        missing: String,
    },
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

/// Checks that the namespace exists and that this service has its rights there, after preparing the
/// namespace where the settings ask for it.
pub(crate) async fn check_namespace(
    client: &Client,
    settings: &KubernetesSettings,
) -> Result<(), Unavailable> {
    let checks = async {
        if settings.prepare_namespace {
            prepare_namespace(client, settings).await?;
            if settings.packages.index.is_some() {
                prepare_packages(client, settings).await?;
            }
        }

        check_rights(client, &settings.namespace).await?;
        check_safeguards(client, settings).await
    };

    timeout(CHECK_TIMEOUT, checks).await.unwrap_or(Err(Unavailable::Slow))
}

/// Checks that the namespace itself holds the pods in it, as far as the settings demand.
async fn check_safeguards(
    client: &Client,
    settings: &KubernetesSettings,
) -> Result<(), Unavailable> {
    let missing = list_missing_safeguards(client, &settings.namespace).await?;
    if missing.is_empty() {
        return Ok(());
    }

    let (namespace, missing) = (settings.namespace.clone(), missing.join(", "));
    if !settings.allow_unguarded_namespace {
        return Err(Unavailable::Unguarded { namespace, missing });
    }

    // Scripts cannot open sockets all the same: the pod's own filter holds from the first byte.
    tracing::warn!(namespace, missing, "namespace lacks recommended policies");
    Ok(())
}

/// Checks that this service has all rights that it needs. Asks for all at once, and for those that
/// this does not show one by one: some authorizers answer only single questions.
pub(crate) async fn check_rights(client: &Client, namespace: &str) -> Result<(), Unavailable> {
    let shown = list_granted_rules(client, namespace).await.map_err(Unavailable::Cluster)?;
    let mut missing = Vec::new();
    for right in required_rights() {
        if !shown.iter().any(|rule| right.is_granted_by(rule))
            && !is_allowed(client, namespace, &right).await?
        {
            missing.push(format!("{} {}", right.verb, right.resource));
        }
    }

    if missing.is_empty() {
        return Ok(());
    }

    Err(Unavailable::Rights { namespace: namespace.to_owned(), missing: missing.join(", ") })
}

/// Lists the rules that the cluster shows for this service; empty where it does not answer that.
async fn list_granted_rules(
    client: &Client,
    namespace: &str,
) -> Result<Vec<ResourceRule>, kube::Error> {
    let reviews: Api<SelfSubjectRulesReview> = Api::all(client.clone());
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) },
        ..SelfSubjectRulesReview::default()
    };
    let parameters = PostParams::default();

    match with_retry(|| reviews.create(&parameters, &review)).await {
        Ok(review) => Ok(review.status.map(|status| status.resource_rules).unwrap_or_default()),
        Err(kube::Error::Api(_)) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

async fn is_allowed(
    client: &Client,
    namespace: &str,
    right: &RequiredRight,
) -> Result<bool, Unavailable> {
    let (resource, subresource) = right.resource.split_once('/').unwrap_or((&right.resource, ""));
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let review = serde_json::from_value(json!({
        "spec": {"resourceAttributes": {
            "namespace": namespace, "verb": right.verb, "group": right.group,
            "resource": resource, "subresource": subresource,
        }},
    }));

    let review: SelfSubjectAccessReview = review.expect("the template is a review");
    let parameters = PostParams::default();
    let answer = with_retry(|| reviews.create(&parameters, &review)).await;
    let answer = answer.map_err(Unavailable::Cluster)?;

    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// A right that this service needs.
struct RequiredRight {
    verb: String,
    group: String,
    /// With its subresource behind a slash where there is one.
    resource: String,
}

impl RequiredRight {
    /// Whether a rule grants this right, for objects of any name.
    fn is_granted_by(&self, rule: &ResourceRule) -> bool {
        let has = |words: Option<&[String]>, word: &str| {
            words.is_some_and(|words| words.iter().any(|listed| listed == word || listed == "*"))
        };
        has(Some(&rule.verbs), &self.verb)
            && has(rule.api_groups.as_deref(), &self.group)
            && has(rule.resources.as_deref(), &self.resource)
            && rule.resource_names.as_ref().is_none_or(Vec::is_empty)
    }
}

/// The rights that this service needs, as its Role lists them.
fn required_rights() -> Vec<RequiredRight> {
    let role: Role = toolbus_json::from_trusted(ROLE).expect("the file is a Role");
    let mut used = Vec::new();
    for rule in role.rules.into_iter().flatten() {
        let group = rule.api_groups.into_iter().flatten().next().unwrap_or_default();
        for name in rule.resources.into_iter().flatten() {
            used.extend(rule.verbs.iter().map(|verb| RequiredRight {
                verb: verb.clone(),
                group: group.clone(),
                resource: name.clone(),
            }));
        }
    }

    used
}

/// Lists the safeguards that the namespace should have and lacks. Lists are empty in a namespace
/// that does not exist, so the namespace itself is read, too.
pub(crate) async fn list_missing_safeguards(
    client: &Client,
    name: &str,
) -> Result<Vec<&'static str>, Unavailable> {
    let all = ListParams::default();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), name);
    let found = tokio::try_join!(
        with_retry(|| namespaces.get_opt(name)),
        denies_all_traffic(client, name),
        with_retry(|| quotas.list(&all)),
    );

    let (namespace, denies_all_traffic, quotas) = found.map_err(Unavailable::Cluster)?;
    let namespace = namespace.ok_or_else(|| Unavailable::Namespace(name.to_owned()))?;
    let restricted = namespace.labels().get(LEVEL_LABEL).is_some_and(|level| level == "restricted");
    let checks = [
        (restricted, "the label that enforces the restricted level"),
        (denies_all_traffic, "a NetworkPolicy that denies all traffic"),
        (!quotas.items.is_empty(), "a ResourceQuota"),
    ];

    Ok(checks.iter().filter(|(is_there, _)| !is_there).map(|(_, what)| *what).collect())
}

/// Whether a NetworkPolicy denies all traffic of all pods of the namespace. Whether the cluster
/// enforces it is another question.
pub(crate) async fn denies_all_traffic(
    client: &Client,
    namespace: &str,
) -> Result<bool, kube::Error> {
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), namespace);
    let all = ListParams::default();
    Ok(with_retry(|| policies.list(&all)).await?.items.iter().any(denies_all))
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

/// Creates the namespace and its policy, quota and limits. What exists already stays as it is.
async fn prepare_namespace(
    client: &Client,
    settings: &KubernetesSettings,
) -> Result<(), Unavailable> {
    let namespace = settings.namespace.as_str();
    let failed = |source| Unavailable::Preparation { namespace: namespace.to_owned(), source };
    let described = json!({"metadata": {"name": namespace, "labels": {LEVEL_LABEL: "restricted"}}});
    create_if_absent::<Namespace>(&Api::all(client.clone()), described).await.map_err(failed)?;

    let described = json!({
        "metadata": {"name": POLICY_NAME},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    });
    let policies = Api::namespaced(client.clone(), namespace);
    create_if_absent::<NetworkPolicy>(&policies, described).await.map_err(failed)?;

    let described = json!({
        "metadata": {"name": BOUNDS_NAME},
        "spec": {"hard": {"pods": PODS_MAX}},
    });
    let quotas = Api::namespaced(client.clone(), namespace);
    create_if_absent::<ResourceQuota>(&quotas, described).await.map_err(failed)?;

    let described = json!({
        "metadata": {"name": BOUNDS_NAME},
        "spec": {"limits": [{
            "type": "Container",
            "default": {
                "cpu": settings.cpu_limit, "memory": settings.memory_limit,
                "ephemeral-storage": settings.ephemeral_storage_limit,
            },
        }]},
    });

    let ranges = Api::namespaced(client.clone(), namespace);
    create_if_absent::<LimitRange>(&ranges, described).await.map_err(failed)
}

/// Applies the egress policy of packages pods, which updates it where it has changed.
async fn prepare_packages(
    client: &Client,
    settings: &KubernetesSettings,
) -> Result<(), Unavailable> {
    let policy = packages::egress_policy(&settings.packages);
    let policies: Api<NetworkPolicy> = Api::namespaced(client.clone(), &settings.namespace);
    let name = policy.metadata.name.clone().unwrap_or_default();
    let apply = PatchParams::apply("toolbus-scripts-manager").force();
    let failed =
        |source| Unavailable::Preparation { namespace: settings.namespace.clone(), source };
    let patch = Patch::Apply(&policy);
    with_retry(|| policies.patch(&name, &apply, &patch)).await.map(drop).map_err(failed)
}

async fn create_if_absent<K>(api: &Api<K>, described: serde_json::Value) -> Result<(), kube::Error>
where
    K: Clone + Debug + DeserializeOwned + Serialize,
{
    let described: K = serde_json::from_value(described).expect("the template is of its kind");
    let parameters = PostParams::default();
    match with_retry(|| api.create(&parameters, &described)).await {
        Err(error) if !errors::is_already_exists(&error) => Err(error),
        _ => Ok(()),
    }
}
