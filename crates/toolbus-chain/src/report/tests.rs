use super::*;

fn result() -> ChainRunResult {
    ChainRunResult {
        status: ChainStatus::Ok,
        output_text: "printed\n".to_owned(),
        output_blocks_refs: Vec::new(),
        logs: String::new(),
        tool_calls: 0,
        duration_ms: 12,
        error: None,
        call_trace: Vec::new(),
        journal: None,
        skipped_writes: Vec::new(),
    }
}

#[test]
fn rv_c12_the_footer_is_there_where_calls_were_made() {
    let text = |result: ChainRunResult| result.into_output().content.unwrap();
    assert_eq!(text(result()), "printed");
    assert_eq!(text(ChainRunResult { tool_calls: 1, ..result() }), "printed\n[1 tool call, 12 ms]");
    let two = ChainRunResult { tool_calls: 2, output_text: String::new(), ..result() };
    assert_eq!(text(two), "[2 tool calls, 12 ms]");
}

#[test]
fn what_was_not_run_and_what_can_be_run_again_stands_behind_the_output() {
    let skipped = serde_json::json!({"tool": "add_label", "arguments": {"id": 7}});
    let failed = ChainRunResult {
        status: ChainStatus::Timeout,
        error: Some("the chain did not end within 3 s".to_owned()),
        skipped_writes: vec![skipped],
        journal: Some("chain_0a".to_owned()),
        tool_calls: 2,
        ..result()
    };
    let expected = "\
printed
the chain did not end within 3 s
[would run {\"tool\":\"add_label\",\"arguments\":{\"id\":7}}]
[to run it again without repeating its writes: journal chain_0a]
[2 tool calls, 12 ms]";
    assert_eq!(failed.into_output().content.unwrap(), expected);
    let done = ChainRunResult { journal: Some("chain_0a".to_owned()), ..result() };
    assert_eq!(done.into_output().content.unwrap(), "printed");
}

#[test]
fn rv_c14_an_error_is_cut_from_its_beginning() {
    let error = Some("é".repeat(3000) + "ValueError: no");
    let output = ChainRunResult { status: ChainStatus::Error, error, ..result() }.into_output();
    assert!(output.is_error);
    let shown = output.content.unwrap();
    assert!(shown.ends_with("ValueError: no"));
    assert_eq!(shown.chars().count(), "printed\n".len() + 1 + SHOWN_ERROR_CHARACTERS_MAX);

    let value: serde_json::Value = serde_json::from_str(output.structured.unwrap().text()).unwrap();
    let error = value["error"].as_str().unwrap();
    assert_eq!(error.chars().count(), 1 + ERROR_CHARACTERS_MAX);
    assert_eq!(value["status"], "error");
}
