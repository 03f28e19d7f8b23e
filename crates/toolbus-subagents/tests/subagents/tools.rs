//! The tools, as models use them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_subagents::{Priority, SubagentChange, SubagentToolsDeps};
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::subagent::SubagentProgressMessage;
use toolbus_wire::name::AgentName;

use crate::support::*;

struct Bench {
    host: Host,
    invoker: Invoker,
    stranger: Stranger,
}

impl Bench {
    async fn all() -> Vec<Self> {
        let mut benches = Vec::new();
        for setup in Setup::all(Work::endless).await {
            let host = setup.working(&Work::endless()).start();
            let registry = Registry::new();
            let deps = SubagentToolsDeps { subagents: host.subagents.clone() };
            toolbus_subagents::register(&registry, deps).unwrap();
            let stranger = Stranger::hearing(&setup.bus, "subagent.#").await;
            benches.push(Self { host, invoker: Invoker::new(Arc::new(registry)), stranger });
        }
        benches
    }

    async fn call_in(&self, scope: &Arc<Scope>, tool: &str, arguments: Value) -> Outcome {
        self.invoker.invoke(Call::by_name(scope, tool, arguments).unwrap()).await
    }

    async fn say(&self, tool: &str, arguments: Value) -> String {
        self.say_in(&Arc::new(scope()), tool, arguments).await
    }

    async fn say_in(&self, scope: &Arc<Scope>, tool: &str, arguments: Value) -> String {
        self.call_in(scope, tool, arguments).await.expect("it is answered").content.expect("a text")
    }

    async fn refusal(&self, tool: &str, arguments: Value) -> String {
        self.call_in(&Arc::new(scope()), tool, arguments).await.expect_err("it is refused").message
    }

    /// The id of a subagent that is spawned.
    async fn spawn(&self, arguments: Value) -> String {
        let said = self.say("spawn_subagent", arguments).await;
        let id = said.split("task_id: ").nth(1).unwrap().split('.').next().unwrap().to_owned();
        assert_eq!(id.len(), 12);
        id
    }

    /// The scope of the subagent that was spawned last.
    async fn inside(&self, count: usize) -> Arc<Scope> {
        self.host.work.eventually_ran(count).await;
        self.host.work.ran.lock()[count - 1].scope.clone()
    }
}

/// A list with `N` in place of seconds.
fn mask_elapsed(text: &str) -> String {
    let masked = text.split("elapsed=").enumerate().map(|(at, part)| match at {
        0 => part.to_owned(),
        _ => format!("elapsed=N{}", part.trim_start_matches(|c: char| c.is_ascii_digit())),
    });
    masked.collect()
}

#[tokio::test]
async fn subagents_are_spawned_listed_and_cancelled() {
    for bench in Bench::all().await {
        assert_text!(bench.say("list_subagents", json!({})).await, @"No active subagents.");
        let arguments = json!({"description": "Count\nthe words", "timeout_minutes": "7"});
        let said = bench.say("spawn_subagent", arguments).await;
        let run = bench.inside(1).await;
        let id = run.session.as_ref().unwrap().as_str().strip_prefix("subagent/").unwrap();
        assert_text!(said.replace(id, "ID"),
            @"Subagent spawned with task_id: ID. It will report progress and send a final result when complete.");
        let run = bench.host.work.ran.lock()[0].clone();
        assert_eq!(run.timeout.as_secs(), 7 * 60);

        let listed = bench.say("list_subagents", json!({})).await.replace(id, "ID");
        assert_text!(mask_elapsed(&listed), @r"
        Active subagents (1):
        - task_id=ID, elapsed=Ns, description=Count the words
        ");
        let said = bench.say("cancel_subagent", json!({"task_id": id})).await;
        assert_text!(said.replace(id, "ID"), @"Subagent ID cancelled.");
        bench.host.end_of(id).await;
        let said = bench.say("cancel_subagent", json!({"task_id": id})).await;
        assert_text!(said.replace(id, "ID"), @"No active subagent found with task_id 'ID'.");
        assert_text!(bench.say("list_subagents", json!({})).await, @"No active subagents.");
    }
}

#[tokio::test]
async fn what_cannot_be_spawned_is_refused() {
    for bench in Bench::all().await {
        assert_text!(bench.refusal("spawn_subagent", json!({})).await,
            @"Missing required argument: description");
        let late = json!({"description": "x", "timeout_minutes": 61});
        assert_text!(bench.refusal("spawn_subagent", late).await,
            @"a subagent may take from 1 to 60 minutes");
        let odd = json!({"description": "x", "priority": "urgent"});
        assert!(bench.refusal("spawn_subagent", odd).await.contains("priority"));
        for number in 0..3 {
            bench.spawn(json!({"description": number.to_string(), "context": null})).await;
        }
        let full = json!({"description": "x", "priority": "Normal"});
        let call = Call::by_name(&Arc::new(scope()), "spawn_subagent", full).unwrap();
        let refused = bench.invoker.invoke(call).await.unwrap_err();
        assert_text!(refused.message,
            @"maximum concurrent subagents (3) already running. Wait for a result, or cancel one with cancel_subagent");
        assert_eq!(refused.code, ErrorCode::Busy);
        bench.spawn(json!({"description": "x", "priority": " HIGH "})).await;

        let nowhere = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
        let refused =
            bench.call_in(&Arc::new(nowhere), "spawn_subagent", json!({"description": "x"})).await;
        assert_text!(refused.unwrap_err().message,
            @"a subagent needs a session that its result comes into");
        bench.host.store.close().await;
        assert_text!(bench.refusal("spawn_subagent", json!({"description": "x"})).await,
            @"subagents cannot be kept now");
    }
}

/// Inside, the tools are not there; and where a host does not hide them, they refuse.
#[tokio::test]
async fn a_subagent_sees_its_own_tools() {
    for bench in Bench::all().await {
        let id = bench.spawn(json!({"description": "x"})).await;
        let inside = bench.inside(1).await;
        let shown = Scope { view: toolbus_tools::View::all(), ..(*inside).clone() };
        let arguments = json!({"description": "y", "task_id": id});
        for tool in ["spawn_subagent", "cancel_subagent", "list_subagents"] {
            let hidden = bench.call_in(&inside, tool, arguments.clone()).await.unwrap_err();
            assert_eq!(hidden.code, ErrorCode::ToolNotFound);
            let refused = bench.call_in(&Arc::new(shown.clone()), tool, arguments.clone()).await;
            let refused = refused.unwrap_err();
            assert_eq!(refused.code, ErrorCode::Denied);
            assert_text!(refused.message, @"a subagent cannot spawn, list or cancel subagents");
        }

        let report = json!({"message": "half way"});
        let hidden = bench.call_in(&Arc::new(scope()), "report_progress", report.clone()).await;
        assert_eq!(hidden.unwrap_err().code, ErrorCode::ToolNotFound);
        assert_text!(bench.say_in(&inside, "ReportProgress", report.clone()).await,
            @"Progress reported.");
        let event = bench.host.listener.events.lock()[0].clone();
        assert_eq!((&*event.id, &event.owner), (&*id, &owner()));
        assert_eq!(event.what, SubagentChange::Progress { message: "half way".to_owned() });
        let heard = bench.stranger.heard::<SubagentProgressMessage>(1).await.remove(0);
        assert_eq!((heard.task_id, &*heard.message), (id.clone(), "half way"));
        assert_eq!(heard.primary_session_id, "s1");

        let long = json!({"message": "x".repeat(5_000)});
        let refused = bench.call_in(&inside, "report_progress", long).await.unwrap_err();
        assert_text!(refused.message, @"the message has 5000 bytes, and may have from 1 to 4096");
        bench.say("cancel_subagent", json!({"task_id": id})).await;
        bench.host.end_of(&id).await;
        let late = Scope { cancelled: Default::default(), ..(*inside).clone() };
        let refused = bench.call_in(&Arc::new(late), "report_progress", report).await.unwrap_err();
        assert_text!(refused.message, @"only a subagent that is running reports progress");
    }
}

#[tokio::test]
async fn the_whiteboard_is_written_read_listed_and_cleaned() {
    for bench in Bench::all().await {
        assert_text!(bench.say("whiteboard_list", json!({})).await, @"The whiteboard is empty.");
        let entry = json!({"key": "budget", "value": "40 euros"});
        assert_text!(bench.say("whiteboard_write", entry).await, @"Wrote 'budget' (8 bytes).");
        // A value that is no text is one here.
        let entry = json!({"key": "table", "value": {"a": [1, 2]}});
        assert_text!(bench.say("whiteboard_write", entry).await, @"Wrote 'table' (11 bytes).");
        assert_text!(bench.say("whiteboard_read", json!({"key": "table"})).await, @r#"{"a":[1,2]}"#);
        assert_text!(bench.say("whiteboard_read", json!({"key": "x"})).await,
            @"No entry 'x' on the whiteboard.");
        assert_text!(bench.say("whiteboard_list", json!({})).await, @r"
        Whiteboard entries (2):
        - budget (8 bytes, by s1 0s ago)
        - table (11 bytes, by s1 0s ago)
        ");
        let key = json!({"key": "budget"});
        assert_text!(bench.say("whiteboard_delete", key.clone()).await,
            @"Deleted 'budget' from the whiteboard.");
        assert_text!(bench.say("whiteboard_delete", key).await,
            @"No entry 'budget' on the whiteboard.");
        assert_text!(bench.refusal("whiteboard_write", json!({"key": "x"})).await,
            @"Missing required argument: value");
    }
}

#[tokio::test]
async fn the_guide_names_every_tool_and_its_examples_can_be_called() {
    let bench = Bench::all().await.remove(0);
    let guide = toolbus_subagents::guide();
    assert_eq!(guide.name, "subagent");
    assert!(guide.document.len() < 2_500, "{}", guide.document.len());
    let tools = bench.invoker.registry().snapshot();
    assert_eq!(tools.tools().len(), 8);
    for entry in tools.tools() {
        let source = entry.tool.source.trim_start_matches("inside:");
        assert_eq!((source, entry.tool.group.as_deref()), ("subagent", Some("subagent")));
        assert!(guide.document.contains(&entry.tool.name), "{}", entry.tool.name);
    }

    let mut called = 0;
    for line in guide.document.lines() {
        let Some((tool, arguments)) = line.split_once(" {") else { continue };
        if bench.invoker.registry().find(tool).is_some() {
            let arguments = serde_json::from_str(&format!("{{{arguments}")).unwrap();
            let scope = match tool {
                "report_progress" => bench.inside(2).await,
                _ => Arc::new(scope()),
            };
            bench.say_in(&scope, tool, arguments).await;
            called += 1;
        }
    }
    assert_eq!(called, 9);
    let priorities = "SELECT COUNT(*) FROM subagents WHERE priority = 4";
    assert_eq!((bench.host.count(priorities).await, Priority::High as i64), (1, 4));
}

#[tokio::test]
async fn definitions() {
    let bench = Bench::all().await.remove(0);
    let tools = bench.invoker.registry().snapshot();
    let definitions: Vec<_> = tools
        .tools()
        .iter()
        .map(|entry| {
            let tool = &entry.tool;
            json!({
                "name": tool.name,
                "aliases": tool.aliases,
                "description": tool.description,
                "parameters": tool.parameters,
                "readOnly": tool.annotations.read_only,
                "idempotent": tool.annotations.idempotent,
                "risk": tool.risk.map(|risk| risk.as_str()),
            })
        })
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&definitions).unwrap());
}
