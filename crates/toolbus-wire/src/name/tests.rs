//! Which texts are names.

use super::*;

fn check_agent(text: &str, expected: Result<(), Error>) {
    assert_eq!(AgentName::parse(text).map(drop), expected, "{text:?}");
}

#[test]
fn an_agent_name_is_a_segment_and_nothing_else() {
    for good in ["RockBot", "a", "A-b_9", "Refresh", "mcp2", &"x".repeat(64)] {
        check_agent(good, Ok(()));
    }

    check_agent("", Err(Error::Empty));
    check_agent(&"x".repeat(65), Err(Error::TooLong(65)));

    for bad in ["a.b", "a b", "*", "#", "é", "a\n", "a/b"] {
        check_agent(bad, Err(Error::Character));
    }

    for reserved in ["refresh", "status", "cancel", "mcp"] {
        check_agent(reserved, Err(Error::Reserved));
        assert!(InstanceId::parse(reserved).is_ok());
    }
}

#[test]
fn the_standard_name_is_a_name() {
    assert_eq!(AgentName::parse("RockBot").unwrap(), AgentName::standard());
    assert_eq!(mcp_bridge(&AgentName::standard()), "mcp-bridge.RockBot");
}

#[test]
fn random_instances_differ() {
    let (one, other) = (InstanceId::random(), InstanceId::random());
    assert_ne!(one, other);
    assert_eq!(InstanceId::parse(one.as_str()).unwrap(), one);
}

#[test]
fn a_name_in_a_file_is_checked() {
    assert_eq!(serde_json::from_str::<AgentName>("\"a\"").unwrap().as_str(), "a");
    assert!(serde_json::from_str::<AgentName>("\"a.b\"").is_err());
    assert_eq!(serde_json::to_string(&AgentName::standard()).unwrap(), "\"RockBot\"");
}
