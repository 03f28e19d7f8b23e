//! The tools, as models use them.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_a2a::{A2aConfig, A2aDeps};
use toolbus_bus::Envelope;
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope};
use toolbus_wire::message::a2a::{AgentCard, AgentSkill};

use crate::support::*;

struct Bench {
    host: Host,
    invoker: Invoker,
    stranger: Stranger,
}

impl Bench {
    async fn all() -> Vec<Self> {
        let mut benches = Vec::new();
        for [ours, _] in places().await {
            let broker = Broker::memory();
            let stranger = Stranger::hearing(&broker, "agent.task.#").await;
            let description = Some("Never announced".to_owned());
            let well_known = AgentCard {
                agent_name: "Archive".to_owned(),
                description,
                url: Some("https://archive.example/a2a".to_owned()),
                auth_header_name: Some("X-Key".to_owned()),
                auth_header_value_base64: Some("c2VjcmV0".to_owned().into()),
                ..AgentCard::default()
            };
            let config = A2aConfig { well_known: vec![well_known], ..quick_config("RockBot") };
            let host = Setup { config, ..Setup::new(&broker, &ours, "RockBot") }.start().await;
            let registry = Registry::new();
            let deps = A2aDeps { tasks: host.tasks.clone() };
            toolbus_a2a::register(&registry, deps).unwrap();
            benches.push(Self { host, invoker: Invoker::new(Arc::new(registry)), stranger });
        }
        benches
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let scope = Arc::new(scope(&self.host.name));
        self.invoker.invoke(Call::by_name(&scope, tool, arguments).unwrap()).await
    }

    async fn say(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.expect("it is answered").content.expect("a text")
    }

    async fn refusal(&self, tool: &str, arguments: Value) -> String {
        self.call(tool, arguments).await.expect_err("it is refused").message
    }

    async fn announce(&self) {
        let skill = AgentSkill {
            id: "research".to_owned(),
            name: "Research".to_owned(),
            description: Some("Finds things out".to_owned()),
            tags: Some(vec!["web".to_owned()]),
            examples: Some(vec!["Who made Rust?".to_owned()]),
        };
        let card = AgentCard {
            agent_name: "ResearchAgent".to_owned(),
            description: Some("Researches a question".to_owned()),
            version: Some("1.0".to_owned()),
            skills: Some(vec![skill]),
            ..AgentCard::default()
        };
        self.host.directory.hear(&Envelope::of(&card, "ResearchAgent")).await.unwrap();
    }
}

/// The text with `TIME` in place of the time at which an agent was seen.
fn mask_time(text: &str) -> String {
    let lines = text.lines().map(|line| match line.find("\"lastSeen\": \"20") {
        Some(at) => format!("{}\"lastSeen\": \"TIME\",", &line[..at]),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn agents_are_listed_and_shown() {
    for bench in Bench::all().await {
        bench.announce().await;
        assert_text!(mask_time(&bench.say("list_known_agents", json!({})).await), @r#"
        [
          {
            "agentName": "Archive",
            "description": "Never announced",
            "lastSeen": "0001-01-01T00:00:00+00:00",
            "skills": []
          },
          {
            "agentName": "ResearchAgent",
            "description": "Researches a question",
            "lastSeen": "TIME",
            "skills": [
              {
                "id": "research",
                "name": "Research",
                "description": "Finds things out"
              }
            ]
          }
        ]
        "#);
        let skilled = bench.say("list_known_agents", json!({"skill": "RESEARCH"})).await;
        assert!(skilled.contains("ResearchAgent") && !skilled.contains("Archive"));
        assert_text!(bench.say("list_known_agents", json!({"skill": "cooking"})).await,
            @"No agents found with skill 'cooking'.");

        let details = bench.say("get_agent_details", json!({"agent_name": "researchagent"})).await;
        assert_text!(mask_time(&details), @r#"
        {
          "agentName": "ResearchAgent",
          "description": "Researches a question",
          "version": "1.0",
          "url": null,
          "hasAuth": false,
          "isWellKnown": false,
          "lastSeen": "TIME",
          "skills": [
            {
              "id": "research",
              "name": "Research",
              "description": "Finds things out",
              "tags": [
                "web"
              ],
              "examples": [
                "Who made Rust?"
              ]
            }
          ]
        }
        "#);
        let details = bench.say("get_agent_details", json!({"agent_name": "Archive"})).await;
        assert_text!(details, @r#"
        {
          "agentName": "Archive",
          "description": "Never announced",
          "version": null,
          "url": "https://archive.example/a2a",
          "hasAuth": true,
          "isWellKnown": true,
          "lastSeen": "0001-01-01T00:00:00+00:00",
          "skills": []
        }
        "#);
        assert_text!(bench.say("get_agent_details", json!({"agent_name": "Nobody"})).await,
            @"No agent named 'Nobody' found in the directory.");
    }
}

#[tokio::test]
async fn nobody_has_announced_themselves() {
    let [ours, _] = places().await.remove(0);
    let host = Setup::new(&Broker::memory(), &ours, "RockBot").start().await;
    let registry = Registry::new();
    toolbus_a2a::register(&registry, A2aDeps { tasks: host.tasks.clone() }).unwrap();
    let scope = Arc::new(scope(&host.name));
    let call = Call::by_name(&scope, "list_known_agents", json!({"skill": null})).unwrap();
    let said = Invoker::new(Arc::new(registry)).invoke(call).await.unwrap().content.unwrap();
    assert_text!(said, @"No agents have announced themselves yet.");
}

#[tokio::test]
async fn a_task_is_dispatched() {
    for bench in Bench::all().await {
        bench.announce().await;
        let arguments = json!({
            "agent_name": "researchAGENT", "skill": "research", "message": "x",
            "timeout_minutes": "7",
        });
        let said = bench.say("invoke_agent", arguments).await;
        let requests =
            bench.stranger.heard::<toolbus_wire::message::a2a::AgentTaskRequest>(1).await;
        assert_text!(said.replace(&requests[0].task_id, "ID"),
            @"Task dispatched to agent 'ResearchAgent' with task_id: ID. The result will arrive asynchronously and fold into the conversation.");
        let heard = bench.stranger.heard.lock()[0].clone();
        assert_eq!(heard.headers.get("rb-timeout-ms"), Some("420000"));
        assert_eq!(heard.headers.get("agent-depth"), Some("1"));
        assert_eq!(requests[0].task_id.len(), 32);
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_and_nothing_is_published() {
    for bench in Bench::all().await {
        let whole = json!({"agent_name": "ResearchAgent", "skill": "research", "message": "x"});
        for name in ["agent_name", "skill", "message"] {
            let mut arguments = whole.clone();
            arguments.as_object_mut().unwrap().remove(name);
            let refusal = bench.refusal("invoke_agent", arguments).await;
            assert_eq!(refusal, format!("Missing required argument: {name}"));
            let mut arguments = whole.clone();
            arguments[name] = " ".into();
            bench.refusal("invoke_agent", arguments).await;
        }
        let mut arguments = whole.clone();
        arguments["timeout_minutes"] = json!(1e6);
        assert_text!(bench.refusal("invoke_agent", arguments).await,
            @"a task may take from 1 to 1440 minutes");

        let scope = Scope::new(Door::Turn, Principal::local(), bench.host.name.clone());
        let call = Call::by_name(&Arc::new(scope), "invoke_agent", whole.clone()).unwrap();
        let refused = bench.invoker.invoke(call).await.unwrap_err();
        assert_text!(refused.message, @"a task for another agent needs a session that its result comes into");
        assert_eq!(bench.stranger.heard.lock().len(), 0);

        bench.say("invoke_agent", whole.clone()).await;
        bench.host.store.close().await;
        assert_text!(bench.refusal("invoke_agent", whole).await,
            @"tasks for other agents cannot be kept now");
    }
}

#[tokio::test]
async fn the_guide_names_every_tool_and_its_examples_can_be_called() {
    let bench = Bench::all().await.remove(0);
    let guide = toolbus_a2a::guide();
    assert_eq!(guide.name, "a2a");
    assert!(guide.document.len() < 2_500, "{}", guide.document.len());
    let tools = bench.invoker.registry().snapshot();
    assert_eq!(tools.tools().len(), 3);
    for entry in tools.tools() {
        assert_eq!((&*entry.tool.source, entry.tool.group.as_deref()), ("a2a", Some("a2a")));
        assert!(guide.document.contains(&entry.tool.name), "{}", entry.tool.name);
    }

    let mut called = 0;
    for line in guide.document.lines() {
        let Some((tool, arguments)) = line.split_once(" {") else { continue };
        if bench.invoker.registry().find(tool).is_some() {
            let arguments = serde_json::from_str(&format!("{{{arguments}")).unwrap();
            bench.say(tool, arguments).await;
            called += 1;
        }
    }
    assert_eq!(called, 5);
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
                "description": tool.description,
                "parameters": tool.parameters,
                "readOnly": tool.annotations.read_only,
                "risk": tool.risk.map(|risk| risk.as_str()),
            })
        })
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&definitions).unwrap());
}
