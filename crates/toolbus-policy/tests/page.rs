//! `docs/policy.md` shows what its example really says.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::{env, fs};

use serde::Deserialize;
use toolbus_policy::{PolicySettings, PrincipalSet, RuleBook, matrix};
use toolbus_tools::id::ToolId;
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Audience, Door, Subject};
use toolbus_wire::name::AgentName;

const BEGIN: &str =
    "<!-- matrix: `UPDATE_DOCS=1 cargo test -p toolbus-policy page` writes what follows -->\n";
const END: &str = "<!-- end -->\n";

#[derive(Deserialize)]
struct Example {
    policy: PolicySettings,
}

fn tool(provider: &str, name: &str, risk: Risk) -> Subject {
    let is_read_only = risk == Risk::Low;
    let annotations =
        Annotations { read_only: is_read_only, idempotent: is_read_only, ..Annotations::default() };
    let id = ToolId::of(provider, name);
    Subject { id, definition: None, annotations, risk, audience: Audience::everybody() }
}

/// A tool of one person's account, as its toolkit has it where the settings name no principals.
fn mailbox() -> Subject {
    let local = PrincipalSet::parse(&["local:*".to_owned()]).unwrap();
    Subject { audience: local.into_audience(), ..tool("google", "gmail_read", Risk::Low) }
}

#[test]
fn the_page_shows_the_matrix_of_its_example() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let page = fs::read_to_string(&path).unwrap();
    let (_, after) = page.split_once("<!-- example -->\n\n```toml\n").unwrap();
    let (example, _) = after.split_once("```\n").unwrap();
    let example: Example = toml::from_str(example).unwrap();
    let book = RuleBook::new(&example.policy).unwrap();

    let tools = [
        tool("script", "execute_python_script", Risk::High),
        mailbox(),
        tool("mcp:github", "list_issues", Risk::Low),
        tool("mcp:github", "create_issue", Risk::High),
        tool("mcp:github", "delete_repo", Risk::High),
    ];
    let table = matrix::table(&matrix::cells(&book, &AgentName::standard(), &tools));

    let (head, rest) = page.split_once(BEGIN).unwrap();
    let (_, tail) = rest.split_once(END).unwrap();
    let made = format!("{head}{BEGIN}\n```text\n{table}```\n\n{END}{tail}");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, made).unwrap();
    } else {
        assert!(page == made, "docs/policy.md is not what is decided: run with UPDATE_DOCS=1");
    }
}

/// Whoever reads the page finds every door on it.
#[test]
fn the_page_names_every_door() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/policy.md");
    let page = fs::read_to_string(path).unwrap();
    for door in Door::ALL {
        assert!(page.contains(&format!("`{door}`")), "{door}");
    }
}
