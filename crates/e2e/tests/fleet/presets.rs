//! The presets of the policy: the output of `policy show`, the decision for each shipped tool, and
//! turns of an agent under `careful`, the default without a policy.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::{Finished, Launch};
use toolbus_testkit::scripted_server::Server;

use crate::agent::{self, answer, results, run};
use crate::approvals::{approvals, json_of, waiting_id};
use crate::asks::on_a_terminal;
use crate::support::LIMIT;

/// Decision of `careful` for each shipped tool in a turn. A new tool needs a row.
const CAREFUL: &[(&str, &[&str])] = &[
    (
        "allow",
        &[
            "a2a/get_agent_details",
            "a2a/list_known_agents",
            "anthropic_usage/anthropic_usage",
            "artifacts/artifact_grep",
            "artifacts/artifact_head",
            "artifacts/artifact_jq",
            "artifacts/artifact_slice",
            "artifacts/artifact_sql",
            "files/glob",
            "files/grep",
            "files/read_file",
            "google/calendar_get_event",
            "google/calendar_list_events",
            "google/gmail_read",
            "google/gmail_search",
            "guides/get_tool_guide",
            "guides/list_tool_guides",
            "inside:subagent/report_progress",
            "linkedin/linkedin_job_detail",
            "linkedin/linkedin_jobs",
            "mcp:management/mcp_get_service_details",
            "mcp:management/mcp_list_services",
            "memory/list_categories",
            "memory/list_rules",
            "memory/save_memory",
            "memory/search_memory",
            "memory/set_timezone",
            "rest/get_thing",
            "scheduling/list_scheduled_tasks",
            "script/execute_python_script",
            "script/tool_chain",
            "service-search/search_known_services",
            "skills/get_skill",
            "skills/list_skills",
            "skills/save_skill",
            "subagent/cancel_subagent",
            "subagent/list_subagents",
            "subagent/spawn_subagent",
            "subagent/whiteboard_delete",
            "subagent/whiteboard_list",
            "subagent/whiteboard_read",
            "subagent/whiteboard_write",
            "tools/tool_search",
            "web/web_browse",
            "web/web_fetch",
            "web/web_search",
            "wisp/spawn_wisps",
            "working-memory/delete_from_working_memory",
            "working-memory/get_from_working_memory",
            "working-memory/list_working_memory",
            "working-memory/save_to_working_memory",
            "working-memory/search_working_memory",
        ],
    ),
    (
        "ask",
        &[
            "google/calendar_create_event",
            "google/gmail_send",
            "mcp:management/mcp_register_server",
            "mcp:management/mcp_unregister_server",
            "memory/delete_memory",
            "memory/remove_rule",
            "rest/delete_thing",
            "scheduling/cancel_scheduled_task",
            "shell/bash",
            "skills/delete_skill",
        ],
    ),
    (
        "ask-once",
        &[
            "a2a/invoke_agent",
            "files/append_file",
            "files/edit_file",
            "files/write_file",
            // A call is never about this tool, but about the tool of the server.
            "mcp:management/mcp_invoke_tool",
            "memory/add_rule",
            "rest/put_thing",
            "scheduling/schedule_task",
        ],
    ),
];

/// Returns the decision for each shipped tool.
fn careful_decisions() -> BTreeMap<String, String> {
    let mut decisions = BTreeMap::new();
    for (decision, tools) in CAREFUL {
        for tool in *tools {
            decisions.insert((*tool).to_owned(), (*decision).to_owned());
        }
    }
    decisions
}

/// Creates a folder with settings that have a model, no policy, and these additions.
fn careful(server: &Server, more: &str) -> TempDir {
    let folder = agent::settings(server);
    let path = folder.path().join("toolbus.toml");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(agent::OPEN));
    fs::create_dir(folder.path().join("work")).unwrap();
    fs::write(&path, text.replace(agent::OPEN, "") + more).unwrap();
    folder
}

/// Returns settings for tools for files and commands in the folder `work`.
fn with_commands(folder: &Path) -> String {
    let work = folder.join("work");
    format!(
        "[files]\nworking_directory = \"{}\"\n[bash]\nenabled = true\nisolation = \"none\"\n",
        work.display()
    )
}

/// Adds settings to those of the folder.
fn add(folder: &Path, more: &str) {
    let path = folder.join("toolbus.toml");
    let text = fs::read_to_string(&path).unwrap() + more;
    fs::write(path, text).unwrap();
}

/// Returns settings that enable every tool that Toolbus ships.
fn every_tool(folder: &Path) -> String {
    let key = folder.join("vault.key");
    fs::write(&key, "1".repeat(64)).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let endpoint = |name: &str, method: &str| {
        format!(
            "[[rest.endpoints]]\nname = \"{name}\"\ndescription = \"A thing.\"\nmethod = \
             \"{method}\"\nurl_template = \"https://things.example/thing\"\n"
        )
    };
    let endpoints = [("get_thing", "GET"), ("put_thing", "PUT"), ("delete_thing", "DELETE")];
    let endpoints = endpoints.map(|(name, method)| endpoint(name, method)).concat();

    format!(
        r#"
[vault]
key_file = "{key}"
[web]
enabled = true
api_key = "k"
[linkedin]
enabled = true
[anthropic_usage]
api_key = "k"
[google]
client_id = "i"
client_secret = "s"
[[a2a.agents]]
name = "Friend"
card_url = "https://friend.example/card"
{commands}{endpoints}"#,
        key = key.display(),
        commands = with_commands(folder),
    )
}

#[tokio::test]
async fn every_shipped_tool_has_a_decision() {
    let server = Server::start([]).await;
    let folder = careful(&server, "");
    add(folder.path(), &every_tool(folder.path()));

    let matrix = run(folder.path(), &["policy", "matrix", "--json"]).await;
    let matrix: Value = serde_json::from_str(&matrix.stdout).unwrap();
    let cells = |door: &str| -> BTreeMap<String, String> {
        let is_local = |cell: &&Value| cell["door"] == door && cell["principal"] == "local:local";
        let text = |cell: &Value, member: &str| cell[member].as_str().unwrap().to_owned();
        let cells = matrix["cells"].as_array().unwrap().iter().filter(is_local);
        cells.map(|cell| (text(cell, "tool"), text(cell, "decision"))).collect()
    };
    for door in ["turn", "schedule"] {
        assert_eq!(cells(door), careful_decisions(), "{door}");
    }
    for door in ["command-line", "bus", "mcp", "http", "chain", "embedded"] {
        assert!(cells(door).values().all(|decision| decision == "allow"), "{door}");
    }
}

async fn policy(file: &Path, arguments: &[&str]) -> Finished {
    let launch = Launch::new("agent-host").arg("--config").arg(file).arg("policy").args(arguments);
    let finished = launch.run(LIMIT).await.unwrap();
    assert_ne!(finished.status.code(), Some(2), "{finished:?}");
    finished
}

#[tokio::test]
async fn the_rule_book_is_printed_so_that_it_can_be_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolbus.toml");
    fs::write(&file, "").unwrap();
    let shown = policy(&file, &["show"]).await.stdout;
    assert!(shown.starts_with("# Active: the preset \"careful\". Revision "), "{shown}");
    assert!(shown.contains("\n# Reads. "), "the comments are printed: {shown}");
    let strict = policy(&file, &["show", "--preset", "strict"]).await.stdout;
    let expected = "# Not active: the preset \"strict\". Active: the preset careful.\n";
    assert!(strict.starts_with(expected), "{strict}");
    let json = policy(&file, &["show", "--json"]).await.stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["preset"], &json["policy"]["preset"]), (&json!("careful"), &Value::Null));

    let why = async || {
        let door = ["why", "mcp:any/thing", "--door", "http,turn"];
        policy(&file, &door).await.stdout
    };
    let expected = "ask-once by rule 'careful.others': ";
    assert!(why().await.starts_with(expected));
    fs::write(&file, &shown).unwrap();
    assert!(why().await.starts_with(expected));
    let shown = policy(&file, &["show"]).await.stdout;
    assert!(shown.starts_with("# Active: no preset. "), "{shown}");
    let strict = strict.replace("strict.others", "mine");
    fs::write(&file, strict).unwrap();
    assert!(why().await.starts_with("ask by rule 'mine': "));
}

#[tokio::test]
async fn a_turn_without_an_approver_reads_and_learns_the_setting() {
    let calls =
        [("list_tool_guides", json!({})), ("write_file", json!({"path": "note", "content": "x"}))];
    let server = Server::start([answer("", &calls), answer("I could not write.", &[])]).await;
    let folder = careful(&server, "");
    add(folder.path(), &with_commands(folder.path()));

    let asked = run(folder.path(), &["ask", "Write a note"]).await;
    assert!(asked.status.success(), "{asked:?}");
    let told = results(&server);
    assert!(told[0].contains("working-memory"), "{told:?}");
    for part in [
        "'files/write_file' needs an approval",
        "there is nobody to ask",
        "policy.preset = \"careful\"",
        "tools = [\"files/write_file\"]",
    ] {
        assert!(told[1].contains(part), "{part}: {told:?}");
    }
    assert!(!folder.path().join("work/note").exists());
}

#[tokio::test]
async fn a_turn_asks_for_each_command_and_once_for_another_tool() {
    let bash =
        |text: &str| answer("", &[("bash", json!({"command": format!("echo {text} >>log")}))]);
    let write = |name: &str| answer("", &[("write_file", json!({"path": name, "content": "x"}))]);
    let server = Server::start([
        bash("first"),
        write("one"),
        bash("second"),
        write("two"),
        answer("Done.", &[]),
        write("three"),
        answer("Done.", &[]),
    ])
    .await;
    let folder = careful(&server, "");
    let more = "[approvals]\nwait_for_operator = true\n";
    add(folder.path(), &format!("{}{more}", with_commands(folder.path())));
    let (file, work) = (folder.path().join("state.db"), folder.path().join("work"));

    let approve = async |parts: &[&str]| {
        let id = waiting_id(&file).await;
        let shown = approvals(&file, &["show", &id]).await.stdout;
        assert!(parts.iter().all(|part| shown.contains(part)), "{shown}");
        let said = approvals(&file, &["approve", &id]).await;
        assert!(said.status.success(), "{said:?}");
    };
    let answering = async {
        approve(&["shell/bash", "echo first >>log", "careful.commands", "this call"]).await;
        approve(&["files/write_file", "\"one\"", "every later call of this tool"]).await;
        approve(&["shell/bash", "echo second >>log"]).await;
    };
    let (asked, ()) = tokio::join!(run(folder.path(), &["ask", "Work"]), answering);
    assert_eq!(asked.stdout, "Done.\n", "{asked:?}");
    assert_eq!(fs::read_to_string(work.join("log")).unwrap(), "first\nsecond\n");
    assert!(work.join("one").exists() && work.join("two").exists());

    // Another process, started later, finds the answer for the tool.
    let asked = run(folder.path(), &["ask", "More"]).await;
    assert_eq!(asked.stdout, "Done.\n", "{asked:?}");
    assert!(work.join("three").exists());
    let remembered = json_of(&file, &["remembered", "--json"]).await;
    assert_eq!(remembered.as_array().unwrap().len(), 1, "{remembered}");
    assert_eq!(remembered[0]["binding"]["subject"], "files/write_file");
}

#[tokio::test]
async fn a_turn_at_a_terminal_asks_there() {
    let calls = [("write_file", json!({"path": "note", "content": "x"}))];
    let server = Server::start([answer("", &calls), answer("Written.", &[])]).await;
    let folder = careful(&server, "");
    add(folder.path(), &with_commands(folder.path()));

    let config = folder.path().join("toolbus.toml").display().to_string();
    let arguments = ["--config", &config, "ask", "Write a note"];
    let (exit, shown) = on_a_terminal(&arguments, ("[N]o: ", "y\n")).await;
    assert_eq!(exit, 0, "{shown}");
    let covers = "A yes covers every later call of this tool, with any arguments.";
    assert!(shown.contains(covers) && shown.contains("Written."), "{shown}");
    assert!(folder.path().join("work/note").exists());
}

/// The same program runs as a server of the operator and as a server that an agent registered.
#[tokio::test]
async fn read_only_counts_only_for_servers_of_the_operator() {
    let Some(time) = servers::time() else { return };
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("mcp.json");
    fs::write(&list, json!({"mcpServers": {"time": time.to_json()}}).to_string()).unwrap();
    let launch = |arguments: &[&str]| {
        let launch = Launch::new("agent-host").arg("--mcp-config").arg(&list).args(arguments);
        let launch = launch.env("TOOLBUS_MCP__ALLOW_STDIO_REGISTRATION", "true");
        launch.env("TOOLBUS_MCP__SANDBOX_REGISTERED", "false")
    };
    let server = json!({"server_name": "clock", "command": time.command, "arguments": time.args});
    let registered = launch(&["invoke", "mcp_register_server", "-"]).stdin(server.to_string());
    let registered = registered.run(LIMIT).await.unwrap();
    assert!(registered.status.success(), "{registered:?}");

    for (server, expected) in [
        ("time", "allow by rule 'careful.reads'\n"),
        ("clock", "ask-once by rule 'careful.others': "),
    ] {
        let tool = format!("mcp:{server}/get_current_time");
        let why = launch(&["policy", "why", &tool, "--door", "command-line,turn"]);
        let why = why.run(LIMIT).await.unwrap();
        assert!(why.stdout.starts_with(expected), "{server}: {why:?}");
    }
}
