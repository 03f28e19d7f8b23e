use super::*;
use crate::config::TEXT_LIMITS;
use crate::server_pool::REGISTERED_MAX;

fn members_of(args: usize) -> Map<String, Value> {
    entry_members(McpRegisterServerRequest {
        kind: "stdio".to_owned(),
        command: Some("a".to_owned()),
        args: vec![String::new(); args],
        ..McpRegisterServerRequest::default()
    })
}

/// The agent is told why: every other name that is none is a connection that failed.
#[test]
fn no_server_is_registered_by_a_name_that_is_reserved() {
    for name in ["management", "Man-Agement", "offers", "OFFERS "] {
        let error = check_name(name).expect_err(name);
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(error.message.contains("not management or offers"), "{}", error.message);
    }
    assert_eq!(check_name("manager"), Ok(()));
}

#[test]
fn a_registration_is_short_enough_to_be_kept_with_all_others() {
    let code = |args| check_length(&members_of(args)).map_err(|error| error.code);
    assert_eq!(code(100), Ok(()));
    assert_eq!(code(10_000), Err(ErrorCode::InvalidArguments));

    let fits = |args: &usize| check_length(&members_of(*args)).is_ok();
    let most = (0..).step_by(50).take_while(fits).last().expect("an empty one fits");
    let all = (0..REGISTERED_MAX).map(|number| (number.to_string(), json!(members_of(most))));
    let all: Map<String, Value> = all.collect();
    let file = json!({"mcpServers": all});
    let text = serde_json::to_vec_pretty(&file).expect("it is JSON");
    TEXT_LIMITS.check(&text).expect("it can be read");
}
