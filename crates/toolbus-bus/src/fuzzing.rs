//! The parsers of this crate as targets of a fuzzer.

use crate::TopicPattern;

/// Matches a topic, which is the second line, against a pattern, which is the first. Asserts that
/// the answer is the one by definition.
pub fn topic_patterns(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let (pattern, topic) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(pattern) = TopicPattern::parse(pattern) else { return };
    if topic.len() > toolbus_wire::topic::TOPIC_BYTES_MAX {
        return;
    }

    let wanted: Vec<&str> = pattern.as_str().split('.').collect();
    let segments: Vec<&str> = topic.split('.').collect();
    assert_eq!(pattern.matches(topic), matches_by_definition(&wanted, &segments));
}

/// Whether segments match, from the last wanted one to the first: the row says for each end of the
/// segments whether what is wanted so far matches it.
fn matches_by_definition(wanted: &[&str], segments: &[&str]) -> bool {
    let mut row: Vec<bool> = (0..=segments.len()).map(|from| from == segments.len()).collect();
    for want in wanted.iter().rev() {
        let matches_from = |from: usize| match *want {
            "#" => row[from..].contains(&true),
            want => {
                let is_one = segments.get(from).is_some_and(|have| want == "*" || want == *have);
                is_one && row[from + 1]
            }
        };
        row = (0..row.len()).map(matches_from).collect();
    }
    row[0]
}
