//! Servers that an agent registers over the bus: they are there after a crash, and what the
//! operator has configured is not the agent's to touch.

use serde_json::{Value, json};
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit;

use crate::support::*;

/// `mcp-bridge` that lets agents register programs.
/// Agents may register programs, which run outside a sandbox: those of the tests are in folders that
/// one does not have.
fn allowing_programs(launch: Launch) -> Launch {
    let launch = launch.env("TOOLBUS_MCP__ALLOW_STDIO_REGISTRATION", "true");
    launch.env("TOOLBUS_MCP__SANDBOX_REGISTERED", "false")
}

fn permissive(bus: &str, servers: &Servers) -> Launch {
    let launch = launch("mcp-bridge", bus).arg("--mcp-config").arg(servers.file());
    allowing_programs(launch)
}

async fn refused(bus: &str, tool: &str, arguments: Value) -> String {
    let outcome = invoke(bus, tool, arguments).await;
    assert_eq!(outcome.code(), "denied");
    outcome.json["error"]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_registration_outlives_the_bridge() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(time) = servers::time() else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let operators = std::fs::read(servers.file()).unwrap();
    let mut first = start(permissive(&bus, &servers)).await;

    // Both spellings: of the tool's own description, and of what models have learned elsewhere.
    let arguments = format!("{} ", time.args.join(" "));
    let theirs = json!({"server_name": "clock", "command": time.command, "arguments": arguments});
    let told = invoke(&bus, "mcp_register_server", theirs).await;
    let told = told.content().to_owned();
    assert_eq!(told, "Server 'clock' registered successfully. 2 tool(s) available.");
    let ours =
        json!({"name": "Hours", "type": "stdio", "command": time.command, "args": time.args});
    invoke(&bus, "mcp_register_server", ours).await.content();

    // To replace or remove what is the operator's is refused, with the reason.
    let replaced = json!({"name": "marks", "command": "true"});
    let told = refused(&bus, "mcp_register_server", replaced).await;
    let expected = "the MCP server 'marks' is the operator's, and agents cannot replace it";
    assert_eq!(told, format!("Failed to register server 'marks': {expected}"));
    let told = refused(&bus, "mcp_unregister_server", json!({"server_name": "MARKS"})).await;
    let expected = "the MCP server 'marks' is the operator's, and agents cannot remove it";
    assert_eq!(told, format!("Failed to remove server 'marks': {expected}"));
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");

    first.process().kill();
    let second = start(permissive(&bus, &servers)).await;
    for server in ["clock", "hours"] {
        let now = mcp(&bus, server, "get_current_time", json!({"timezone": "UTC"})).await;
        assert!(now.content().contains("\"UTC\""), "{now:?}");
    }

    let gone = invoke(&bus, "mcp_unregister_server", json!({"name": "Clock"})).await;
    assert_eq!(gone.content(), "Server 'clock' removed successfully.");
    drop(second);
    let third = start(permissive(&bus, &servers)).await;
    assert_eq!(mcp(&bus, "clock", "get_current_time", json!({})).await.code(), "tool_not_found");
    drop(third);
    assert_eq!(std::fs::read(servers.file()).unwrap(), operators);
}

#[tokio::test]
async fn an_embedded_host_keeps_registrations_and_follows_its_file() {
    let Some(time) = servers::time() else { return };
    let servers = Servers::with(&[]);
    let invoke = async |tool: &str, arguments: Value| {
        let launch = Launch::new("agent-host").args(["invoke", tool, "-", "--json"]);
        let launch = launch.arg("--mcp-config").arg(servers.file()).stdin(arguments.to_string());
        let launch = allowing_programs(launch);
        Outcome::of(launch.run(LIMIT).await.unwrap())
    };

    let clock = json!({"server_name": "clock", "command": time.command, "arguments": time.args});
    invoke("mcp_register_server", clock).await.content();
    // Another process, which knows of it by the file alone.
    let arguments = json!({"timezone": "UTC"});
    let now = json!({
        "server_name": "clock", "tool_name": "get_current_time", "arguments": arguments,
    });

    assert!(invoke("mcp_invoke_tool", now).await.content().contains("\"UTC\""));

    // One that runs on sees what others register and what the operator changes.
    let launch = Launch::new("agent-host").args(["serve", "--mcp-config"]).arg(servers.file());
    let mut host = start(allowing_programs(launch)).await;
    lists(&host, &["clock", "marks"]).await;
    let marks = processes_of(host.process().id(), "server.py");
    let entries = json!({"mcpServers": {"marks": servers.marking("good"), "time": time.to_json()}});
    std::fs::write(servers.file(), entries.to_string()).unwrap();
    lists(&host, &["clock", "marks", "time"]).await;
    invoke("mcp_unregister_server", json!({"server_name": "clock"})).await.content();
    lists(&host, &["marks", "time"]).await;
    assert_eq!(processes_of(host.process().id(), "server.py"), marks, "it was left alone");
}

fn processes_of(host: u32, text: &str) -> Vec<u32> {
    let below = descendants(host);
    let mut found = processes(text);
    found.retain(|id| below.contains(id));
    assert!(found.len() >= 2, "a server, its supervisor, and what shields it: {found:?}");
    found
}

/// Waits until a host's agent knows these servers and no others.
async fn lists(host: &Service, expected: &[&str]) {
    toolbus_testkit::eventually(LIMIT, async || {
        let (_, body) = host.look("/status").await?;
        let status: Value = serde_json::from_str(&body)?;
        let mut names = status["details"]["mcpServers"].clone();
        if let Some(names) = names.as_array_mut() {
            names.sort_by_key(ToString::to_string);
        }
        anyhow::ensure!(names == json!(expected), "{body}");
        Ok(())
    })
    .await;
}
