//! Which call an answer ends that is too long or not understood.

use super::*;
use crate::eraser::Eraser;

fn check_cut(line: &str, expected: Option<RequestId>) {
    assert_eq!(
        CutLine::of(line.as_bytes()).answered_request(),
        expected,
        "{}",
        &line[..line.len().min(80)]
    );
}

#[test]
fn the_id_of_a_long_line_is_found_at_either_end() {
    let big = format!(r#"{{"content":[{{"id":5,"text":"{}"}}]}}"#, "x,".repeat(2_000));
    let seven = Some(RequestId::Number(7));
    check_cut(&format!(r#"{{"jsonrpc":"2.0","id":7,"result":{big}}}"#), seven.clone());
    check_cut(&format!(r#"{{"id" : 7 , "jsonrpc":"2.0" , "result":{big}}}"#), seven.clone());
    check_cut(&format!(r#"{{"result":{big},"jsonrpc":"2.0","id":7}}"#), seven.clone());
    check_cut(&format!(r#"{{"result":{big},"id":7,"jsonrpc":"2.0"}}"#), seven.clone());
    check_cut(&format!(r#"{{"jsonrpc":"2.0","result":{big},"id":7}}"#), seven);
    check_cut(&format!(r#"{{"id":"7","error":{big}}}"#), Some(RequestId::String("7".into())));
}

#[test]
fn a_long_line_that_answers_nobody() {
    let big = "x".repeat(5_000);
    check_cut(&big, None);
    check_cut(&format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"a":"{big}"}}}}"#), None);
    // The id is inside the result, which is not the message's.
    check_cut(&format!(r#"{{"jsonrpc":"2.0","result":{{"a":"{big}","id":5}}}}"#), None);
}

fn check(line: &str, expected: &str) {
    let shown = match parse_line(&WireState::new("s", Eraser::default()), line.as_bytes().to_vec())
    {
        ParsedLine::Message(_) => "message".to_owned(),
        ParsedLine::Answer(id, _) => format!("answer to {id}"),
        ParsedLine::Stray => "stray".to_owned(),
    };
    assert_eq!(shown, expected, "{line}");
}

#[test]
fn what_a_line_is() {
    check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "message");
    check("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\r", "message");
    check(r#"{"jsonrpc":"2.0","method":"notifications/whatever"}"#, "message");
    check(r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, "answer to 1");
    check(r#"{"id":"a","result":3}"#, "answer to a");
    check(r#"{"level":"info","msg":"started"}"#, "stray");
    check("started", "stray");
    check("", "stray");
    check("[1,2]", "stray");
    check("\u{1b}[32mready\u{1b}[0m", "stray");
    let deep = format!(r#"{{"jsonrpc":"2.0","id":4,"result":{}"#, "[".repeat(5_000));
    check(&deep, "answer to 4");
}
