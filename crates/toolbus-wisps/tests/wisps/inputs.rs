//! What steps take as input, and where outputs go.

use serde_json::json;
use std::sync::Arc;
use toolbus_tools::Scope;

use crate::support::{
    Bench, Setup, agent, answer, llm, mcp, scope, script, search, wisp, wisp_ids, with,
};
use toolbus_wisps::AgentEnd;

#[tokio::test]
async fn each_gateway_takes_input_as_it_needs_it() {
    let mut setup = Setup::default();
    setup.world.ends.get_mut().insert("go".to_owned(), AgentEnd::Completed("done".to_owned()));
    setup.world.answers.get_mut().push(answer("summed up", 1));
    let bench = Bench::with(setup);
    let from = |step| with(step, json!({"input_from": "a"}));
    let input = r#"{"q": 1, "do": "give:x"}"#;
    let output = bench
        .spawn(json!([wisp(vec![
            search("a", &format!("give:{input}")),
            from(script("s", "input:")),
            from(mcp("m", "b", "read", json!({"q": 2}))),
            with(search("w", ""), json!({"params": {}, "input_from": "a"})),
            from(with(agent("o", "go"), json!({"message": "go"}))),
            from(llm("l", "Sum up.")),
        ])]))
        .await;
    let calls = bench.calls();
    assert_eq!(calls[1].arguments["input_data"], input);
    // What the step says itself stays.
    assert_eq!(calls[2].arguments["arguments"], json!({"q": 2, "do": "give:x"}));
    assert_eq!(calls[3].arguments["query"], input);
    let message = calls[4].arguments["message"].as_str().unwrap();
    assert_eq!(message, format!("go\n\nInput from step `a`:\n{input}"));
    // Its text is the id of the task, which has blanks here.
    assert!(
        output.to_text().contains("Failed at step `o`") || bench.world.prompts.lock().len() == 1
    );
}

#[tokio::test]
async fn an_input_that_is_no_object_cannot_be_arguments() {
    let bench = Bench::new();
    let output = bench
        .spawn(json!([wisp(vec![
            search("a", "give:text"),
            with(mcp("m", "b", "read", json!({})), json!({"input_from": "a"})),
        ])]))
        .await;
    let text = output.to_text();
    assert!(text.contains("at step `m` (Data): the input is not a JSON object"), "{text}");
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn a_long_input_is_kept_in_chunks_beside_a_prompt() {
    let mut setup = Setup::default();
    setup.world.answers.get_mut().extend([answer("two", 1), answer("one", 1)]);
    let bench = Bench::with(setup);
    let ask = |chars: usize| {
        let ask = with(llm("l", "Sum up."), json!({"input_from": "a"}));
        wisp(vec![search("a", &format!("big:{chars}")), ask])
    };
    let text = bench.spawn(json!([ask(8_000), ask(45_000)])).await.to_text().into_owned();
    let mut prompts = bench.world.prompts.lock().clone();
    prompts.sort_by_key(String::len);
    assert!(prompts[0].ends_with(&"x".repeat(8_000)), "all of it is there");

    let id = &wisp_ids(&text)[1];
    let key = |n: usize| format!("wisp/{id}/l/input-chunk{n}");
    assert!(prompts[1].contains(&format!(
        "[37000 more chars. All of it is in working memory for a while, in chunks: `{}`",
        key(0)
    )));
    let mut lengths = Vec::new();
    for n in 0..4 {
        let Some(chunk) = bench.kept(&key(n)).await else { continue };
        assert_eq!(chunk.info.expires_ms - chunk.info.stored_ms, 30 * 60_000);
        lengths.push(chunk.value.len());
    }
    assert_eq!(lengths, [20_000, 20_000, 5_000]);
    let first = wisp_ids(&text)[0].clone();
    assert!(bench.kept(&format!("wisp/{first}/l/input-chunk0")).await.is_none());
}

#[tokio::test]
async fn a_script_gets_a_long_input_as_a_whole() {
    let bench = Bench::new();
    let count = with(script("s", "input:"), json!({"input_from": "a"}));
    bench.spawn(json!([wisp(vec![search("a", "big:100000"), count])])).await;
    assert_eq!(bench.calls()[1].arguments["input_data"].as_str().unwrap().len(), 100_000);
}

#[tokio::test]
async fn a_time_of_a_script_is_told_to_it() {
    let bench = Bench::new();
    let slow = with(script("s", "give:x"), json!({"timeout_minutes": 2}));
    let slower = with(script("s", "give:x"), json!({"timeout_minutes": 10}));
    let own = with(slow.clone(), json!({"params": {"script": "give:x", "timeout_seconds": 7}}));
    for (step, expected) in [(slow, 120), (slower, 300), (own, 7)] {
        bench.spawn(json!([wisp(vec![step])])).await;
        assert_eq!(bench.calls().last().unwrap().arguments["timeout_seconds"], expected);
    }
}

#[tokio::test]
async fn an_output_goes_where_it_is_wanted() {
    let bench = Bench::new();
    let to = |key: &str| with(search("a", "give:found"), json!({"output_to": key}));
    let next = search("b", "give:{{steps.a.output_to}}");
    let text = bench.spawn(json!([wisp(vec![to("findings/a"), next])])).await;
    let text = text.to_text();
    assert!(text.contains("Output: session/s1/findings/a"), "{text}");
    let said = bench.say(&scope(), "get_from_working_memory", json!({"key": "findings/a"})).await;
    assert_eq!(said, "found");

    // Another conversation's memory is not written to, and nothing has run then.
    let refused = bench.try_spawn(json!([wisp(vec![to("session/s2/a")])])).await.unwrap_err();
    assert!(refused.message.contains("belongs to another session"), "{refused}");
    assert!(refused.message.starts_with("Nothing was run"), "{refused}");
    assert_eq!(bench.calls().len(), 2);
}

#[tokio::test]
async fn an_output_that_cannot_be_kept_where_it_is_wanted_is_a_failure() {
    let mut setup = Setup::default();
    setup.memory.entries_max = 0;
    let bench = Bench::with(setup);
    let step = with(search("a", "give:found"), json!({"output_to": "a"}));
    let output = bench.spawn(json!([wisp(vec![step])])).await;
    let text = output.to_text();
    assert!(
        text.contains("the step was done, but its output is not at `output_to`: nothing was saved"),
        "{text}"
    );
}

#[tokio::test]
async fn without_a_session_outputs_are_beside_the_wisps() {
    let bench = Bench::new();
    let scope = Arc::new(Scope { session: None, ..(*scope()).clone() });
    let step = with(search("a", "give:found"), json!({"output_to": "mine"}));
    let output = bench.spawn_in(&scope, json!([wisp(vec![step])])).await.unwrap();
    let id = wisp_ids(&output.to_text())[0].clone();
    assert_eq!(bench.kept(&format!("wisp/{id}/mine")).await.unwrap().value, "found");
}

#[tokio::test]
async fn what_wisps_keep_is_read_by_its_owner_only() {
    let bench = Bench::new();
    let text = bench.spawn(json!([wisp(vec![search("a", "give:private")])])).await;
    let key = format!("wisp/{}/a/output", wisp_ids(&text.to_text())[0]);
    let read = async |principal: &str| {
        let scope = crate::support::scope_of(principal);
        bench.say(&scope, "get_from_working_memory", json!({"key": key})).await
    };
    assert_eq!(read("model").await, "private");
    assert!(read("mallory").await.contains("not found"));
    let scope = crate::support::scope_of("mallory");
    let listed = bench.say(&scope, "list_working_memory", json!({"namespace": "wisp"})).await;
    assert!(listed.contains("No entries"), "{listed}");
}
