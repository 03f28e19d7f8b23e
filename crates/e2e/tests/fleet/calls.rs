//! The main job: a call crosses the bus and comes back.

use serde_json::{Value, json};
use toolbus_testkit::{eventually, mcp as servers, rabbit};

use crate::support::*;

#[tokio::test]
async fn three_processes_run_a_tool_each() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(time) = servers::time() else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[("time", time.to_json())]);
    let (_bridge, _scripts) = tokio::join!(bridge(&bus, &servers), scripts(&bus));

    let outcome = mcp(&bus, "time", "get_current_time", json!({"timezone": "Europe/Berlin"})).await;
    let told: Value = serde_json::from_str(outcome.content()).unwrap();
    assert_eq!(told["timezone"], "Europe/Berlin");
    assert_eq!(outcome.stderr, "");

    let input = json!({
        "script": "import os; print(int(os.environ['ROCKBOT_INPUT']) * 7)",
        "input_data": "6",
    });

    assert_eq!(invoke(&bus, "execute_python_script", input).await.content(), "42\n");

    // What people see: the content and nothing else, or the code and the message.
    let say = async |arguments: &[&str]| {
        let run = launch("agent-host", &bus).arg("invoke").args(arguments).run(LIMIT).await;
        let run = run.unwrap();
        (run.status.code(), run.stdout, run.stderr)
    };

    let script = |text: &str| json!({"script": text}).to_string();
    let said = say(&["execute_python_script", &script("print('hello')")]).await;
    assert_eq!(said, (Some(0), "hello\n".to_owned(), String::new()));
    let said = say(&["execute_python_script", &script("raise SystemExit(3)")]).await;
    let told = "tool_error: Script failed (exit 3):\n".to_owned();
    assert_eq!(said, (Some(1), String::new(), told));
    let said = say(&["execute_python_script", "{}"]).await;
    let told = "invalid_arguments: Missing 'script' argument\n".to_owned();
    assert_eq!(said, (Some(2), String::new(), told));
    let (exit, stdout, stderr) = say(&["execute_python_script", "{"]).await;
    assert_eq!((exit, &*stdout), (Some(2), ""));
    assert!(stderr.starts_with("error: the arguments are not JSON: "), "{stderr}");
    let said = say(&["execute_python_script", "[1]"]).await;
    let told = "invalid_arguments: arguments must be a JSON object, not an array\n".to_owned();
    assert_eq!(said, (Some(2), String::new(), told));
    let said = say(&["nothing", "{}"]).await;
    let told = "tool_not_found: Tool 'nothing' is not registered.\n".to_owned();
    assert_eq!(said, (Some(1), String::new(), told));
    let sleep = script("import time; time.sleep(30)");
    let said = say(&["execute_python_script", &sleep, "--timeout", "1s"]).await;
    let told = "timeout: tool 'execute_python_script' did not end within 1000 ms\n".to_owned();
    assert_eq!(said, (Some(1), String::new(), told));
}

#[tokio::test]
async fn files_cross_the_bus_both_ways() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let _scripts = scripts(&bus).await;
    // A picture of one point, made of what is given, and a table.
    let script = "import shutil\nshutil.copy('input/point.png', 'output/point 1.png')\n\
                  open('output/table.csv', 'w').write('a,b\\n')\nprint('done')";
    let point = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let arguments =
        json!({"script": script, "input_files": [{"name": "point.png", "data": point}]});
    let arguments = arguments.to_string();
    let outcome =
        invoke(&bus, "execute_python_script", serde_json::from_str(&arguments).unwrap()).await;
    assert_eq!(outcome.content(), "done\n");
    let blocks = outcome.json["contentBlocks"].clone();
    assert_eq!(blocks[0], json!({"type": "text", "text": "done\n"}));
    let picture = json!({
        "type": "image", "data": point, "mimeType": "image/png",
        "uri": "script:///output/point%201.png",
    });

    assert_eq!(blocks[2], picture);
    let table = json!({
        "type": "resource", "text": "a,b\n", "mimeType": "text/csv",
        "uri": "script:///output/table.csv",
    });

    assert_eq!(blocks[3], table);

    // For people: the text where it always is, the files named, or kept.
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("kept");
    let say = async |options: &[&str]| {
        let run = launch("agent-host", &bus).arg("invoke").args(options);
        let run = run.arg("execute_python_script").arg(&arguments).run(LIMIT).await.unwrap();
        (run.status.code(), run.stdout, run.stderr)
    };

    let told = "file: point 1.png (image/png, 70 bytes; --save keeps it)\n\
                file: table.csv (text/csv, 4 bytes; --save keeps it)\n";
    assert_eq!(say(&[]).await, (Some(0), "done\n".to_owned(), told.to_owned()));
    let saved = format!(
        "file: {}\nfile: {}\n",
        kept.join("point 1.png").display(),
        kept.join("table.csv").display()
    );
    let said = say(&["--save", kept.to_str().unwrap()]).await;
    assert_eq!(said, (Some(0), "done\n".to_owned(), saved));
    assert_eq!(std::fs::read(kept.join("point 1.png")).unwrap().len(), 70);
    assert_eq!(std::fs::read_to_string(kept.join("table.csv")).unwrap(), "a,b\n");
}

#[tokio::test]
async fn an_outcome_as_json_has_one_shape() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(time) = servers::time() else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[("time", time.to_json())]);
    let _bridge = bridge(&bus, &servers).await;

    let check = |outcome: Outcome, tool: &str, exit: i32, expected: Value| {
        assert_eq!(outcome.exit, Some(exit), "{outcome:?}");
        let mut json = outcome.json;
        let members: Vec<_> = json.as_object().unwrap().keys().cloned().collect();
        assert_eq!(members, ["callId", "tool", "content", "isError", "error"]);
        let id = json.as_object_mut().unwrap().remove("callId").unwrap();
        assert_eq!(id.as_str().unwrap().len(), 32, "{id}");
        assert_eq!(json.as_object_mut().unwrap().remove("tool").unwrap(), tool);
        assert_eq!(json, expected);
    };

    let arguments = json!({
        "source_timezone": "UTC", "time": "12:00", "target_timezone": "Not/There",
    });

    let outcome = mcp(&bus, "time", "convert_time", arguments).await;
    // The tool's own words are both its content and the error's message.
    let said = outcome.json["content"].clone();
    assert!(said.as_str().unwrap().contains("Not/There"), "{said}");
    let error = |code: &str, message: &str, retryable: bool, execution: &str| {
        json!({
            "code": code,
            "message": message,
            "isRetryable": retryable,
            "execution": execution,
        })
    };
    let told = error("tool_error", said.as_str().unwrap(), false, "started");
    let expected = json!({"content": said, "isError": true, "error": told});
    check(outcome, "mcp_invoke_tool", 1, expected);

    let outcome = mcp(&bus, "marks", "mark", json!({})).await;
    let expected = json!({"content": "mark: done", "isError": false, "error": null});
    check(outcome, "mcp_invoke_tool", 0, expected);

    let outcome = mcp(&bus, "nobody", "x", json!({})).await;
    let message = "MCP server 'nobody' is not connected. Servers: ";
    let said = outcome.json["error"]["message"].as_str().unwrap().to_owned();
    assert!(said.starts_with(message) && said.contains("marks"), "{said}");
    // The names stand in the details as well, for programs.
    let mut told = error("tool_not_found", &said, false, "not_started");
    told["details"] = json!({"mcpNearestNames": ["marks", "time"]});
    let expected = json!({"content": null, "isError": true, "error": told});
    check(outcome, "mcp_invoke_tool", 1, expected);

    let outcome = python(&bus, "print(1)").await;
    let message = "no scripts manager is running: nobody takes scripts";
    let told = error("unroutable", message, true, "not_started");
    let expected = json!({"content": null, "isError": true, "error": told});
    check(outcome, "execute_python_script", 1, expected);
}

/// The tools of an agent beside a bridge.
const TOOLS: [&str; 33] = [
    "list_tool_guides",
    "get_tool_guide",
    "execute_python_script",
    "tool_search",
    "save_to_working_memory",
    "get_from_working_memory",
    "delete_from_working_memory",
    "list_working_memory",
    "search_working_memory",
    "save_memory",
    "search_memory",
    "delete_memory",
    "list_categories",
    "add_rule",
    "remove_rule",
    "list_rules",
    "set_timezone",
    "save_skill",
    "get_skill",
    "list_skills",
    "delete_skill",
    "artifact_head",
    "artifact_slice",
    "artifact_grep",
    "artifact_jq",
    "artifact_sql",
    "search_known_services",
    "tool_chain",
    "mcp_list_services",
    "mcp_get_service_details",
    "mcp_invoke_tool",
    "mcp_register_server",
    "mcp_unregister_server",
];

#[tokio::test]
async fn tools_lists_what_is_there() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let tools = async |options: &[&str]| {
        let run = launch("agent-host", &bus).arg("tools").args(options).run(LIMIT).await.unwrap();
        assert!(run.status.success() && run.stderr.is_empty(), "{run:?}");
        run.stdout
    };

    let without = tools(&[]).await;
    let is_listed = |line: &str| {
        line.starts_with("execute_python_script ") && line.contains(" Runs a Python script")
    };
    assert!(without.lines().any(is_listed), "{without}");
    assert!(!without.contains("mcp_"), "there is no bridge: {without}");

    let servers = Servers::with(&[]);
    let bridge = bridge(&bus, &servers).await;
    eventually(LIMIT, async || {
        let (_, status) = bridge.look("/status").await?;
        anyhow::ensure!(status.contains("\"connected\""), "{status}");
        Ok(())
    })
    .await;
    let text = tools(&[]).await;
    assert!(text.contains("\nmcp_invoke_tool "), "{text}");
    assert!(text.ends_with("\n  marks: mark, wait, die\n"), "{text}");
    let json: Value = serde_json::from_str(&tools(&["--json"]).await).unwrap();
    assert_eq!(json["mcpServers"][0]["serverName"], "marks");
    let names: Vec<_> =
        json["tools"].as_array().unwrap().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, TOOLS);
    let listed = &json["tools"][2]["parameters"]["required"];
    assert_eq!(*listed, json!(["script"]));

    let outcome = invoke(&bus, "mcp_list_services", json!({})).await;
    let listed: Value = serde_json::from_str(outcome.content()).unwrap();
    assert_eq!(listed[0]["toolNames"], json!(["mark", "wait", "die"]));
    let question = json!({"server_name": "MARKS", "tool_name": "mark"});
    let outcome = invoke(&bus, "mcp_get_service_details", question).await;
    let details: Value = serde_json::from_str(outcome.content()).unwrap();
    assert_eq!(details["tools"][0]["description"], "Leaves a mark.");
    let outcome = invoke(&bus, "list_tool_guides", json!({})).await;
    assert!(outcome.content().contains("- mcp: ") && outcome.content().contains("- scripts: "));
}

#[tokio::test]
async fn a_served_agent_answers_callers_that_are_none_of_ours() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let (_serve, _scripts) = tokio::join!(serve(&bus), scripts(&bus));
    let stranger = Stranger::new(&vhost, &["tool.result"]).await;
    let request = |topic| {
        let arguments = json!({"script": "print(6 * 7)"});
        Frame::tool(topic, "execute_python_script", &arguments)
    };

    for topic in ["tool.invoke", "tool.invoke.agent.RockBot"] {
        let answer = stranger.ask(&request(topic)).await;
        assert_eq!(answer.kind, "RockBot.Tools.ToolInvokeResponse");
        let expected = json!({
            "toolCallId": "call_1",
            "toolName": "execute_python_script",
            "content": "42\n",
            "isError": false,
        });
        assert_eq!(answer.body, expected);
        assert_eq!(answer.properties["headers"]["rb-source"], "RockBot");
        assert_eq!(answer.properties["content_type"], "application/json");
        assert_eq!(answer.properties["delivery_mode"], 2);
    }

    let frame = request("tool.invoke").without_reply_topic();
    stranger.send(&frame).await;
    let taken = stranger.take("tool.result", 1).await;
    let answer = Answer::of(&taken[0]);
    assert_eq!(answer.properties["correlation_id"], frame.correlation_id());
    assert_eq!(answer.body["content"], "42\n");
}
