//! Questions at a keyboard that a test types at.

use std::sync::mpsc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;

use super::*;

/// Long enough for a line that was typed to be read.
const READ_TIMEOUT: Duration = Duration::from_millis(300);

struct FakeKeyboard(Mutex<mpsc::Receiver<String>>);

impl LineSource for FakeKeyboard {
    fn read_line(&self) -> std::io::Result<String> {
        Ok(self.0.lock().recv().unwrap_or_default())
    }

    fn discard_typed(&self) {
        if let Some(lines) = self.0.try_lock() {
            while lines.try_recv().is_ok() {}
        }
    }
}

fn person() -> (Person, mpsc::SyncSender<String>) {
    let (typed, lines) = mpsc::sync_channel(8);
    (Person::at(FakeKeyboard(Mutex::new(lines))), typed)
}

fn question(message: &str) -> Question {
    Question {
        kind: AskKind::Elicitation,
        from: Some("a server".to_owned()),
        params: json!({"message": message, "requestedSchema": {"type": "object", "properties": {}}}),
        round: None,
    }
}

fn type_line(typed: &mpsc::SyncSender<String>, line: &str) {
    typed.send(format!("{line}\n")).expect("somebody reads");
}

#[tokio::test]
async fn what_was_typed_for_a_withdrawn_question_does_not_answer_the_next() {
    let (person, typed) = person();

    let first = timeout(READ_TIMEOUT, person.answer_question(question("Continue?"))).await;
    assert!(first.is_err(), "nobody has typed");
    type_line(&typed, "y");

    let mut second = Box::pin(person.answer_question(question("Delete all?")));
    assert!(timeout(READ_TIMEOUT, &mut second).await.is_err(), "the old line answered");
    type_line(&typed, "n");
    assert_eq!(second.await.expect("an answer"), json!({"action": "decline"}));
}

#[tokio::test]
async fn what_is_typed_while_the_read_still_waits_only_shows_the_next_question() {
    let (person, typed) = person();

    assert!(timeout(READ_TIMEOUT, person.answer_question(question("Continue?"))).await.is_err());
    let mut second = Box::pin(person.answer_question(question("Delete all?")));
    assert!(timeout(READ_TIMEOUT, &mut second).await.is_err(), "the read of the first waits");
    type_line(&typed, "y");
    assert!(timeout(READ_TIMEOUT, &mut second).await.is_err(), "that line was for the first");
    type_line(&typed, "y");
    let agreed = second.await.expect("an answer");
    assert_eq!(agreed["action"], "accept");
}

#[tokio::test]
async fn what_was_typed_ahead_of_any_question_answers_none() {
    let (person, typed) = person();

    type_line(&typed, "y");
    let mut asked = Box::pin(person.answer_question(question("Delete all?")));
    assert!(timeout(READ_TIMEOUT, &mut asked).await.is_err());
    type_line(&typed, "y");
    assert_eq!(asked.await.expect("an answer")["action"], "accept");
}

/// What a person types of an approval, and what that means.
#[tokio::test]
async fn only_a_clear_yes_approves_a_call() {
    for (lines, expected) in [
        (&["y"][..], json!({"action": "approve", "remember": "once"})),
        (&["Y"], json!({"action": "approve", "remember": "once"})),
        (&["s"], json!({"action": "approve", "remember": "session"})),
        (&["t"], json!({"action": "approve", "remember": "tool"})),
        (&["a"], json!({"action": "approve", "remember": "arguments"})),
        (&["o"], json!({"action": "approve", "remember": "once"})),
        (&[""], json!({"action": "deny"})),
        (&["n"], json!({"action": "deny"})),
        (&["yess"], json!({"action": "deny"})),
        (&["e", "[]", r#"{"a": 1}"#], json!({"action": "modify", "modifiedArguments": {"a": 1}})),
        (&["e", ""], json!({"action": "deny"})),
    ] {
        let (person, typed) = person();
        let params = json!({"subject": "test/pay", "arguments": {"a": 2}});
        let question = Question { kind: AskKind::Approval, params, ..question("") };
        let mut asked = Box::pin(person.answer_question(question));
        for line in lines {
            assert!(timeout(READ_TIMEOUT / 6, &mut asked).await.is_err(), "{lines:?}");
            type_line(&typed, line);
        }
        assert_eq!(asked.await.expect("an answer"), expected, "{lines:?}");
    }
}

/// A plain yes covers the tool where the question says so, and the person can choose less.
#[tokio::test]
async fn a_yes_covers_the_tool_where_the_question_says_so() {
    for (line, expected) in [
        ("y", json!({"action": "approve", "remember": "tool"})),
        ("o", json!({"action": "approve", "remember": "once"})),
        ("s", json!({"action": "approve", "remember": "session"})),
        ("", json!({"action": "deny"})),
    ] {
        let (person, typed) = person();
        let params = json!({"subject": "test/pay", "arguments": {}, "remember": "tool"});
        let question = Question { kind: AskKind::Approval, params, ..question("") };
        let mut asked = Box::pin(person.answer_question(question));
        assert!(timeout(READ_TIMEOUT / 6, &mut asked).await.is_err(), "{line:?}");
        type_line(&typed, line);
        assert_eq!(asked.await.expect("an answer"), expected, "{line:?}");
    }
}
