//! What pods are called and described as.

use std::collections::HashSet;

use super::*;

fn described(settings: &KubernetesSettings) -> serde_json::Value {
    let pod = describe(settings, "rockbot-script-1", "call_1", Duration::from_secs(90));
    let mut pod = serde_json::to_value(pod).expect("a pod");
    pod["spec"]["containers"][0]["command"][4] = json!("…");
    pod
}

#[test]
fn any_call_id_gives_a_valid_name_and_no_two_calls_share_one() {
    let long = "x".repeat(10_000);
    for id in ["call_AbC", "", "ü/ \n\0", "a.b", &long] {
        let name = name(id);
        assert!(name.len() <= 63, "{name}");
        assert!(
            name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')),
            "{name}"
        );
    }
    let names: HashSet<String> = (0..100).map(|_| name("call_1")).collect();
    assert_eq!(names.len(), 100);
    assert!(names.iter().map(|name| &name[..27]).collect::<HashSet<_>>().len() == 1);
}

#[test]
fn nothing_of_the_description_is_lost_and_nothing_is_weakened() {
    let pod = described(&KubernetesSettings::default());
    let spec = &pod["spec"];
    let container = &spec["containers"][0];
    assert_eq!(pod["metadata"]["annotations"], json!({"rockbot.dev/tool-call-id": "call_1"}));
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
}
