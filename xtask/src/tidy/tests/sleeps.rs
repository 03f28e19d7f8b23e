//! Sleeps in tests: which are refused.

use super::super::sleeps;

/// `expected` are the lines with a mistake.
fn check(path: &str, text: &str, expected: &[usize]) {
    let found = sleeps::check_file(path, text);
    assert_eq!(found.iter().map(|mistake| mistake.line).collect::<Vec<_>>(), expected, "{text}");
}

const TEST: &str = "crates/x/tests/x/main.rs";

#[test]
fn a_sleep_in_test_code_says_why() {
    for sleep in [
        "tokio::time::sleep(SHORT).await;",
        "std::thread::sleep(SHORT);",
        "sleep(SHORT).await;",
        "() = tokio::time::sleep_until(end) => {}",
    ] {
        check(TEST, sleep, &[1]);
        check(TEST, &format!("// sleeps: the pace.\n{sleep}"), &[]);
        check(TEST, &format!("// sleeps: the pace\n// of the flood.\n{sleep}"), &[]);
        check(TEST, &format!("{sleep} // sleeps: the pace."), &[]);
        check(TEST, &format!("// Long enough.\n{sleep}"), &[2]);
        check(TEST, &format!("// sleeps: the pace.\nact();\n{sleep}"), &[3]);
    }
}

#[test]
fn paused_clocks_and_other_languages_are_free() {
    check(TEST, "#[tokio::test(start_paused = true)]\nsleep(SHORT).await;", &[]);
    check(TEST, "tokio::time::pause();\nsleep(SHORT).await;", &[]);
    for other in [
        "let source = \"import time; time.sleep(5)\";",
        "// A sleep(5) that is no code.",
        "pub(crate) fn sleep(time: Duration) {",
        "has_sleep(5);",
    ] {
        check(TEST, other, &[]);
    }
}

#[test]
fn only_test_code_is_looked_at() {
    let sleep = "tokio::time::sleep(SHORT).await;";
    for path in [
        "crates/x/src/x/tests.rs",
        "crates/x/src/x/tests/more.rs",
        "crates/x/src/conformance/stage.rs",
        "crates/e2e/tests/fleet/calls.rs",
    ] {
        check(path, sleep, &[1]);
    }
    for path in ["crates/x/src/x.rs", "crates/e2e/benches/x.rs", "docs/x.md"] {
        check(path, sleep, &[]);
    }
}
