//! Rules for single files, by their path and text alone.
//!
//! The words that are looked for are put together here from halves, so that this file passes its
//! own rules.

use super::Mistake;
use super::source::Source;

/// Lines of a file, tests not counted, past which it is no page any more. The habit is 500.
const FILE_LINES_MAX: usize = 700;
/// Lines of a service's `main.rs`, which only wires.
const MAIN_LINES_MAX: usize = 50;
/// A note for later must say at least what it is about.
const NOTE_LETTERS_MIN: usize = 10;

/// The one crate that may go round the compiler's checks.
const LOW_LEVEL_CRATE: &str = "crates/toolbus-sandbox/";

/// Hosts of package registries. Whoever builds may be behind a mirror: names of packages belong
/// into files, addresses do not.
const REGISTRIES: [(&str, &str); 12] = [
    ("index.crates", "io"),
    ("static.crates", "io"),
    ("//crates", "io"),
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("registry.npmjs", "org"),
    ("proxy.golang", "org"),
    ("sum.golang", "org"),
    ("deb.debian", "org"),
    ("archive.ubuntu", "com"),
    ("repo1.maven", "org"),
    ("repo.maven.apache", "org"),
];

/// All mistakes of one file. `path` is relative to the workspace.
pub(super) fn check_file(path: &str, text: &str) -> Vec<Mistake> {
    let mut file = FileCheck { path, mistakes: Vec::new() };
    if path != "Cargo.lock" {
        file.check_registries(text);
    }
    if path.ends_with(".rs") {
        file.check_shape(text);
        file.check_lines(text);
    }
    file.mistakes
}

struct FileCheck<'a> {
    path: &'a str,
    mistakes: Vec<Mistake>,
}

impl FileCheck<'_> {
    fn add(&mut self, line: usize, what: impl Into<String>, mend: &'static str) {
        self.mistakes.push(Mistake { path: self.path.to_owned(), line, what: what.into(), mend });
    }

    fn check_registries(&mut self, text: &str) {
        let hosts: Vec<_> = REGISTRIES.iter().map(|(name, end)| format!("{name}.{end}")).collect();
        for (line, text) in numbered(text) {
            if let Some(host) = hosts.iter().find(|host| text.contains(host.as_str())) {
                self.add(
                    line,
                    format!("names the host of a package registry: {host}"),
                    "name the package only; clients know where their registry is",
                );
            }
        }
    }

    /// What concerns the file as a whole.
    fn check_shape(&mut self, text: &str) {
        let lines = text.lines().count();
        // What a `tests.rs` is about, the file whose tests it has says.
        if !text.starts_with("//!") && !self.path.ends_with("/tests.rs") {
            self.add(
                1,
                "does not begin with a `//!` header",
                "say what the file owns, its invariants and what it must not do",
            );
        }

        if self.path.ends_with("/mod.rs") {
            self.add(1, "is called mod.rs", "name it like its folder, and put it beside that");
        }

        if self.path.ends_with("src/main.rs") && lines > MAIN_LINES_MAX {
            self.add(
                MAIN_LINES_MAX + 1,
                format!("has {lines} lines, and a main.rs at most {MAIN_LINES_MAX}"),
                "move the work into the library",
            );
        }

        if !self.is_test() && lines > FILE_LINES_MAX {
            self.add(
                FILE_LINES_MAX + 1,
                format!("has {lines} lines, and a file at most {FILE_LINES_MAX}"),
                "split it by what its parts own",
            );
        }
    }

    /// Whether the file is compiled only for tests and benchmarks.
    fn is_test(&self) -> bool {
        Source::is_test_path(self.path)
    }

    fn check_lines(&mut self, text: &str) {
        let mut for_tests = false;
        for (line, text) in numbered(text) {
            let text = text.trim();
            let (code, comment) = text.split_once("//").unwrap_or((text, ""));
            if code.starts_with("#[ignore") {
                self.add(
                    line,
                    "ignores a test",
                    "assert what happens today, with a FIXME that says what should",
                );
            }

            if for_tests && code.starts_with("mod ") && code.trim_end().ends_with('{') {
                self.add(line, "has tests below the code", "move them into a file tests.rs");
            }
            // Further attributes may stand between this one and what it belongs to.
            for_tests = text == "#[cfg(test)]" || (for_tests && text.starts_with("#["));

            if mentions_low_level(code) && !self.path.starts_with(LOW_LEVEL_CRATE) {
                self.add(
                    line,
                    "goes round the compiler's checks",
                    "only toolbus-sandbox may: use a safe interface, or put one there",
                );
            }
            if is_empty_note(comment) {
                self.add(line, "has a note for later without a text", "say what is to be done");
            }
        }
    }
}

fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines())
}

/// Whether a word of the code begins with the keyword; the lint's name does as well.
fn mentions_low_level(code: &str) -> bool {
    let keyword = concat!("un", "safe");
    code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word.starts_with(keyword))
}

fn is_empty_note(comment: &str) -> bool {
    [concat!("TO", "DO"), concat!("FIX", "ME")].iter().any(|mark| {
        let note = comment.trim_start_matches(['/', '!', ' ']).strip_prefix(mark);
        note.is_some_and(|note| {
            note.chars().filter(|c| c.is_alphabetic()).count() < NOTE_LETTERS_MIN
        })
    })
}
