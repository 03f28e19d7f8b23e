//! Calls of the tools of servers by their own names, `server__tool`.

use std::cell::RefCell;

use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use toolbus_tools::scope::DoorSet;

use super::calls::{CallSpec, ENTRIES, SERVERS, TEXTS, ToolCall, any_part, given};
use super::draws::Draws;
use super::ledger::CheckedCall;
use super::rows::compare_with_rows;
use super::rules::allows;
use super::world::World;

/// Number of generated calls.
const CALLS: u32 = 500;
/// The tools, with the subject of a call of each.
const TOOLS: [(&str, &str); 4] = [
    ("GitHub__create_issue", "mcp:github/create_issue"),
    ("GitHub__delete_repo", "mcp:github/delete_repo"),
    ("GitHub__list_issues", "mcp:github/list_issues"),
    ("my-notes__add", "mcp:my-notes/add"),
];

fn any_direct_call() -> BoxedStrategy<CallSpec> {
    let parts = (option::weighted(0.8, any_part(TEXTS)), option::weighted(0.3, any_part(SERVERS)));
    let arguments =
        parts.prop_map(|(text, server)| given([("text", text), ("server_name", server)])).boxed();
    let tool = prop::sample::select(TOOLS.map(|(tool, _)| tool).to_vec());
    let entry = prop::sample::select(ENTRIES.to_vec());
    let parts = (entry, tool, arguments.clone(), option::weighted(0.2, arguments));

    let call = parts.prop_map(|(entry, tool, arguments, change)| {
        let call = ToolCall { tool, arguments, is_wrapped: false };
        CallSpec { entry, call, change }
    });
    call.boxed()
}

#[test]
fn calls_of_direct_tools_run_as_they_were_judged() {
    let draws = Draws::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::open_with(|builder, _| builder.direct_tools()));
    let offered = world.toolbus.tools();
    for (tool, _) in TOOLS {
        assert!(offered.find(tool).is_some(), "{tool}");
    }
    let is_read = |id: &str| id == "mcp:github/resources/read";
    assert!(!offered.tools().iter().any(|entry| is_read(entry.subject().id.as_str())));

    let checked = RefCell::new(Vec::new());
    let check = |spec: CallSpec| -> Result<(), TestCaseError> {
        let found = runtime.block_on(world.check(&spec));
        let call = found.map_err(|what| TestCaseError::fail(format!("{what}\n{spec:#?}")))?;
        checked.borrow_mut().push(call);
        Ok(())
    };
    let outcome = draws.runner(CALLS).run(&any_direct_call(), check);
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    for entry in ENTRIES {
        for (tool, _) in TOOLS {
            let call = ToolCall { tool, arguments: Vec::new(), is_wrapped: false };
            check(CallSpec { entry, call, change: None }).unwrap();
        }
    }

    let checked = checked.into_inner();
    compare_with_rows(&checked, &runtime.block_on(world.audit_rows()));
    check_probes(&checked[CALLS as usize..]);
}

/// Checks that every allowed call ran, and that its subject was the tool in the call.
fn check_probes(calls: &[CheckedCall]) {
    assert_eq!(calls.len(), ENTRIES.len() * TOOLS.len());
    for call in calls {
        let (_, subject) = TOOLS.into_iter().find(|(tool, _)| *tool == call.tool).unwrap();
        assert_eq!(call.subject.as_deref(), Some(subject), "{call:?}");
        let doors: DoorSet = call.doors.parse().unwrap();
        assert_eq!(call.ran, allows(subject, doors), "{call:?}");
    }
}
