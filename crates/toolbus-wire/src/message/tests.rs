//! What single messages take and give beyond what was recorded.

use std::fmt::Debug;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::a2a::*;
use super::mcp::*;
use super::script::*;
use super::tool::*;
use super::toolbus::*;
use super::*;
use crate::Execution;
use crate::{Envelope, ErrorCode};

fn check<T: Message + PartialEq + Debug>(body: &Value, expected: &T) {
    assert_eq!(json::read::<T>(body.to_string().as_bytes()).as_ref(), Ok(expected), "{body}");
}

fn check_written<T: Message>(message: &T, expected: &str) {
    assert_eq!(json::write(message), expected);
}

fn request(arguments: Option<&str>) -> ToolInvokeRequest {
    ToolInvokeRequest {
        tool_call_id: "c".to_owned(),
        tool_name: "t".to_owned(),
        arguments: arguments.map(str::to_owned),
        session_id: None,
    }
}

#[test]
fn a_type_is_compared_without_case() {
    let mut envelope = Envelope::of(&request(None), "s");
    assert!(is::<ToolInvokeRequest>(&envelope));
    envelope.message_type.make_ascii_lowercase();
    assert!(is::<ToolInvokeRequest>(&envelope));
    assert!(!is::<ToolError>(&envelope));
    assert_eq!(super::read::<ToolInvokeRequest>(&envelope), Ok(request(None)));
}

#[test]
fn arguments_are_text_however_they_are_sent() {
    let ids = |arguments: &str| format!(r#"{{"toolCallId":"c","toolName":"t"{arguments}}}"#);
    for (arguments, expected) in [
        ("", None),
        (r#","arguments":null"#, None),
        (r#","arguments":"""#, Some("")),
        (r#","arguments":"{\"a\":1}""#, Some(r#"{"a":1}"#)),
        (r#","arguments":"not json""#, Some("not json")),
        (r#","ARGUMENTS":{"A":1.10,"é\n":[ 1e400 ]}"#, Some(r#"{"A":1.10,"é\n":[ 1e400 ]}"#)),
        (r#","arguments":{}"#, Some("{}")),
        (r#","arguments":[1, {"A":18446744073709551616}]"#, {
            Some(r#"[1,{"A":18446744073709551616}]"#)
        }),
        (r#","arguments":true"#, Some("true")),
        (r#","arguments":-5"#, Some("-5")),
        (r#","arguments":5"#, Some("5")),
        (r#","arguments":2.5"#, Some("2.5")),
    ] {
        let body = ids(arguments);
        let read = json::read::<ToolInvokeRequest>(body.as_bytes());
        assert_eq!(read, Ok(request(expected)), "{body}");
    }

    // The rule does not depend on the reader.
    let value = json!({"toolCallId": "c", "toolName": "t", "arguments": {"a": 1}});
    let read: ToolInvokeRequest = serde_json::from_value(value).unwrap();
    assert_eq!(read, request(Some(r#"{"a":1}"#)));
}

#[test]
fn tools_are_written_as_the_contract_says() {
    check_written(
        &request(None),
        r#"{"toolCallId":"c","toolName":"t","arguments":null,"sessionId":null}"#,
    );
    let response = ToolInvokeResponse {
        tool_call_id: "c".to_owned(),
        tool_name: "t".to_owned(),
        ..ToolInvokeResponse::default()
    };

    check_written(&response, r#"{"toolCallId":"c","toolName":"t","content":null,"isError":false}"#);
    let block = ContentBlock {
        kind: ContentKind::Image,
        text: None,
        data: Some("AA==".to_owned()),
        mime_type: Some("image/png".to_owned()),
        uri: None,
    };

    check_written(
        &ToolInvokeResponse { content_blocks: Some(vec![block]), ..response },
        concat!(
            r#"{"toolCallId":"c","toolName":"t","content":null,"isError":false,"#,
            r#""contentBlocks":[{"type":"image","data":"AA==","mimeType":"image/png"}]}"#
        ),
    );
}

#[test]
fn an_error_of_a_tool_says_whether_to_try_again() {
    for code in ErrorCode::ALL {
        let error = ToolError::new(&request(None), code.clone(), "m");
        // A call that timed out may have been started, so that is no advice to make it again.
        let retryable = ["busy", "rate_limited", "unroutable"].contains(&error.code.as_str());
        assert_eq!(error.is_retryable, retryable, "{code}");
        assert_eq!((error.tool_call_id.as_str(), error.tool_name.as_str()), ("c", "t"));
        assert_eq!(ErrorCode::from(code.as_str()), *code);
    }

    let newer = json!({"toolCallId": "c", "toolName": "t", "code": "new_one", "message": "m"});
    let error = json::read::<ToolError>(newer.to_string().as_bytes()).unwrap();
    assert_eq!(error.code, ErrorCode::Other("new_one".into()));
    assert!(!error.is_retryable);
    check_written(
        &error,
        r#"{"toolCallId":"c","toolName":"t","code":"new_one","message":"m","isRetryable":false}"#,
    );

    for (text, execution) in [
        ("started", Execution::Started),
        ("not_started", Execution::NotStarted),
        ("a newer word", Execution::Unknown),
    ] {
        let body = json!({
            "toolCallId": "c", "toolName": "t", "code": "timeout", "message": "m",
            "execution": text, "retryAfterMs": 5, "details": {"a": [1]}
        });
        let error = json::read::<ToolError>(body.to_string().as_bytes()).unwrap();
        assert_eq!((error.execution, error.retry_after_ms), (Some(execution), Some(5)), "{text}");
        assert_eq!(error.details, Some(json!({"a": [1]})));
    }
}

#[test]
fn ids_are_found_in_a_malformed_request() {
    for (body, id, name) in [
        ("", "", ""),
        ("null", "", ""),
        ("not json", "", ""),
        (r#"{"toolName":"echo"}"#, "", "echo"),
        (r#"{"TOOLCALLID":"c","toolName":{"a":[1]},"sessionId":5}"#, "c", ""),
        (r#"{"toolCallId":5,"toolName":null}"#, "", ""),
        (r#"{"toolCallId":[1],"toolName":false}"#, "", ""),
        (r#"{"toolCallId":1.5,"toolName":-1}"#, "", ""),
    ] {
        let expected = CallIds { tool_call_id: id.to_owned(), tool_name: name.to_owned() };
        assert_eq!(CallIds::of_malformed(body.as_bytes()), expected, "{body}");
    }
}

#[test]
fn members_with_a_default_may_be_null_or_absent() {
    let absent = json!({"toolCallId": "c", "toolName": "t"});
    let null = json!({"toolCallId": "c", "toolName": "t", "content": null, "isError": null});
    let expected = ToolInvokeResponse {
        tool_call_id: "c".to_owned(),
        tool_name: "t".to_owned(),
        ..ToolInvokeResponse::default()
    };

    check(&absent, &expected);
    check(&null, &expected);

    let register = McpRegisterServerRequest {
        server_name: "s".to_owned(),
        kind: "sse".to_owned(),
        ..McpRegisterServerRequest::default()
    };

    check(&json!({"serverName": "s", "type": "sse"}), &register);
    check(&json!({"serverName": "s", "type": "sse", "args": null, "env": null}), &register);

    let script = ScriptInvokeRequest {
        tool_call_id: "c".to_owned(),
        script: "1".to_owned(),
        input_data: None,
        timeout_seconds: 30,
        pip_packages: None,
        files: None,
        channel: None,
    };

    check(&json!({"toolCallId": "c", "script": "1"}), &script);
    check(&json!({"toolCallId": "c", "script": "1", "timeoutSeconds": null}), &script);
    check_written(
        &script,
        r#"{"toolCallId":"c","script":"1","inputData":null,"timeoutSeconds":30,"pipPackages":null}"#,
    );
    let file = ScriptFile { name: "a".to_owned(), data: "eA==".to_owned(), mime_type: None };
    let with_file = ScriptInvokeRequest { files: Some(vec![file]), ..script };
    let members = json!([{"name": "a", "data": "eA=="}]);
    check(&json!({"toolCallId": "c", "script": "1", "files": members}), &with_file);
    let channel = Some(ScriptChannel { prelude: "2".to_owned() });
    let with_channel = ScriptInvokeRequest { files: None, channel, ..with_file };
    let members = json!({"toolCallId": "c", "script": "1", "channel": {"prelude": "2"}});
    check(&members, &with_channel);
    check_written(
        &with_channel,
        r#"{"toolCallId":"c","script":"1","inputData":null,"timeoutSeconds":30,"pipPackages":null,"channel":{"prelude":"2"}}"#,
    );

    let indexed = McpServersIndexed::default();
    check(&json!({"servers": []}), &indexed);
    check(&json!({"servers": [], "removedServers": null}), &indexed);
}

#[test]
fn a_required_member_is_named_when_it_is_missing() {
    let error = json::read::<McpServersIndexed>(br#"{"servers":[{"toolCount":1}]}"#).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the body is invalid: `servers[0]`: missing field `serverName` at line 1 column 27"
    );
}

#[test]
fn newer_members_are_left_out_when_there_is_nothing_to_say() {
    let summary = McpServerSummary { server_name: "s".to_owned(), ..McpServerSummary::default() };
    check_written(
        &McpServersIndexed { servers: vec![summary.clone()], ..McpServersIndexed::default() },
        concat!(
            r#"{"servers":[{"serverName":"s","displayName":null,"summary":null,"#,
            r#""toolCount":0,"toolNames":[]}],"removedServers":[]}"#
        ),
    );
    let newer = json!({"servers": [{
        "serverName": "s", "promptCount": 2, "promptNames": ["p"], "serverId": "i",
        "fingerprint": "f", "toolFingerprints": {"T": "x"}, "version": "1", "identityHash": "h",
        "handback": true,
    }]});

    let expected = McpServerSummary {
        prompt_count: Some(2),
        prompt_names: Some(vec!["p".to_owned()]),
        server_id: Some("i".to_owned()),
        fingerprint: Some("f".to_owned()),
        tool_fingerprints: Some([("T".to_owned(), "x".to_owned())].into()),
        version: Some("1".to_owned()),
        identity_hash: Some("h".to_owned()),
        handback: true,
        ..summary
    };

    check(&newer, &McpServersIndexed { servers: vec![expected], ..McpServersIndexed::default() });
}

#[test]
fn an_unknown_request_is_answered_under_its_own_name() {
    let (response_type, response) =
        unknown_request_response("RockBot.Tools.Mcp.McpReadResourceRequest");
    assert_eq!(response_type, "RockBot.Tools.Mcp.McpReadResourceResponse");
    assert_eq!(
        serde_json::to_value(&response).unwrap(),
        json!({
            "serverName": "",
            "tools": [],
            "error": "unknown request type RockBot.Tools.Mcp.McpReadResourceRequest",
        })
    );
    assert_eq!(unknown_request_response("X").0, "XResponse");
    let (too_long, _) = unknown_request_response(&"x".repeat(255));
    assert_eq!(too_long, McpGetServiceDetailsResponse::TYPE);
}

#[test]
fn details_are_asked_for_whole_or_by_pages() {
    let whole = McpGetServiceDetailsRequest { server_name: "s".to_owned(), ..Default::default() };
    check_written(&whole, r#"{"serverName":"s"}"#);
    let page = McpGetServiceDetailsRequest { tools_from: Some(3), ..whole };
    check_written(&page, r#"{"serverName":"s","toolsFrom":3}"#);
    let last = McpGetServiceDetailsResponse { server_name: "s".to_owned(), ..Default::default() };
    check_written(&last, r#"{"serverName":"s","tools":[],"error":null}"#);
    let more = McpGetServiceDetailsResponse { tools_next: Some(9), ..last };
    check_written(&more, r#"{"serverName":"s","tools":[],"toolsNext":9,"error":null}"#);
}

#[test]
fn a_script_that_exits_with_zero_succeeded_and_says_so() {
    let bare = ScriptInvokeResponse { exit_code: 0, ..ScriptInvokeResponse::new("c") };
    check_written(
        &bare,
        concat!(
            r#"{"toolCallId":"c","output":null,"stderr":null,"exitCode":0,"#,
            r#""isSuccess":true,"elapsedMs":0}"#
        ),
    );
    let full = ScriptInvokeResponse {
        output: Some("o".to_owned()),
        exit_code: 137,
        elapsed_ms: 5,
        streams: Some(ScriptStreams {
            stdout: "o".to_owned(),
            stdout_truncated: true,
            ..ScriptStreams::default()
        }),
        reason: Some(ScriptReason::OutOfMemory),
        signal: Some(9),
        usage: Some(ScriptUsage { cpu_ms: 1, memory_peak_bytes: 2 }),
        ..bare
    };

    let body = json!({
        "toolCallId": "c", "output": "o", "stderr": null, "exitCode": 137, "isSuccess": false,
        "elapsedMs": 5,
        "streams": {
            "stdout": "o", "stderr": "", "stdoutTruncated": true, "stderrTruncated": false,
        },
        "reason": "out_of_memory", "signal": 9, "usage": {"cpuMs": 1, "memoryPeakBytes": 2},
    });

    check_written(&full, &body.to_string());
    check(&body, &full);
    // What a peer says about success is not believed, and no exit code is not success.
    let odd = json!({"toolCallId": "c", "isSuccess": true});
    check(&odd, &ScriptInvokeResponse::new("c"));
    assert!(!ScriptInvokeResponse::new("c").is_success());
}

#[test]
fn our_own_messages_leave_out_what_is_absent() {
    let cancel = ToolCancel {
        source: "s".to_owned(),
        tool_call_id: "c".to_owned(),
        ..ToolCancel::default()
    };

    check_written(&cancel, r#"{"source":"s","toolCallId":"c"}"#);
    let progress = ToolProgress {
        tool_call_id: "c".to_owned(),
        seq: 1,
        progress: Some(0.5),
        total: Some(2.0),
        stream: Some(OutputStream::Stderr),
        text: Some("x".to_owned()),
        ..ToolProgress::default()
    };

    let body =
        r#"{"toolCallId":"c","seq":1,"progress":0.5,"total":2.0,"stream":"stderr","text":"x"}"#;
    check_written(&progress, body);
    check(&body.parse().unwrap(), &progress);
    let ask = ToolAsk {
        tool_call_id: "c".to_owned(),
        ask_id: "a".to_owned(),
        kind: AskKind::Approval,
        from: None,
        params: json!({"Why": 1}),
        round: None,
    };

    let body = r#"{"toolCallId":"c","askId":"a","kind":"approval","params":{"Why":1}}"#;
    check_written(&ask, body);
    check(&body.parse().unwrap(), &ask);
    let round = Some(AskRound { key: "k".to_owned(), size: 2 });
    let ask = ToolAsk { kind: AskKind::Roots, round, ..ask };
    let body = r#"{"toolCallId":"c","askId":"a","kind":"roots","params":{"Why":1},"round":{"key":"k","size":2}}"#;
    check_written(&ask, body);
    check(&body.parse().unwrap(), &ask);
    let answer = ToolAnswer {
        tool_call_id: "c".to_owned(),
        ask_id: "a".to_owned(),
        result: Some(json!({"action": "accept"})),
        error: None,
    };

    let body = r#"{"toolCallId":"c","askId":"a","result":{"action":"accept"}}"#;
    check_written(&answer, body);
    check(&body.parse().unwrap(), &answer);
    let error = Some(AskError::new(AskErrorCode::Unsupported, "no model here"));
    let refused = ToolAnswer { result: None, error, ..answer };
    let body = r#"{"toolCallId":"c","askId":"a","error":{"code":"unsupported","message":"no model here"}}"#;
    check_written(&refused, body);
    check(&body.parse().unwrap(), &refused);
    let calls = vec!["c".to_owned()];
    let alive = Alive { instance: "i".to_owned(), calls, kept: Vec::new() };
    check_written(&alive, r#"{"instance":"i","calls":["c"]}"#);
}

#[test]
fn secrets_are_not_shown() {
    let mut env = McpRegisterServerRequest::default();
    env.env.insert("KEY".to_owned(), Secret::from("hunter2".to_owned()));
    let shown = format!("{env:?}");
    assert!(shown.contains("KEY") && !shown.contains("hunter2"), "{shown}");
    assert_eq!(env.env["KEY"].expose(), "hunter2");
    let written = json::write(&env);
    assert!(std::str::from_utf8(&written).unwrap().contains(r#""KEY":"hunter2""#));
}

#[test]
fn a_prompt_is_asked_for_and_given() {
    let request = json!({"serverName": "s", "promptName": "p", "arguments": {"City": "x"}});
    let read = json::read::<McpGetPromptRequest>(request.to_string().as_bytes()).unwrap();
    assert_eq!(read.arguments["City"], "x");
    let response = json!({
        "serverName": "s", "promptName": "p", "description": null,
        "messages": [{"role": "user", "content": "hi", "contentType": "text"}], "error": null,
    });
    let read = json::read::<McpGetPromptResponse>(response.to_string().as_bytes()).unwrap();
    check_written(&read, &response.to_string());
}

#[test]
fn resources_are_listed_and_read() {
    let listed = json!({
        "serverName": "s",
        "resources": [{"uri": "demo://a", "name": "a", "mimeType": "text/plain", "size": 3}],
        "templates": [{"uriTemplate": "demo://{id}", "name": "t"}],
        "nextCursor": null, "error": null,
    });

    let read = json::read::<McpListResourcesResponse>(listed.to_string().as_bytes()).unwrap();
    check_written(&read, &listed.to_string());
    let contents = json!({
        "serverName": "s", "uri": "demo://a",
        "contents": [{"uri": "demo://a", "text": "abc"}, {"uri": "demo://b", "blob": "YWJj"}],
        "error": null,
    });

    let read = json::read::<McpReadResourceResponse>(contents.to_string().as_bytes()).unwrap();
    check_written(&read, &contents.to_string());
    let refused = json::read::<McpReadResourceResponse>(br#"{"error":"no"}"#).unwrap();
    assert_eq!((refused.contents.len(), refused.error.as_deref()), (0, Some("no")));
}

proptest! {
    #[test]
    fn any_bytes_are_refused_or_read_by_every_family(body in any::<Vec<u8>>()) {
        let _ = json::read::<ToolInvokeRequest>(&body);
        let _ = json::read::<McpServersIndexed>(&body);
        let _ = CallIds::of_malformed(&body);
    }

    #[test]
    fn a_request_is_read_as_it_was_written(
        tool_call_id in any::<String>(),
        tool_name in any::<String>(),
        arguments in any::<Option<String>>(),
        session_id in any::<Option<String>>(),
    ) {
        let request = ToolInvokeRequest { tool_call_id, tool_name, arguments, session_id };
        prop_assert_eq!(json::read(&json::write(&request)), Ok(request));
    }
}

#[test]
fn responses_of_bridges_carry_the_code_of_an_error() {
    let denied = McpRegisterServerResponse::from_error(ErrorCode::Denied, "no".to_owned());
    let body = serde_json::to_value(&denied).unwrap();
    assert_eq!(body["error"], "no");
    assert_eq!(body["errorCode"], "denied");
    assert_eq!(denied.error_code(), Some(ErrorCode::Denied));

    // The C# code knows no codes, so the usual one goes unsaid.
    let failed = McpRegisterServerResponse::from_error(ErrorCode::ExecutionFailed, "no".to_owned());
    let body = serde_json::to_value(&failed).unwrap();
    assert_eq!(body.get("errorCode"), None);
    assert_eq!(failed.error_code(), Some(ErrorCode::ExecutionFailed));

    let newer = json::read::<McpRegisterServerResponse>(
        br#"{"serverName":"x","error":"no","errorCode":"novel"}"#,
    )
    .unwrap();
    assert_eq!(newer.error_code(), Some(ErrorCode::Other("novel".into())));
    assert_eq!(McpRegisterServerResponse::default().error_code(), None);
}

#[test]
fn states_of_tasks_are_numbers() {
    let update = |state| AgentTaskStatusUpdate {
        task_id: "t".to_owned(),
        context_id: None,
        state,
        message: None,
    };
    for number in [0, 1, 2, 3, 4, 5, 6, -1, i64::MAX] {
        let state = AgentTaskState::from(number);
        assert_eq!(matches!(state, AgentTaskState::Other(_)), !(0..=5).contains(&number));
        check(&json!({"taskId": "t", "state": number}), &update(state));
        check_written(
            &update(state),
            &format!(r#"{{"taskId":"t","contextId":null,"state":{number},"message":null}}"#),
        );
    }
    for state in [json!("Working"), json!(1.5), json!(null), json!([1])] {
        let body = json!({"taskId": "t", "state": state}).to_string();
        json::read::<AgentTaskStatusUpdate>(body.as_bytes()).unwrap_err();
    }
}

#[test]
fn newer_members_of_cards_are_read_and_left_out_where_there_are_none() {
    let card = AgentCard { agent_name: "A".to_owned(), ..AgentCard::default() };
    check_written(
        &card,
        concat!(
            r#"{"agentName":"A","description":null,"version":null,"skills":null,"#,
            r#""isDeregistering":false}"#
        ),
    );
    check(&json!({"AGENTNAME": "A", "isDeregistering": null}), &card);
    let newer = json!({"agentName": "A", "url": "http://a", "authHeaderValueBase64": "c2VjcmV0"});
    let read = json::read::<AgentCard>(newer.to_string().as_bytes()).unwrap();
    assert_eq!(read.url.as_deref(), Some("http://a"));
    assert!(!format!("{read:?}").contains("c2VjcmV0"));
}

#[test]
fn the_id_of_a_malformed_task_is_found_where_there_is_one() {
    assert_eq!(task_id_of_malformed(br#"{"taskid":"t","skill":7}"#).as_deref(), Some("t"));
    for body in [&b"{}"[..], b"null", b"not json", br#"{"taskId":7}"#, br#"{"taskId":""}"#] {
        assert_eq!(task_id_of_malformed(body), None);
    }
}
