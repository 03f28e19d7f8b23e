//! Calls by every entry.

use std::cell::RefCell;

use proptest::test_runner::TestCaseError;

use super::calls::{CallSpec, any_call};
use super::draws::Draws;
use super::ledger::CheckedCall;
use super::rows::compare_with_rows;
use super::world::World;

/// The number of generated calls. Without the rule that references are read before the subject is
/// resolved, one of the first thousand is found that runs what nobody judged.
const CALLS: u32 = 10_000;

#[test]
fn what_ran_is_what_was_judged_and_what_the_audit_log_names() {
    let draws = Draws::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::open());
    let checked = RefCell::new(Vec::new());
    let outcome = draws.runner(CALLS).run(&any_call(), |spec: CallSpec| {
        let found = runtime.block_on(world.check(&spec));
        let call = found.map_err(|what| TestCaseError::fail(format!("{what}\n{spec:#?}")))?;
        checked.borrow_mut().push(call);
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));

    let checked = checked.into_inner();
    compare_with_rows(&checked, &runtime.block_on(world.audit_rows()));

    // The calls are of all kinds, so that the comparison says something.
    let count = |is_it: fn(&CheckedCall) -> bool| checked.iter().filter(|call| is_it(call)).count();
    let of_each = [
        count(|call| call.ran),
        count(|call| call.ran && call.has_reference),
        count(|call| !call.ran && call.was_judged),
        count(|call| !call.ran && call.has_reference),
    ];
    assert!(of_each.iter().all(|calls| *calls > 300), "{of_each:?}");
    let of_management = [
        count(|call| call.ran && call.is_of_management() && call.has_reference),
        count(|call| !call.ran && call.is_of_management() && call.was_judged),
    ];
    assert!(of_management.iter().all(|calls| *calls > 50), "{of_management:?}");
}
