//! Without a broker: the same services in one process.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::{Launch, Process, Service, binary};
use toolbus_testkit::rabbit;

use crate::support::*;

/// What the demo may take, by its own promise.
const DEMO_LIMIT: Duration = Duration::from_secs(20);

async fn invoke(servers: &Servers, tool: &str, arguments: Value) -> Outcome {
    let launch = Launch::new("agent-host").args(["invoke", tool, "-", "--json", "--mcp-config"]);
    let launch = launch.arg(servers.file()).stdin(arguments.to_string());
    Outcome::of(launch.run(LIMIT).await.unwrap())
}

#[tokio::test]
async fn the_same_calls_work_in_one_process() {
    let Some(time) = servers::time() else { return };
    let servers = Servers::with(&[("time", time.to_json())]);
    let arguments = json!({
        "server_name": "time",
        "tool_name": "get_current_time",
        "arguments": {"timezone": "Europe/Berlin"},
    });
    let outcome = invoke(&servers, "mcp_invoke_tool", arguments).await;
    assert!(outcome.content().contains("\"Europe/Berlin\""), "{outcome:?}");
    let outcome = invoke(&servers, "execute_python_script", json!({"script": "print(42)"})).await;
    assert_eq!((outcome.content(), &*outcome.stderr), ("42\n", ""));
    let outcome = invoke(&servers, "mcp_invoke_tool", json!({"server_name": "nobody"})).await;
    assert_eq!(outcome.code(), "invalid_arguments");

    let tools = Launch::new("agent-host").args(["tools", "--mcp-config"]).arg(servers.file());
    let run = tools.run(LIMIT).await.unwrap();
    assert!(run.status.success(), "{run:?}");
    assert!(run.stdout.contains("\nmcp_invoke_tool ") && run.stdout.contains("  marks: mark"));
}

#[tokio::test]
async fn arguments_may_be_pairs() {
    let check = async |arguments: &[&str], code: i32, expected: &str| {
        let launch = Launch::new("agent-host").args(["invoke", "execute_python_script"]);
        let run = launch.args(arguments).run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert!(format!("{}{}", run.stdout, run.stderr).contains(expected), "{run:?}");
    };
    let hint = "did you mean 'script'?";
    tokio::join!(
        check(&["script=print(6*7)"], 0, "42\n"),
        check(&["script=1", "timeout_seconds=5"], 0, ""),
        check(
            &["script=print(1)", "zzz=1"],
            0,
            "warning: execute_python_script has no argument 'zzz'"
        ),
        check(&["scrpt=print(1)"], 2, hint),
        check(&["script=1", "word"], 2, "neither NAME=VALUE"),
        check(&["[1]"], 2, "must be a JSON object"),
        check(&["{\"timeout_seconds\": 1e400}"], 2, "invalid_arguments"),
    );

    let run =
        Launch::new("agent-host").args(["invoke", "execute_python"]).run(LIMIT).await.unwrap();
    assert_eq!(run.status.code(), Some(1), "{run:?}");
    assert!(run.stderr.contains("Did you mean 'execute_python_script'?"), "{}", run.stderr);
}

/// A list that is asked for waits for servers that are slow, and a call of one of them does.
#[tokio::test]
async fn servers_that_take_their_time_are_waited_for() {
    let Some(time) = servers::time() else { return };
    let command = [&time.command].into_iter().chain(&time.args);
    let command: Vec<_> = command.map(|word| format!("'{word}'")).collect();
    let slow = format!("sleep 4; exec {}", command.join(" "));
    // Time enough on a machine that is busy with other tests.
    let entry = json!({"command": "sh", "args": ["-c", slow], "startupTimeoutMs": 60_000});
    let servers = Servers::with(&[("slow", entry)]);
    let run = async |arguments: &[&str]| {
        let launch = Launch::new("agent-host").args(arguments).arg("--mcp-config");
        let run = launch.arg(servers.file()).run(LIMIT).await.unwrap();
        assert!(run.status.success(), "{run:?}");
        run.stdout
    };

    let (tools, listed, details, called) = tokio::join!(
        run(&["tools"]),
        run(&["invoke", "mcp_list_services"]),
        run(&["invoke", "mcp_get_service_details", "server_name=slow"]),
        run(&["exec", "slow/get_current_time", "timezone=Europe/Berlin"]),
    );
    assert!(tools.contains("  slow: get_current_time, convert_time\n"), "{tools}");
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let slow = listed.as_array().unwrap().iter().find(|server| server["serverName"] == "slow");
    assert_eq!(slow.unwrap()["toolCount"], 2, "{listed}");
    assert!(details.contains("get_current_time"), "{details}");
    assert!(called.contains("Europe/Berlin"), "{called}");
}

/// Mistakes in the list of servers are told, and fail what needs the servers that they are about.
#[tokio::test]
async fn mistakes_in_the_list_fail_what_needs_the_servers() {
    let servers = Servers::with(&[("typo", json!({"comand": "mcp-server-time"}))]);
    let check = async |arguments: &[&str], code: i32, kind: &str| {
        let launch = Launch::new("agent-host").args(arguments).arg("--mcp-config");
        let run = launch.arg(servers.file()).run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        let told =
            format!("{kind}: mistake in the list of MCP servers: server \"typo\": has neither");
        assert!(run.stderr.contains(&told), "{run:?}");
        run
    };
    let details = ["invoke", "mcp_get_service_details", "server_name=TYPO"];
    let (tools, script, _, _, _) = tokio::join!(
        check(&["tools"], 2, "error"),
        check(&["invoke", "execute_python_script", "script=print(1)"], 0, "warning"),
        check(&details, 2, "error"),
        check(&["exec", "typo/x"], 2, "error"),
        check(&["invoke", "mcp_list_services"], 2, "error"),
    );
    assert!(tools.stdout.contains("  marks: mark"), "{}", tools.stdout);
    assert_eq!(script.stdout, "1\n");
}

#[tokio::test]
async fn how_the_memory_of_scripts_is_bounded_is_in_the_status() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let mut agent = Launch::new("agent-host").arg("serve").start().unwrap();
    agent.ready(LIMIT).await.unwrap();
    let manager = scripts(&vhost.amqp_url()).await;

    let details = async |service: &Service| {
        let (_, status) = service.look("/status").await.unwrap();
        serde_json::from_str::<Value>(&status).unwrap()["details"].clone()
    };
    let told = [
        details(&agent).await["scripts"]["memory"].clone(),
        details(&manager).await["memory"].clone(),
    ];

    assert_eq!(told[0], told[1]);
    assert!(told[0] == "control group" || told[0] == "sampled", "{told:?}");
}

/// RV-C4: where no program can run, chains are not offered. Scripts are, and say why.
#[tokio::test]
async fn without_a_sandbox_there_are_no_chains() {
    let launch = || Launch::new("agent-host").env("TOOLBUS_SCRIPTS__PYTHON", "/nowhere/python3");
    let run = launch().arg("tools").run(LIMIT).await.unwrap();
    assert!(run.status.success(), "{run:?}");
    assert!(run.stdout.contains("execute_python_script"), "{}", run.stdout);
    assert!(!run.stdout.contains("tool_chain"), "{}", run.stdout);

    let script =
        launch().args(["invoke", "execute_python_script", "{\"script\": \"1\"}", "--json"]);
    let outcome = Outcome::of(script.run(LIMIT).await.unwrap());
    assert!(outcome.json.to_string().contains("/nowhere/python3"), "{outcome:?}");
    let run = Launch::new("agent-host").arg("tools").run(LIMIT).await.unwrap();
    assert!(run.stdout.contains("tool_chain"), "{}", run.stdout);
}

#[tokio::test]
async fn the_demo_shows_the_fleet_at_work() {
    let demo = Launch::new("agent-host").arg("demo").env("SOME_API_KEY", "hunter2");
    let run = demo.run(DEMO_LIMIT).await.unwrap();
    assert!(run.status.success(), "{run:?}");
    assert!(!run.stdout.contains("SOME_API_KEY"), "a script sees it: {}", run.stdout);
    assert_eq!(run.stdout.matches(", ok)").count(), 10, "{}", run.stdout);
    assert!(!run.stdout.contains("NOT AS EXPECTED"), "{}", run.stdout);
}

#[tokio::test]
async fn misuse_is_told_as_such() {
    let check = async |program: &str, arguments: &[&str], expected: &str| {
        let run = Launch::new(program).args(arguments).run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        assert!(run.stderr.contains(expected), "{}", run.stderr);
        assert_eq!(run.stdout, "");
    };
    check("agent-host", &[], "Usage: agent-host").await;
    check("agent-host", &["tool"], "unrecognized subcommand").await;
    check("agent-host", &["invoke"], "<NAME>").await;
    check("agent-host", &["invoke", "x", "--timeout", "0s"], "it needs some time").await;
    check("agent-host", &["invoke", "x", "not json"], "the arguments are not JSON").await;
    check("agent-host", &["--bus", "http://x", "tools"], "its scheme must be amqp").await;
    check("agent-host", &["--name", "refresh", "tools"], "never called `refresh`").await;
    check("agent-host", &["--config", "/nothing.toml", "tools"], "/nothing.toml").await;
    check("agent-host", &["--log", "info"], "requires a subcommand").await;
    let variable = "TOOLBUS_MCP_FACE__ALLOWED_HOSTS";
    check("agent-host", &["serve", "--mcp", ":8802"], variable).await;
    check("agent-host", &["serve", "--mcp", "8802"], "write 127.0.0.1:8802").await;
    check("mcp-bridge", &[], "a bridge needs a broker").await;
    check("scripts-manager", &[], "a worker needs a broker").await;
    check("scripts-manager", &["--runner", "moon"], "\"moon\" is not one of").await;
    let slow = ["--runner", "kubernetes", "--bus", "amqp://h?heartbeat=30"];
    check("scripts-manager", &slow, "heartbeat is 1 to 8 s").await;
}

#[tokio::test]
async fn an_option_that_every_program_has_is_no_argument_of_the_tool() {
    let named = ["invoke", "--name", "Bob", "list_tool_guides", "--json"];
    let run = Launch::new("agent-host").args(named).run(LIMIT).await.unwrap();
    assert_eq!(Outcome::of(run).json["tool"], "list_tool_guides");
    let printed = ["--name", "Bob", "invoke", "x", "--print-config"];
    let run = Launch::new("agent-host").args(printed).run(LIMIT).await.unwrap();
    assert!(run.stdout.starts_with("name = \"Bob\"  # --name\n"), "{}", run.stdout);
}

#[tokio::test]
async fn the_settings_are_shown_without_their_secrets() {
    let secret = "amqp://user:hunter2@broker:5672/x";
    for program in ["agent-host", "mcp-bridge", "scripts-manager"] {
        let launch = Launch::new(program).arg("--print-config").env("TOOLBUS_BUS", secret);
        let run = launch.run(LIMIT).await.unwrap();
        assert!(run.status.success(), "{run:?}");
        let expected = "url = \"amqp://user:***@broker:5672/x\"  # TOOLBUS_BUS\n";
        assert!(run.stdout.contains(expected), "{}", run.stdout);
        assert!(!run.stdout.contains("hunter2") && !run.stderr.contains("hunter2"));
    }
}

#[tokio::test]
async fn a_terminal_shows_what_goes_on() {
    let script = json!({"script": "import time\nprint('so far', flush=True)\ntime.sleep(2)"});
    let shown_with = async |arguments: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = on_a_terminal(&script);
        command.args(arguments);
        let mut process = Process::spawn("terminal", &mut command, folder.path()).unwrap();
        let status = process.wait(LIMIT).await.unwrap();
        let shown = process.stdout();
        assert!(status.success(), "{shown:?}");
        shown
    };
    let shown = shown_with(&[]).await;
    assert!(shown.contains("\r\x1b[2Kexecute_python_script: 1 s  so far"), "{shown:?}");
    assert!(shown.ends_with("\r\x1b[2Kso far\r\n"), "the line is gone at the end: {shown:?}");
    assert_eq!(shown_with(&["--quiet"]).await, "so far\r\n");
}

/// What a tool says cannot drive the terminal: no colours, no titles, no clipboard, no links.
#[tokio::test]
async fn what_a_tool_says_reaches_a_terminal_without_control_sequences() {
    let folder = tempfile::tempdir().unwrap();
    let printed = r"\x1b]52;c;aGk=\x07A\x1b[31mB\x1b[2J\x1b]0;title\x1b\\C\x9b31mD\tE";
    let ending = ["", "\nraise SystemExit('\\x1b]0;no\\x07F')"];
    for (nth, end) in ending.into_iter().enumerate() {
        let script = json!({"script": format!("print('{printed}', flush=True){end}")});
        let folder = folder.path().join(nth.to_string());
        std::fs::create_dir(&folder).unwrap();
        let mut command = on_a_terminal(&script);
        let mut process = Process::spawn("terminal", &mut command, &folder).unwrap();
        process.wait(LIMIT).await.unwrap();

        let shown = process.stdout();
        // The program's own line is taken away by its own sequence.
        let shown = shown.replace("\r\x1b[2K", "");
        assert!(!shown.contains(['\x1b', '\x07', '\u{9b}']), "{shown:?}");
        assert!(shown.contains("D\tE"), "what is no control sequence is shown: {shown:?}");
    }
}

/// `agent-host invoke` of a script, on a terminal of its own: what it writes there is passed on.
fn on_a_terminal(script: &Value) -> std::process::Command {
    let mut command = std::process::Command::new("python3");
    command.args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"]);
    command.arg(binary("agent-host").unwrap());
    command.args(["invoke", "execute_python_script", &script.to_string()]);
    // Settings of the test's own are warned of, in colours.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TOOLBUS_") {
            command.env_remove(name);
        }
    }
    command.stdin(std::process::Stdio::null());
    command
}

/// A folder that somebody cloned starts no program, unless a person has said that it may.
#[tokio::test]
async fn an_mcp_json_that_nobody_named_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let home = tempfile::tempdir().unwrap();
    let started = folder.path().join("started");
    let touch = json!({"command": "sh", "args": ["-c", "touch \"$0\"; exec cat", started]});
    let config = json!({"mcpServers": {"evil": touch}}).to_string();
    std::fs::write(folder.path().join("mcp.json"), config).unwrap();

    let run = async |name: &str, more: &[&str]| {
        let mut command = std::process::Command::new(binary("agent-host").unwrap());
        command.arg("tools").args(more).current_dir(folder.path());
        command.env("XDG_STATE_HOME", home.path()).stdin(std::process::Stdio::null());
        let mut process = Process::spawn(name, &mut command, home.path()).unwrap();
        let status = process.wait(LIMIT).await.unwrap();
        assert!(status.success(), "{}", process.stderr());
        process.stderr()
    };
    let told = run("asked-nobody", &[]).await;
    assert!(!started.exists(), "its program was started: {told}");
    assert!(told.contains("mcp.json is not used: this folder is not trusted"), "{told}");

    let told = run("trusted", &["--trust-folder"]).await;
    assert!(started.exists(), "its program was not started: {told}");
}
