//! What the probe's pod is, and what is made of what it says.

use super::*;
use crate::settings::KubernetesSettings;

fn ended(exit_code: Option<i32>) -> ContainerEnd {
    ContainerEnd { reason: "Error".to_owned(), message: String::new(), exit_code }
}

#[test]
fn only_what_a_probe_says_that_came_to_its_end_counts() {
    assert_eq!(read_finding(&ended(Some(0)), "reached\n"), Ok(ProbeFinding::Reached));
    assert_eq!(read_finding(&ended(Some(0)), "in vain: timed out\n"), Ok(ProbeFinding::Unreached));
    for (code, log) in [
        (Some(0), ""),
        (Some(0), "reached by another\n"),
        (Some(137), "reached\n"),
        (Some(1), "in vain: timed out\n"),
        (None, "in vain: timed out\n"),
    ] {
        assert!(read_finding(&ended(code), log).is_err(), "{code:?} {log:?}");
    }
    let traceback = "Traceback (most recent call last):\nKeyError: 'KUBERNETES_SERVICE_HOST'\n";
    let failed = read_finding(&ended(Some(1)), traceback).expect_err("it failed");
    assert!(failed.to_string().ends_with("Error KeyError: 'KUBERNETES_SERVICE_HOST'"), "{failed}");
}

#[test]
fn the_pod_differs_from_a_scripts_in_its_program_alone() {
    let settings = KubernetesSettings::default();
    let identity = PodIdentity::for_probe("m1");
    let of_script = describe_pod(&settings, &identity, PROBE_TIMEOUT);
    let mut probe = describe_probe(of_script.clone());
    let containers = &mut probe.spec.as_mut().expect("a spec").containers;
    let command = containers[0].command.as_mut().expect("a command");
    assert_eq!(command.last().map(String::as_str), Some(PROGRAM));
    *command = of_script.spec.as_ref().expect("a spec").containers[0].command.clone().expect("one");
    assert_eq!(probe, of_script);
}

#[test]
fn a_status_says_its_state_and_why_it_is_unknown() {
    let told = |status: PolicyStatus| serde_json::to_value(status).expect("JSON");
    assert_eq!(told(PolicyStatus::default()), serde_json::json!({"state": "untried"}));
    assert_eq!(told(PolicyStatus::NotEnforced), serde_json::json!({"state": "not_enforced"}));
    let unknown = PolicyStatus::Unknown { reason: "why".to_owned() };
    assert_eq!(told(unknown), serde_json::json!({"state": "unknown", "reason": "why"}));
}
