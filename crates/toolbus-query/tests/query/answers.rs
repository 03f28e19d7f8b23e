//! Each question on small values, of a file and of a stream.

use super::support::{answer, invalid};
use toolbus_query::Question;
use toolbus_query::question::{Grep, Head, Jq, Lines, Slice};

#[track_caller]
fn check_head(lines: u32, value: impl AsRef<[u8]>, expected: &str) {
    let question = Question::Head(Head { lines: Some(lines), bytes: None });
    assert_eq!(answer(&question, value.as_ref()).text, expected);
}

#[track_caller]
fn check_grep(grep: Grep, value: &[u8], expected: &str) {
    assert_eq!(answer(&Question::Grep(grep), value).text, expected);
}

fn grep(pattern: &str) -> Grep {
    Grep { pattern: pattern.to_owned(), ..Grep::default() }
}

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), ..Jq::default() })
}

#[track_caller]
fn check_jq(filter: &str, value: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(answer(&jq(filter), value.as_ref()).text, expected, "{filter}");
}

#[track_caller]
fn check_invalid(question: &Question, value: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(invalid(question, value.as_ref()), expected);
}

#[test]
fn head_shows_the_first_lines() {
    check_head(2, "one\ntwo\nthree\n", "one\ntwo\n");
    check_head(3, "one\ntwo\nthree", "one\ntwo\nthree");
    check_head(1, "", "");
    check_head(2, "a\r\nb\r\n", "a\nb\n");
    check_head(1, b"caf\xe9\nx\n", "caf\u{FFFD}\n");
}

#[test]
fn head_says_where_to_go_on() {
    let question = Question::Head(Head { lines: Some(2), bytes: None });
    let more = answer(&question, b"one\ntwo\nthree\n").more.expect("there is more");
    assert_eq!((more.next_line, more.next_offset), (Some(3), Some(8)));
    assert_eq!(answer(&question, b"one\ntwo\n").more, None);
}

#[test]
fn head_cuts_long_lines() {
    let value = format!("{}\nnext\n", "é".repeat(5_000));
    let shown = answer(&Question::Head(Head::default()), value.as_bytes());
    assert_eq!(shown.text, format!("{} …[9000 more bytes]\nnext\n", "é".repeat(500)));
    assert_eq!(shown.notes, ["1 lines were cut at 1000 bytes"]);
}

#[test]
fn head_describes_binary_content() {
    let shown = answer(&Question::Head(Head::default()), b"\x89PNG\r\n\0\0");
    let expected = "binary, unknown type, 8 bytes; it begins with\n\
                    00000000  89 50 4e 47 0d 0a 00 00\n";
    assert_eq!(shown.text, expected);
}

#[test]
fn slices_are_exact() {
    let slice = |offset, length| Question::Slice(Slice { offset, length: Some(length) });
    let shown = answer(&slice(1, 3), "aé€z".as_bytes());
    assert_eq!(shown.text, "é");
    let range = shown.range.expect("an exact part");
    assert_eq!((range.start, range.end), (1, 3));
    assert_eq!(shown.more.expect("there is more").next_offset, Some(3));

    assert_eq!(answer(&slice(2, 1), "aé€z".as_bytes()).text, "qQ==");
    assert_eq!(answer(&slice(0, 9), b"a\0b").text, "a\0b");
    check_invalid(&slice(4, 1), "abc", "the value has 3 bytes, and none at offset 4");
}

#[test]
fn lines_are_exact() {
    let lines = |from_line, lines| Question::Lines(Lines { from_line, lines: Some(lines) });
    let value = b"one\r\ntwo\nthree";
    let shown = answer(&lines(1, 2), value);
    assert_eq!((shown.text.as_str(), shown.count), ("one\r\ntwo\n", Some(2)));
    let more = shown.more.expect("there is more");
    assert_eq!((more.next_line, more.next_offset), (Some(3), Some(9)));

    let last = answer(&lines(3, 2), value);
    assert_eq!((last.text.as_str(), last.count, last.more), ("three", Some(1), None));
    check_invalid(&lines(4, 1), value, "the value has 3 lines, and no line 4");
    check_invalid(&lines(1, 1), "", "the value has 0 lines, and no line 1");
}

#[test]
fn grep_prints_like_ripgrep() {
    let value = b"one\ntwo\nthree\nfour\nfive\nsix\nseven\n";
    check_grep(grep("t[wh]"), value, "2:two\n3:three\n");
    check_grep(
        Grep { before: 1, after: 1, ..grep("^(two|six)$") },
        value,
        "1-one\n2:two\n3-three\n--\n5-five\n6:six\n7-seven\n",
    );
    check_grep(Grep { invert: true, ..grep("e") }, value, "2:two\n4:four\n6:six\n");
    check_grep(Grep { count: true, ..grep("e") }, value, "4\n");
    check_grep(Grep { ignore_case: true, ..grep("ONE") }, value, "1:one\n");
    check_grep(Grep { fixed: true, ..grep("o.e") }, value, "");
    check_grep(Grep { max_matches: 1, skip: 1, ..grep("e") }, value, "3:three\n");
    check_grep(grep("b$"), b"ab\nb\r\n", "1:ab\n");
}

#[test]
fn grep_says_that_there_is_more() {
    let question = Question::Grep(Grep { max_matches: 2, skip: 1, ..grep("e") });
    let more = answer(&question, b"e\ne\ne\ne\n").more.expect("there is more");
    assert_eq!(more.skip, Some(3));
    assert_eq!(answer(&question, b"e\ne\ne\n").more, None);
}

#[test]
fn grep_cuts_lines_around_their_match() {
    let value = format!("{}needle{}\n", "é".repeat(1_000), "x".repeat(1_000));
    let shown = answer(&Question::Grep(grep("needle")), value.as_bytes());
    let expected =
        format!("1:[1850 bytes]… {}needle{} …[656 bytes]\n", "é".repeat(75), "x".repeat(344));
    assert_eq!(shown.text, expected);
}

#[test]
fn grep_says_that_a_value_is_binary() {
    let shown = answer(&Question::Grep(grep("needle")), b"\0\0\nneedle\n");
    assert_eq!(shown.text, "");
    assert!(shown.notes[0].starts_with("the value is binary"), "{shown:?}");
}

#[test]
fn jq_runs_on_each_value() {
    check_jq(".a", "{\"a\":1}\n{\"a\":2} {\"a\":[3]}", "1\n2\n[3]\n");
    check_jq("[., input]", "1 2 3 4", "[1,2]\n[3,4]\n");
    check_jq("[inputs]", "1 2 3", "[2,3]\n");
    check_jq(".", "", "");
    check_jq(
        "@csv, @tsv",
        r#"["a\"b", 1, null, "c\td"]"#,
        "\"\\\"a\\\"\\\"b\\\",1,,\\\"c\\td\\\"\"\n\"a\\\"b\\t1\\t\\tc\\\\td\"\n",
    );
    check_jq("now > 0", "null", "true\n");
    check_jq(".a | IN(1, 2)", r#"{"a":1} {"a":3}"#, "true\nfalse\n");
    check_jq("INDEX(.a)", r#"[{"a":1},{"a":"x"}]"#, "{\"1\":{\"a\":1},\"x\":{\"a\":\"x\"}}\n");
    check_jq("[leaf_paths], toarray", r#"[{"a":1}]"#, "[[0,\"a\"]]\n[{\"a\":1}]\n");
    check_jq("trimstr(\"x\"), (65 | ascii)", "\"xax\"", "\"a\"\n\"A\"\n");
    let streamed =
        "[[\"a\",0],1]\n[[\"a\",1,\"b\"],2]\n[[\"a\",1,\"b\"]]\n[[\"a\",1]]\n[[\"a\"]]\n";
    check_jq("tostream", r#"{"a":[1,{"b":2}]}"#, streamed);
    check_jq("tostream", "1 []", "[[],1]\n[[],[]]\n");
}

#[test]
fn jq_has_its_options() {
    let raw = Jq { filter: ".".to_owned(), raw: true, ..Jq::default() };
    assert_eq!(answer(&Question::Jq(raw), br#""a\nb""#).text, "a\nb\n");
    let slurp = Jq { filter: "add".to_owned(), slurp: true, ..Jq::default() };
    assert_eq!(answer(&Question::Jq(slurp), b"1 2 3").text, "6\n");
    let null = Jq { filter: "[., inputs]".to_owned(), null_input: true, ..Jq::default() };
    assert_eq!(answer(&Question::Jq(null), b"1 2").text, "[null,1,2]\n");
    let skip = Jq { filter: ".[]".to_owned(), skip: 2, ..Jq::default() };
    assert_eq!(answer(&Question::Jq(skip), b"[1] [2,3]").text, "3\n");
}

#[test]
fn jq_keeps_numbers_and_the_last_of_duplicate_keys() {
    let value = "[12345678901234567890123, 9007199254740993, 1.10, 1e1000, -7]";
    check_jq(".[]", value, "12345678901234567890123\n9007199254740993\n1.10\n1e1000\n-7\n");
    check_jq(".", r#"{"a":1,"b":2,"a":3}"#, "{\"a\":3,\"b\":2}\n");
    check_jq(".", r#""\ud83d\ude00\ud83d\u0041""#, "\"😀\u{FFFD}A\"\n");
}

#[test]
fn jq_says_where_a_filter_is_wrong() {
    check_invalid(&jq(".a | ]"), "1", "the filter, character 6: expected token at `]`");
    check_invalid(
        &jq(".a | foo(1)"),
        "1",
        "the filter, character 6: there is no filter foo/1 at `foo(1)`",
    );
    check_invalid(&jq("env"), "1", "the filter, character 1: there is no filter env/0 at `env`");
    check_invalid(&jq("$ENV"), "1", "the filter, character 1: there is no variable $ENV at `$ENV`");
    check_invalid(
        &jq("input_filename"),
        "1",
        "the filter, character 1: there is no filter input_filename/0 at `input_filename`",
    );
    check_invalid(
        &jq("import \"a\" as a; 1"),
        "1",
        "the filter, character 9: module loading not supported at `a\" as a; 1`",
    );
}

#[test]
fn jq_says_which_value_failed() {
    check_invalid(&jq(".a"), "1", "value 1: cannot index 1 with \"a\"");
    let shown = answer(&jq(".a"), b"{\"a\":1} 2 {\"a\":3}");
    assert_eq!(shown.text, "1\n3\n");
    assert_eq!(
        shown.notes,
        ["1 values failed, the first one is value 2: cannot index 2 with \"a\""]
    );
}

#[test]
fn jq_says_where_a_value_is_no_json() {
    check_invalid(&jq("."), "{\"a\": tru}", "not JSON: a value is expected at byte 6");
    check_invalid(&jq("."), "[1, 2", "not JSON: it ends at byte 5, in the middle of a value");
    let shown = answer(&jq("."), b"1 2 x");
    assert_eq!((shown.text.as_str(), shown.notes.len()), ("1\n2\n", 1));
}

#[test]
fn an_empty_value_has_empty_answers() {
    for question in [
        Question::Head(Head::default()),
        Question::Slice(Slice::default()),
        Question::Grep(grep("a")),
        jq("."),
    ] {
        let shown = answer(&question, b"");
        assert_eq!((shown.text.as_str(), shown.more), ("", None), "{question:?}");
    }
}

#[test]
fn values_are_read_over_pieces() {
    let value: String = (0..300_000).map(|at| format!("{{\"a\":{at}}}\n")).collect();
    let sum = Jq {
        filter: "reduce inputs.a as $a (0; . + $a)".to_owned(),
        null_input: true,
        ..Jq::default()
    };
    assert_eq!(answer(&Question::Jq(sum), value.as_bytes()).text, "44999850000\n");

    let large = format!("1 [{}1] 2", "\"x\", ".repeat(1_000_000));
    check_jq("length", large, "1\n1000001\n2\n");
}

#[test]
fn nul_bytes_and_other_bytes_in_json() {
    check_jq(".", b"\"a\0b\"", "\"a\\u0000b\"\n");
    let shown = answer(&jq("."), b"\"\xff\"");
    assert_eq!(shown.text, "\"\u{FFFD}\"\n");
    assert_eq!(shown.notes, ["bytes that are not UTF-8 are shown as U+FFFD"]);
}

#[test]
fn questions_are_read_from_json() {
    let read = |text: &str| serde_json::from_str::<Question>(text);
    let question = read(r#"{"kind":"grep","pattern":"a","ignore_case":true}"#).expect("a question");
    assert_eq!(question, Question::Grep(Grep { ignore_case: true, ..grep("a") }));
    assert!(read(r#"{"kind":"grep","patern":"a"}"#).is_err());
    assert!(read(r#"{"kind":"rm"}"#).is_err());
}
