//! Tests of what is remembered of lists that have changed.

use super::*;

#[test]
fn only_a_listing_that_came_to_its_end_forgets_what_was_said_before_it() {
    let all = ChangeReports::default();
    all.report(|lists| lists.resources = true);
    let failed = all.take();
    all.report(|lists| lists.tools = true);
    drop(failed);

    let said = all.take();
    all.report(|lists| lists.prompts = true);
    let expected = ListKinds { tools: true, resources: true, ..ListKinds::default() };
    assert_eq!(said.mark_listed(), expected);
    assert_eq!(all.take().mark_listed(), ListKinds { prompts: true, ..ListKinds::default() });
    assert_eq!(all.take().mark_listed(), ListKinds::default());
}
