use serde_json::json;

use super::*;

fn servers() -> Vec<McpServerSummary> {
    let server = |name: &str, tools: &[&str]| McpServerSummary {
        server_name: name.to_owned(),
        tool_names: tools.iter().map(|&tool| tool.to_owned()).collect(),
        ..McpServerSummary::default()
    };
    vec![
        server("github", &["create_issue", "delete_repo", "List"]),
        server("my-notes", &["add", "Add_All"]),
        server("hub", &["invoke_tool"]),
        server("twins", &["a-b", "a_b"]),
    ]
}

fn check(server: &str, tool: &str, expected: &str) {
    check_arguments(json!({"server_name": server, "tool_name": tool}), expected);
}

fn check_arguments(arguments: Value, expected: &str) {
    let mut arguments = arguments.as_object().unwrap().clone();
    let subject = resolve_call(&servers(), &mut arguments).unwrap();
    assert_eq!(subject.id.as_str(), expected, "{arguments:?}");
}

#[test]
fn however_a_tool_is_spelled_it_is_one_subject() {
    for tool in
        ["delete_repo", "Delete-Repo", "DELETE_REPO", "github__delete_repo", "github.delete repo"]
    {
        for server in ["github", "GitHub", "git-hub"] {
            check(server, tool, "mcp:github/delete_repo");
        }
    }
    check("My_Notes", "addall", "mcp:my-notes/Add_All");
    check("github", "list", "mcp:github/List");
}

#[test]
fn what_is_not_known_or_not_clear_stays_as_it_was_said() {
    check("nowhere", "Delete-Repo", "mcp:nowhere/Delete-Repo");
    check("github", "delete", "mcp:github/delete");
    check("twins", "a.b", "mcp:twins/a.b");
    check("twins", "a_b", "mcp:twins/a_b");
    check("github", "---", "mcp:github/---");
}

#[test]
fn a_call_is_taken_out_of_what_it_was_wrapped_into() {
    let call = json!({"server_name": "github", "tool_name": "Delete-Repo", "arguments": {"a": 1}});
    let once =
        json!({"server_name": "my-notes", "tool_name": "mcp_invoke_tool", "arguments": call});
    check_arguments(once.clone(), "mcp:github/delete_repo");
    let twice = json!({"server_name": "my-notes", "tool_name": "invoke_tool", "arguments": once});
    check_arguments(twice, "mcp:github/delete_repo");

    let as_text =
        json!({"serverName": "github", "toolName": "create_issue", "arguments": "{\"a\":1}"});
    let mut arguments =
        json!({"server_name": "x", "tool_name": "invoke_tool", "arguments": as_text});
    let arguments = arguments.as_object_mut().unwrap();
    resolve_call(&servers(), arguments).unwrap();
    assert_eq!(arguments["arguments"], json!({"a": 1}));
}

/// A hub's own gateway is a tool like any other: what it calls is not the fleet's.
#[test]
fn a_server_that_has_a_tool_of_that_name_is_left_its_own_call() {
    let call = json!({"server_name": "github", "tool_name": "delete_repo"});
    let own = json!({"server_name": "hub", "tool_name": "invoke_tool", "arguments": call});
    check_arguments(own, "mcp:hub/invoke_tool");
}

/// Also where nothing is known of the server, such as after a broker was away.
#[test]
fn a_call_by_exact_names_is_left_as_it_is() {
    let inner = json!({"server_name": "github", "tool_name": "delete_repo"});
    for (server, tool) in [
        ("hub", "invoke_tool"),
        ("my-notes", "invoke_tool"),
        ("gone", "mcp_invoke_tool"),
        ("git-hub", "delete_repo"),
        ("github", "Delete-Repo"),
    ] {
        let call =
            json!({"server_name": server, "tool_name": tool, "arguments": inner, EXACT: true});
        check_arguments(call.clone(), &format!("mcp:{server}/{tool}"));
        let mut resolved = call.as_object().unwrap().clone();
        resolve_call(&servers(), &mut resolved);
        assert_eq!(Value::Object(resolved), call);
    }

    let known = |server: &str| {
        let call = json!({"server_name": server, "tool_name": "x", EXACT: true});
        names_known_server(&servers(), call.as_object().unwrap())
    };
    assert!(known("GitHub") && !known("git-hub"));
}

#[test]
fn what_names_no_tool_is_left_to_the_check() {
    for arguments in
        [json!({}), json!({"server_name": "github"}), json!({"server_name": 1, "tool_name": 2})]
    {
        let mut arguments = arguments.as_object().unwrap().clone();
        assert_eq!(resolve_call(&servers(), &mut arguments), None);
    }
}

#[test]
fn a_subject_has_what_its_bridge_announced() {
    let mut server = servers().remove(0);
    server.tool_fingerprints = Some([("List".to_owned(), "abc".to_owned())].into());
    server.read_only_tools = Some(vec!["List".to_owned()]);
    server.operator_added = true;
    let subject = subject_of(Some(&server), "GitHub", "List");
    assert_eq!(subject.definition.unwrap().to_string(), "abc");
    assert_eq!((subject.annotations.read_only, subject.risk), (true, Risk::Low));
    let other = subject_of(Some(&server), "github", "delete_repo");
    assert_eq!((other.definition, other.risk), (None, Risk::High));
}

/// An agent could register a server that declares every tool read-only.
#[test]
fn read_only_counts_only_for_servers_of_the_operator() {
    let said = Some(vec!["List".to_owned()]);
    let flags = |operator_added: bool, destructive_tools: Option<Vec<String>>| {
        let server = McpServerSummary {
            operator_added,
            read_only_tools: said.clone(),
            idempotent_tools: said.clone(),
            destructive_tools,
            ..servers().remove(0)
        };
        let Subject { annotations, risk, .. } = subject_of(Some(&server), "github", "List");
        let Annotations { read_only, idempotent, destructive } = annotations;
        (read_only, idempotent, destructive, risk)
    };

    assert_eq!(flags(true, None), (true, true, false, Risk::Low));
    assert_eq!(flags(false, None), (false, true, false, Risk::High));
    // A tool that declares both is as trusted as its server.
    assert_eq!(flags(true, said.clone()), (true, true, false, Risk::Low));
    assert_eq!(flags(false, said.clone()), (false, true, true, Risk::High));
}

/// An agent could register a server whose prompts and resources are actions.
#[test]
fn reads_count_as_read_only_only_for_servers_of_the_operator() {
    let mut servers = servers();
    servers[0].operator_added = true;
    let check = |server: &str, method: &str, read_only: bool| {
        let mut arguments = json!({"server_name": server}).as_object().unwrap().clone();
        let subject = resolve_read(&servers, &mut arguments, method).unwrap();
        let risk = if read_only { Risk::Low } else { Risk::High };
        assert_eq!((subject.annotations.read_only, subject.risk), (read_only, risk), "{server}");
    };
    for method in ["resources/read", "resources/list", "prompts/get"] {
        check("Git-Hub", method, true);
        check("my-notes", method, false);
        // It may be a server that an agent registered just now.
        check("unknown", method, false);
    }
    check("my-notes", "tools/list", true);
    check("my-notes", "prompts/list", true);
}

/// A queued call waits for the server that it is really about.
#[test]
fn a_call_names_a_server_that_is_known_or_not() {
    let check = |arguments: Value, expected: bool| {
        let known = names_known_server(&servers(), arguments.as_object().unwrap());
        assert_eq!(known, expected, "{arguments}");
    };
    check(json!({"server_name": "git-hub", "tool_name": "x"}), true);
    check(json!({"server_name": "late", "tool_name": "x"}), false);
    check(json!({"tool_name": "x"}), true);

    let wrapped = |server: &str| {
        let call = json!({"server_name": server, "tool_name": "x"});
        json!({"server_name": "x", "tool_name": "mcp_invoke_tool", "arguments": call})
    };
    check(wrapped("late"), false);
    check(wrapped("github"), true);
}
