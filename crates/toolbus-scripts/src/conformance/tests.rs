//! The list of cases, and the page that tells of it.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use toolbus_wire::message::script::{ScriptFile, ScriptInvokeResponse, ScriptReason};

use super::{ALONE, ATTACKS, cases, honest};

/// Every runner, and where its tests put it through the suite.
const RUNNERS: [(&str, &str); 3] = [
    ("local sandbox", "crates/toolbus-sandbox/tests/sandbox/conformance.rs"),
    ("pods", "crates/toolbus-pods/tests/cluster/conformance.rs"),
    ("pods that waited", "crates/toolbus-pods/tests/cluster/conformance/warm.rs"),
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

/// An attack that fails for a reason of its own has shown nothing.
#[test]
fn only_what_is_forbidden_counts_as_denied() {
    let source = r"
def call(number):
    raise OSError(number, 'made up')
deny('forbidden', lambda: call(errno.EPERM))
deny('read-only', lambda: call(errno.EROFS))
deny('mistyped', lambda: open('/nowhere/at/all'))
deny('no such process', lambda: os.kill(2 ** 22 + 1, 0))
deny('allowed', lambda: 1)
";
    let program = format!("{}{source}", super::stage::ATTEMPT);
    let output = Command::new("python3").args(["-I", "-c", &program]).output().expect("python3");
    let text = String::from_utf8(output.stdout).expect("text");
    let denied: Vec<_> = text.lines().filter(|line| line.ends_with("refused")).collect();

    assert_eq!(text.lines().count(), 5, "{text}");
    assert_eq!(denied, ["forbidden refused", "read-only refused"], "{text}");
}

/// What judges an answer must be able to find it wrong.
#[test]
fn an_answer_is_right_only_as_its_file_says() {
    for script in honest::ORDINARY.iter().chain(honest::SCIENTIFIC) {
        assert_ne!(script.prints(), "", "{}", script.name);

        let right = ScriptInvokeResponse {
            output: Some(script.prints()),
            exit_code: 0,
            files: script.source().contains("# leaves: ").then(|| left_by(script.source())),
            ..ScriptInvokeResponse::new("")
        };

        assert_eq!(script.judge(&right), Ok(()));

        let more = Some(vec![ScriptFile { name: "more".to_owned(), ..ScriptFile::default() }]);
        let cause = |wrong: ScriptInvokeResponse| script.judge(&wrong).expect_err("wrong").cause;
        let output = Some(script.prints() + "\n");

        let wrong = [
            ScriptInvokeResponse { exit_code: 1, ..right.clone() },
            ScriptInvokeResponse { output, ..right.clone() },
            ScriptInvokeResponse { files: more, ..right.clone() },
            ScriptInvokeResponse { reason: Some(ScriptReason::Killed), ..right },
        ];

        assert_eq!(wrong.map(cause), ["exit code 1", "another output", "other files", "killed"]);
    }
}

fn left_by(source: &str) -> Vec<ScriptFile> {
    let lines = source.lines().filter_map(|line| line.strip_prefix("# leaves: "));
    let file = |line: &str| {
        let (name, kind) = line.split_once(' ').expect("a name and a media type");
        let mime_type = Some(kind.to_owned());
        ScriptFile { name: name.to_owned(), mime_type, ..ScriptFile::default() }
    };
    lines.map(file).collect()
}

/// A script that nobody runs would be a file that nobody misses.
#[test]
fn every_file_of_honest_scripts_is_listed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance/honest");
    let count = |folder: &Path| {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "py")).count()
    };
    assert_eq!(count(&folder), honest::ORDINARY.len());
    assert_eq!(count(&folder.join("science")), honest::SCIENTIFIC.len());
}
