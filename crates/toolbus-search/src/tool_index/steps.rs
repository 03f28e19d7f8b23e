//! A task of several steps, split into what is searched for each of them.

/// Most steps of a task; what is more belongs to the last one.
pub const STEPS_MAX: usize = 8;

/// What begins the next step, in lower case.
const CONNECTORS: &[&str] = &[
    " and then ",
    ", then ",
    " then ",
    " after that ",
    " afterwards ",
    " and finally ",
    " finally, ",
    " und dann ",
    ", danach ",
    " puis ",
    " ensuite ",
    " y luego ",
    " e poi ",
];

/// Verbs that make a step of what follows "and" or a comma.
const VERBS: &[&str] = &[
    "add",
    "answer",
    "append",
    "archive",
    "ask",
    "assign",
    "build",
    "calculate",
    "call",
    "check",
    "click",
    "clone",
    "close",
    "comment",
    "commit",
    "compare",
    "convert",
    "copy",
    "count",
    "create",
    "delete",
    "deploy",
    "download",
    "draft",
    "edit",
    "email",
    "export",
    "extract",
    "fetch",
    "fill",
    "find",
    "generate",
    "get",
    "import",
    "insert",
    "install",
    "invite",
    "list",
    "load",
    "log",
    "look",
    "make",
    "merge",
    "message",
    "move",
    "navigate",
    "notify",
    "open",
    "plot",
    "post",
    "print",
    "publish",
    "push",
    "put",
    "query",
    "read",
    "record",
    "remove",
    "rename",
    "reply",
    "report",
    "restart",
    "run",
    "save",
    "schedule",
    "search",
    "send",
    "set",
    "share",
    "show",
    "start",
    "stop",
    "store",
    "submit",
    "summarise",
    "summarize",
    "take",
    "tell",
    "translate",
    "update",
    "upload",
    "visit",
    "wait",
    "write",
];

/// The steps of a task, at least one. A text that has none is one step as it is.
pub(super) fn split(task: &str) -> Vec<String> {
    let mut steps: Vec<String> = Vec::new();
    for line in task.split(['\n', ';']) {
        for sentence in split_sentences(strip_number(line.trim())) {
            for part in split_connectors(sentence) {
                push(&mut steps, &part);
            }
        }
    }
    if steps.is_empty() { vec![task.to_owned()] } else { steps }
}

fn push(steps: &mut Vec<String>, part: &str) {
    let part = part.trim_matches(|c: char| !c.is_alphanumeric());
    if part.is_empty() {
        return;
    }
    let is_full = steps.len() == STEPS_MAX;
    match steps.last_mut() {
        Some(last) if is_full => {
            last.push(' ');
            last.push_str(part);
        }
        _ => steps.push(part.to_owned()),
    }
}

/// A line without the number or the bullet that it begins with.
fn strip_number(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() < line.len() {
        return rest.strip_prefix(['.', ')', ':']).map_or(line, str::trim_start);
    }
    line.strip_prefix("- ").or_else(|| line.strip_prefix("* ")).unwrap_or(line)
}

fn split_sentences(line: &str) -> Vec<&str> {
    let mut sentences = Vec::new();
    let mut start = 0;
    for (at, c) in line.char_indices() {
        let after = at + c.len_utf8();
        let ends = matches!(c, '.' | '!' | '?') && line[after..].starts_with(char::is_whitespace);
        // A number of a list within a line belongs to what follows it.
        let is_number = line[start..at].trim().chars().all(|c| c.is_ascii_digit());
        if (ends && !is_number) || matches!(c, '。' | '；') {
            sentences.push(&line[start..at]);
            start = after;
        }
    }
    sentences.push(&line[start..]);
    sentences
}

fn split_connectors(sentence: &str) -> Vec<String> {
    // In ASCII, so that places are the same.
    let lower = sentence.to_ascii_lowercase();
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < lower.len() {
        match connector_length(&lower[at..]) {
            Some(length) if at > start => {
                parts.push(sentence[start..at].to_owned());
                start = at + length;
                at = start;
            }
            _ => at += lower[at..].chars().next().map_or(1, char::len_utf8),
        }
    }
    parts.push(sentence[start.min(sentence.len())..].to_owned());
    parts
}

/// How long the connector is that a text begins with.
fn connector_length(text: &str) -> Option<usize> {
    if !text.starts_with([' ', ',']) {
        return None;
    }
    if let Some(connector) = CONNECTORS.iter().find(|connector| text.starts_with(**connector)) {
        return Some(connector.len());
    }
    let joint = [", and ", " and ", ", "].into_iter().find(|joint| text.starts_with(*joint))?;
    let verb = text[joint.len()..].split(|c: char| !c.is_alphanumeric()).next()?;
    VERBS.binary_search(&verb).is_ok().then_some(joint.len())
}
