//! Calls of wisps.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus::{Scripts, ToolbusBuilder};
use toolbus_a2a::{A2aDeps, DoTask, OnTask, Task, TaskEnd, TaskEvent, TaskProgress, Tasks, Told};
use toolbus_memory::{MemoryConfig, WorkingMemory};
use toolbus_scripts::Runner;
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Scope};
use toolbus_wisps::{AgentEnd, AwaitAgent, WispsConfig, WispsDeps};

use super::agents::{PEER, TaskEnds, open_tasks};
use super::calls::{CONTENTS, Part, SERVERS, TEXTS, TOOLS, any_part};
use super::chains::open_runner;
use super::draws::Draws;
use super::ledger::{self, CheckedCall};
use super::rows::compare_with_rows;
use super::rules::allows;
use super::world::{LINEAGES, Parts, World};

/// Calls of `spawn_wisps`, the wisps of each, and the generated steps of each wisp.
const BATCHES: usize = 9;
const WISPS: usize = 2;
const STEPS: usize = 4;
/// The probes that the first steps of a wisp are.
const TRIED: [&str; 4] =
    ["mcp:github/create_issue", "mcp:github/delete_repo", "mcp:my-notes/add", "web/web_browse"];

/// Subjects of the last steps of a wisp. The test cannot observe that these steps run.
const LAST: [&str; 2] = ["a2a/invoke_agent", "script/execute_python_script"];

/// A step that calls a tool. A name in it may be a reference.
#[derive(Debug, Clone)]
enum StepSpec {
    Mcp {
        server: Part,
        tool: Part,
        params: Params,
    },
    Web {
        tool: &'static str,
        text: Part,
    },
    /// Gives a task to the other agent.
    Agent,
    Script,
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
            Self::Agent => {
                json!({"gateway": "A2A", "agent": PEER, "skill": "work", "message": "work"})
            }
            Self::Script => json!({"gateway": "Script", "params": {"script": "print(1)"}}),
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

/// The ends of tasks, for steps that wait for them.
struct Ends(watch::Sender<HashSet<String>>);

impl OnTask for Ends {
    fn tell<'a>(&'a self, event: &'a TaskEvent) -> BoxFuture<'a, Told> {
        if event.what.is_end() {
            self.0.send_modify(|ends| {
                ends.insert(event.task_id.clone());
            });
        }
        std::future::ready(Told::Taken).boxed()
    }
}

impl AwaitAgent for Ends {
    fn wait<'a>(&'a self, _scope: &'a Scope, task_id: &'a str) -> BoxFuture<'a, AgentEnd> {
        let mut ends = self.0.subscribe();
        async move {
            ends.wait_for(|ends| ends.contains(task_id)).await.unwrap();
            AgentEnd::Completed("done".to_owned())
        }
        .boxed()
    }

    fn cancel<'a>(&'a self, _scope: &'a Scope, _task_id: &'a str) -> BoxFuture<'a, ()> {
        std::future::ready(()).boxed()
    }
}

/// Finishes every task at once.
struct DoNothing;

impl DoTask for DoNothing {
    fn run<'a>(
        &'a self,
        _task: Task,
        _progress: &'a dyn TaskProgress,
        _stop: CancellationToken,
    ) -> BoxFuture<'a, TaskEnd> {
        let done = TaskEnd::Completed { text: "done".to_owned(), artifacts: Vec::new() };
        std::future::ready(done).boxed()
    }
}

/// The services that wisps use.
struct WispParts {
    /// Work that continues after a call.
    after: TaskTracker,
    runner: Arc<dyn Runner>,
    ends: Arc<Ends>,
}

fn add_wisps(
    builder: ToolbusBuilder,
    parts: &Parts,
    wisps: &WispParts,
    agent_tasks: Tasks,
) -> ToolbusBuilder {
    // However many have failed, more are started.
    let config = WispsConfig { failures_max: 1_000_000, ..WispsConfig::default() };
    let deps = WispsDeps {
        memory: WorkingMemory::new(parts.store.clone(), MemoryConfig::default()),
        artifacts: Some(parts.artifacts.clone()),
        complete: None,
        agents: Some(Arc::clone(&wisps.ends) as Arc<dyn AwaitAgent>),
        mcp: None,
        tasks: wisps.after.clone(),
        config: Arc::new(config),
    };
    builder.scripts(Scripts::local(Arc::clone(&wisps.runner))).remote_tools(move |registry, _| {
        toolbus_a2a::register(registry, A2aDeps { tasks: agent_tasks })?;
        toolbus_wisps::register(registry, deps)
    })
}

#[tokio::test]
async fn calls_of_wisps_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let ends = Arc::new(Ends(watch::Sender::default()));
    let parts = WispParts { after: TaskTracker::new(), runner: open_runner().await, ends };
    let mut opened = None;
    let world = World::open_with(|builder, of_world| {
        let tasks = open_tasks(of_world, Arc::clone(&parts.ends) as Arc<dyn OnTask>);
        opened = Some(tasks.clone());
        add_wisps(builder, of_world, &parts, tasks)
    });
    let world = world.await;
    let agent_tasks = opened.unwrap();
    let agents = TaskEnds::connect(&world.parts, &agent_tasks, Arc::new(DoNothing)).await;
    let any_steps = proptest::collection::vec(any_step(), STEPS);
    let mut checked = Vec::new();
    for number in 0..BATCHES {
        let wisps = (0..WISPS).map(|_| {
            let mut steps = probing_steps();
            steps.extend(draws.draw(&any_steps));
            steps.extend([StepSpec::Agent, StepSpec::Script]);
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
        let steps = TRIED.len() + STEPS + LAST.len();
        assert_eq!(inner.len(), WISPS * steps, "{wisps:#?}");
        assert!(inner.iter().all(|call| call.parent.as_deref() == Some(&*outer.id)), "{inner:#?}");
        let doors = scope.doors.union(DoorSet::of(&[Door::Chain]));
        ledger::check_probes(inner, doors, |subject| TRIED.contains(&subject));
        check_last(inner, doors);
        checked.extend(calls);
    }

    parts.after.close();
    parts.after.wait().await;
    agents.close().await;
    compare_with_rows(&checked, &world.audit_rows().await);
}

/// Checks that the last steps of each wisp started if and only if the rules allow it.
fn check_last(calls: &[CheckedCall], doors: DoorSet) {
    for subject in LAST {
        let of_subject = calls.iter().filter(|call| call.subject.as_deref() == Some(subject));
        let refused: Vec<_> = of_subject.map(|call| call.refused_by).collect();
        let expected = if allows(subject, doors) { None } else { Some("permission") };
        assert_eq!(refused, [expected; WISPS], "{subject} by {doors}");
    }
}

fn write_wisps(wisps: &[Vec<StepSpec>], references: &[Value]) -> Value {
    let wisp = |steps: &Vec<StepSpec>| {
        let numbered = steps.iter().enumerate();
        let written = numbered.map(|(number, step)| step.write(number, steps.len(), references));
        json!({"description": "A wisp", "steps": written.collect::<Vec<_>>()})
    };
    wisps.iter().map(wisp).collect()
}
