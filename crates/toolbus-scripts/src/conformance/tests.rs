//! The list of cases, and the page that tells of it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use super::{ALONE, ATTACKS, cases};

/// Every runner, and where its tests put it through the suite.
const RUNNERS: [(&str, &str); 2] = [
    ("local sandbox", "crates/toolbus-sandbox/tests/sandbox/conformance.rs"),
    ("pods", "crates/scripts-manager/tests/cluster/conformance.rs"),
];
const PAGE: &str = "docs/security.md";
const BEGIN: &str =
    "<!-- attacks: `UPDATE_DOCS=1 cargo test -p toolbus-scripts page` writes what follows -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn names_are_one_cases_own_and_lists_name_what_is_there() {
    let cases = cases();
    let names: HashSet<_> = cases.iter().map(|case| case.name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(ALONE.iter().all(|name| names.contains(name)));
    let families: HashSet<_> = cases.iter().map(|case| case.family).collect();
    assert!(ATTACKS.iter().all(|family| families.contains(family)));
}

/// The page shows what is tested, no more: a case that is not in the suite is not in the table, and
/// a runner that is not put through the suite has no column.
#[test]
fn the_page_of_security_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (runner, test) in RUNNERS {
        let text = fs::read_to_string(root.join(test)).expect("a test");
        assert!(text.contains("toolbus_scripts::conformance_tests!("), "{runner}: {test}");
    }
    let mut table = String::from("| family | what holds |");
    let mut line = String::from("|---|---|");
    for (runner, _) in RUNNERS {
        write!(table, " {runner} |").expect("text grows");
        line.push_str("---|");
    }
    writeln!(table, "\n{line}").expect("text grows");
    for case in cases().iter().filter(|case| ATTACKS.contains(&case.family)) {
        let what = case.name.replace('_', " ");
        let holds = " holds |".repeat(RUNNERS.len());
        writeln!(table, "| {} | {what} |{holds}", case.family).expect("text grows");
    }

    let page = fs::read_to_string(root.join(PAGE)).expect("the page");
    let (head, rest) = page.split_once(BEGIN).expect("the page has a table");
    let (_, tail) = rest.split_once(END).expect("the table ends");
    let made = format!("{head}{BEGIN}\n{table}\n{END}{tail}");
    if env::var_os("UPDATE_DOCS").is_some() {
        fs::write(root.join(PAGE), made).expect("written");
    } else {
        assert!(page == made, "{PAGE} is not what is tested: run with UPDATE_DOCS=1");
    }
}
