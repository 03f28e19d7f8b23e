//! Whatever comes in ends in a typed error or as a dead letter with its reason. Nothing hangs,
//! nothing comes again and again, and a good call beside it works.

use std::collections::BTreeMap;

use anyhow::ensure;
use serde_json::{Value, json};
use toolbus_bus::Bus as _;
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_testkit::process::Launch;
use toolbus_testkit::rabbit::Vhost;
use toolbus_testkit::{eventually, mcp as servers, rabbit};
use toolbus_wire::{Envelope, Topic, header};

use crate::support::*;

const TOOL: &str = "RockBot.Tools.ToolInvokeRequest";
const SCRIPT: &str = "RockBot.Scripts.ScriptInvokeRequest";
const DETAILS: &str = "RockBot.Tools.Mcp.McpGetServiceDetailsRequest";
const REFRESH: &str = "RockBot.Tools.Mcp.McpMetadataRefreshRequest";

/// The dead-letter queues of the topics.
const DEAD_LETTERS: [(&str, &str); 5] = [
    ("tool.invoke", "rockbot.RockBot.tool-invoke.dlq"),
    ("tool.invoke.mcp", "rockbot.mcp-bridge.RockBot.dlq"),
    ("script.invoke", "rockbot.scripts-manager.script-invoke.dlq"),
    ("mcp.manage", "rockbot.mcp-bridge.RockBot.manage.dlq"),
    ("tool.meta.mcp.refresh", "rockbot.mcp-bridge.RockBot.refresh.dlq"),
];

/// How a message ends.
enum End {
    /// It is answered, with these members among others.
    Answer(Value),
    /// It is a dead letter, for a reason that holds this text.
    DeadLetter(&'static str),
    /// It has no effect that anybody could see.
    Nothing,
}

struct Row {
    what: &'static str,
    frame: Frame,
    end: End,
}

fn row(what: &'static str, frame: Frame, end: End) -> Row {
    Row { what, frame, end }
}

fn error(code: &str) -> End {
    End::Answer(json!({"code": code}))
}

/// What is wrong for every kind of tool request; `good` is a request that is not.
fn of_tool_requests(topic: &'static str, good: impl Fn() -> Frame) -> Vec<Row> {
    let with = |body: Vec<u8>| Frame { body, ..good() };
    let text = |text: &str| with(text.as_bytes().to_vec());
    let unread = |body: &[u8]| with(body.to_vec()).without_reply_topic();
    let malformed =
        || End::Answer(json!({"code": "invalid_arguments", "toolCallId": "", "toolName": ""}));
    let ids = json!({"code": "invalid_arguments", "toolCallId": "call_1"});

    vec![
        row("JSON that ends too early", text(r#"{"toolCallId": "call_1""#), malformed()),
        row("no JSON at all", text("hello"), malformed()),
        row("an empty body", text(""), malformed()),
        row("a body that is null", text("null"), malformed()),
        row("a body of another kind", text("[1]"), malformed()),
        row("a body that is not UTF-8", with(b"{\"toolCallId\": \"\xff\"}".to_vec()), malformed()),
        row("a missing member", text(r#"{"toolCallId": "call_1"}"#), End::Answer(ids)),
        row("no JSON and no reply topic", unread(b"{"), End::DeadLetter("EOF while parsing")),
        row("null and no reply topic", unread(b"null"), End::DeadLetter("null")),
        row("not UTF-8 and no reply topic", unread(b"\xff"), End::DeadLetter("")),
        row(
            "a deadline that is over",
            good().header("rb-rb-deadline-ms", json!("1")),
            match topic {
                "script.invoke" => End::Answer(json!({"reason": "timed_out", "output": null})),
                _ => error("timeout"),
            },
        ),
        row(
            "a reply topic that nobody listens on",
            {
                let mut frame = good();
                frame.properties["reply_to"] = json!("nobody.listens");
                frame
            },
            End::Nothing,
        ),
    ]
}

/// A tool call whose arguments are this text.
fn arguments(topic: &'static str, tool: &str, arguments: &str) -> Frame {
    let body = json!({"toolCallId": "call_1", "toolName": tool, "arguments": arguments});
    Frame::new(topic, TOOL, body.to_string())
}

fn of_the_agent() -> Vec<Row> {
    const TOPIC: &str = "tool.invoke";
    let list = |text: &str| arguments(TOPIC, "list_tool_guides", text);
    let ok = |id: &str| End::Answer(json!({"toolCallId": id, "isError": false}));
    let guides = || Frame::tool(TOPIC, "list_tool_guides", &json!({}));
    let strange = "\u{1}\"\\ {}\n../#*ü日😀";
    let mut rows = of_tool_requests(TOPIC, guides);
    rows.extend([
        row("an unknown tool", Frame::tool(TOPIC, "nothing", &json!({})), error("tool_not_found")),
        row("a tool without a name", Frame::tool(TOPIC, "", &json!({})), error("tool_not_found")),
        row(
            "an unknown type",
            Frame::new(TOPIC, "RockBot.Tools.Unheard", guides().body),
            End::Answer(json!({"code": "invalid_arguments", "toolCallId": "call_1"})),
        ),
        row(
            "an unknown type and no reply topic",
            Frame::new(TOPIC, "RockBot.Tools.Unheard", guides().body).without_reply_topic(),
            End::DeadLetter("unknown message type 'RockBot.Tools.Unheard'"),
        ),
        row("an object in a string", list(r#""{}""#), ok("call_1")),
        row("no arguments", list(""), ok("call_1")),
        row("text that is no JSON", list("not json"), error("invalid_arguments")),
        row("a list in a string", list(r#""[1]""#), error("invalid_arguments")),
        row("a list", list("[1, 2]"), error("invalid_arguments")),
        row("a number", list("7"), error("invalid_arguments")),
        row("a string in a string in a string", list(r#""\"{}\"""#), error("invalid_arguments")),
        row(
            "arguments that the schema refuses",
            Frame::tool(TOPIC, "execute_python_script", &json!({"pip_packages": 7})),
            End::Answer(json!({"code": "invalid_arguments", "toolName": "execute_python_script"})),
        ),
        row(
            "headers of other types",
            guides()
                .header("rb-rb-timeout-ms", json!(60_000))
                .header("rb-rb-deadline-ms", json!(true))
                .header("rb-source", json!({"a": ["table"]}))
                .header("rb-traceparent", json!(1.5)),
            ok("call_1"),
        ),
        row(
            "numbers that are none",
            guides()
                .header("rb-rb-timeout-ms", json!("soon"))
                .header("rb-rb-deadline-ms", json!("-1"))
                .header("rb-rb-progress-to", json!(""))
                .header("rb-traceparent", json!("00-zz-01")),
            ok("call_1"),
        ),
        row(
            "ids of any characters",
            {
                let body =
                    json!({"toolCallId": strange, "toolName": "list_tool_guides"}).to_string();
                Frame::new(TOPIC, TOOL, body)
            },
            ok(strange),
        ),
        row(
            "a tool's name of any characters",
            Frame::tool(TOPIC, strange, &json!({})),
            End::Answer(json!({"code": "tool_not_found", "toolName": strange})),
        ),
    ]);

    rows
}

fn of_the_bridge() -> Vec<Row> {
    const TOPIC: &str = "tool.invoke.mcp";
    let at = |server: &str, frame: Frame| frame.header("rb-rb-mcp-server", json!(server));
    let mark = |text: &str| at("marks", arguments(TOPIC, "mark", text));
    // What is wrong with a request is found before its server is looked for.
    let mut rows = of_tool_requests(TOPIC, || at("nobody", Frame::tool(TOPIC, "mark", &json!({}))));
    rows.extend([
        row(
            "a tool nobody has",
            Frame::tool(TOPIC, "nothing", &json!({})),
            error("tool_not_found"),
        ),
        row(
            "a server that is not there",
            at("nobody", Frame::tool(TOPIC, "mark", &json!({}))),
            error("tool_not_found"),
        ),
        row("text that is no JSON", mark("not json"), error("invalid_arguments")),
        row("a number over all doubles", mark(r#"{"n": 1e400}"#), error("invalid_arguments")),
        row("a list", mark("[1, 2]"), error("invalid_arguments")),
        row("a list in a string", mark(r#""[1]""#), error("invalid_arguments")),
    ]);

    rows
}

fn of_the_manager() -> Vec<Row> {
    const TOPIC: &str = "script.invoke";
    let script = |members: Value| {
        let mut body = json!({"toolCallId": "call_1", "script": "print(1)"});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        Frame::new(TOPIC, SCRIPT, body.to_string())
    };

    let mut rows = of_tool_requests(TOPIC, || Frame::script("print(1)"));
    let ok = || End::Answer(json!({"toolCallId": "call_1", "output": "1\n", "isSuccess": true}));
    rows.extend([
        row(
            "a script that is none",
            script(json!({"script": 7})),
            End::Answer(json!({"code": "invalid_arguments", "toolCallId": "call_1"})),
        ),
        row("a timeout below its bounds", script(json!({"timeoutSeconds": -5})), ok()),
        row("a timeout over its bounds", script(json!({"timeoutSeconds": 1_000_000})), ok()),
        row(
            "a package that is none",
            script(json!({"pipPackages": ["--index-url=http://evil"]})),
            End::Answer(json!({"isSuccess": false, "exitCode": -1})),
        ),
        row(
            "a script with a null character",
            script(json!({"script": "print(1)\u{0}"})),
            End::Answer(json!({"toolCallId": "call_1", "isSuccess": false})),
        ),
    ]);

    rows
}

fn of_the_management() -> Vec<Row> {
    const TOPIC: &str = "mcp.manage";
    let details = |body: &str| Frame::new(TOPIC, DETAILS, body);
    let good = r#"{"serverName": "marks"}"#;
    vec![
        row("no JSON", details("{"), End::Answer(json!({"serverName": "", "tools": []}))),
        row("null", details("null"), End::Answer(json!({"serverName": "", "tools": []}))),
        row("a missing member", details("{}"), End::Answer(json!({"tools": []}))),
        row(
            "a server that is not there",
            details(r#"{"serverName": "nobody"}"#),
            End::Answer(json!({"error": "Server 'nobody' is not connected"})),
        ),
        row(
            "an unknown type",
            Frame::new(TOPIC, "RockBot.Tools.Mcp.McpDanceRequest", good),
            End::Answer(json!({
                "serverName": "",
                "tools": [],
                "error": "unknown request type RockBot.Tools.Mcp.McpDanceRequest",
            })),
        ),
        row(
            "no reply topic",
            details(good).without_reply_topic(),
            End::DeadLetter("the request names no reply topic"),
        ),
        row(
            "a refresh that is none",
            Frame::new("tool.meta.mcp.refresh", REFRESH, "{"),
            End::DeadLetter("EOF while parsing"),
        ),
    ]
}

#[tokio::test]
async fn every_message_ends_once() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let _fleet = tokio::join!(bridge(&bus, &servers), scripts(&bus), serve(&bus));
    let stranger = Stranger::new(&vhost, &[]).await;
    let rows: Vec<Row> = [of_the_agent(), of_the_bridge(), of_the_manager(), of_the_management()]
        .into_iter()
        .flatten()
        .collect();
    let send = async {
        for row in &rows {
            stranger.send(&row.frame).await;
        }
    };

    // A good call beside them, and one behind them.
    let (beside, ()) = tokio::join!(python(&bus, "print('beside')"), send);
    assert_eq!(beside.content(), "beside\n");

    check_answers(&stranger, &rows).await;
    for (topic, queue) in DEAD_LETTERS {
        check_dead_letters(&vhost, &rows, topic, queue).await;
    }

    assert_eq!(servers.marks(), [] as [&str; 0], "a call was made that should not be");
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    assert_eq!(python(&bus, "print('behind')").await.content(), "behind\n");
    // Had any come again, it would have been answered or put away again by now.
    let more = vhost.take(ANSWERS, 100).await.unwrap();
    assert!(more.is_empty(), "answered twice: {more:?}");

    for (topic, queue) in DEAD_LETTERS {
        check_dead_letters(&vhost, &rows, topic, queue).await;
    }
}

async fn check_answers(stranger: &Stranger<'_>, rows: &[Row]) {
    let expected: BTreeMap<&str, (&str, &Value)> = rows
        .iter()
        .filter_map(|row| match &row.end {
            End::Answer(members) => Some((row.frame.correlation_id(), (row.what, members))),
            _ => None,
        })
        .collect();
    let messages = stranger.take(ANSWERS, expected.len()).await;
    assert_eq!(messages.len(), expected.len());
    for answer in messages.iter().map(Answer::of) {
        let id = answer.properties["correlation_id"].as_str().unwrap();
        let (what, members) = expected.get(id).expect("an answer to nothing that was asked");
        for (name, value) in members.as_object().unwrap() {
            assert_eq!(answer.body[name], *value, "{what}: {}: {}", answer.kind, answer.body);
        }
    }
}

async fn check_dead_letters(vhost: &Vhost, rows: &[Row], topic: &str, queue: &str) {
    let expected: BTreeMap<&str, (&str, &str)> = rows
        .iter()
        .filter(|row| row.frame.topic == topic)
        .filter_map(|row| match row.end {
            End::DeadLetter(reason) => Some((row.frame.correlation_id(), (row.what, reason))),
            _ => None,
        })
        .collect();
    let letters = eventually(LIMIT, async || {
        let letters = vhost.peek(queue, 100).await?;
        ensure!(letters.len() >= expected.len(), "{} dead letters", letters.len());
        Ok(letters)
    })
    .await;
    assert_eq!(letters.len(), expected.len(), "{topic}: {letters:?}");

    for letter in letters {
        let id = letter.properties["correlation_id"].as_str().unwrap();
        let (what, reason) = expected.get(id).expect("a dead letter that should be none");
        let told = letter.properties["headers"]["rb-dead-letter-reason"].as_str();
        assert!(told.is_some_and(|told| told.contains(reason)), "{what}: {told:?}");
    }
}

#[tokio::test]
async fn a_duplicate_runs_once() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let _bridge = bridge(&bus, &servers).await;
    let stranger = Stranger::new(&vhost, &[]).await;
    let frame = Frame::tool("tool.invoke.mcp", "wait", &json!({}));
    let frame = frame.header("rb-rb-mcp-server", json!("marks"));
    // The second while the first runs, the third after it.
    stranger.send(&frame).await;
    servers.wait_for_marks(&["wait"]).await;
    stranger.send(&frame).await;
    servers.open_gate();
    let first = stranger.take(ANSWERS, 2).await;
    stranger.send(&frame).await;
    let last = stranger.take(ANSWERS, 1).await;
    let bodies: Vec<_> = first.iter().chain(&last).map(|answer| &answer.body).collect();
    assert_eq!(bodies.len(), 3);
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    assert_eq!(servers.marks(), ["wait"]);

    // Another call that is alike but for its id is another call.
    let another = Frame::tool("tool.invoke.mcp", "wait", &json!({}));
    stranger.ask(&another.header("rb-rb-mcp-server", json!("marks"))).await;
    assert_eq!(servers.marks(), ["wait", "wait"]);
}

#[tokio::test]
async fn bodies_of_ten_mebibytes() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let _fleet = tokio::join!(bridge(&bus, &servers), scripts(&bus), serve(&bus));
    let stranger = Stranger::new(&vhost, &[]).await;
    // The management API takes no message of this size, so these come from a bus of our own.
    let sender = RabbitBus::connect(Config::new(&bus).unwrap()).await.unwrap();
    let large = "x".repeat(10 << 20);
    let check = async |frame: Frame, expected: &str| {
        let kind = frame.properties["type"].as_str().unwrap().to_owned();
        let mut envelope = Envelope::new(kind, "Stranger", frame.body.into());
        envelope.reply_to = Some(Topic::parse(ANSWERS).unwrap());
        if frame.properties["headers"]["rb-rb-mcp-server"] == "marks" {
            envelope.headers.set(header::MCP_SERVER, "marks");
        }
        sender.publish(&Topic::parse(frame.topic).unwrap(), envelope).await.unwrap();
        let answer = Answer::of(&stranger.take(ANSWERS, 1).await[0]);
        assert_eq!(answer.body["code"], "invalid_arguments", "{}", answer.body);
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
    };

    let arguments = json!({"text": large});
    let mark = Frame::tool("tool.invoke.mcp", "mark", &arguments);
    check(mark.header("rb-rb-mcp-server", json!("marks")), "over the limit").await;
    check(Frame::tool("tool.invoke", "list_tool_guides", &arguments), "over the limit").await;
    check(Frame::script(&large), "over the limit").await;
    // Of text that is no request at all, not all is repeated.
    let nonsense = Frame::new("tool.invoke", TOOL, large.clone().into_bytes());
    check(nonsense, "line 1 column 1").await;
    assert_eq!(servers.marks(), [] as [&str; 0]);

    let arguments = Launch::new("agent-host").args(["invoke", "list_tool_guides", "-"]);
    let run = arguments.stdin(json!({"text": large}).to_string()).run(LIMIT).await.unwrap();
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    assert!(run.stderr.contains("over the limit of 8388608 bytes"), "{}", run.stderr);
}

#[tokio::test]
async fn servers_that_do_everything_wrong() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(time) = servers::time() else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let servers = Servers::with(&[
        ("time", time.to_json()),
        ("typo", json!({"comand": "mcp-server-time"})),
        ("absent", json!({"command": "no-such-program"})),
        ("refused", json!({"type": "http", "url": "http://127.0.0.1:9/mcp"})),
        ("mute", servers.marking("mute")),
        ("garbage", servers.marking("garbage")),
    ]);
    // Time enough for the healthy one on a machine that is busy with other tests.
    let impatient = launch("mcp-bridge", &bus).env("TOOLBUS_MCP__CONNECT_TIMEOUT", "10s");
    let bridge = start(impatient.arg("--mcp-config").arg(servers.file())).await;
    let code =
        async |server: &str, tool: &str| mcp(&bus, server, tool, json!({})).await.code().to_owned();

    let arguments = json!({"timezone": "UTC"});
    let (healthy, mute, typo, absent, refused, dies) = tokio::join!(
        mcp(&bus, "time", "get_current_time", arguments.clone()),
        code("mute", "mark"),
        code("typo", "mark"),
        code("absent", "mark"),
        code("refused", "mark"),
        code("marks", "die"),
    );
    assert!(healthy.content().contains("UTC"), "{healthy:?}");

    for code in [mute, typo, absent, refused] {
        assert_eq!(code, "tool_not_found");
    }

    assert_eq!(dies, "outcome_unknown");
    assert_eq!(servers.marks(), ["die"], "what had started was tried again");
    // What died is there again, and garbage around its messages does no harm to a server.
    for server in ["marks", "garbage"] {
        assert_eq!(mcp(&bus, server, "mark", json!({})).await.content(), "mark: done");
    }

    let (_, status) = bridge.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let state = |name: &str| {
        let servers = status["details"]["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap()["state"].clone()
    };

    assert_eq!((state("garbage"), state("time")), (json!("connected"), json!("connected")));
    assert_eq!((state("absent"), state("refused")), (json!("failed"), json!("failed")));
}

#[tokio::test]
async fn a_server_that_answers_nothing_leaves_places_to_the_others() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let silent = Servers::with(&[]);
    let servers = Servers::with(&[("silent", silent.marking("good"))]);
    // Eight calls at a time, of which one server may have a quarter.
    let small = launch("mcp-bridge", &bus).env("TOOLBUS_MCP__CONCURRENCY", "8");
    let _bridge = start(small.arg("--mcp-config").arg(servers.file())).await;
    let stranger = Stranger::new(&vhost, &[]).await;

    for _ in 0..20 {
        let wait = Frame::tool("tool.invoke.mcp", "wait", &json!({}));
        stranger.send(&wait.header("rb-rb-mcp-server", json!("silent"))).await;
    }

    silent.wait_for_marks(&["wait", "wait"]).await;
    let refused = stranger.take(ANSWERS, 18).await;
    for answer in refused.iter().map(Answer::of) {
        assert_eq!(answer.body["code"], "busy", "{}", answer.body);
        let message = answer.body["message"].as_str().unwrap();
        assert!(message.starts_with("MCP server 'silent' is busy with 2 calls"), "{message}");
    }

    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    assert_eq!(mcp(&bus, "silent", "mark", json!({})).await.code(), "busy");

    // The two hang all the while, and have their answers when there are some.
    let more = vhost.take(ANSWERS, 100).await.unwrap();
    assert!(more.is_empty(), "answered meanwhile: {more:?}");
    silent.open_gate();

    for answer in stranger.take(ANSWERS, 2).await.iter().map(Answer::of) {
        assert_eq!(answer.body["content"], "wait: done", "{}", answer.body);
    }

    assert_eq!(silent.marks(), ["wait", "wait"]);
}

#[tokio::test]
async fn a_list_of_servers_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, r#"{"mcpServers": {"a": }"#).unwrap();
    let tools = Launch::new("agent-host").arg("tools").arg("--mcp-config").arg(&file);
    let bridge = launch("mcp-bridge", "amqp://127.0.0.1:1").arg("--mcp-config").arg(&file);
    for launch in [tools, bridge] {
        let run = launch.run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        assert!(run.stderr.contains("line 1, column 22"), "{}", run.stderr);
    }
}

/// A bridge that is not there is told of at once, and by name.
#[tokio::test]
async fn tools_of_a_bridge_that_is_not_there() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let servers = Servers::with(&[]);
    let bridge = start(launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file())).await;
    assert_eq!(mcp(&bus, "marks", "mark", json!({})).await.content(), "mark: done");
    drop(bridge);

    for tool in ["mcp_invoke_tool", "mcp_list_services"] {
        let outcome =
            invoke(&bus, tool, json!({"server_name": "marks", "tool_name": "mark"})).await;
        assert_eq!(outcome.code(), "unroutable", "{outcome:?}");
        let message = outcome.json["error"]["message"].as_str().unwrap();
        assert!(message.contains("mcp-bridge"), "{message}");
    }
    // The bridge of another virtual host had nothing of it.
    assert_eq!(servers.marks(), ["mark"]);
}

#[tokio::test]
async fn brokers_that_are_away_or_refuse() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let away = "amqp://guest:hunter2@127.0.0.1:1".to_owned();
    let refusing = vhost.amqp_url().replace(":guest@", ":hunter2@");
    let nowhere = vhost.amqp_url().replace(vhost.name(), "nowhere");

    let check = async |bus: &str, code: &str| {
        let outcome = invoke(bus, "list_tool_guides", json!({})).await;
        assert_eq!(outcome.code(), code, "{outcome:?}");
        let told = outcome.json["error"]["message"].as_str().unwrap();
        assert!(told.starts_with("the broker cannot be joined: the broker at 127.0.0.1:"));
        assert!(!told.contains("hunter2") && !outcome.stderr.contains("hunter2"), "{told}");
        let run = launch("agent-host", bus).arg("tools").run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(1));
        assert!(run.stderr.starts_with("error: the broker cannot be joined\n"), "{}", run.stderr);
    };

    tokio::join!(check(&away, "unroutable"), check(&refusing, "denied"), check(&nowhere, "denied"),);

    // Services wait for it, say for what, and stop when they are told to.
    let check = async |program: &str, arguments: &[&str], bus: &str, reason: &str| {
        let mut service = launch(program, bus).args(arguments).start().unwrap();
        eventually(LIMIT, async || {
            let (status, body) = service.look("/readyz").await?;
            ensure!(status == 503 && body.contains(reason), "{status}: {body}");
            ensure!(!body.contains("hunter2"), "{body}");
            Ok(())
        })
        .await;
        let ended = service.process().terminate(LIMIT).await.unwrap();
        let said = service.process().stderr();
        assert_eq!(ended.code(), Some(0), "{said}");
        assert!(!said.contains("hunter2"), "{said}");
    };

    tokio::join!(
        check("mcp-bridge", &[], &away, "cannot be reached"),
        check("scripts-manager", &[], &refusing, "refused the user guest or the password"),
        check("agent-host", &["serve"], &nowhere, "refused the virtual host nowhere"),
    );
}
