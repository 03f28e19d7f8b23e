//! Tests of what is remembered of lists that have changed.

use super::*;

#[test]
fn only_a_listing_that_came_to_its_end_forgets_what_was_said_before_it() {
    let all = ListsSaid::default();
    all.add(|lists| lists.resources = true);
    let failed = all.take();
    all.add(|lists| lists.tools = true);
    drop(failed);

    let said = all.take();
    all.add(|lists| lists.prompts = true);
    let expected = Lists { tools: true, resources: true, ..Lists::default() };
    assert_eq!(said.listed(), expected);
    assert_eq!(all.take().listed(), Lists { prompts: true, ..Lists::default() });
    assert_eq!(all.take().listed(), Lists::default());
}
