//! What pages show of settings and of `mcp.json` is taken by the program that reads it.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::binary;

use crate::blocks::{Block, blocks_of, pages};

/// Variables that the pages' settings name.
const VARIABLES: [&str; 5] =
    ["ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "TRAVEL_TOKEN", "GOOGLE_CLIENT_ID", "TODO_TOKEN"];

fn agent_host(folder: &TempDir, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary("agent-host").unwrap());
    command.env_clear().env("HOME", folder.path()).env("PATH", "/usr/bin:/bin");
    command.envs(VARIABLES.map(|name| (name, "a-long-value-of-the-test")));
    command.current_dir(folder).args(arguments).output().unwrap()
}

/// The blocks of this kind that are no files of a page.
fn shown(kind: &str) -> Vec<(String, Block)> {
    let blocks = pages()
        .into_iter()
        .flat_map(|page| blocks_of(&page).into_iter().map(move |block| (page.clone(), block)));
    let blocks = blocks.filter(|(_, block)| block.kind == kind && block.file().is_none());
    blocks.collect()
}

#[test]
fn settings_are_taken() {
    let shown = shown("toml");
    assert!(shown.len() > 10, "{}", shown.len());
    for (page, block) in shown {
        let folder = tempfile::tempdir().unwrap();
        // What is left out of a URL is anything.
        let text = block.text.replace("://…", "://host/name");
        fs::write(folder.path().join("toolbus.toml"), text).unwrap();
        let said = agent_host(&folder, &["config", "show"]);
        let errors = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && errors.is_empty(), "{page}:{}: {errors}", block.line);
    }
}

#[test]
fn lists_of_servers_are_taken() {
    let shown = shown("json");
    assert!(shown.len() > 3, "{}", shown.len());
    for (page, block) in shown {
        let value: Value = serde_json::from_str(&block.text)
            .unwrap_or_else(|error| panic!("{page}:{}: {error}", block.line));
        let is_entry = value.get("command").is_some();
        let servers = match value.get("mcpServers") {
            Some(servers) => servers.clone(),
            None if is_entry => json!({"server": value}),
            None => value,
        };
        // Each is told not to start: only what is written is looked at.
        let folder = tempfile::tempdir().unwrap();
        let file = json!({"mcpServers": servers}).to_string();
        fs::write(folder.path().join("mcp.json"), file).unwrap();
        let said = agent_host(&folder, &["--mcp-config", "mcp.json", "tools"]);
        let errors = String::from_utf8_lossy(&said.stderr);
        let is_mistake =
            errors.contains("mistake") || errors.contains("in the list of MCP servers");
        assert!(!is_mistake, "{page}:{}: {errors}", block.line);
    }
}
