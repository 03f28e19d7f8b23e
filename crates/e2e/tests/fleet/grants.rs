//! Workers that demand grants, on a real broker: the agent with the key is served, and nobody else
//! who has the broker's credentials.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use toolbus_testkit::process::Launch;
use toolbus_testkit::rabbit;
use toolbus_testkit::rabbit::Message;

use crate::support::*;

const KEY: &str = "5b2f8c0e7d914a36b8e2f1c05d7a9e43";
const NEXT_KEY: &str = "c4a1e09d3b6f4857a2d8e6f7091b3c5d";

/// A file with this key, as `openssl rand -hex` writes it.
fn key_file(folder: &Path, name: &str, key: &str) -> PathBuf {
    let file = folder.join(name);
    std::fs::write(&file, format!("{key}\n")).unwrap();
    file
}

/// A worker that demands grants by the key of this file.
fn demanding(launch: Launch, key: &Path) -> Launch {
    launch.env("TOOLBUS_GRANTS__REQUIRED", "true").env("TOOLBUS_GRANTS__KEY_FILE", key)
}

/// `agent-host invoke` with the key of this file, or with none.
async fn invoke_with(bus: &str, key: Option<&Path>, tool: &str, arguments: &Value) -> Outcome {
    let launch = invocation(bus, tool, arguments);
    let launch = match key {
        Some(key) => launch.env("TOOLBUS_GRANTS__KEY_FILE", key),
        None => launch,
    };
    Outcome::of(launch.run(LIMIT).await.unwrap())
}

/// The topic of the agent's requests to the server `marks`.
const OF_MARKS: &str = "mcp.server.RockBot.marks";

/// A message that was taken, with something of its body replaced, as it is published again.
fn forged(topic: &'static str, taken: &Message, from: &str, to: &str) -> Frame {
    let body = String::from_utf8(taken.body.clone()).unwrap();
    assert!(body.contains(from), "{body}");
    let mut properties = Value::Object(taken.properties.clone());
    properties["reply_to"] = json!(ANSWERS);
    Frame { topic, properties, body: body.replace(from, to).into_bytes() }
}

#[tokio::test]
async fn workers_serve_the_agent_with_the_key_and_no_stranger() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let folder = tempfile::tempdir().unwrap();
    let key = key_file(folder.path(), "key", KEY);
    let servers = Servers::with(&[]);
    let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let bridge = bridge.env("TOOLBUS_LOG__FILTER", "trace");
    let mut bridge = start(demanding(bridge, &key)).await;
    let mut manager = start(demanding(launch("scripts-manager", &bus), &key)).await;
    let stranger = Stranger::new(&vhost, &[OF_MARKS, "script.invoke"]).await;

    let mark = json!({"server_name": "MARKS", "tool_name": "Mark", "arguments": {}});
    let script = json!({"script": "print(6 * 7)"});
    let marked = invoke_with(&bus, Some(&key), "mcp_invoke_tool", &mark).await;
    assert_eq!(marked.content(), "mark: done");
    let printed = invoke_with(&bus, Some(&key), "execute_python_script", &script).await;
    assert_eq!(printed.content(), "42\n");

    for (tool, arguments) in [("mcp_invoke_tool", &mark), ("execute_python_script", &script)] {
        let refused = invoke_with(&bus, None, tool, arguments).await;
        assert_eq!(refused.code(), "denied", "{tool}");
        let message = refused.json["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("requires a grant: the request has none"), "{message}");
    }

    // Of what was heard nothing can be made that runs.
    let [call, _] = &stranger.take(OF_MARKS, 2).await[..] else { panic!() };
    let [script, _] = &stranger.take("script.invoke", 2).await[..] else { panic!() };
    let grant = call.properties["headers"]["rb-rb-grant"].as_str().unwrap().to_owned();
    for frame in [
        Frame::tool("tool.invoke.mcp", "mark", &json!({})).header("rb-mcp-server", json!("marks")),
        Frame::tool(OF_MARKS, "mark", &json!({}))
            .header("rb-mcp-server", json!("marks"))
            .header("rb-rb-grant", json!(grant)),
        forged(OF_MARKS, call, "mark", "die"),
        forged(OF_MARKS, call, r#""{}""#, r#""{\"a\":1}""#),
        Frame::script("print('mine')"),
        forged("script.invoke", script, "6 * 7", "1"),
    ] {
        let answer = stranger.ask(&frame).await;
        assert_eq!(answer.kind, "RockBot.Tools.ToolError");
        assert_eq!(answer.body["code"], "denied", "{answer:?}");
        assert_eq!(answer.body["execution"], "not_started", "{answer:?}");
    }
    assert_eq!(servers.marks(), ["mark"]);

    // And of neither grant nor key is anything in a log.
    for log in [bridge.process().stderr(), manager.process().stderr()] {
        assert!(log.contains("refused a request without a valid grant"), "{log}");
        assert!(log.contains("Stranger"), "{log}");
        let mac = grant.rsplit('.').next().unwrap();
        assert!(!log.contains(KEY) && !log.contains(mac), "{log}");
    }
}

#[tokio::test]
async fn a_key_is_changed_while_calls_go_on() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let folder = tempfile::tempdir().unwrap();
    let key = key_file(folder.path(), "key", KEY);
    let next = key_file(folder.path(), "next", NEXT_KEY);
    let servers = Servers::with(&[]);
    let bridge = || launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let mark = json!({"server_name": "marks", "tool_name": "mark", "arguments": {}});
    let serves = async |file: &Path, expected: bool| {
        let outcome = invoke_with(&bus, Some(file), "mcp_invoke_tool", &mark).await;
        if expected {
            assert_eq!(outcome.content(), "mark: done");
        } else {
            assert_eq!(outcome.code(), "denied");
        }
    };

    // Workers know both first, then agents get the new one, then the old one counts no more.
    let both = demanding(bridge(), &next).env("TOOLBUS_GRANTS__PREVIOUS_KEY_FILE", &key);
    let both = start(both).await;
    serves(&key, true).await;
    serves(&next, true).await;
    drop(both);
    let _one = start(demanding(bridge(), &next)).await;
    serves(&next, true).await;
    serves(&key, false).await;
}

/// A fleet migrates from the shared key to signatures one setting at a time, and calls keep
/// working.
#[tokio::test]
async fn a_fleet_changes_over_to_signed_grants() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let folder = tempfile::tempdir().unwrap();
    let shared = key_file(folder.path(), "key", KEY);
    let signing = folder.path().join("signing-key");
    let made = Launch::new("agent-host").args(["grants", "new-key"]).arg(&signing);
    let made = made.run(LIMIT).await.unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let public = folder.path().join("public-keys");
    std::fs::write(&public, &made.stdout).unwrap();

    let servers = Servers::with(&[]);
    let bridge = |settings: &[(&str, &Path)]| {
        let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
        let bridge = bridge.env("TOOLBUS_GRANTS__REQUIRED", "true");
        settings.iter().fold(bridge, |bridge, (name, value)| {
            bridge.env(&format!("TOOLBUS_GRANTS__{name}"), *value)
        })
    };
    let mark = json!({"server_name": "marks", "tool_name": "mark", "arguments": {}});
    let invoke = async |settings: &[(&str, &Path)]| {
        let launch = invocation(&bus, "mcp_invoke_tool", &mark);
        let launch = settings.iter().fold(launch, |launch, (name, value)| {
            launch.env(&format!("TOOLBUS_GRANTS__{name}"), *value)
        });
        Outcome::of(launch.run(LIMIT).await.unwrap())
    };
    let (by_shared, by_signing) = (("KEY_FILE", &*shared), ("SIGNING_KEY_FILE", &*signing));
    let public = ("PUBLIC_KEYS_FILE", &*public);

    // Workers that have only the shared key serve agents with both keys.
    let old = start(bridge(&[by_shared])).await;
    for agent in [&[by_shared][..], &[by_shared, by_signing]] {
        assert_eq!(invoke(agent).await.content(), "mark: done");
    }
    drop(old);

    let both = start(bridge(&[by_shared, public])).await;
    for agent in [&[by_shared][..], &[by_shared, by_signing], &[by_signing]] {
        assert_eq!(invoke(agent).await.content(), "mark: done");
    }
    drop(both);

    let ended = ("ACCEPT_SHARED_KEY", Path::new("false"));
    let mut new = start(bridge(&[by_shared, public, ended])).await;
    for agent in [&[by_shared, by_signing][..], &[by_signing]] {
        assert_eq!(invoke(agent).await.content(), "mark: done");
    }
    let refused = invoke(&[by_shared]).await;
    assert_eq!(refused.code(), "denied");
    let message = refused.json["error"]["message"].as_str().unwrap();
    assert!(message.contains("the shared key, which does not count here"), "{message}");
    assert!(new.process().stderr().contains("shared_key_ended"), "{}", new.process().stderr());
}

#[tokio::test]
async fn mistakes_in_the_settings_of_grants_are_told_at_the_start() {
    let check = async |program: &str, settings: &[(&str, &str)], expected: &str| {
        let launch = Launch::new(program).args(["--bus", "amqp://localhost:1"]);
        let launch = if program == "agent-host" { launch.arg("tools") } else { launch };
        let launch = settings.iter().fold(launch, |launch, (name, value)| {
            launch.env(&format!("TOOLBUS_GRANTS__{name}"), value)
        });
        let run = launch.run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        assert!(run.stderr.contains(expected), "{}", run.stderr);
        assert!(!run.stderr.contains(&KEY[..8]), "{}", run.stderr);
    };
    for worker in ["mcp-bridge", "scripts-manager"] {
        check(worker, &[("REQUIRED", "true")], "grants.required: grants are checked with a key")
            .await;
        check(worker, &[("KEY", &KEY[1..])], "grants.key: a key of grants has at least 32").await;
    }
    let ended = [("KEY", KEY), ("ACCEPT_SHARED_KEY", "false")];
    check("mcp-bridge", &ended, "grants.accept_shared_key: no key counts then").await;
    check("agent-host", &[("KEY", &KEY[1..])], "grants.key: a key of grants has at least 32").await;
    check("agent-host", &[("KEY", KEY), ("KEY_FILE", "/k")], "grants.key_file: grants.key").await;
}
