//! Rules on how production code is written, as far as a program can tell: air, names, parameters,
//! comments.
//!
//! Test code is free of them, but for the width of comments.

use super::Mistake;
use super::figures;
use super::source::{Function, Source};
use super::tokens::Token;

/// One rule: the mistakes that it finds in a file.
type Rule = fn(&Source<'_>) -> Vec<Mistake>;

const RULES: [Rule; 6] = [
    check_air,
    check_parameters,
    check_imports,
    check_durations,
    check_comments,
    check_json_readers,
];

/// Lines of a function's body from which on it has a blank line.
const BODY_LINES_WITHOUT_AIR_MAX: usize = 19;

/// Longest line of a comment, in characters: what rustfmt allows for code.
const COMMENT_LINE_MAX: usize = 100;

/// What reads a JSON text without limits.
const JSON_READERS: [&str; 5] = ["from_str", "from_slice", "from_reader", "Deserializer", "de"];

/// The crate that has the reader with limits.
const JSON_CRATE: &str = "crates/toolbus-json/";

/// How the name of a `Duration` may end; `_MIN`, `_MAX` or `_DEFAULT` may follow.
const DURATION_SUFFIXES: [&str; 5] = ["TIMEOUT", "INTERVAL", "GRACE", "BACKOFF", "TTL"];
const BOUND_SUFFIXES: [&str; 3] = ["_MIN", "_MAX", "_DEFAULT"];

/// All mistakes in a file of production code.
pub(super) fn check_rules(source: &Source<'_>) -> impl Iterator<Item = Mistake> {
    RULES.iter().flat_map(|rule| rule(source))
}

fn mistake(source: &Source<'_>, line: usize, what: String, mend: &'static str) -> Mistake {
    Mistake { path: source.path.to_owned(), line, what, mend }
}

/// A body that is one expression without statements, such as a table or a `match`, has no phases to
/// set apart.
fn check_air(source: &Source<'_>) -> Vec<Mistake> {
    let functions = source.functions();
    let lacks_air = |function: &&Function<'_>| {
        function.body.as_ref().is_some_and(|body| {
            body.lines > BODY_LINES_WITHOUT_AIR_MAX
                && body.blank_lines == 0
                && source.tokens[body.tokens.clone()].iter().any(|token| token.is(";"))
        })
    };

    let found = functions.iter().filter(lacks_air).map(|function| {
        let lines = function.body.as_ref().map_or(0, |body| body.lines);
        mistake(
            source,
            function.line,
            format!("{} has {lines} lines and no blank one", function.name),
            "set its phases apart (acquire, check, act, report), or split it",
        )
    });

    found.collect()
}

fn check_parameters(source: &Source<'_>) -> Vec<Mistake> {
    let mut mistakes = Vec::new();
    for function in source.functions() {
        let parameters = &source.tokens[function.parameters.clone()];
        let mut depth = 0;
        let mut begins = true;

        for (at, token) in parameters.iter().enumerate() {
            let is_pattern = token.is("(") || token.is("&") && next_is(parameters, at, "(");
            if depth == 0 && begins && is_pattern {
                mistakes.push(mistake(
                    source,
                    token.line,
                    format!("{} takes a tuple apart among its parameters", function.name),
                    "name a struct for what belongs together",
                ));
            }
            match token.text {
                "(" | "[" | "{" | "<" => depth += 1,
                ")" | "]" | "}" | ">" => depth -= 1,
                _ => {}
            }
            begins = token.is(",");
        }
    }
    mistakes
}

fn next_is(tokens: &[Token<'_>], at: usize, text: &str) -> bool {
    tokens.get(at + 1).is_some_and(|token| token.is(text))
}

fn check_imports(source: &Source<'_>) -> Vec<Mistake> {
    let starts = source.find_sequence(&["use", "super", "::", "*"]);
    let found = starts.into_iter().map(|at| {
        mistake(
            source,
            source.tokens[at].line,
            "imports all that its parent has".to_owned(),
            "name what it needs; what both need may want a module of its own",
        )
    });
    found.collect()
}

fn check_durations(source: &Source<'_>) -> Vec<Mistake> {
    let constants = source.constants_of_type("Duration");
    let found = constants.into_iter().filter(|name| !says_what_for(name.text)).map(|name| {
        mistake(
            source,
            name.line,
            format!("the name of the duration {} does not say what for", name.text),
            "end it in _TIMEOUT, _INTERVAL, _GRACE, _BACKOFF or _TTL (and _MIN, _MAX, _DEFAULT)",
        )
    });
    found.collect()
}

fn says_what_for(name: &str) -> bool {
    let name = BOUND_SUFFIXES.iter().find_map(|bound| name.strip_suffix(bound)).unwrap_or(name);
    name.rsplit('_').next().is_some_and(|word| DURATION_SUFFIXES.contains(&word))
}

/// Rows of tables and words without a blank, such as links, cannot be wrapped.
fn check_comments(source: &Source<'_>) -> Vec<Mistake> {
    let is_too_wide = |line: &str| {
        let text = line.trim_start().trim_start_matches(['/', '!']).trim_start();
        line.chars().count() > COMMENT_LINE_MAX && !text.starts_with('|') && text.contains(' ')
    };

    let lines = source.comment_lines().filter(|(_, line)| is_too_wide(line));
    let found = lines.map(|(number, line)| {
        let what = format!("the comment is {} characters wide", line.chars().count());
        mistake(source, number, what, "wrap it at 100")
    });
    found.collect()
}

/// What is shipped reads JSON texts in one way, which has limits.
fn check_json_readers(source: &Source<'_>) -> Vec<Mistake> {
    if !figures::is_shipped(source.path) || source.path.starts_with(JSON_CRATE) {
        return Vec::new();
    }

    let is_reader = |token: &Token<'_>| JSON_READERS.iter().any(|reader| token.is(reader));
    let mut mistakes = Vec::new();
    for at in source.find_sequence(&["serde_json", "::"]) {
        let rest = &source.tokens[at + 2..];
        let is_group = rest.first().is_some_and(|token| token.is("{"));
        let end = if is_group { rest.iter().position(|token| token.is("}")) } else { Some(1) };
        let named = &rest[..end.unwrap_or(rest.len()).min(rest.len())];
        mistakes.extend(named.iter().filter(|token| is_reader(token)).map(|token| {
            let what = format!("serde_json::{} reads a text without limits", token.text);
            mistake(source, token.line, what, "read it with toolbus_json")
        }));
    }

    mistakes
}
