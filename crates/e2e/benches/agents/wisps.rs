//! A hundred wisps of one call, whose tools take no time.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use anyhow::Context as _;
use e2e::bench::{Goal, Report, Rounds, Row};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::task::TaskTracker;
use toolbus_memory::{MemoryConfig, WorkingMemory};
use toolbus_store::{LazyStore, Location};
use toolbus_tools::call::Invocation;
use toolbus_tools::tool::Risk;
use toolbus_tools::{Call, Invoker, Output, Principal, Registry, Tool};
use toolbus_wire::name::AgentName;
use toolbus_wisps::{WispsConfig, WispsDeps};

use crate::turn_scope;

const ROUNDS: usize = 9;
const WISPS: usize = 100;
const TOOLS: [&str; 3] = ["web_search", "web_browse", "execute_python_script"];
const GOAL_FAILED: f64 = 0.0;

/// How many of them run at a time.
#[derive(Clone, Copy)]
enum AtATime {
    All,
    /// As many as by default.
    Default,
}

/// An agent with the tool, its steps' tools and a store of its own.
struct Bench {
    invoker: Invoker,
    tasks: TaskTracker,
    store: LazyStore,
    _folder: TempDir,
}

pub(crate) async fn measure(report: &mut Report) -> anyhow::Result<()> {
    for at_a_time in [AtATime::All, AtATime::Default] {
        let bench = Bench::start(at_a_time)?;
        let (mut took, mut failed) = (Rounds::new(), Rounds::new());
        // The first round is for caches, allocators and the file of the store to fill.
        for round in 0..=ROUNDS {
            let began = Instant::now();
            let failures = bench.run(round).await?;
            let elapsed = began.elapsed();
            if round > 0 {
                took.add(elapsed.as_secs_f64() * 1e3);
                failed.add(f64::from(u32::try_from(failures)?));
            }
        }
        bench.close().await;

        let what = match at_a_time {
            AtATime::All => format!("{WISPS} wisps at once"),
            AtATime::Default => {
                let default = WispsConfig::default().concurrent_max;
                format!("{WISPS} wisps, {default} at a time")
            }
        };
        report.add(Row::new(format!("{what}, until all have ended"), "ms", took));
        let row = Row::new(format!("{what}, wisps that failed"), "", failed);
        report.add(row.with_goal(Goal::AtMost(GOAL_FAILED)));
    }

    report.note(format!(
        "Wisps: one call of `spawn_wisps` with {WISPS} wisps of {} steps (a search, a page and a \
         script) on two threads. The tools take no time; every step goes through the gates, and its \
         output and how far it came are kept in working memory, on SQLite. {ROUNDS} calls, each of \
         another principal.",
        TOOLS.len()
    ));

    Ok(())
}

impl Bench {
    fn start(at_a_time: AtATime) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let location = Location::Sqlite(folder.path().join("state.db"));
        let store = LazyStore::new(location, &[toolbus_memory::MIGRATIONS]);
        let registry = Registry::new();
        for name in TOOLS {
            let tool = Tool::new(name, "Does what it is asked at once.", "bench")
                .with_parameters(json!({"type": "object"}));
            let tool = match name {
                "execute_python_script" => tool.with_risk(Risk::Medium),
                _ => tool.read_only(),
            };
            registry.register(tool, |_: Invocation| {
                std::future::ready(Ok(Output::text("what there is to say about it")))
            })?;
        }

        let default = WispsConfig::default();
        let concurrent_max = match at_a_time {
            AtATime::All => NonZeroUsize::new(WISPS).expect("there are some"),
            AtATime::Default => default.concurrent_max,
        };
        let tasks = TaskTracker::new();
        let deps = WispsDeps {
            memory: WorkingMemory::new(store.clone(), MemoryConfig::default()),
            artifacts: None,
            complete: None,
            agents: None,
            mcp: None,
            tasks: tasks.clone(),
            config: Arc::new(WispsConfig { concurrent_max, ..default }),
        };
        toolbus_wisps::register(&registry, deps)?;
        let invoker = Invoker::new(Arc::new(registry));
        Ok(Self { invoker, tasks, store, _folder: folder })
    }

    /// Runs all wisps once, and says how many have failed.
    async fn run(&self, round: usize) -> anyhow::Result<usize> {
        let principal = Principal::claimed(&format!("user-{round}"));
        let scope = turn_scope(AgentName::standard(), principal, "session/wisps")?;
        let definitions: Vec<_> = (0..WISPS).map(definition).collect();
        let arguments = json!({"definitions": definitions});
        let call = Call::by_name(&scope, toolbus_wisps::NAME, arguments)?;
        let output = self.invoker.invoke(call).await?;

        let text = output.content.context("the tool said nothing")?;
        let succeeded = text.lines().filter(|line| line.contains("[ok]")).count();
        Ok(WISPS - succeeded)
    }

    async fn close(self) {
        self.tasks.close();
        self.tasks.wait().await;
        self.store.close().await;
    }
}

fn definition(at: usize) -> Value {
    let [search, browse, _] = TOOLS;
    let steps = json!([
        {"id": "find", "mode": "Direct", "gateway": "Web", "tool": search,
         "params": {"query": format!("subject {at}")}},
        {"id": "read", "mode": "Direct", "gateway": "Web", "tool": browse,
         "params": {"url": "https://example.com", "about": "{{steps.find.result}}"}},
        {"id": "count", "mode": "Direct", "gateway": "Script",
         "params": {"script": "print(len(open('/dev/stdin').read()))"}, "input_from": "read"},
    ]);
    json!({"description": format!("Look at subject {at}"), "steps": steps})
}
