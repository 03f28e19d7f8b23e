//! Calls of wisps.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio_util::task::TaskTracker;
use toolbus::ToolbusBuilder;
use toolbus_memory::{MemoryConfig, WorkingMemory};
use toolbus_tools::Door;
use toolbus_tools::scope::DoorSet;
use toolbus_wisps::{WispsConfig, WispsDeps};

use super::calls::{CONTENTS, Part, SERVERS, TEXTS, TOOLS, any_part};
use super::draws::Draws;
use super::ledger;
use super::rows::compare_with_rows;
use super::world::{LINEAGES, Parts, World};

/// Calls of `spawn_wisps`, the wisps of each, and the generated steps of each wisp.
const BATCHES: usize = 9;
const WISPS: usize = 2;
const STEPS: usize = 4;
/// The probes that the first steps of a wisp are.
const TRIED: [&str; 4] =
    ["mcp:github/create_issue", "mcp:github/delete_repo", "mcp:my-notes/add", "web/web_browse"];

/// A step that calls a tool. A name in it may be a reference.
#[derive(Debug, Clone)]
enum StepSpec {
    Mcp { server: Part, tool: Part, params: Params },
    Web { tool: &'static str, text: Part },
}

/// What a step gives to the tool of a server.
#[derive(Debug, Clone)]
enum Params {
    Text(Part),
    /// The call of this number in [`CONTENTS`].
    Call(usize),
}

impl StepSpec {
    /// The step of this number, of so many. It goes on where it fails.
    fn write(&self, number: usize, count: usize, references: &[Value]) -> Value {
        let mut step = match self {
            Self::Mcp { server, tool, params } => json!({
                "gateway": "Mcp",
                "server": server.value(references),
                "tool": tool.value(references),
                "params": params.write(references),
            }),
            Self::Web { tool, text } => {
                let text = text.value(references);
                json!({"gateway": "Web", "tool": tool, "params": {"query": text, "url": text}})
            }
        };

        step["id"] = json!(format!("s{number}"));
        step["mode"] = json!("Direct");
        if number + 1 < count {
            step["on_failure"] = json!({"skip_to": format!("s{}", number + 1)});
        }
        step
    }
}

impl Params {
    fn write(&self, references: &[Value]) -> Value {
        match self {
            Self::Text(text) => json!({"text": text.value(references)}),
            Self::Call(at) => serde_json::from_str(CONTENTS[*at]).unwrap(),
        }
    }
}

/// One of these names, or a reference to one.
fn any_name(names: &[&'static str]) -> BoxedStrategy<Part> {
    let names: Vec<_> = names.iter().copied().filter(|name| !name.trim().is_empty()).collect();
    let name = prop::sample::select(names).prop_map(|name| Part::Text(name.to_owned()));
    prop_oneof![3 => name, 1 => (0..6_usize).prop_map(Part::Reference)].boxed()
}

fn any_step() -> BoxedStrategy<StepSpec> {
    let params = prop_oneof![
        3 => any_part(TEXTS).prop_map(Params::Text),
        1 => (7..9_usize).prop_map(Params::Call),
    ];
    let of_server = (any_name(SERVERS), any_name(TOOLS), params)
        .prop_map(|(server, tool, params)| StepSpec::Mcp { server, tool, params });
    let of_web = (prop::sample::select(vec!["web_search", "web_browse"]), any_name(TEXTS))
        .prop_map(|(tool, text)| StepSpec::Web { tool, text });
    prop_oneof![3 => of_server, 1 => of_web].boxed()
}

/// The first steps of each wisp: those of [`TRIED`].
fn probing_steps() -> Vec<StepSpec> {
    let text = |text: &str| Part::Text(text.to_owned());
    let step = |server: &str, tool: &str| StepSpec::Mcp {
        server: text(server),
        tool: text(tool),
        params: Params::Text(text("x")),
    };
    vec![
        step("GitHub", "create_issue"),
        step("github", "delete_repo"),
        step("My Notes", "add"),
        StepSpec::Web { tool: "web_browse", text: text("x") },
    ]
}

fn add_wisps(builder: ToolbusBuilder, parts: &Parts, tasks: &TaskTracker) -> ToolbusBuilder {
    // However many have failed, more are started.
    let config = WispsConfig { failures_max: 1_000_000, ..WispsConfig::default() };
    let deps = WispsDeps {
        memory: WorkingMemory::new(parts.store.clone(), MemoryConfig::default()),
        artifacts: Some(parts.artifacts.clone()),
        complete: None,
        agents: None,
        mcp: None,
        tasks: tasks.clone(),
        config: Arc::new(config),
    };
    builder.remote_tools(move |registry, _| toolbus_wisps::register(registry, deps))
}

#[tokio::test]
async fn calls_of_wisps_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let tasks = TaskTracker::new();
    let world = World::open_with(|builder, parts| add_wisps(builder, parts, &tasks)).await;
    let any_steps = proptest::collection::vec(any_step(), STEPS);
    let mut checked = Vec::new();
    for number in 0..BATCHES {
        let wisps = (0..WISPS).map(|_| {
            let mut steps = probing_steps();
            steps.extend(draws.draw(&any_steps));
            steps
        });
        let wisps: Vec<Vec<StepSpec>> = wisps.collect();
        let scope = Arc::new(world.scope(LINEAGES[number % LINEAGES.len()]));
        let arguments = json!({"definitions": write_wisps(&wisps, &world.references)});
        // An error is one of the definitions: what steps fail of is told in the output.
        let called = world.toolbus.call(&scope, toolbus_wisps::NAME, arguments).await;
        called.unwrap_or_else(|error| panic!("{error}\n{wisps:#?}"));

        let calls = ledger::check(&world.parts.ledger.take(), scope.doors);
        let calls = calls.unwrap_or_else(|what| panic!("{what}\n{wisps:#?}"));
        let (outer, inner) = calls.split_last().unwrap();
        assert_eq!(inner.len(), WISPS * (TRIED.len() + STEPS), "{wisps:#?}");
        assert!(inner.iter().all(|call| call.parent.as_deref() == Some(&*outer.id)), "{inner:#?}");
        let doors = scope.doors.union(DoorSet::of(&[Door::Chain]));
        ledger::check_probes(inner, doors, |subject| TRIED.contains(&subject));
        checked.extend(calls);
    }

    tasks.close();
    tasks.wait().await;
    compare_with_rows(&checked, &world.audit_rows().await);
}

fn write_wisps(wisps: &[Vec<StepSpec>], references: &[Value]) -> Value {
    let wisp = |steps: &Vec<StepSpec>| {
        let numbered = steps.iter().enumerate();
        let written = numbered.map(|(number, step)| step.write(number, steps.len(), references));
        json!({"description": "A wisp", "steps": written.collect::<Vec<_>>()})
    };
    wisps.iter().map(wisp).collect()
}
