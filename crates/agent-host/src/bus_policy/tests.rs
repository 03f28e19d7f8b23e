//! Findings for agents that make grants for calls from the bus.

use serde_json::{Value, json};

use super::*;

#[track_caller]
fn check(policy: Value, is_noted: bool) {
    let fleet = json!({"bus": {"url": "amqp://broker"}, "policy": policy});
    let settings = |grants: Value| -> Settings {
        let mut settings = fleet.clone();
        settings["grants"] = grants;
        serde_json::from_value(settings).expect("settings")
    };
    for grants in [json!({"signing_key_file": "/k"}), json!({"key_file": "/k"})] {
        assert_eq!(examine(&settings(grants)).is_some(), is_noted, "{policy}");
    }
    assert_eq!(examine(&settings(json!({}))), None, "it makes no grants");

    let embedded = json!({"grants": {"signing_key_file": "/k"}, "policy": policy});
    let embedded: Settings = serde_json::from_value(embedded).expect("settings");
    assert_eq!(examine(&embedded), None, "it has no bus with others");
}

/// A policy with one rule and no preset.
fn rule(effect: &str, doors: Value) -> Value {
    let rule = json!({"name": "r", "effect": effect, "reason": "why", "doors": doors});
    json!({"rules": [rule]})
}

#[test]
fn an_agent_whose_policy_leaves_the_bus_open_is_noted() {
    check(json!({}), true);
    check(json!({"preset": "open"}), true);
    check(json!({"preset": "careful"}), true);
    check(rule("deny", json!(["mcp", "turn"])), true);
    check(rule("allow", json!(null)), true);
}

#[test]
fn an_agent_whose_policy_decides_about_the_bus_is_not() {
    check(json!({"default": "deny"}), false);
    check(json!({"default": "ask"}), false);
    check(json!({"approval_required_risk": "high"}), false);
    check(json!({"preset": "strict"}), false);
    check(rule("deny", json!(null)), false);
    check(rule("ask", json!(["bus"])), false);
    check(rule("allow", json!(["bus", "mcp"])), false);
}
