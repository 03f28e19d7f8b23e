//! What ran is what was judged, and what the audit log names: for generated calls of every tool
//! that stands for others, by every door.
//!
//! The agent, its gates, artifacts and audit log are the real ones. The bridge is a stub that notes
//! which tool of which server each request names.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod calls;
mod world;

use std::collections::HashMap;

use proptest::test_runner::{Config, TestCaseError, TestRunner};

use self::calls::{CallSpec, any_call};
use self::world::{Checked, World};

/// The number of generated calls. Without the rule that references are read before the subject is
/// resolved, one of the first thousand is found that runs what nobody judged.
const CALLS: u32 = 10_000;

#[test]
fn what_ran_is_what_was_judged_and_what_the_audit_log_names() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::open());
    let config = Config { cases: CALLS, failure_persistence: None, ..Config::default() };
    let checked = std::cell::RefCell::new(HashMap::new());
    let outcome = TestRunner::new(config).run(&any_call(), |spec: CallSpec| {
        let found = runtime.block_on(world.check(&spec));
        let (id, call) = found.map_err(|what| TestCaseError::fail(format!("{what}\n{spec:#?}")))?;
        checked.borrow_mut().insert(id, call);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));

    let checked = checked.into_inner();
    let rows = runtime.block_on(world.audit_rows(CALLS));
    assert_eq!(rows.len(), checked.len(), "each call has a row");
    for row in rows {
        let Checked { ran, .. } = &checked[&row.call_id];
        if ran.is_some() {
            assert_eq!(&row.subject, ran, "{row:?}");
        }
        assert!(ran.is_none() || row.refused_by.is_none(), "{row:?}");
    }

    // The calls are of all kinds, so that the comparison says something.
    let count = |is_it: fn(&Checked) -> bool| checked.values().filter(|call| is_it(call)).count();
    let of_each = [
        count(|call| call.ran.is_some()),
        count(|call| call.ran.is_some() && call.has_reference),
        count(|call| call.ran.is_none() && call.was_judged),
        count(|call| call.ran.is_none() && call.has_reference),
    ];
    assert!(of_each.iter().all(|calls| *calls > 300), "{of_each:?}");
}
