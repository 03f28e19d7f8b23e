//! `cargo xtask tidy --figures`: how the production code is written, in numbers that can be
//! compared from one release to the next.
//!
//! Counted are the `src` folders of all packages without test code; and, beside it, what is
//! shipped: the same without packages for development and without conformance suites. Words of a
//! name are what underscores or capitals set apart.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::laws;
use super::source::Source;
use super::tokens::{Token, TokenClass};

/// Lines of a body from which on its blank lines are counted.
const LONG_BODY_LINES: usize = 15;

/// What was counted in all files.
#[derive(Debug, Default)]
pub(super) struct Figures {
    functions: usize,
    function_words: usize,
    one_word_functions: usize,
    /// In how many files a type of this name is defined, and how often.
    types: BTreeMap<String, usize>,
    long_body_lines: usize,
    long_body_blank_lines: usize,
    tuple_lets: usize,
    named_closures: usize,
    /// Production lines by package.
    packages: BTreeMap<String, usize>,
    longest_function: Longest,
    longest_file: Longest,
}

/// The longest of something, and where it is.
#[derive(Debug, Default)]
struct Longest {
    lines: usize,
    name: String,
}

impl Longest {
    fn offer(&mut self, lines: usize, name: impl FnOnce() -> String) {
        if lines > self.lines {
            *self = Self { lines, name: name() };
        }
    }
}

impl Figures {
    /// Counts one file of production code.
    pub(super) fn add(&mut self, source: &Source<'_>) {
        let path = source.path;
        let lines = source.production_lines();
        *self.packages.entry(package_of(path).to_owned()).or_default() += lines;
        self.longest_file.offer(lines, || path.to_owned());

        for function in source.functions() {
            let words = function.name.split('_').filter(|word| !word.is_empty()).count();
            self.functions += 1;
            self.function_words += words;
            self.one_word_functions += usize::from(words == 1);

            let Some(body) = function.body else { continue };
            self.longest_function.offer(body.lines, || format!("{path} {}", function.name));
            if body.lines >= LONG_BODY_LINES {
                self.long_body_lines += body.lines;
                self.long_body_blank_lines += body.blank_lines;
            }
        }

        for name in source.type_names() {
            *self.types.entry(name.to_owned()).or_default() += 1;
        }

        let lets = lets(&source.tokens);
        self.tuple_lets += lets.clone().filter(|rest| is_tuple_let(rest)).count();
        self.named_closures += lets.filter(|rest| is_named_closure(rest)).count();
    }

    /// What was counted, each with its name.
    fn rows(&self) -> [(&'static str, String); 13] {
        let lines: usize = self.packages.values().sum();
        let definitions: usize = self.types.values().sum();
        let one_word: usize =
            self.types.iter().filter(|(name, _)| humps(name) == 1).map(|(_, count)| count).sum();
        let shared: usize = self.types.values().filter(|count| **count > 1).sum();

        [
            ("production lines", lines.to_string()),
            ("functions", self.functions.to_string()),
            ("one-word function names", percent(self.one_word_functions, self.functions)),
            ("words per function name", ratio(self.function_words, self.functions)),
            ("types", definitions.to_string()),
            ("one-word type names", percent(one_word, definitions)),
            ("types that share their name", percent(shared, definitions)),
            ("the names shared most", self.most_shared_names()),
            (
                "blank lines per 100 lines of bodies of 15 lines and more",
                ratio(100 * self.long_body_blank_lines, self.long_body_lines),
            ),
            ("tuple lets per 1000 lines", ratio(1000 * self.tuple_lets, lines)),
            ("named closures per 1000 lines", ratio(1000 * self.named_closures, lines)),
            ("longest function body", self.longest_function.to_string()),
            ("longest file", self.longest_file.to_string()),
        ]
    }

    fn most_shared_names(&self) -> String {
        let by_count: BTreeSet<_> = self.types.iter().map(|(name, count)| (count, name)).collect();
        let most = by_count.iter().rev().take(10);
        most.map(|(count, name)| format!("{name} {count}")).collect::<Vec<_>>().join(", ")
    }
}

/// A table in Markdown of all figures and of those of what is shipped.
pub(super) fn table(all: &Figures, shipped: &Figures) -> String {
    let mut table = String::from("| figure | shipped | all |\n|---|---|---|\n");
    for ((name, all), (_, shipped)) in all.rows().into_iter().zip(shipped.rows()) {
        let _ = writeln!(table, "| {name} | {shipped} | {all} |");
    }

    for (package, lines) in &all.packages {
        let shipped = shipped.packages.get(package).copied().unwrap_or_default();
        let _ = writeln!(table, "| lines of {package} | {shipped} | {lines} |");
    }
    table
}

/// Whether a path of production code is part of what is shipped.
pub(super) fn is_shipped(path: &str) -> bool {
    let is_suite = path.contains("/conformance/") || path.ends_with("/conformance.rs");
    !is_suite && !laws::DEVELOPMENT.contains(&package_of(path))
}

impl std::fmt::Display for Longest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} lines, {}", self.lines, self.name)
    }
}

/// The folder that a path of production code is in.
fn package_of(path: &str) -> &str {
    let package = path.split("/src/").next().unwrap_or(path);
    package.trim_start_matches("crates/")
}

/// What follows each `let` that begins a statement: those of `if let` and `while let` are none.
fn lets<'t, 'a>(tokens: &'t [Token<'a>]) -> impl Iterator<Item = &'t [Token<'a>]> + Clone {
    let is_statement = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| tokens.get(at));
        before.is_none_or(|token| ["{", "}", ";", "]", "=>"].iter().any(|end| token.is(end)))
    };
    let starts = tokens.iter().enumerate().filter(|(_, token)| token.is("let"));
    starts.filter(move |(at, _)| is_statement(*at)).map(|(at, _)| &tokens[at + 1..])
}

/// `(a, b) = (c, d)`, without a type between.
fn is_tuple_let(rest: &[Token<'_>]) -> bool {
    if !rest.first().is_some_and(|token| token.is("(")) {
        return false;
    }

    let assigned = rest.iter().skip_while(|token| !token.is("=") && !token.is(";"));
    let mut assigned = assigned.skip(1);
    let Some(open) = assigned.next() else { return false };

    if !open.is("(") {
        return false;
    }

    // A parenthesis without a comma only groups, and `(a, b).c()` is a call.
    let mut depth = 1;
    let mut has_comma = false;

    for token in assigned.by_ref() {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            "," if depth == 1 => has_comma = true,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }

    has_comma && assigned.next().is_some_and(|token| token.is(";") || token.is("else"))
}

/// `name = |…|`, with or without `mut`, `move` and `async`.
fn is_named_closure(rest: &[Token<'_>]) -> bool {
    let mut rest = rest.iter().filter(|token| !["mut", "move", "async"].contains(&token.text));
    let is_name = rest.next().is_some_and(|token| token.class == TokenClass::Word);
    let is_assigned = rest.next().is_some_and(|token| token.is("="));
    is_name && is_assigned && rest.next().is_some_and(|token| token.is("|") || token.is("||"))
}

/// The words of a type's name. Capitals in a row are one, as in `URLError`.
fn humps(name: &str) -> usize {
    let letters: Vec<_> = name.chars().collect();
    let begins = |at: &usize| {
        let at = *at;
        letters[at].is_uppercase()
            && (at == 0
                || !letters[at - 1].is_uppercase()
                || letters.get(at + 1).is_some_and(|next| next.is_lowercase()))
    };
    (0..letters.len()).filter(begins).count()
}

fn percent(part: usize, whole: usize) -> String {
    format!("{} %", (100 * part + whole / 2) / whole.max(1))
}

/// With two decimals.
fn ratio(part: usize, whole: usize) -> String {
    let hundredths = (100 * part + whole / 2) / whole.max(1);
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
