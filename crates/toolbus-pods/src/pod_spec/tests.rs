//! What pods are called and described as.

use super::*;
use crate::settings::PodPlacement;

fn described(settings: &KubernetesSettings) -> serde_json::Value {
    let identity = PodIdentity::for_call("m1", CallKey::unique(), "call_1");
    let pod = describe_pod(settings, &identity, Duration::from_secs(90));
    let mut pod = serde_json::to_value(pod).expect("a pod");
    pod["spec"]["containers"][0]["command"][4] = json!("…");
    pod
}

#[test]
fn any_call_id_gives_a_valid_pod_and_a_call_has_one_name() {
    let long = "x".repeat(10_000);
    for id in ["call_AbC", "", "ü/ \n\0", "a.b", &long] {
        let key = CallKey::unique();
        let identity = PodIdentity::for_call("m1", key, id);
        assert_eq!(identity.name, PodIdentity::for_call("m2", key, id).name);
        assert_ne!(identity.nonce, PodIdentity::for_call("m1", key, id).nonce);
        assert_ne!(identity.name, PodIdentity::for_call("m1", CallKey::unique(), id).name);
        let pod = describe_pod(&KubernetesSettings::default(), &identity, Duration::ZERO);
        let is_plain = |text: &str| {
            text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.'))
        };
        for text in pod.labels().values().chain([&identity.name]) {
            assert!(text.len() <= 63 && is_plain(text), "{text}");
        }
        assert_eq!(pod.labels()[CALL], key.to_string()[..32]);
        assert_eq!(pod.labels()[MANAGER], "m1");
        assert_eq!(nonce_of(&pod), Some(identity.nonce.as_str()));
        assert!(id.starts_with(&pod.annotations()[CALL_ID]));
    }
}

#[test]
fn nothing_of_the_description_is_lost_and_nothing_is_weakened() {
    let pod = described(&KubernetesSettings::default());
    let spec = &pod["spec"];
    let container = &spec["containers"][0];
    assert_eq!(pod["metadata"]["annotations"]["rockbot.dev/tool-call-id"], json!("call_1"));
    assert_eq!(pod["metadata"]["annotations"]["fluentbit.io/exclude"], json!("true"));
    let expected = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "activeDeadlineSeconds": 120,
        "automountServiceAccountToken": false, "enableServiceLinks": false, "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["127.0.0.1"]}, "hostname": "sandbox",
    });
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&spec[name], value, "{name}");
    }
    let security = &spec["securityContext"];
    assert_eq!(security["runAsNonRoot"], json!(true));
    assert_eq!(security["seccompProfile"], json!({"type": "RuntimeDefault"}));
    let user = security["runAsUser"].as_u64().expect("a number");
    assert!((1_000_000_000..2_000_000_000).contains(&user));
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        })
    );
    assert_eq!(
        container["resources"],
        json!({
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"cpu": "500m", "memory": "256Mi", "ephemeral-storage": "64Mi"},
        })
    );
    assert_eq!(container["command"], json!(["python3", "-I", "-B", "-c", "…"]));
    assert_eq!(container["stdin"], json!(true));
    assert_eq!(container["terminationMessagePath"], json!("/root/termination-log"));
    assert_eq!((&spec["hostUsers"], &spec["runtimeClassName"]), (&json!(null), &json!(null)));
}

#[test]
fn stronger_walls_are_asked_for_by_configuration() {
    let settings = KubernetesSettings {
        runtime_class: Some("gvisor".to_owned()),
        user_namespaces: true,
        ..KubernetesSettings::default()
    };
    let pod = described(&settings);
    assert_eq!(pod["spec"]["runtimeClassName"], json!("gvisor"));
    assert_eq!(pod["spec"]["hostUsers"], json!(false));

    // A user namespace has these ids and no others, for root and for nobody are not its own.
    let user = pod["spec"]["securityContext"]["runAsUser"].as_u64().expect("a number");
    assert!((1..65534).contains(&user), "{user}");
}

#[test]
fn a_pod_is_placed_as_configured_and_otherwise_left_as_it_is() {
    let members = json!({
        "nodeSelector": {"pool": "scripts"},
        "tolerations": [{"key": "scripts", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 1,
            "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname"},
        }]}},
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "registry"}],
    });
    let placement = PodPlacement::try_from(members.to_string()).expect("members");
    assert_eq!(PodPlacement::try_from(String::from(placement.clone())), Ok(placement.clone()));

    let plain = described(&KubernetesSettings::default());
    let mut placed = described(&KubernetesSettings { placement, ..KubernetesSettings::default() });
    for (name, value) in members.as_object().expect("an object") {
        assert_eq!(plain["spec"][name], json!(null), "{name}");
        assert_eq!(placed["spec"][name].take(), *value, "{name}");
    }

    let names = |pod: &serde_json::Value| {
        let spec = pod["spec"].as_object().expect("an object").clone();
        spec.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name).collect()
    };
    let (plain, placed): (Vec<String>, Vec<String>) = (names(&plain), names(&placed));
    assert_eq!(plain, placed);
}

#[test]
fn a_placement_holds_nothing_that_could_weaken_a_pod() {
    for member in ["hostNetwork", "securityContext", "serviceAccountName", "volumes"] {
        let refused = PodPlacement::try_from(json!({member: true}).to_string());
        assert!(refused.expect_err("it is refused").contains(member), "{member}");
    }
    assert_eq!(PodPlacement::try_from(String::new()), Ok(PodPlacement::default()));
    assert_eq!(String::from(PodPlacement::default()), "");
}

#[test]
fn a_pod_that_waits_is_claimed_by_one_change_and_differs_in_nothing_else() {
    let settings = KubernetesSettings::default();
    let identity = PodIdentity::for_warm("m1");
    assert_ne!(identity.name, PodIdentity::for_warm("m1").name);
    let template = template_digest(&settings);
    let life = Duration::from_secs(900);
    let pod = describe_warm_pod(&settings, &identity, &template, life);
    assert!(is_warm(&pod.metadata, "m1", &template));
    assert!(!is_warm(&pod.metadata, "m2", &template) && !is_warm(&pod.metadata, "m1", "other"));
    assert_eq!(pod.spec, describe_pod(&settings, &identity, life).spec);

    let key = CallKey::unique();
    let change = claim_patch(key, &"ü".repeat(10_000), Duration::from_secs(60), "7");
    assert_eq!(change["metadata"]["resourceVersion"], json!("7"));
    assert_eq!(change["metadata"]["labels"], json!({WARM: null, CALL: call_label(key)}));
    assert_eq!(change["metadata"]["annotations"][CALL_ID], json!("ü".repeat(CALL_ID_CHARS_MAX)));
    assert_eq!(change["spec"], json!({"activeDeadlineSeconds": 90}));
}

#[test]
fn a_template_is_what_settings_say_and_not_who_asks() {
    let settings = KubernetesSettings::default();
    assert_eq!(template_digest(&settings), template_digest(&settings));
    let other = KubernetesSettings { memory_limit: "1Gi".to_owned(), ..settings.clone() };
    assert_ne!(template_digest(&settings), template_digest(&other));
}
