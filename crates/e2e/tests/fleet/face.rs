//! The MCP face of `agent-host`, as a client that is none of ours sees it: the official one of the
//! Python kit, in both eras of the protocol.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::rabbit::{self, Vhost};

use crate::support::*;

mod answers;
mod changes;
mod doors;
mod extended;
mod faithful;
mod grants;
mod hop;
mod paths;
mod recorded;

pub(crate) const ERAS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("auto", "2026-07-28")];

/// `agent-host serve` with its MCP face.
pub(crate) struct Host {
    service: Service,
    /// The bridge and the broker, where it is not all in one process.
    fleet: Option<(Service, Vhost)>,
    url: String,
    /// The Python that has the kit.
    python: String,
}

impl Host {
    /// `None` where the kit or the servers have not been fetched and may be missing.
    async fn start() -> Option<(Self, Servers)> {
        let (kit, everything) = (servers::time()?, servers::everything_stdio()?);
        let servers = Servers::with(&[("everything", everything.to_json())]);
        let launch = Launch::new("agent-host").arg("--mcp-config").arg(servers.file());
        let host = Self::serve(launch, kit.command, None).await;
        host.wait_for(&["everything", "marks"]).await;
        Some((host, servers))
    }

    /// One process, launched so, that has the marking server.
    pub(crate) async fn with_marks(launch: Launch) -> Option<(Self, Servers)> {
        let (kit, servers) = (servers::time()?, Servers::with(&[]));
        let host = Self::serve(launch.arg("--mcp-config").arg(servers.file()), kit.command, None);
        let host = host.await;
        host.wait_for(&["marks"]).await;
        Some((host, servers))
    }

    /// A fleet on a broker whose bridge has `asker.py`, with these members of its entry beside.
    async fn with_asker(beside: Value) -> Option<(Self, Servers)> {
        Self::with_asker_in(beside, |launch| launch).await
    }

    /// The same, of programs that are launched so.
    async fn with_asker_in(
        beside: Value,
        so: impl Fn(Launch) -> Launch,
    ) -> Option<(Self, Servers)> {
        let (kit, vhost) = (servers::time()?, rabbit::vhost().await?);
        let servers = Servers::with(&[]);
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/asker.py");
        let folder = servers.file().parent().unwrap().to_owned();
        let mut entry = json!({"command": "python3", "args": [script, folder]});
        entry.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
        let config = json!({"mcpServers": {"asker": entry}}).to_string();
        std::fs::write(servers.file(), config).unwrap();
        let bus = vhost.amqp_url();
        let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
        let (bridge, agent) = (start(so(bridge)).await, so(launch("agent-host", &bus)));
        let host = Self::serve(agent, kit.command, Some((bridge, vhost))).await;
        host.wait_for(&["asker"]).await;
        Some((host, servers))
    }

    async fn serve(launch: Launch, python: String, fleet: Option<(Service, Vhost)>) -> Self {
        let service = start(launch.args(["serve", "--mcp", "127.0.0.1:0"])).await;
        let url = mcp_url(&service, "mcpFace").await;
        Self { service, fleet, url, python }
    }

    /// Waits until these servers are known.
    async fn wait_for(&self, servers: &[&str]) {
        toolbus_testkit::eventually(LIMIT, async || {
            let (_, status) = self.service.look("/status").await?;
            let known: Value = serde_json::from_str(&status)?;
            let known = known["details"]["mcpServers"].as_array().cloned().unwrap_or_default();
            for server in servers {
                anyhow::ensure!(known.contains(&json!(server)), "{status}");
            }
            Ok(())
        })
        .await;
    }

    fn step(&self, path: &str, what: Value) -> Value {
        let mut step = what;
        step["url"] = format!("{}{path}", self.url).into();
        step
    }

    pub(crate) fn call(&self, path: &str, tool: &str, arguments: Value) -> Value {
        self.step(path, json!({"do": "call", "tool": tool, "arguments": arguments}))
    }

    /// What came of each step.
    pub(crate) async fn does<const N: usize>(&self, era: &str, steps: [Value; N]) -> [Value; N] {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/client.py");
        let mut command = Command::new(&self.python);
        command.arg(script).arg(era).stdin(Stdio::piped()).stdout(Stdio::piped());
        let steps = Value::from_iter(steps).to_string();
        let client = tokio::task::spawn_blocking(move || {
            let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(steps.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        });
        let ended = tokio::time::timeout(LIMIT, client).await.expect("it takes too long").unwrap();
        let (told, log) =
            (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let told: Vec<Value> =
            told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        told.try_into().unwrap_or_else(|told| panic!("{told:?}\n{log}"))
    }
}

fn names(listed: &Value) -> Vec<&str> {
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn clients_of_both_eras_list_and_call() {
    let Some((host, servers)) = Host::start().await else { return };
    for (era, protocol) in ERAS {
        let [own, everything, marks] = host
            .does(
                era,
                ["", "/everything", "/MARKS"].map(|path| host.step(path, json!({"do": "list"}))),
            )
            .await;
        assert_eq!(
            (&own["protocol"], &own["server"]),
            (&json!(protocol), &json!("Toolbus, agent RockBot"))
        );
        for tool in ["execute_python_script", "mcp_invoke_tool", "get_tool_guide"] {
            assert!(names(&own).contains(&tool), "{own}");
        }
        assert_eq!(names(&marks), ["mark", "wait", "die"]);
        let echo =
            everything["tools"].as_array().unwrap().iter().find(|t| t["name"] == "echo").unwrap();
        assert_eq!(echo["inputSchema"]["required"], json!(["message"]), "{echo}");

        let through = json!({"server_name": "marks", "tool_name": "mark", "arguments": {}});
        let [echoed, image, marked, script] = host
            .does(
                era,
                [
                    host.call("/everything", "echo", json!({"message": "hi"})),
                    host.call("/everything", "get-tiny-image", json!({})),
                    host.call("", "mcp_invoke_tool", through),
                    host.call("", "execute_python_script", json!({"script": "print(6 * 7)"})),
                ],
            )
            .await;
        let weather =
            host.call("/everything", "get-structured-content", json!({"location": "Chicago"}));
        let [weather] = host.does(era, [weather]).await;
        assert!(weather["structuredContent"]["temperature"].is_number(), "{weather}");
        assert_eq!(echoed["content"], json!([{"type": "text", "text": "Echo: hi"}]));
        let kinds: Vec<_> =
            image["content"].as_array().unwrap().iter().map(|b| &b["type"]).collect();
        assert_eq!(kinds, ["text", "image", "text"]);
        assert_eq!(marked["content"], json!([{"type": "text", "text": "mark: done"}]));
        assert_eq!(script["content"], json!([{"type": "text", "text": "42\n"}]));
        assert!([&echoed, &image, &marked, &script].iter().all(|told| told["isError"] != true));
    }
    assert_eq!(servers.marks(), ["mark", "mark"]);
}

#[tokio::test]
async fn prompts_and_resources_are_read_where_a_server_has_them() {
    let Some((host, _servers)) = Host::start().await else { return };
    let read = |path: &str, prompt: &str, uri: &str| {
        let arguments = json!({"city": "Graz"});
        let what = json!({"do": "read", "prompt": prompt, "arguments": arguments, "uri": uri});
        host.step(path, what)
    };

    let text = "demo://resource/dynamic/text/1";
    for (era, _) in ERAS {
        let [there, unknown, marks, own] = host
            .does(
                era,
                [
                    read("/everything", "args-prompt", text),
                    read("/everything", "no-such-prompt", "demo://nothing"),
                    read("/marks", "args-prompt", text),
                    read("", "args-prompt", text),
                ],
            )
            .await;
        let prompts = there["prompts"]["prompts"].as_array().unwrap();
        let prompt = prompts.iter().find(|prompt| prompt["name"] == "args-prompt").unwrap();
        assert_eq!(prompt["arguments"][0]["required"], true, "{prompt}");
        let said = &there["prompt"]["messages"][0];
        assert_eq!(said["role"], "user", "{said}");
        assert!(said["content"]["text"].as_str().unwrap().contains("Graz"), "{said}");
        assert!(!there["resources"]["resources"].as_array().unwrap().is_empty(), "{there}");
        let templates = there["templates"]["resourceTemplates"].as_array().unwrap();
        let is_of_text = |template: &&Value| {
            template["uriTemplate"].as_str().is_some_and(|uri| uri.contains("/text/"))
        };
        assert!(templates.iter().any(|template| is_of_text(&template)), "{there}");
        let contents = &there["resource"]["contents"][0];
        assert_eq!(contents["uri"], text, "{contents}");
        assert!(contents["text"].as_str().is_some_and(|text| !text.is_empty()), "{contents}");

        assert_eq!((&unknown["prompt"], &unknown["resource"]), (&json!(-32602), &json!(-32602)));
        for without in [marks, own] {
            for what in ["prompts", "prompt", "resources", "templates", "resource"] {
                assert_eq!(without[what], -32601, "{what}: {without}");
            }
        }
    }
}

#[tokio::test]
async fn what_fails_is_told_in_the_protocols_words() {
    let Some((host, servers)) = Host::start().await else { return };
    for (era, _) in ERAS {
        let [unknown, elsewhere, missing, exit, dead] = host
            .does(
                era,
                [
                    host.call("", "no_such_tool", json!({})),
                    host.call("/marks", "echo", json!({})),
                    host.call("", "execute_python_script", json!({})),
                    host.call(
                        "",
                        "execute_python_script",
                        json!({"script": "raise SystemExit(3)"}),
                    ),
                    host.call("/marks", "die", json!({})),
                ],
            )
            .await;
        for (told, tool) in [(&unknown, "no_such_tool"), (&elsewhere, "echo")] {
            assert_eq!(told["error"], -32602, "{told}");
            assert_eq!(told["message"], format!("there is no tool {tool:?}"));
        }
        for (told, text) in [
            (&missing, "invalid_arguments: Missing 'script' argument"),
            (&exit, "Script failed (exit 3):\n"),
            (&dead, "outcome_unknown: MCP server 'marks' was lost during the call"),
        ] {
            assert_eq!(told["isError"], true, "{told}");
            assert!(told["content"][0]["text"].as_str().unwrap().starts_with(text), "{told}");
        }
    }

    // A call whose outcome is unknown is nobody's to repeat.
    assert_eq!(servers.marks(), ["die", "die"]);
}

#[tokio::test]
async fn progress_comes_in_order_and_before_the_result() {
    let Some((host, _servers)) = Host::start().await else { return };
    for (era, _) in ERAS {
        let operation = json!({"duration": 1, "steps": 4});
        let tool = "trigger-long-running-operation";
        let [told] = host.does(era, [host.call("/everything", tool, operation)]).await;
        let expected: Vec<_> = (1..=4).map(|step| json!([f64::from(step), 4.0])).collect();
        assert_eq!(told["progress"], Value::from(expected), "{told}");
        assert!(told["content"][0]["text"].as_str().unwrap().contains("completed"), "{told}");
    }
}

#[tokio::test]
async fn a_call_that_is_given_up_ends_at_its_tool() {
    let Some((host, _servers)) = Host::start().await else { return };
    for (era, _) in ERAS {
        let (token, folder) = (token(), TempDir::new().unwrap());
        let file = folder.path().join("runs");
        let sign = async {
            running(&token).await;
            std::fs::write(&file, "").unwrap();
        };
        let step = host.step(
            "",
            json!({
                "do": "cancel",
                "tool": "execute_python_script",
                "arguments": {"script": endless_script(&token), "timeout_seconds": 300},
                "file": file,
            }),
        );
        let ([told], ()) = tokio::join!(host.does(era, [step]), sign);
        assert_eq!(told, "cancelled");
        ended(&token).await;
    }
}

#[tokio::test]
async fn only_this_machine_and_only_what_is_there() {
    let Some((mut host, _servers)) = Host::start().await else { return };
    let send =
        |path: &str, headers: Value| host.step(path, json!({"do": "send", "headers": headers}));
    let told = host
        .does(
            "legacy",
            [
                send("", json!({})),
                send("", json!({"Host": "localhost:1234", "Origin": "http://127.0.0.1:5"})),
                send("", json!({"Host": "evil.example"})),
                send("", json!({"Origin": "https://evil.example"})),
                send("/everything", json!({"Origin": "https://evil.example"})),
                send("/nobody", json!({})),
            ],
        )
        .await;
    assert_eq!(told, [200, 200, 403, 403, 403, 404].map(|status| json!(status)));
    let status = host.service.process().terminate(LIMIT).await.unwrap();
    assert!(status.success(), "{}", host.service.process().stderr());

    let open = Launch::new("agent-host").args(["serve", "--mcp", ":0"]).run(LIMIT).await.unwrap();
    assert_eq!(open.status.code(), Some(2), "{open:?}");
    assert!(open.stderr.contains("set mcp_face.allowed_hosts"), "{open:?}");
    assert!(open.stderr.contains("set mcp_face.anonymous"), "{open:?}");
}
