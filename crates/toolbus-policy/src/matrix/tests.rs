use toolbus_tools::Annotations;
use toolbus_tools::id::ToolId;
use toolbus_tools::tool::Risk;

use super::*;

fn book(toml: &str) -> RuleBook {
    RuleBook::new(&toml::from_str(toml).unwrap()).unwrap()
}

fn tool(id: &str) -> Subject {
    let (provider, tool) = id.split_once('/').unwrap();
    Subject {
        id: ToolId::of(provider, tool),
        definition: None,
        annotations: Annotations::default(),
        risk: Risk::High,
        audience: Default::default(),
    }
}

const BOOK: &str = r#"
[[rules]]
name = "no-deletes"
effect = "deny"
reason = "never"
tools = ["*/delete_*", "mcp:gone/*"]
principals = ["claimed:ci-*", "token:https://id.example/*"]
doors = ["bus"]
"#;

#[test]
fn the_principals_are_those_that_rules_tell_apart() {
    let written: Vec<String> = principals(&book(BOOK)).iter().map(principal_text).collect();
    let expected = [
        "local:local",
        "claimed:somebody",
        "broker:somebody",
        "token:somebody/somebody",
        "claimed:ci-somebody",
        "token:https://id.example/somebody",
    ];
    assert_eq!(written, expected);
}

#[test]
fn the_matrix_has_every_door_principal_and_tool() {
    let tools = [tool("mcp:github/delete_repo"), tool("script/python")];
    let cells = cells(&book(BOOK), &AgentName::standard(), &tools);
    assert_eq!(cells.len(), 8 * 6 * 2);

    let denied: Vec<_> = cells.iter().filter(|cell| cell.decision == "deny").collect();
    assert_eq!(denied.len(), 2);
    assert!(denied.iter().all(|cell| cell.door == Door::Bus && cell.by == "rule 'no-deletes'"));

    let table = table(&cells);
    let row = |text: &str| table.lines().filter(|line| line.contains(text)).count();
    assert_eq!(row("claimed:ci-somebody"), 3, "{table}");
    assert_eq!(row("all"), 4 * 2 + 2 + 2, "{table}");
}

#[test]
fn a_glob_that_matches_no_tool_is_found() {
    let unmatched = unmatched_globs(&book(BOOK), &[tool("mcp:github/delete_repo")]);
    let expected = UnmatchedGlob { rule: "no-deletes".into(), glob: "mcp:gone/*".to_owned() };
    assert_eq!(unmatched, [expected]);
}
