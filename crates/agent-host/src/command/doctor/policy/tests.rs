use serde_json::json;

use super::*;
use crate::settings::Settings;

#[test]
fn the_active_preset_is_named() {
    let check = |settings: serde_json::Value, expected: &str| {
        let settings: Settings = serde_json::from_value(settings).expect("settings");
        let detail = describe(&settings.policy).detail;
        assert_eq!(detail, format!("{expected}: agent-host policy show prints it"));
    };
    let none = "no rules of the settings";
    check(json!({}), &format!("the preset careful is active, {none}"));
    let strict = json!({"policy": {"preset": "strict"}});
    check(strict, &format!("the preset strict is active, {none}"));
    check(json!({"policy": {}}), &format!("no preset, {none}"));
    let rules = json!([{"name": "all", "effect": "allow"}]);
    check(json!({"policy": {"rules": rules}}), "no preset, 1 rule of the settings");
    let open = json!({"policy": {"preset": "open", "rules": rules}});
    check(open, "the preset open is active, 1 rule of the settings");
}
