//! The operator's rules, as the policy reads them and as the test does.

use serde_json::json;
use toolbus_policy::{PolicySettings, RuleBook};
use toolbus_tools::Door;
use toolbus_tools::scope::DoorSet;

/// The rules. A rule that denies matches a call by any door of its lineage, and one that allows by
/// all of them.
pub(crate) fn rules() -> RuleBook {
    let deny = |name: &str, doors: &[&str], tools: &[&str]| {
        let reason = "never";
        json!({"name": name, "effect": "deny", "reason": reason, "doors": doors, "tools": tools})
    };
    let settings = json!({"rules": [
        {
            "name": "no-deleting", "effect": "deny", "reason": "never",
            "tools": ["*delete*", "*DELETE*"],
        },
        deny("no-notes-for-clients", &["mcp"], &["mcp:my-notes/*"]),
        deny("no-removing-by-bus", &["bus"], &["mcp:management/mcp_unregister_server"]),
        deny("no-writing-later", &["schedule"], &["test/write"]),
        deny("no-pages-in-turns", &["turn"], &["web/web_browse"]),
        deny("no-agents-by-http", &["http"], &["a2a/invoke_agent"]),
        deny("no-scripts-later", &["schedule"], &["script/execute_python_script"]),
        {
            "name": "registering-here", "effect": "allow",
            "doors": ["command-line", "embedded", "chain"],
            "tools": ["mcp:management/mcp_register_server"],
        },
        {
            "name": "no-registering", "effect": "deny", "reason": "never",
            "tools": ["mcp:management/mcp_register_server"],
        },
    ]});

    let settings: PolicySettings = serde_json::from_value(settings).unwrap();
    RuleBook::new(&settings).unwrap()
}

/// Whether the rules allow a call of this subject that came through these doors.
pub(crate) fn allows(subject: &str, doors: DoorSet) -> bool {
    let is_here = |door| matches!(door, Door::CommandLine | Door::Embedded | Door::Chain);
    if subject.to_ascii_lowercase().contains("delete") {
        return false;
    }
    match subject {
        "mcp:management/mcp_unregister_server" => !doors.contains(Door::Bus),
        "mcp:management/mcp_register_server" => doors.iter().all(is_here),
        "test/write" => !doors.contains(Door::Schedule),
        "web/web_browse" => !doors.contains(Door::Turn),
        "a2a/invoke_agent" => !doors.contains(Door::Http),
        "script/execute_python_script" => !doors.contains(Door::Schedule),
        _ => !(subject.starts_with("mcp:my-notes/") && doors.contains(Door::Mcp)),
    }
}
