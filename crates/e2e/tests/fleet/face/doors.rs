//! A policy that refuses everything, before every door there is: nothing runs beside it.

use std::sync::Arc;

use toolbus::policy::{Effect, RuleSettings};
use toolbus::{Door, LivePolicy, NoArguments, PolicySettings, RuleBook, Toolbus, tool};

use super::*;

/// The tools that are tried, and what leaves a mark where one of them runs.
fn calls() -> [(&'static str, Value); 3] {
    let mark = json!({"server_name": "marks", "tool_name": "mark", "arguments": {}});
    [
        ("mcp_invoke_tool", mark),
        ("marks__mark", json!({})),
        ("execute_python_script", json!({"script": "print(1)"})),
    ]
}

/// A policy that lets nothing run, and what it says to whoever calls.
#[derive(Clone, Copy)]
struct Refusal {
    policy: &'static str,
    says: &'static str,
}

/// By its rules, and by budgets that are spent before a run begins.
const REFUSALS: [Refusal; 2] = [
    Refusal { policy: "default = 'deny'", says: "is not allowed" },
    Refusal {
        policy: "budgets = [{ name = 'none', calls = 0 }]",
        says: "the budget of calls is spent: 0 used of 0",
    },
];

impl Refusal {
    /// The same program with this policy.
    fn launch(self, launch: Launch, folder: &Path) -> Launch {
        let file = folder.join("toolbus.toml");
        std::fs::write(&file, format!("[policy]\n{}", self.policy)).unwrap();
        launch.arg("--config").arg(file).env("TOOLBUS_DIRECT_TOOLS", "true")
    }
}

/// A fleet whose agent refuses everything, before a server that leaves marks and one that has more
/// than tools.
async fn refusing_fleet(refusal: Refusal) -> Option<(Host, Servers)> {
    let (kit, vhost) = (servers::time()?, rabbit::vhost().await?);
    let servers = Servers::with(&[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fleet/asker.py");
    let folder = servers.file().parent().unwrap().to_owned();
    let asker = json!({"command": "python3", "args": [script, &folder]});
    let entries = json!({"mcpServers": {"marks": servers.marking("good"), "asker": asker}});
    std::fs::write(servers.file(), entries.to_string()).unwrap();

    let bus = vhost.amqp_url();
    let bridge = bridge(&bus, &servers).await;
    let agent = refusal.launch(launch("agent-host", &bus), &folder);
    let host = Host::serve(agent, kit.command, Some((bridge, vhost))).await;
    host.wait_for(&["marks", "asker"]).await;
    Some((host, servers))
}

#[tokio::test]
async fn nothing_runs_beside_the_policy_by_any_door() {
    for refusal in REFUSALS {
        let Some((host, servers)) = refusing_fleet(refusal).await else { return };
        let (_, vhost) = host.fleet.as_ref().unwrap();
        for door in Door::ALL {
            match door {
                Door::CommandLine => check_command_line(vhost, refusal).await,
                Door::Bus => check_bus(vhost).await,
                Door::Mcp => check_face(&host, refusal).await,
                Door::Embedded => check_embedded().await,
                // Nothing makes a scope of these yet.
                Door::Http | Door::Turn | Door::Schedule | Door::Chain => {}
                other => panic!("nothing is tried at the door '{other}'"),
            }
        }
        assert_eq!(servers.marks(), [""; 0]);

        // The same call runs where nothing forbids it.
        let [(tool, arguments), ..] = calls();
        assert_eq!(invoke(&vhost.amqp_url(), tool, arguments).await.content(), "mark: done");
        servers.wait_for_marks(&["mark"]).await;
    }
}

async fn check_command_line(vhost: &Vhost, refusal: Refusal) {
    let folder = tempfile::tempdir().unwrap();
    for (tool, arguments) in calls() {
        let launch = invocation(&vhost.amqp_url(), tool, &arguments);
        let launch = refusal.launch(launch, folder.path());
        let outcome = Outcome::of(launch.run(LIMIT).await.unwrap());
        assert_eq!(outcome.code(), "denied", "{tool}");
        assert_eq!(outcome.json["error"]["execution"], "not_started");
    }
}

async fn check_bus(vhost: &Vhost) {
    let stranger = Stranger::new(vhost, &[]).await;
    for topic in ["tool.invoke", "tool.invoke.agent.RockBot"] {
        for (tool, arguments) in calls() {
            let answer = stranger.ask(&Frame::tool(topic, tool, &arguments)).await;
            assert_eq!(answer.kind, "RockBot.Tools.ToolError");
            assert_eq!(answer.body["code"], "denied", "{topic} {tool}: {answer:?}");
        }
    }
}

async fn check_face(host: &Host, refusal: Refusal) {
    let argument = json!({"name": "city", "value": "Ber"});
    let complete =
        json!({"do": "complete", "prompt": "travel", "argument": argument, "decided": {}});
    let read = json!({"do": "read", "prompt": "travel", "arguments": {}, "uri": "note://1"});

    for (era, _) in ERAS {
        for (tool, arguments) in calls() {
            let [told] = host.does(era, [host.call("", tool, arguments)]).await;
            assert!(told.to_string().contains(refusal.says), "{era} {tool}: {told}");
        }
        let [marked, completed, read] = host
            .does(
                era,
                [
                    host.call("/marks", "mark", json!({})),
                    host.step("/asker", complete.clone()),
                    host.step("/asker", read.clone()),
                ],
            )
            .await;
        assert!(marked.to_string().contains(refusal.says), "{era}: {marked}");
        assert!(completed.is_i64(), "{era}: {completed}");
        for (what, told) in read.as_object().unwrap() {
            assert!(told.is_i64(), "{era} {what}: {told}");
        }
    }
}

/// Also of calls that a tool makes which itself may run.
async fn check_embedded() {
    let policy = |rules: Vec<RuleSettings>| {
        let settings = PolicySettings { default: Effect::Deny, rules, ..PolicySettings::default() };
        LivePolicy::new(RuleBook::new(&settings).unwrap())
    };
    let outer_only = json!({"name": "outer", "effect": "allow", "tools": ["*/outer"]});
    let outer_only = serde_json::from_value(outer_only).unwrap();

    for (policy, outer_runs) in [(policy(Vec::new()), false), (policy(vec![outer_only]), true)] {
        let ran = Arc::new(parking_lot::Mutex::new(Vec::new()));
        let [of_inner, of_outer] = [(); 2].map(|()| Arc::clone(&ran));
        let inner = tool("inner", "", move |_: NoArguments, _| {
            of_inner.lock().push("inner");
            std::future::ready(Ok("ran"))
        });
        let outer = tool("outer", "", move |_: NoArguments, context| {
            of_outer.lock().push("outer");
            async move {
                let inner = context.call("inner", json!({})).await;
                Ok(inner.map_or_else(|error| error.code.to_string(), |_| "ran".to_owned()))
            }
        });
        let toolbus = Toolbus::builder().rule_book(&policy).tool(inner).tool(outer);
        let toolbus = toolbus.open().await.unwrap();

        let scope = toolbus.local_scope();
        let denied = toolbus.call(&scope, "inner", json!({})).await.unwrap_err();
        assert_eq!(denied.code.to_string(), "denied");
        let outcome = toolbus.call(&scope, "outer", json!({})).await;
        match outcome {
            Ok(output) => assert_eq!(output.content.as_deref(), Some("denied")),
            Err(error) => assert_eq!(error.code.to_string(), "denied"),
        }
        let expected: &[&str] = if outer_runs { &["outer"] } else { &[] };
        assert_eq!(*ran.lock(), expected);
        toolbus.close().await;
    }
}

/// What a tool calls in turn is spent of the run of its own call.
#[tokio::test]
async fn an_embedding_program_has_the_budget_of_the_policy() {
    let budget = json!({"name": "two", "calls": 2, "doors": ["embedded"]});
    let settings = serde_json::from_value(json!({"budgets": [budget]})).unwrap();
    let policy = LivePolicy::new(RuleBook::new(&settings).unwrap());
    let inner = tool("inner", "", |_: NoArguments, _| std::future::ready(Ok("ran")));
    let outer = tool("outer", "", |_: NoArguments, context| async move {
        let inner = context.call("inner", json!({})).await;
        Ok(inner.map_or_else(|error| error.message, |_| "ran".to_owned()))
    });
    let toolbus = Toolbus::builder().rule_book(&policy).tool(inner).tool(outer);
    let toolbus = toolbus.open().await.unwrap();

    let scope = toolbus.local_scope();
    let outcome = toolbus.call(&scope, "outer", json!({})).await.unwrap();
    assert_eq!(outcome.content.as_deref(), Some("ran"));
    let spent = toolbus.call(&scope, "inner", json!({})).await.unwrap_err();
    assert_eq!(spent.message, "the budget of calls is spent: 2 used of 2");
    // Another run has its own.
    assert!(toolbus.call(&toolbus.local_scope(), "inner", json!({})).await.is_ok());
    toolbus.close().await;
}
