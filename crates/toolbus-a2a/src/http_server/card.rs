//! The agent's card, as both versions of the protocol read it.

use serde_json::{Value, json};
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};

/// The name of the way that clients say who they are.
const SCHEME: &str = "bearer";

/// The card of an agent that is reached at this address.
pub(super) fn describe(agent: &str, card: &AgentCard, url: &str, needs_token: bool) -> Value {
    let skills = card.skills.iter().flatten().map(describe_skill);
    let interface = |version: &str| {
        let mut interface = json!({"url": url, "protocolBinding": "JSONRPC"});
        interface["protocolVersion"] = json!(version);
        interface
    };

    let mut described = json!({
        "name": agent,
        "description": card.description.as_deref().unwrap_or("An agent"),
        "version": card.version.as_deref().unwrap_or("1.0"),
        "supportedInterfaces": [interface("1.0"), interface("0.3")],
        "capabilities": {"streaming": true, "pushNotifications": false},
        "defaultInputModes": ["text/plain", "application/json"],
        "defaultOutputModes": ["text/plain", "application/json"],
        "skills": skills.collect::<Vec<_>>(),
        // What version 0.3 reads in place of the interfaces.
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
    });

    if needs_token {
        described["securitySchemes"] = json!({SCHEME: {
            "httpAuthSecurityScheme": {"scheme": "Bearer"},
            "type": "http",
            "scheme": "Bearer",
        }});
        described["securityRequirements"] = json!([{"schemes": {SCHEME: {"list": []}}}]);
        described["security"] = json!([{SCHEME: []}]);
    }
    described
}

fn describe_skill(skill: &AgentSkill) -> Value {
    json!({
        "id": skill.id,
        "name": skill.name,
        "description": skill.description.as_deref().unwrap_or(&skill.name),
        "tags": skill.tags.as_deref().unwrap_or_default(),
        "examples": skill.examples.as_deref().unwrap_or_default(),
    })
}
