use toolbus_wire::message::script::ScriptStreams;

use super::*;

fn ended(exit_code: i32, text: Option<&str>, stderr: Option<&str>) -> ScriptInvokeResponse {
    let mut response = ScriptInvokeResponse::new("c1");
    response.exit_code = exit_code;
    response.output = text.map(str::to_owned);
    response.stderr = stderr.map(str::to_owned);
    response
}

fn because(mut response: ScriptInvokeResponse, reason: ScriptReason) -> ScriptInvokeResponse {
    response.reason = Some(reason);
    response.streams = Some(ScriptStreams::default());
    response
}

#[track_caller]
fn check(response: ScriptInvokeResponse, expected: Output) {
    assert_eq!(output_of_response(response, 7), Ok(expected));
}

#[test]
fn the_model_is_told_in_the_words_of_the_contract() {
    check(ended(0, Some("42\n"), None), Output::text("42\n"));
    check(ended(0, Some(""), None), Output::text(""));
    check(ended(0, None, None), Output::text("(no output)"));
    check(ended(3, Some("before\n"), None), Output::error("Script failed (exit 3):\nbefore\n"));
    check(ended(1, None, Some("why")), Output::error("Script failed (exit 1):\nwhy"));
    check(ended(-1, None, None), Output::error("Script failed (exit -1):\n(no output)"));

    let timed_out = Output::error(
        "execute_python_script timed out after 7s. Either increase timeout_seconds, simplify the \
         script, or consider an alternative approach that does not require script execution.",
    );
    check(ended(-1, Some("x"), Some("Pod TIMED OUT after 7s")), timed_out.clone());

    let own = because(ended(-1, None, Some("Script timed out after 7s")), ScriptReason::TimedOut);
    check(own, timed_out);

    // A script that says so itself and succeeds has not timed out.
    check(ended(0, Some("ok"), Some("timed out")), Output::text("ok"));
}

#[test]
fn what_the_contract_has_no_words_for_stands_on_a_line_of_its_own() {
    check(
        because(ended(137, Some("a"), None), ScriptReason::OutOfMemory),
        Output::error("Script failed (exit 137):\na\n[out of memory]"),
    );

    let locks = because(ended(137, Some("a"), Some("too many locks")), ScriptReason::OutOfMemory);
    check(locks, Output::error("Script failed (exit 137):\na\n[too many locks]"));

    check(
        because(ended(0, Some("a"), None), ScriptReason::OutputTruncated),
        Output::text("a\n[output truncated]"),
    );

    let mut killed = because(ended(139, Some("a"), None), ScriptReason::Killed);
    killed.signal = Some(11);
    check(killed, Output::error("Script failed (exit 139):\na\n[killed by signal 11]"));
}

/// It never began, so to simplify it would not help.
#[test]
fn a_script_whose_packages_took_too_long_has_not_timed_out() {
    check(
        because(ended(-1, None, Some("pip install timed out after 110s")), ScriptReason::Packages),
        Output::error("Script failed (exit -1):\npip install timed out after 110s"),
    );
}

#[test]
fn failures_of_the_runner_are_errors_with_a_code() {
    let check = |reason: ScriptReason, code: ErrorCode| {
        let response = because(ended(-1, None, Some("why")), reason);
        assert_eq!(output_of_response(response, 7), Err(CallError::new(code, "why")));
    };
    check(ScriptReason::Busy, ErrorCode::Busy);
    check(ScriptReason::Cancelled, ErrorCode::Cancelled);
    check(ScriptReason::Invalid, ErrorCode::InvalidArguments);
    check(ScriptReason::Unavailable, ErrorCode::ExecutionFailed);
    check(ScriptReason::Failed, ErrorCode::ExecutionFailed);
    check(ScriptReason::OutcomeUnknown, ErrorCode::OutcomeUnknown);
}

#[test]
fn habits_of_models_are_forgiven() {
    let check = |value: Value, expected: Value| {
        let Value::Object(mut arguments) = value else { panic!("arguments are an object") };
        coerce_arguments(&mut arguments, ScriptAllowance::default());
        assert_eq!(Value::Object(arguments), expected);
    };

    check(json!({"timeout_seconds": 1000}), json!({"timeout_seconds": 300}));
    check(json!({"timeout_seconds": -5}), json!({"timeout_seconds": 1}));
    check(json!({"timeout_seconds": 0}), json!({"timeout_seconds": 1}));
    check(json!({"timeout_seconds": 2.2}), json!({"timeout_seconds": 3}));
    check(json!({"timeout_seconds": "45"}), json!({"timeout_seconds": 45}));
    check(json!({"timeout_seconds": "soon"}), json!({"timeout_seconds": "soon"}));
    check(json!({"timeout_seconds": null}), json!({"timeout_seconds": null}));
    check(json!({"pip_packages": "[\"a\", \"b\"]"}), json!({"pip_packages": ["a", "b"]}));
    check(json!({"pip_packages": "numpy"}), json!({"pip_packages": ["numpy"]}));
    check(json!({"pip_packages": " "}), json!({"pip_packages": []}));

    check(json!({"input_data": {"a": 1}}), json!({"input_data": "{\"a\":1}"}));
}

#[test]
fn a_caller_waits_longer_than_the_script_may_run() {
    let check = |value: Value, seconds: u64| {
        let Value::Object(arguments) = value else { panic!("arguments are an object") };
        assert_eq!(
            call_timeout(&arguments, ScriptAllowance::default()),
            Duration::from_secs(seconds)
        );
    };
    check(json!({}), 40);
    check(json!({"timeout_seconds": 300}), 310);
    check(json!({"timeout_seconds": 1, "pip_packages": []}), 11);
    check(json!({"timeout_seconds": 1, "pip_packages": ["numpy"]}), 131);
}

#[test]
fn the_request_carries_the_arguments_under_a_fresh_id() {
    let Value::Object(arguments) =
        json!({"script": "print(1)", "input_data": null, "pip_packages": ["a"]})
    else {
        panic!("arguments are an object")
    };

    let first = build_request(arguments.clone(), 30).unwrap();
    let second = build_request(arguments, 30).unwrap();

    assert_ne!(first.tool_call_id, second.tool_call_id);
    assert_eq!(first.script, "print(1)");
    assert_eq!(first.input_data, None);
    assert_eq!(first.timeout_seconds, 30);

    assert_eq!(first.pip_packages, Some(vec!["a".to_owned()]));
}
