#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde_json::{Value, json};
use toolbus_wire::message::a2a::AgentTaskState;

use super::{
    Answered, Method, RemoteCard, RemoteState, SendParams, Version, read_answered, read_task,
};

#[test]
fn versions_are_named_by_their_first_two_numbers() {
    let versions = [
        ("1.0", Some(Version::V1)),
        ("1.0.3", Some(Version::V1)),
        ("1.7", Some(Version::V1)),
        ("0.3", Some(Version::V03)),
        ("0.3.0", Some(Version::V03)),
        ("", Some(Version::V03)),
        ("0.2.5", None),
        ("2.0", None),
        ("x", None),
        (".3", None),
    ];
    for (text, version) in versions {
        assert_eq!(Version::parse(text), version, "{text}");
    }
    assert_eq!(Method::parse("message/send"), Some((Method::Send, Version::V03)));
    assert_eq!(Method::parse("tasks/list"), None);
}

#[test]
fn a_client_waits_for_the_end_unless_it_says_that_it_does_not() {
    let configurations = [
        (json!(null), true),
        (json!({}), true),
        (json!({"blocking": false}), false),
        (json!({"blocking": true}), true),
        (json!({"returnImmediately": true}), false),
        (json!({"returnImmediately": false, "blocking": false}), true),
    ];
    for (configuration, is_blocking) in configurations {
        let params = json!({"message": {}, "configuration": configuration});
        let params: SendParams = serde_json::from_value(params).unwrap();
        assert_eq!(params.is_blocking(), is_blocking, "{configuration}");
    }
}

#[test]
fn states_of_both_versions_are_read() {
    let state = |name: &str| {
        let task = json!({"id": "1", "status": {"state": name}});
        read_task(task).unwrap().state()
    };
    for name in ["TASK_STATE_COMPLETED", "completed"] {
        assert_eq!(state(name), RemoteState::Ended(AgentTaskState::Completed));
    }
    for name in ["TASK_STATE_INPUT_REQUIRED", "input-required"] {
        assert_eq!(state(name), RemoteState::Ended(AgentTaskState::InputRequired));
    }
    assert_eq!(state("TASK_STATE_REJECTED"), RemoteState::Ended(AgentTaskState::Failed));
    assert_eq!(state("auth-required"), RemoteState::WantsCredentials);
    for name in ["TASK_STATE_WORKING", "submitted", "unknown", "", "completed!"] {
        assert_eq!(state(name), RemoteState::UnderWay, "{name}");
    }
}

#[test]
fn answers_are_tasks_or_messages() {
    let task = json!({"id": "1", "status": {"state": "working"}});
    let message = json!({"messageId": "m", "parts": [{"text": "hello"}]});
    let is_task = |answer: Value| match read_answered(answer, "t") {
        Some(Answered::Task(task)) => task.id == "1",
        Some(Answered::Message(result)) => {
            assert_eq!(result.message.unwrap().parts[0].text.as_deref(), Some("hello"));
            false
        }
        None => panic!("it can be read"),
    };
    assert!(is_task(json!({"task": task})));
    assert!(is_task(task));
    assert!(!is_task(json!({"message": message})));
    assert!(!is_task(message));
    for nonsense in [json!(null), json!({}), json!({"task": 1}), json!([]), json!("x")] {
        assert!(read_answered(nonsense, "t").is_none());
    }
}

#[test]
fn the_newest_interface_of_a_card_is_used() {
    let interface = |card: Value| {
        let card: RemoteCard = serde_json::from_value(card).unwrap();
        card.interface().map(|interface| (interface.url, interface.version))
    };
    let of = |binding: &str, version: &str| {
        json!({"url": format!("{binding}-{version}"),
        "protocolBinding": binding, "protocolVersion": version})
    };
    let both = json!({"supportedInterfaces": [of("GRPC", "1.0"), of("JSONRPC", "0.3"),
        of("JSONRPC", "1.0")]});
    assert_eq!(interface(both), Some(("JSONRPC-1.0".to_owned(), Version::V1)));
    let old = json!({"url": "here", "protocolVersion": "0.3.0"});
    assert_eq!(interface(old), Some(("here".to_owned(), Version::V03)));
    let more = json!({"url": "there", "preferredTransport": "GRPC", "protocolVersion": "0.3.0",
        "additionalInterfaces": [{"url": "here", "transport": "JSONRPC"}]});
    assert_eq!(interface(more), Some(("here".to_owned(), Version::V03)));
    for none in [json!({}), json!({"supportedInterfaces": [of("JSONRPC", "3.0")]})] {
        assert_eq!(interface(none), None);
    }
}

#[test]
fn no_more_entries_of_a_list_are_built_than_show_that_there_are_too_many() {
    let parts = |count: usize| vec![json!({"text": "x"}); count];
    let read = |count: usize| {
        let params = json!({"message": {"role": "user", "parts": parts(count)}});
        serde_json::from_value::<SendParams>(params).unwrap().message.parts.len()
    };
    assert_eq!((read(0), read(64), read(65), read(10_000)), (0, 64, 65, 65));

    let artifacts = vec![json!({"parts": parts(100)}); 100];
    let task = json!({"id": "1", "status": {"state": "completed"}, "artifacts": artifacts});
    let result = read_task(task).unwrap().into_result(AgentTaskState::Completed, "t");
    let lengths = result.artifacts.unwrap().into_iter().map(|artifact| artifact.parts.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [64; 64]);
    let nothing = json!({"id": "1", "status": {"state": "completed"}, "artifacts": null});
    let result = read_task(nothing).unwrap().into_result(AgentTaskState::Completed, "t");
    assert!(result.artifacts.is_none());
}
