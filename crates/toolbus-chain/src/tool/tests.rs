use super::*;

#[test]
fn rv_c2_there_are_a_program_and_its_time_and_nothing_unknown() {
    let tool = tool(300);
    assert_eq!(tool.parameters["required"], json!(["code"]));
    assert_eq!(tool.parameters["additionalProperties"], false);
    assert_eq!(tool.parameters["properties"]["timeout"]["default"], 300);
    // RV-C1: each of its calls is gated, so it has the lowest risk itself.
    assert_eq!((tool.name.as_str(), tool.risk), ("tool_chain", Some(Risk::Low)));
}

#[test]
fn references_in_a_program_are_its_own_request() {
    let arguments =
        json!({"code": "x = {'$artifact': 'art_0a'}\ntools.t(a=\"art_1b\", b=start_2)"});
    let found: Vec<&str> = references_in_text(arguments.as_object().unwrap()).collect();
    assert_eq!(found, ["art_0a", "art_1b"]);
}

#[test]
fn a_program_names_no_more_artifacts_than_it_may() {
    let name = |count: usize, reach: &ArtifactReach| {
        // Each of them twice.
        let code: String =
            (0..2 * count).map(|number| format!("art_{} ", number % count)).collect();
        named_artifacts(json!({"code": code}).as_object().unwrap(), reach)
    };
    let most = name(NAMED_ARTIFACTS_MAX, &ArtifactReach::Session).unwrap();
    assert_eq!(most.to_vec().len(), NAMED_ARTIFACTS_MAX);
    let more = NAMED_ARTIFACTS_MAX + 1;
    let refused = name(more, &ArtifactReach::Session).unwrap_err();
    assert!(refused.message.contains("more than 1000 artifacts"), "{refused:?}");

    // What its caller may not refer to does not count.
    let one: ArtifactSet = [ArtifactRef::parse("art_7").unwrap()].into_iter().collect();
    let named = name(more, &ArtifactReach::Only(one.clone())).unwrap();
    assert_eq!(named.to_vec(), one.to_vec());
}

fn response(reason: Option<ScriptReason>, exit_code: i32, stderr: &str) -> ScriptInvokeResponse {
    let streams = toolbus_wire::message::script::ScriptStreams {
        stdout: "out\n".to_owned(),
        stderr: stderr.to_owned(),
        ..Default::default()
    };
    let response = ScriptInvokeResponse::new("call");
    ScriptInvokeResponse { reason, exit_code, streams: Some(streams), ..response }
}

#[test]
fn each_end_of_a_script_is_an_end_of_the_chain() {
    let check = |reason, exit_code, stderr: &str, status, error: Option<&str>| {
        let response = response(reason, exit_code, stderr);
        let result = result_of(Ended::Responded(Box::new(response)), Duration::from_secs(3));
        assert_eq!((result.status, result.error.as_deref()), (status, error));
        assert_eq!(result.output_text, "out\n");
    };
    check(None, 0, "a warning", ChainStatus::Ok, None);
    check(Some(ScriptReason::OutputTruncated), 0, "", ChainStatus::Ok, None);
    check(None, 1, "ValueError: no\n", ChainStatus::Error, Some("ValueError: no"));
    check(None, 3, "", ChainStatus::Error, Some("the program ended with code 3"));
    let late = Some("the chain did not end within 3 s");
    check(Some(ScriptReason::TimedOut), -1, "", ChainStatus::Timeout, late);
    check(Some(ScriptReason::OutOfMemory), -1, "", ChainStatus::Error, Some("out_of_memory"));
}
