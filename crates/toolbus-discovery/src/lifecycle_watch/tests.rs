//! Which changes are seen, and how many are kept.

use super::*;

fn id(name: &str) -> ToolId {
    ToolId::of("mcp:a", name)
}

#[test]
fn cx_r7_a_change_of_state_is_seen_once() {
    let mut lifecycles = Lifecycles::default();
    let mut check = |states: &[(&str, Lifecycle)], expected: &[&str]| {
        let now = states.iter().map(|(name, state)| (id(name), *state)).collect();
        let changed = lifecycles.replace(now, "2026-01-01T00:00:00Z");
        let seen: Vec<_> = changed
            .iter()
            .map(|change| {
                let from = change.from.map_or("new", Lifecycle::as_str);
                format!("{} {from} > {}", change.tool, change.to.as_str())
            })
            .collect();
        assert_eq!(seen, expected);
        lifecycles.counts()
    };
    let (registered, found) = (Lifecycle::Registered, Lifecycle::Discoverable);
    check(&[("x", registered)], &["mcp:a/x new > registered"]);
    check(&[("x", registered)], &[]);
    let both = [("x", found), ("y", found)];
    check(&both, &["mcp:a/x registered > discoverable", "mcp:a/y new > discoverable"]);
    let used = [("x", Lifecycle::Optimized), ("y", found)];
    check(&used, &["mcp:a/x discoverable > optimized"]);
    let counts = check(
        &[("x", Lifecycle::NotRecommended)],
        &["mcp:a/x optimized > available, not recommended"],
    );
    assert_eq!(counts, LifecycleCounts { not_recommended: 1, ..LifecycleCounts::default() });
}

#[test]
fn changes_that_are_kept_are_bounded() {
    let mut lifecycles = Lifecycles::default();
    for state in [Lifecycle::Registered, Lifecycle::Discoverable] {
        let now = (0..CHANGES_MAX + 7).map(|at| (id(&format!("t{at:05}")), state)).collect();
        lifecycles.replace(now, "");
    }
    let changes = lifecycles.changes();
    assert_eq!(changes.len(), CHANGES_MAX);
    assert_eq!(changes[0].tool, id(&format!("t{:05}", CHANGES_MAX + 6)));
    assert_eq!(changes[0].to, Lifecycle::Discoverable);
}
