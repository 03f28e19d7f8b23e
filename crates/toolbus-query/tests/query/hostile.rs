//! Questions and values that would take all memory or all time.

use std::time::{Duration, Instant};

use toolbus_query::question::{Grep, Head, Jq, Slice, Sql};
use toolbus_query::{Answer, Error, Limits, Question};

use super::support::{ask_file, invalid, limits};

/// Little memory, and the time that a slow machine needs to use it up.
fn little_memory() -> Limits {
    Limits { memory_bytes: 64 << 20, ..limits() }
}

/// Little to wait for.
fn little_time() -> Limits {
    Limits { timeout: Duration::from_secs(2), ..little_memory() }
}

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), null_input: true, ..Jq::default() })
}

fn sql(statement: &str) -> Question {
    Question::Sql(Sql { statement: statement.to_owned(), ..Sql::default() })
}

fn grep(pattern: &str) -> Question {
    Question::Grep(Grep { pattern: pattern.to_owned(), ..Grep::default() })
}

fn outcome(question: &Question, value: &[u8]) -> Result<Answer, Error> {
    ask_file(question, value, &little_memory())
}

#[track_caller]
fn check_memory(question: Question, value: &[u8]) {
    let outcome = outcome(&question, value);
    assert!(matches!(outcome, Err(Error::OutOfMemory)), "{question:?}: {outcome:?}");
}

#[track_caller]
fn check_time(question: Question, value: &[u8]) {
    let started = Instant::now();
    let outcome = ask_file(&question, value, &little_time());
    assert!(started.elapsed() < Duration::from_secs(10), "{question:?}: {:?}", started.elapsed());
    assert!(matches!(outcome, Err(Error::Timeout { .. })), "{question:?}: {outcome:?}");
}

#[track_caller]
fn check_invalid(question: Question, value: &[u8], expected: &str) {
    match outcome(&question, value) {
        Err(Error::Invalid { message }) => assert!(message.contains(expected), "{message}"),
        other => panic!("{question:?}: {other:?}"),
    }
}

#[test]
fn filters_that_take_all_memory() {
    check_memory(jq("[range(1e12)]"), b"");
    check_memory(jq("\"x\" * 1000000000"), b"");
    check_memory(jq("\"xx\" * 9223372036854775807"), b"");
    check_memory(jq("def f: . + .; [\"x\"] | until(false; f)"), b"");
    check_memory(jq("[limit(1e12; repeat(\"x\" * 100000))]"), b"");
}

#[test]
fn filters_without_end() {
    check_time(jq("def f: f; f"), b"");
    check_time(jq("last(range(1e12))"), b"");
    check_time(jq("until(false; .)"), b"");
}

#[test]
fn filters_that_recurse() {
    check_invalid(jq("def f: 1 + f; f"), b"", "recurses too deeply");
    check_invalid(
        jq("reduce range(3e5) as $i (0; [.]) | tojson | length"),
        b"",
        "recurses too deeply",
    );
}

#[test]
fn outputs_without_end_are_cut() {
    let answer = outcome(&jq("repeat(1)"), b"").expect("the first ones");
    assert_eq!(answer.more.expect("there are more").skip, answer.count);
    let answer = outcome(&jq("\"x\" * 1000000"), b"").expect("its beginning");
    assert_eq!((answer.text.len(), answer.notes.len()), (16 << 10, 1));
}

#[test]
fn patterns_of_exponential_size() {
    let expected = "size limit";
    check_invalid(grep("(((a{100}){100}){100}){100}"), b"a", expected);
    check_invalid(grep(r"\w{1000}{100}"), b"a", expected);
    let value = "a".repeat(100_000);
    assert_eq!(outcome(&grep("(a*)*(a*)*b"), value.as_bytes()).expect("no match").text, "");
    check_invalid(grep("("), b"a", "unclosed group");
    check_invalid(grep("a\nb"), b"a", "not allowed");
}

#[test]
fn statements_without_end() {
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    check_time(sql(&format!("{numbers} SELECT count(*) FROM n")), b"1");
    let cut = outcome(&sql(&format!("{numbers} SELECT i FROM n")), b"1").expect("the first ones");
    assert!(cut.more.is_some());
}

#[test]
fn statements_that_take_all_memory() {
    check_invalid(sql("SELECT randomblob(1000000000)"), b"1", "too big");
    check_invalid(sql("SELECT zeroblob(1000000000)"), b"1", "too big");
    // What SQLite makes of that itself.
    let answer = outcome(&sql("SELECT printf('%1000000000d', 1) AS p"), b"1").expect("nothing");
    assert_eq!(answer.text, "[{\"p\":null}]\n");
    let numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)";
    check_memory(sql(&format!("{numbers} SELECT randomblob(100000) FROM n ORDER BY 1")), b"1");
    let row = format!("{{\"a\":\"{}\"}}\n", "x".repeat(1 << 20));
    check_memory(sql("SELECT 1"), row.repeat(150).as_bytes());
}

#[test]
fn json_that_is_nested_deeply() {
    let filter = Jq { filter: ".".to_owned(), ..Jq::default() };
    let expected = "nested deeper than 1000 at byte 1000";
    for question in [Question::Jq(filter), sql("SELECT 1")] {
        check_invalid(question, "[".repeat(100_000).as_bytes(), "nested deeper than 1000");
    }
    let filter = Question::Jq(Jq { filter: ".".to_owned(), ..Jq::default() });
    check_invalid(filter, "[".repeat(100_000).as_bytes(), expected);
}

#[test]
fn questions_are_bounded() {
    let message = invalid(&jq(&" ".repeat(70_000)), b"");
    assert_eq!(message, "the filter has 70000 bytes, 65536 are allowed");
    let head = Question::Head(Head { lines: Some(1_001), bytes: None });
    assert_eq!(invalid(&head, b""), "a head has at most 1000 lines");
    let deep = format!("{}1{}", "(".repeat(30_000), ")".repeat(30_000));
    let outcome = outcome(&jq(&deep), b"");
    assert!(matches!(outcome, Ok(_) | Err(Error::Invalid { .. })), "{outcome:?}");
}

#[test]
fn one_line_of_100_mb() {
    let mut value = vec![b'x'; 100 << 20];
    let middle = value.len() / 2;
    value[middle..middle + 6].copy_from_slice(b"needle");
    let size = value.len();

    let limits = limits();
    let head = ask_file(&Question::Head(Head::default()), &value, &limits).expect("a head");
    assert_eq!(head.text, format!("{} …[{} more bytes]", "x".repeat(1_000), size - 1_000));

    let found = ask_file(&grep("needle"), &value, &limits).expect("a match");
    assert!(found.text.contains("xneedlex"), "{}", found.text);
    assert!(found.text.len() < 1_000);

    let slice = Question::Slice(Slice { offset: middle as u64, length: Some(6) });
    assert_eq!(ask_file(&slice, &value, &limits).expect("a slice").text, "needle");

    (value[0], value[size - 1]) = (b'"', b'"');
    let length = Question::Jq(Jq { filter: "length".to_owned(), ..Jq::default() });
    let answer = ask_file(&length, &value, &limits).expect("a length");
    assert_eq!(answer.text, format!("{}\n", size - 2));
}
