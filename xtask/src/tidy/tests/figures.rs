//! What is counted in an example that has one of each.

use crate::tidy::figures::{self, Figures};
use crate::tidy::source::Source;

const EXAMPLE: &str = "\
//! Head.
struct Entry;
enum PodEntry { A }
fn run() {
    let (a, b) = (1, 2);
    let (c, d) = (a, b).swap();
    let (e, f) = halves(c);
    if let (g, h) = (d, e) {}
    let add = |x: u8| x + 1;
    let mut later = async move || 1;
    let text = \"|\";
}
fn start_pod_now() {}
#[cfg(test)]
fn never_counted() {}
";

fn rows_of(path: &str) -> Vec<String> {
    let mut all = Figures::default();
    all.add(&Source::read(path, EXAMPLE));
    let mut shipped = Figures::default();
    if figures::is_shipped(path) {
        shipped.add(&Source::read(path, EXAMPLE));
    }
    figures::table(&all, &shipped).lines().skip(2).map(str::to_owned).collect()
}

#[test]
fn everything_is_counted_once() {
    let rows = rows_of("crates/a/src/lib.rs");
    let expected = [
        "| production lines | 13 | 13 |",
        "| functions | 2 | 2 |",
        "| one-word function names | 50 % | 50 % |",
        "| words per function name | 2.00 | 2.00 |",
        "| types | 2 | 2 |",
        "| one-word type names | 50 % | 50 % |",
        "| types that share their name | 0 % | 0 % |",
        "| tuple lets per 1000 lines | 76.92 | 76.92 |",
        "| named closures per 1000 lines | 153.85 | 153.85 |",
        "| longest file | 13 lines, crates/a/src/lib.rs | 13 lines, crates/a/src/lib.rs |",
        "| lines of a | 13 | 13 |",
    ];
    for row in expected {
        assert!(rows.iter().any(|found| found == row), "{row} is not among {rows:#?}");
    }
}

#[test]
fn suites_and_tools_are_not_shipped() {
    for path in ["crates/e2e/src/lib.rs", "crates/a/src/conformance/b.rs", "xtask/src/main.rs"] {
        assert!(!figures::is_shipped(path), "{path}");
        assert_eq!(rows_of(path)[1], "| functions | 0 | 2 |");
    }
    assert!(figures::is_shipped("crates/a/src/b.rs"));
}
