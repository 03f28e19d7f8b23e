//! Definitions by what the vendors publish: the types of their own clients, and of MCP.

use std::io::Write as _;
use std::process::Stdio;

use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use toolbus_tools::schema::Schema;

use super::schemas::any_schema;
use super::*;

const CHECK: &str = include_str!("check_definitions.py");

/// What is wrong with definitions, by the vendors' types. `None` where those are not there.
fn complaints(definitions: &[(Dialect, Value)]) -> Option<Vec<String>> {
    let mut command = toolbus_testkit::model_sdks::python()?;
    let command = command.args(["-c", CHECK]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = command.spawn().expect("Python starts");
    let mut input = python.stdin.take().expect("it is piped");
    let lines: String = definitions
        .iter()
        .map(|(dialect, definition)| {
            format!("{}\n", json!({"dialect": format!("{dialect:?}"), "definition": definition}))
        })
        .collect();
    // It reads all before it has much to say.
    input.write_all(lines.as_bytes()).expect("Python reads");
    drop(input);

    let output = python.wait_with_output().expect("Python ends");
    let mut said: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(said.pop(), Some(format!("checked {}", definitions.len())), "{said:?}");
    Some(said)
}

fn lists_of(tools: &[Arc<ToolEntry>]) -> Vec<(Dialect, Value)> {
    let listing = Listing { deferral: Deferral::ProviderSearch, found: &[] };
    let list = |dialect| {
        let lowered = lower(dialect, tools, &listing);
        let definitions = lowered.definitions().to_vec();
        definitions.into_iter().map(move |definition| (dialect, definition))
    };
    Dialect::ALL.into_iter().flat_map(list).collect()
}

#[test]
fn definitions_are_what_the_vendors_clients_would_send() {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let tools = (0..1_500).filter_map(|at| {
        let schema = any_schema().new_tree(&mut runner).expect("there are many").current();
        Schema::compile(&schema).ok()?;
        let name = ["plain", "with.dot", "ü", "a b/c"][at % 4];
        let tool = tool(&format!("{name}{at}")).with_parameters(schema);
        Some(if at % 5 == 0 { tool.deferred() } else { tool })
    });
    let long = Tool { description: "\u{1F980}é".repeat(2_000), ..tool(&"x".repeat(200)) };
    let titled = Tool {
        title: Some("T".to_owned()),
        output_schema: Some(json!({"type": "object"})),
        icons: vec![json!({"src": "https://example.com/i.png"}), json!(7)],
        ..tool("titled")
    };
    let tools = entries(tools.chain([long, titled]).collect::<Vec<_>>());

    let definitions = lists_of(&tools);
    assert!(definitions.len() > 3_000, "{}", definitions.len());
    let Some(complaints) = complaints(&definitions) else { return };
    assert!(
        complaints.is_empty(),
        "{} of {}: {:#?}",
        complaints.len(),
        definitions.len(),
        &complaints[..complaints.len().min(5)]
    );
}

/// A check that finds nothing wrong with anything would be none.
#[test]
fn what_vendors_do_not_take_is_found() {
    let good = lists_of(&entries([tool("a"), tool("b").deferred()]));
    let break_one = |dialect: Dialect, change: fn(&mut Value)| {
        let (dialect, mut definition) =
            good.iter().find(|(known, _)| *known == dialect).cloned().expect("it is there");
        change(&mut definition);
        (dialect, definition)
    };
    let broken = [
        break_one(Dialect::OpenAiChat, |d| d["function"]["name"] = json!("a.b")),
        break_one(Dialect::OpenAiChat, |d| d["function"]["strict"] = json!("true")),
        break_one(Dialect::OpenAiChat, |d| d["function"]["parameters"]["required"] = json!([])),
        break_one(Dialect::OpenAiResponses, |d| d["defer"] = json!(true)),
        break_one(Dialect::Anthropic, |d| d["input_schema"]["type"] = json!("array")),
        break_one(Dialect::Anthropic, |d| d["input_schema"]["anyOf"] = json!([])),
        break_one(Dialect::Mcp, |d| d["inputSchema"]["type"] = json!("array")),
        break_one(Dialect::Mcp, |d| d["parameters"] = json!({})),
    ];
    let Some(found) = complaints(&broken) else { return };
    assert_eq!(found.len(), broken.len(), "{found:#?}");
    assert_eq!(complaints(&good), Some(Vec::new()));
}
