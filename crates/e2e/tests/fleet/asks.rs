//! What servers want of their callers and offer beside tools: embedded, and over a broker.

use std::time::Instant;

use serde_json::{Value, json};
use toolbus_testkit::process::{Process, binary};
use toolbus_testkit::{mcp as servers, rabbit};

use crate::support::*;

/// Runs a program on a terminal, shows what it writes, and types once a text is to be seen:
/// TEXT KEYS PROGRAM ARGUMENT…
const TYPIST: &str = r#"
import os, pty, sys
text, keys = (argument.encode() for argument in sys.argv[1:3])
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[3], sys.argv[3:])
seen = b""
while True:
    try:
        data = os.read(terminal, 65536)
    except OSError:
        break
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
    seen += data
    if keys and text in seen:
        os.write(terminal, keys)
        keys = b""
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
sys.exit(code if code >= 0 else 128 - code)
"#;

/// Runs `agent-host invoke` on a terminal of its own, with these keys typed at the first prompt,
/// and gives its exit code and what was to be seen.
async fn at_a_terminal(
    options: &[&str],
    (tool, arguments): (&str, Value),
    typed: (&str, &str),
) -> (i32, String) {
    let call = json!({"server_name": "e", "tool_name": tool, "arguments": arguments}).to_string();
    on_a_terminal(&[options, &["invoke", "mcp_invoke_tool", &call]].concat(), typed).await
}

/// Runs `agent-host` on a terminal of its own, with these keys typed at the first such prompt, and
/// gives its exit code and what was to be seen.
pub(crate) async fn on_a_terminal(
    arguments: &[&str],
    (prompt, keys): (&str, &str),
) -> (i32, String) {
    let folder = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new("python3");
    command.args(["-c", TYPIST, prompt, keys]);
    command.arg(binary("agent-host").unwrap()).args(arguments);
    command.stdin(std::process::Stdio::null());
    let mut process = Process::spawn("terminal", &mut command, folder.path()).unwrap();
    let status = process.wait(LIMIT).await.unwrap();
    (status.code().unwrap(), process.stdout().to_owned())
}

/// The first prompt of the form that `server-everything` asks to fill in.
const NAME: &str = "name (text): ";

/// A person fills in a form, goes to an address, and has no model to lend.
async fn a_person_answers(options: &[&str]) {
    // A name, an agreement, and for the rest what is there already or nothing.
    let typed = format!("Ada\ny\n{}", "\n".repeat(20));
    let tool = "trigger-elicitation-request";
    let (exit, shown) = at_a_terminal(options, (tool, json!({})), (NAME, &typed)).await;
    assert_eq!(exit, 0, "{shown}");

    for expected in [
        "MCP server 'e' asks: Please provide inputs",
        "Agree to the terms and conditions",
        "integer (integer, default 42): ",
        "1. Monica",
        "User provided the requested information",
        "- Name: Ada",
        "- Agreed to terms: true",
        "- Favorite Integer: 42",
    ] {
        assert!(shown.contains(expected), "{expected:?} in {shown}");
    }

    let (exit, shown) = at_a_terminal(options, (tool, json!({})), (NAME, "\n")).await;
    assert!(exit == 0 && shown.contains("User declined"), "{shown}");

    let page = json!({"url": "https://pages.example/login"});
    let tool = "trigger-url-elicitation";
    let (exit, shown) = at_a_terminal(options, (tool, page), ("[y/N] ", "y\n")).await;
    assert!(exit == 0 && shown.contains("  https://pages.example/login"), "{shown}");
    assert!(shown.contains("User completed the URL elicitation flow"), "{shown}");

    let prompt = ("trigger-sampling-request", json!({"prompt": "hello"}));
    let (_, shown) = at_a_terminal(options, prompt, ("", "")).await;
    assert!(shown.contains("agent-host has no model"), "{shown}");

    // Ctrl-C at the prompt ends the call, and everything.
    let began = Instant::now();
    let tool = "trigger-elicitation-request";
    let (exit, shown) = at_a_terminal(options, (tool, json!({})), (NAME, "\u{3}")).await;
    assert_eq!(exit, 130, "{shown}");
    assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
}

/// Without a terminal nobody is asked, and the server is told so at once.
async fn nobody_answers(call: impl AsyncFn(&str, Value) -> Outcome) {
    let began = Instant::now();
    let ask =
        |tool: &str| json!({"server_name": "e", "tool_name": tool, "arguments": {"prompt": "x"}});
    let outcome = call("mcp_invoke_tool", ask("trigger-elicitation-request")).await;
    assert!(outcome.content().contains("User cancelled the elicitation"), "{outcome:?}");
    let outcome = call("mcp_invoke_tool", ask("trigger-sampling-request")).await;
    assert_eq!(outcome.code(), "tool_error");
    assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
}

/// Prompts, resources, and results that are more than text.
async fn prompts_resources_and_blocks(call: impl AsyncFn(&str, Value) -> Outcome) {
    let of = |outcome: Outcome| serde_json::from_str::<Value>(outcome.content()).unwrap();
    let server = |more: Value| {
        let mut arguments = json!({"server_name": "E"});
        arguments.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        arguments
    };

    let details = of(call("mcp_get_service_details", server(json!({"tool_name": "echo"}))).await);
    let prompts = details["prompts"].as_array().unwrap();
    let weather = prompts.iter().find(|prompt| prompt["name"] == "args-prompt").expect("a prompt");
    assert_eq!(weather["arguments"][0]["name"], "city");
    assert_eq!(weather["arguments"][0]["required"], true);

    let asked = json!({"prompt_name": "args-prompt", "arguments": {"city": "Ulm"}});
    let prompt = of(call("mcp_get_prompt", server(asked)).await);
    assert_eq!(prompt["messages"][0]["content"], "What's weather in Ulm?");
    let missing = call("mcp_get_prompt", server(json!({"prompt_name": "none"}))).await;
    assert_eq!(missing.code(), "tool_error");

    let page = of(call("mcp_list_resources", server(json!({}))).await);
    let listed = page["resources"].as_array().unwrap();
    let uri = listed[0]["uri"].as_str().unwrap();
    assert!(page["templates"][0]["uriTemplate"].as_str().unwrap().contains("{resourceId}"));
    let read = call("mcp_read_resource", server(json!({"uri": uri}))).await;
    assert!(!read.content().is_empty());
    let blob = json!({"uri": "demo://resource/dynamic/blob/1"});
    let read = call("mcp_read_resource", server(blob)).await;
    assert!(read.content().contains(" at demo://resource/dynamic/blob/1]"), "{read:?}");
    assert_eq!(read.json["contentBlocks"][0]["type"], "resource");
    assert!(read.json["contentBlocks"][0]["data"].is_string());
    let none = call("mcp_read_resource", server(json!({"uri": "demo://nothing"}))).await;
    assert_eq!(none.code(), "tool_error");

    let tool = |tool: &str, arguments: Value| json!({"server_name": "e", "tool_name": tool, "arguments": arguments});
    let picture = call("mcp_invoke_tool", tool("get-tiny-image", json!({}))).await;
    assert_eq!(picture.json["contentBlocks"][1]["mimeType"], "image/png");
    let links = call("mcp_invoke_tool", tool("get-resource-links", json!({"count": 2}))).await;
    assert!(links.json["contentBlocks"][1]["uri"].as_str().unwrap().starts_with("demo://"));
    let weather = tool("get-structured-content", json!({"location": "New York"}));
    let weather = call("mcp_invoke_tool", weather).await;
    assert_eq!(weather.json["structuredContent"]["conditions"], "Cloudy");
}

#[tokio::test]
async fn asks_and_offers_in_one_process() {
    let Some(everything) = servers::everything_stdio() else { return };
    let servers = Servers::with(&[("e", everything.to_json())]);
    let file = servers.file().display().to_string();
    let options = ["--mcp-config", &file];
    let call = async |tool: &str, arguments: Value| {
        let launch = toolbus_testkit::process::Launch::new("agent-host");
        let launch = launch.args(options).args(["invoke", tool, "-", "--json"]);
        Outcome::of(launch.stdin(arguments.to_string()).run(LIMIT).await.unwrap())
    };
    prompts_resources_and_blocks(call).await;
    nobody_answers(call).await;
    a_person_answers(&options).await;
}

#[tokio::test]
async fn asks_and_offers_over_a_broker() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(everything) = servers::everything_http().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[("e", everything.to_json())]);
    let _bridge = bridge(&bus, &servers).await;
    let call = async |tool: &str, arguments: Value| invoke(&bus, tool, arguments).await;
    prompts_resources_and_blocks(call).await;
    nobody_answers(call).await;
    a_person_answers(&["--bus", &bus]).await;
}

#[tokio::test]
async fn tools_for_offers_are_there_only_when_somebody_offers_such() {
    let servers = Servers::with(&[]);
    let tools = toolbus_testkit::process::Launch::new("agent-host").args(["tools", "--mcp-config"]);
    let run = tools.arg(servers.file()).run(LIMIT).await.unwrap();
    assert!(run.stdout.contains("\nmcp_invoke_tool "), "{run:?}");
    assert!(!run.stdout.contains("mcp_get_prompt"), "{run:?}");
    assert!(!run.stdout.contains("mcp_read_resource"), "{run:?}");
}
