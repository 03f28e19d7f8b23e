//! The rules of style, and how files are read for them.

use crate::tidy::source::Source;
use crate::tidy::{history, style, tokens};

/// `expected` are the mistakes as `line: what`, in order.
fn check_style(text: &str, expected: &[&str]) {
    let source = Source::read("crates/a/src/b.rs", text);
    let mut found: Vec<_> = style::check_rules(&source).collect();
    found.sort();
    let found: Vec<_> =
        found.iter().map(|mistake| format!("{}: {}", mistake.line, mistake.what)).collect();
    assert_eq!(found, expected, "{text}");
}

/// A function with this many statements, after each group a blank line where asked.
fn with_statements(count: usize, blank: &str) -> String {
    let half = "    work();\n".repeat(count / 2);
    let rest = "    work();\n".repeat(count - count / 2);
    format!("fn long<A: Fn() -> Vec<u8>>(a: A) -> Vec<u8> {{\n{half}{blank}{rest}}}\n")
}

#[test]
fn long_bodies_have_blank_lines() {
    let what = "1: long has 20 lines and no blank one";
    check_style(&with_statements(19, ""), &[]);
    check_style(&with_statements(20, ""), &[what]);
    check_style(&with_statements(20, "\n"), &[]);
    check_style(&with_statements(19, "    // Not blank.\n"), &[what]);
    let text = format!("let a = \"\n\n{}\";\n", "\n".repeat(18));
    check_style(&format!("fn a() {{\n{text}}}"), &["1: a has 21 lines and no blank one"]);
}

#[test]
fn a_body_of_one_expression_needs_no_air() {
    let arms = "        1 => 2,\n".repeat(30);
    check_style(&format!("fn table(a: u8) -> u8 {{\n    match a {{\n{arms}    }}\n}}\n"), &[]);
}

#[test]
fn test_code_is_free_of_the_rules() {
    let long = with_statements(30, "");
    check_style(&format!("#[cfg(test)]\n#[allow(dead_code)]\n{long}"), &[]);
    check_style(&format!("#[cfg(test)]\nmod tests {{\n{long}}}\n"), &[]);
    let after = format!("#[cfg(test)]\nmod tests;\n{long}");
    check_style(&after, &["3: long has 30 lines and no blank one"]);
}

#[test]
fn json_is_read_with_limits() {
    let what =
        |line: u8, name: &str| format!("{line}: serde_json::{name} reads a text without limits");
    check_style("fn a() { serde_json::from_str(b) }", &[&what(1, "from_str")]);
    check_style("fn a() { b.and_then(serde_json::from_slice) }", &[&what(1, "from_slice")]);
    check_style("use serde_json::{Value,\nfrom_reader};", &[&what(2, "from_reader")]);
    check_style("use serde_json::de::from_str;", &[&what(1, "de")]);
    check_style("fn a() { serde_json::from_value(b); serde_json::to_string(b) }", &[]);
    check_style("fn a() { toolbus_json::from_str(b, &LIMITS) }", &[]);
    check_style("#[cfg(test)]\nmod tests { fn a() { serde_json::from_str(b) } }", &[]);
    for path in ["crates/toolbus-json/src/lib.rs", "crates/e2e/src/lib.rs", "xtask/src/main.rs"] {
        let source = Source::read(path, "fn a() { serde_json::from_str(b) }");
        assert_eq!(style::check_rules(&source).count(), 0, "{path}");
    }
}

#[test]
fn parameters_are_not_taken_apart() {
    check_style("fn a(b: (u8, u8), c: &[(u8, u8)]) {}", &[]);
    check_style("fn a() { each(|(b, c)| b + c) }", &[]);
    check_style("fn a(State(b): State<(u8, u8)>) {}", &[]);
    check_style("struct A(fn((u8, u8)) -> u8);", &[]);
    let what = "1: a takes a tuple apart among its parameters";
    check_style("fn a((b, c): (u8, u8)) {}", &[what]);
    check_style("fn a(&self, &(b, c): &(u8, u8)) {}", &[what]);
    check_style("fn a<T: Into<Vec<u8>>>(b: T, (c, d): (u8, u8)) {}", &[what]);
}

#[test]
fn imports_name_what_is_needed() {
    check_style("use super::{Mistake, files};\nuse prelude::*;", &[]);
    check_style("fn a() {}\nuse super::*;", &["2: imports all that its parent has"]);
    check_style("// use super::*;\nconst A: &str = \"use super::*\";", &[]);
}

#[test]
fn durations_say_what_for() {
    for name in ["CALL_TIMEOUT", "TIMEOUT", "RETRY_BACKOFF_MAX", "TOKEN_TTL_DEFAULT"] {
        check_style(&format!("const {name}: Duration = Duration::ZERO;"), &[]);
    }
    for name in ["LULL", "GRACE_OF_PODS", "CALL_MAX", "MYTIMEOUT"] {
        let text = format!("static {name}: std::time::Duration = Duration::ZERO;");
        let what = format!("1: the name of the duration {name} does not say what for");
        check_style(&text, &[&what]);
    }
    check_style("const ATTEMPTS: usize = 3;\nconst fn wait(a: Duration) {}", &[]);
    check_style("const WAITS: [Duration; 2] = [Duration::ZERO; 2];", &[]);
}

#[test]
fn comments_are_a_hundred_characters_wide() {
    let words = "word ".repeat(19);
    check_style(&format!("/// {words}w"), &[]);
    check_style(&format!("    // {words}ä"), &["1: the comment is 103 characters wide"]);
    check_style(&format!("//! {words}wo"), &["1: the comment is 101 characters wide"]);

    check_style(&format!("//! | {words}more |"), &[]);
    check_style(&format!("// https://{}", "a".repeat(100)), &[]);
    check_style(&format!("const A: &str = \"\n// {words}more\";"), &[]);
    check_style(&format!("let a = 1; // {words}more"), &[]);
}

#[test]
fn subjects_of_commits_are_short() {
    let subject = "a".repeat(72);
    assert!(history::check_log(&format!("abc1234 {subject}\ndef5678\n")).is_empty());
    let mistakes = history::check_log(&format!("abc1234 short\ndef5678 {subject}a\n"));
    let found: Vec<_> = mistakes.iter().map(|mistake| mistake.path.as_str()).collect();
    assert_eq!(found, ["commit def5678"]);
}

#[test]
fn files_of_test_modules_are_told_by_their_parents() {
    let text = "#[cfg(test)]\nmod fake;\nmod real;\n#[cfg(test)]\npub(crate) mod more;\n";
    let paths = |path| Source::read(path, text).test_module_paths().collect::<Vec<_>>();
    assert_eq!(paths("crates/a/src/lib.rs"), ["crates/a/src/fake", "crates/a/src/more"]);
    assert_eq!(paths("crates/a/src/b.rs"), ["crates/a/src/b/fake", "crates/a/src/b/more"]);
}

#[test]
fn only_comments_and_blanks_are_lost() {
    let check = |text: &str, expected: &[&str]| {
        let found: Vec<_> = tokens::lex(text).iter().map(|token| token.text).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("a /* b /* c */ d */ e // f\ng", &["a", "e", "g"]);
    check(
        r##"r#"a "b""# r#type b'\'' "\"" '"'"##,
        &[r##"r#"a "b""#"##, "r", "#", "type", "b", r"'\''", r#""\"""#, "'\"'"],
    );
    check("&'a str -> || a.0", &["&", "'a", "str", "->", "||", "a", ".", "0"]);
    check("\"unfinished", &["\"unfinished"]);
    check("'", &["'"]);
    let lines: Vec<_> = tokens::lex("a\n\"\n\n\" b").iter().map(|token| token.line).collect();
    assert_eq!(lines, [1, 2, 4]);
}
