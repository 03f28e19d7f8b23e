//! The definition of the tool, its guide, and definitions as models write them.

use serde_json::{Value, json};
use toolbus_testkit::eventually;
use toolbus_tools::call::Call;
use toolbus_tools::tool::Risk;
use toolbus_wisps::NAME;

use crate::support::{Bench, LIMIT, mcp, scope, search, wisp};

#[tokio::test]
async fn the_tool_is_defined_for_models() {
    let bench = Bench::new();
    let entry = bench.invoker.registry().find(NAME).unwrap();
    let tool = &entry.tool;
    assert_eq!((tool.source.as_ref(), tool.group.as_deref()), ("wisp", Some("wisp")));
    assert_eq!((tool.risk, tool.annotations.may_repeat()), (Some(Risk::Low), false));
    let text = format!(
        "{}\n{}",
        tool.description,
        serde_json::to_string_pretty(&tool.parameters).unwrap()
    );
    insta::assert_snapshot!(text);
}

#[tokio::test]
async fn what_the_check_takes_the_schema_takes() {
    let bench = Bench::new();
    let step = search("a", "give:x");
    let one = json!({"description": "d", "steps": [step]});
    let lenient = [
        json!({"definitions": [one]}),
        json!({"definitions": one}),
        json!({"definitions": one.to_string()}),
        json!({"definitions": [one.to_string()]}),
        one.clone(),
        json!({"definitions": {"description": "d", "tools": "web_search", "steps": [step.to_string()]}}),
        json!({"definitions": {"description": "d", "tools": null, "steps": {
            "id": "a", "mode": "direct", "gateway": "WEB", "tool": "web_search", "server": "",
            "arguments": "{\"query\": \"give:x\"}", "on_failure": "abort", "timeout_minutes": "1",
        }}}),
        json!({"definitions": {"description": "d", "steps": {
            "id": "a", "mode": "Direct", "gateway": "Web", "tool": "web_search",
            "input_from": "{\"query\": \"give:x\"}",
        }}}),
    ];
    for arguments in lenient {
        let call = Call::by_name(&scope(), NAME, arguments.clone()).unwrap();
        let output =
            bench.invoker.invoke(call).await.unwrap_or_else(|error| panic!("{arguments}: {error}"));
        assert!(output.to_text().contains("Output: x"), "{arguments}: {}", output.to_text());
    }
}

#[tokio::test]
async fn a_mistake_anywhere_means_that_nothing_runs() {
    let bench = Bench::new();
    let definitions = json!([
        wisp(vec![search("a", "x")]),
        wisp(vec![
            search("a", "x"),
            search("b", "{{steps.c.result}}"),
            mcp("c", "", "t", json!({}))
        ]),
    ]);
    let error = bench.try_spawn(definitions).await.unwrap_err();
    insta::assert_snapshot!(error.message, @r"
    Nothing was run: there are 2 mistakes in the definitions.
    - wisp 2, step 'b', `params.query`: 'c' is a later step, which has no result yet. Name an earlier step: `a`
    - wisp 2, step 'c', `server`: it is missing. Write the server as mcp_list_services has it
    ");
    let mistakes = error.details.unwrap();
    assert_eq!(mistakes["mistakes"][0]["wisp"], 2);
    assert_eq!(mistakes["mistakes"][0]["step"], "b");
    assert_eq!(mistakes["mistakes"][0]["member"], "params.query");
    assert!(bench.calls().is_empty());
}

/// The lines of a guide's blocks: the name of a tool, a blank and an object.
fn examples(page: &str) -> Vec<(String, Value)> {
    let blocks = page.split("```").skip(1).step_by(2);
    let lines = blocks.flat_map(str::lines).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (tool, arguments) = line.split_once(' ').expect("a name and arguments");
            (tool.to_owned(), serde_json::from_str(arguments).expect("arguments"))
        })
        .collect()
}

#[tokio::test]
async fn examples_of_the_guide_can_be_called() {
    let bench = Bench::new();
    let guide = toolbus_wisps::guide();
    assert_eq!(guide.name, "wisp");
    assert!(guide.document.len() < 3_000, "{} bytes", guide.document.len());
    let examples = examples(&guide.document);
    assert_eq!(examples.len(), 2);
    for (tool, arguments) in examples {
        let call = Call::by_name(&scope(), &tool, arguments).unwrap();
        let output = bench.invoker.invoke(call).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(!output.is_error, "{}", output.to_text());
    }
}

/// Nothing of a call goes on after it, and what it began in the background ends.
#[tokio::test]
async fn nothing_is_left_behind() {
    let bench = Bench::new();
    bench.spawn(json!([wisp(vec![search("a", "x")])])).await;
    let is_idle = async || if bench.tasks.is_empty() { Ok(()) } else { Err(bench.tasks.len()) };
    eventually(LIMIT, is_idle).await;
    bench.store.close().await;
}
