//! Calls of programs in the local sandbox.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus::{Scripts, ToolbusBuilder};
use toolbus_chain::{ChainDeps, ChainPolicy};
use toolbus_sandbox::{Config, Sandbox};
use toolbus_scripts::{Runner, ScriptClient};
use toolbus_tools::Door;
use toolbus_tools::scope::DoorSet;

use super::calls::{any_inner_call, probes};
use super::draws::Draws;
use super::ledger::{self, CheckedCall};
use super::rows::compare_with_rows;
use super::rules::allows;
use super::world::{LINEAGES, Parts, World};

/// Programs, and the generated calls of each.
const PROGRAMS: usize = 40;
const CALLS: usize = 50;
/// Of so many programs, one makes its calls at the same time, and another is a dry run.
const CYCLE: usize = 5;

/// A call as a program or a model names it.
pub(crate) type NamedCall = (String, Value);

/// How a program makes its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    OneByOne,
    AtTheSameTime,
}

const ONE_BY_ONE: &str = "
import json
for name, arguments in json.loads(CALLS):
    try:
        tools[name](**arguments)
    except (PermissionError, RuntimeError):
        pass
";
const AT_THE_SAME_TIME: &str = "
import asyncio, json
async def make(name, arguments):
    try:
        await tools[name](**arguments)
    except (PermissionError, RuntimeError):
        pass
await asyncio.gather(*(make(name, arguments) for name, arguments in json.loads(CALLS)))
";

/// A program that makes these calls, whatever comes of them.
pub(crate) fn write_program(calls: &[NamedCall], order: Order) -> String {
    let code = match order {
        Order::OneByOne => ONE_BY_ONE,
        Order::AtTheSameTime => AT_THE_SAME_TIME,
    };
    // A text of JSON is one of Python.
    let calls = json!(calls).to_string();
    code.replace("CALLS", &json!(calls).to_string())
}

/// Where programs run.
pub(crate) async fn open_runner() -> Arc<dyn Runner> {
    Arc::new(Sandbox::probe(Config::default()).await.expect("a sandbox"))
}

/// Gives an agent the tool `tool_chain`.
pub(crate) fn add_chains(
    builder: ToolbusBuilder,
    parts: &Parts,
    runner: Arc<dyn Runner>,
) -> ToolbusBuilder {
    let artifacts = Some(parts.artifacts.clone());
    let policy = ChainPolicy { tool_calls_max: 2 * CALLS as u64, ..ChainPolicy::default() };
    builder.scripts(Scripts::local(runner)).remote_tools(move |registry, requester| {
        let scripts = ScriptClient::new(requester.clone());
        toolbus_chain::register(registry, ChainDeps { scripts, artifacts, store: None, policy })
    })
}

#[tokio::test]
async fn calls_of_programs_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let runner = open_runner().await;
    let world = World::open_with(|builder, parts| add_chains(builder, parts, runner)).await;
    let any_calls = proptest::collection::vec(any_inner_call(), CALLS);
    let mut checked = Vec::new();
    for number in 0..PROGRAMS {
        let mut calls = draws.draw(&any_calls);
        calls.extend(probes().into_iter().map(|(_, call)| call));
        let calls =
            calls.iter().map(|call| (call.tool.to_owned(), call.arguments(&world.references)));
        let order = match number % CYCLE {
            3 => Order::AtTheSameTime,
            _ => Order::OneByOne,
        };
        let program = Program {
            doors: LINEAGES[number % LINEAGES.len()],
            calls: calls.collect(),
            order,
            is_dry_run: number % CYCLE == 4,
        };
        checked.extend(program.run(&world).await);
    }

    compare_with_rows(&checked, &world.audit_rows().await);
    let count = |is_it: fn(&CheckedCall) -> bool| checked.iter().filter(|call| is_it(call)).count();
    let of_each = [
        count(|call| call.ran),
        count(|call| call.ran && call.has_reference),
        count(|call| call.refused_by == Some("permission")),
        count(|call| call.refused_by.is_some() && call.has_reference),
    ];
    assert!(of_each.iter().all(|calls| *calls > 50), "{of_each:?}");
}

#[derive(Debug)]
struct Program {
    doors: &'static [Door],
    calls: Vec<NamedCall>,
    order: Order,
    is_dry_run: bool,
}

impl Program {
    /// Runs it, and gives the calls that this makes, checked.
    async fn run(&self, world: &World) -> Vec<CheckedCall> {
        let scope = Arc::new(world.scope(self.doors));
        let code = write_program(&self.calls, self.order);
        let arguments = json!({"code": code, "dry_run": self.is_dry_run});
        let output = world.toolbus.call(&scope, toolbus_chain::NAME, arguments).await.unwrap();
        assert!(!output.is_error, "{}", output.to_text());

        let checked = ledger::check(&world.parts.ledger.take(), scope.doors);
        let checked = checked.unwrap_or_else(|what| panic!("{what}\n{self:#?}"));
        // The call of the program ends last, and is the parent of all others.
        let (outer, inner) = checked.split_last().unwrap();
        assert_eq!((outer.tool.as_str(), &outer.parent), (toolbus_chain::NAME, &None));
        assert!(inner.iter().all(|call| call.parent.as_deref() == Some(&*outer.id)), "{inner:#?}");

        let doors = scope.doors.union(DoorSet::of(&[Door::Chain]));
        if self.is_dry_run {
            let is_write = |call: &&CheckedCall| call.ran && !is_read(call);
            let writes: Vec<_> = inner.iter().filter(is_write).collect();
            assert!(writes.is_empty(), "a dry run has run {writes:#?}");
        } else {
            assert_eq!(inner.len(), self.calls.len(), "{self:#?}");
            ledger::check_probes(inner, doors, |_| true);
        }
        let denied = inner.iter().filter(|call| call.refused_by == Some("permission"));
        for call in denied {
            let subject = call.subject.as_deref().unwrap();
            assert!(!allows(subject, doors), "it was denied though the rules allow it: {call:?}");
        }
        checked
    }
}

/// Whether a call is about something that changes nothing.
fn is_read(call: &CheckedCall) -> bool {
    let subject = call.subject.as_deref().unwrap_or_default();
    let reads = ["/prompts/get", "/resources/read", "/resources/list", "/mcp_get_service_details"];
    subject == "mcp:github/list_issues"
        || subject.starts_with("web/")
        || reads.iter().any(|read| subject.ends_with(read))
}
