use proptest::prelude::*;

use super::*;

fn check(pattern: &str, topic: &str, expected: bool) {
    let parsed = TopicPattern::parse(pattern).unwrap();
    assert_eq!(parsed.matches(topic), expected, "{pattern} against {topic}");
}

#[test]
fn a_star_is_one_segment_and_a_hash_is_any_number() {
    check("tool.invoke", "tool.invoke", true);
    check("tool.invoke", "tool.invoke.mcp", false);
    check("tool.*", "tool.invoke", true);
    check("tool.*", "tool", false);
    check("tool.*", "tool.invoke.mcp", false);
    check("*.invoke", "tool.invoke", true);
    check("agent.#", "agent", true);
    check("agent.#", "agent.task.x", true);
    check("agent.#", "agents", false);
    check("#", "a.b.c", true);
    check("#.c", "a.b.c", true);
    check("#.c", "c", true);
    check("a.#.c", "a.c", true);
    check("a.#.c", "a.b.c.c", true);
    check("a.#.c", "a.b.c.d", false);
    check("a.#.*.d", "a.d", false);
    check("a.#.*.d", "a.b.d", true);
    check("#.#", "", true);
    check("a.*.#", "a", false);
    check("*", "", true);
    check("a*", "ab", false);
    check("a..b", "a..b", true);
    check("a.*.b", "a..b", true);
}

/// The definition, straight from the words: slow, and plainly right.
fn by_definition(pattern: &[&str], topic: &[&str]) -> bool {
    match pattern.split_first() {
        None => topic.is_empty(),
        Some((&"#", rest)) => (0..=topic.len()).any(|n| by_definition(rest, &topic[n..])),
        Some((&want, rest)) => topic.split_first().is_some_and(|(&have, more)| {
            (want == "*" || want == have) && by_definition(rest, more)
        }),
    }
}

proptest! {
    #[test]
    fn matching_follows_the_definition(
        pattern in "([ab*#](\\.[ab*#]){0,6})",
        topic in "([ab](\\.[ab]){0,6})",
    ) {
        let segments = |text: &'static str| text.split('.').collect::<Vec<_>>();
        let expected = by_definition(
            &segments(Box::leak(pattern.clone().into_boxed_str())),
            &segments(Box::leak(topic.clone().into_boxed_str())),
        );
        prop_assert_eq!(TopicPattern::parse(pattern).unwrap().matches(&topic), expected);
    }
}
