//! Arguments, declared needs, counts and reports.

use serde_json::json;

use super::TestOptions;
use super::needs::TestNeeds;
use super::nextest::{TestReport, parse_report};
use super::tally::{DoctestReader, TestCounts};

fn parse(line: &str) -> TestOptions {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    TestOptions::parse(&arguments).expect("arguments")
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn arguments_select_packages_and_pass_filters_on() {
    assert_eq!(parse(""), TestOptions::default());
    let options = parse("--quick -p one --package=two -pthree --slowest 30 -- login -p four");
    assert_eq!(options.packages, ["one", "two", "three"]);
    assert!(options.is_quick && !options.has_doctests());
    assert_eq!((options.slowest, options.rest), (30, owned(&["--", "login", "-p", "four"])));
    assert!(parse("-p one").has_doctests());
}

#[test]
fn malformed_arguments_are_refused() {
    for line in ["-p", "--slowest", "--slowest many"] {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        assert!(TestOptions::parse(&arguments).is_err(), "{line}");
    }
}

#[test]
fn needs_are_those_of_the_selected_packages() {
    let metadata = json!({"packages": [
        {"name": "host", "targets": [{"name": "host", "kind": ["bin"]}], "metadata": null},
        {"name": "one", "targets": [{"name": "cluster", "kind": ["test"]}],
         "metadata": {"tests": {"programs": ["host"], "services": ["rabbitmq"]}}},
        {"name": "two", "targets": [{"name": "ship", "kind": ["test"]}],
         "metadata": {"tests": {"parts": ["time"], "services": ["postgresql"]}}},
    ]});
    let needs = |line: &str| TestNeeds::from_metadata(&metadata, &parse(line)).expect("needs");

    let one = needs("-p one");
    assert_eq!(Vec::from_iter(one.programs), [("host".to_owned(), "host".to_owned())]);
    assert_eq!(Vec::from_iter(one.services), ["rabbitmq"]);
    assert!(one.parts.is_empty() && one.has_cluster && !one.has_engine);

    let all = needs("");
    assert_eq!(Vec::from_iter(all.services), ["postgresql", "rabbitmq"]);
    assert!(all.parts.contains("time") && all.has_cluster && all.has_engine);

    let quick = needs("--quick");
    assert!(!quick.has_cluster && !quick.has_engine);
    assert!(TestNeeds::from_metadata(&metadata, &parse("-p none")).is_err());
}

#[test]
fn an_unknown_program_is_an_error() {
    let metadata = json!({"packages": [
        {"name": "one", "targets": [], "metadata": {"tests": {"programs": ["gone"]}}},
    ]});
    assert!(TestNeeds::from_metadata(&metadata, &TestOptions::default()).is_err());
}

fn check_doctests(lines: &str, expected: TestCounts, failures: &[&str]) {
    let mut reader = DoctestReader::default();
    for line in lines.lines() {
        reader.add(line);
    }
    let outcome = reader.into_outcome();
    assert_eq!((outcome.counts, outcome.failures), (expected, owned(failures)));
}

#[test]
fn doctests_are_counted_by_their_summaries() {
    check_doctests(
        "running 3 tests\ntest a ... ok\ntest result: ok. 3 passed; 0 failed; 0 ignored\n\
         test b ... FAILED\ntest result: FAILED. 10 passed; 2 failed; 1 ignored; 0 measured\n",
        TestCounts { passed: 13, failed: 2 },
        &["test b ... FAILED"],
    );
    check_doctests("test result: unknown\n3 passed; 1 failed\n", TestCounts::default(), &[]);
}

#[test]
fn a_sum_reads_as_a_closing_line() {
    assert_eq!(TestCounts { passed: 13, failed: 2 }.to_string(), "13 passed, 2 failed");
}

#[test]
fn a_report_has_each_test_with_its_end_and_time() {
    let report = r#"<?xml version="1.0"?><testsuites tests="3" failures="1">
        <testsuite name="one"><testcase name="a" classname="one" time="0.5"/>
        <testcase name="b" classname="one" time="2.25"><failure type="x">no</failure>
        <system-out>text</system-out></testcase>
        <testcase name="c" classname="one" time="1"><system-out>text</system-out></testcase>
        </testsuite></testsuites>"#;
    let test = |name: &str, seconds, is_failure| {
        let name = format!("one {name}");
        TestReport { name, seconds, is_failure }
    };
    let expected = [test("a", 0.5, false), test("b", 2.25, true), test("c", 1.0, false)];
    assert_eq!(parse_report(report).expect("a report"), expected);
}

#[test]
fn a_malformed_report_is_an_error() {
    for report in ["<testsuites><testcase name=\"a\"/></testsuites>", "<a></b>"] {
        assert!(parse_report(report).is_err(), "{report}");
    }
}

#[test]
fn a_suite_needs_the_parts_of_its_package_alone() {
    let options = TestOptions::of_suite("toolbus-rabbitmq::conformance");
    assert!(options.packages.is_empty() && !options.has_doctests());
    assert_eq!(options.rest, ["-E", "binary_id(toolbus-rabbitmq::conformance)"]);
    assert!(options.needs_package("toolbus-rabbitmq") && !options.needs_package("e2e"));
    assert!(TestOptions::default().needs_package("e2e"));
}
