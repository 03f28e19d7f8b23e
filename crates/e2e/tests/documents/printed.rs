//! Whether a command prints what a page says.

/// Whether `printed` is what is expected of it. In a page `…` stands for anything within a line, and
/// for any lines where it is alone; how many milliseconds something took is never compared.
pub(crate) fn is_as(printed: &str, expected: &str) -> bool {
    let [printed, expected] = [printed, expected].map(lines);
    are_as(&printed, &expected)
}

fn lines(text: &str) -> Vec<String> {
    text.trim_end().lines().map(|line| without_times(line.trim_end())).collect()
}

/// `12 ms` and `3 ms` are the same.
fn without_times(line: &str) -> String {
    let mut words: Vec<_> = line.split(' ').collect();
    for at in 1..words.len() {
        let is_number = words[at - 1].chars().all(|c| c.is_ascii_digit());
        if words[at].starts_with("ms") && is_number {
            words[at - 1] = "N";
        }
    }
    words.join(" ")
}

fn are_as(printed: &[String], expected: &[String]) -> bool {
    let Some((first, rest)) = expected.split_first() else { return printed.is_empty() };
    if first.trim() == "…" {
        return (0..=printed.len()).any(|skipped| are_as(&printed[skipped..], rest));
    }
    match printed.split_first() {
        Some((line, others)) => is_line(line, first) && are_as(others, rest),
        None => false,
    }
}

fn is_line(printed: &str, expected: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(rest) = parts.next().and_then(|first| printed.strip_prefix(first)) else {
        return false;
    };
    let mut rest = rest;
    let mut parts = parts.peekable();
    let has_gaps = parts.peek().is_some();
    while let Some(part) = parts.next() {
        let found = if parts.peek().is_none() { rest.rfind(part) } else { rest.find(part) };
        let Some(at) = found else { return false };
        let end = at + part.len();
        if parts.peek().is_none() {
            return end == rest.len();
        }
        rest = &rest[end..];
    }
    has_gaps || rest.is_empty()
}

#[test]
fn what_is_printed_is_compared() {
    let check = |printed: &str, expected: &str, is_same: bool| {
        assert_eq!(is_as(printed, expected), is_same, "{printed:?} {expected:?}");
    };
    check("42\n", "42\n", true);
    check("42\n", "43\n", false);
    check("42\n43\n", "42\n", false);
    check("a b c\n", "a … c", true);
    check("a b d\n", "a … c", false);
    check("a b c c\n", "a … c", true);
    check("a\n", "a…", true);
    check("b\n", "a…", false);
    check("a\nb\nc\n", "a\n…\nc\n", true);
    check("a\nb\nd\n", "a\n…\nc\n", false);
    check("a\nc\n", "a\n…\nc\n", true);
    check("[1 call, 20 ms]", "[1 call, 7 ms]", true);
    check("[1 call, 20 s]", "[1 call, 7 s]", false);
}
