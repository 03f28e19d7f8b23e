use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::json;
use toolbus_models::message::{AssistantMessage, AssistantPart, CallArguments, ModelCall};

use super::*;

fn round(history: &mut History, id: usize, bytes: usize) {
    let call = ModelCall {
        id: format!("call-{id}"),
        name: "tool".to_owned(),
        arguments: CallArguments::Json { value: json!({}) },
        written: None,
    };
    history.push(Message::Assistant(AssistantMessage { parts: vec![AssistantPart::Call(call)] }));
    let results = vec![ToolResult::success(format!("call-{id}"), "ä".repeat(bytes / 2))];
    history.push(Message::Results { results });
}

/// The calls and the results, in order.
fn ids(history: &History) -> (Vec<String>, Vec<String>) {
    let (mut calls, mut results) = (Vec::new(), Vec::new());
    for message in history.messages() {
        match &**message {
            Message::Assistant(answer) => calls.extend(answer.calls().map(|call| call.id.clone())),
            Message::Results { results: all } => {
                results.extend(all.iter().map(|result| result.call_id.clone()));
            }
            Message::User { .. } => {}
        }
    }
    (calls, results)
}

fn length(history: &History) -> usize {
    let text = |message: &Arc<Message>| serde_json::to_string(&**message).unwrap().len();
    history.messages().iter().map(text).sum()
}

#[test]
fn the_largest_results_are_cut_first() {
    let mut history = History::default();
    history.begin_turn("first".to_owned());
    round(&mut history, 1, 10_000);
    round(&mut history, 2, 100_000);
    assert!(history.shorten());

    let text = |at: usize| match &*history.messages()[at] {
        Message::Results { results } => results[0].text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(2).len(), 10_000);
    assert_eq!(text(4), format!("{}{CUT}", "ä".repeat(CUT_RESULT_CHARACTERS)));
}

#[test]
fn the_oldest_turns_go_before_rounds_of_the_last() {
    let mut history = History::default();
    for turn in 0..4 {
        history.begin_turn(format!("turn {turn}"));
        round(&mut history, turn * 2, 10);
        round(&mut history, turn * 2 + 1, 10);
    }
    let said = |history: &History| -> Vec<String> {
        let texts = history.messages().iter().filter_map(|message| match &**message {
            Message::User { text } => Some(text.clone()),
            _ => None,
        });
        texts.collect()
    };

    assert!(history.shorten());
    assert_eq!(said(&history), [LEFT_OUT, "turn 2", "turn 3"]);
    assert!(history.shorten());
    assert_eq!(said(&history), [LEFT_OUT, "turn 3"]);
    assert_eq!(ids(&history).0, ["call-6", "call-7"]);
    assert!(history.shorten());
    assert_eq!(said(&history), [LEFT_OUT, "turn 3"], "what is asked stays");
    assert_eq!(ids(&history).0, ["call-7"]);
    assert!(!history.shorten(), "nothing can go");
}

fn outside(text: &str) -> OutsideText {
    OutsideText::new("agent B", text)
}

/// The task of a turn that no person began is the result of a call. It is never truncated or
/// dropped during the turn.
#[test]
fn the_task_of_a_turn_stays_as_its_words_do() {
    let nonce = Nonce::random();
    let mut history = History::default();
    let task = "x".repeat(5_000);
    history.begin_outside("[Do it.]", outside(&task), &nonce);
    for number in 0..3 {
        round(&mut history, number, 10);
    }
    while history.shorten() {}

    let fenced = match &*history.messages()[3] {
        Message::Results { results } => results[0].text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(*history.messages()[1], Message::user("[Do it.]"));
    assert!(fenced.contains(&task));
    let (calls, results) = ids(&history);
    assert_eq!((calls.len(), &calls), (2, &results));
}

#[test]
fn a_fence_stays_closed_when_its_text_is_cut() {
    let nonce = Nonce::random();
    let mut history = History::default();
    history.begin_turn("first".to_owned());
    history.push_outside(&[outside(&"x".repeat(50_000))], &nonce);
    assert!(history.shorten());
    let fenced = match &*history.messages()[2] {
        Message::Results { results } => results[0].text.clone(),
        other => panic!("{other:?}"),
    };
    assert!(fenced.ends_with(&format!("{CUT}\n<<end {}>>", nonce.as_str())), "{fenced}");
    assert_eq!(fenced.len(), CUT_RESULT_CHARACTERS + CUT.len());
    assert!(!history.shorten(), "it is not cut again");
}

proptest! {
    /// However often it is made shorter: it is, in the end nothing can go, and no call is without
    /// its result.
    #[test]
    fn calls_and_results_stay_together(
        turns in proptest::collection::vec(proptest::collection::vec(0_usize..30_000, 0..5), 1..8),
    ) {
        let mut history = History::default();
        let mut id = 0;
        for (number, rounds) in turns.iter().enumerate() {
            history.begin_turn(format!("turn {number}"));
            for bytes in rounds {
                round(&mut history, id, *bytes);
                id += 1;
            }
        }
        let last = format!("turn {}", turns.len() - 1);

        let mut steps = 0;
        loop {
            let before = length(&history);
            if !history.shorten() {
                break;
            }
            steps += 1;
            prop_assert!(steps < 100, "it comes to an end");
            prop_assert!(length(&history) < before + LEFT_OUT.len() + 100);
            let (calls, results) = ids(&history);
            prop_assert_eq!(&calls, &results);
            prop_assert_eq!(calls.iter().collect::<HashSet<_>>().len(), calls.len());
            let stays = history.messages().iter().any(|message| {
                matches!(&**message, Message::User { text } if *text == last)
            });
            prop_assert!(stays, "what is asked stays");
        }
    }
}
