//! What a model is told that neither a user nor a tool has said, line by line.

use serde_json::json;
use toolbus_agent::{Conversation, Effect, Event, TurnEnd, TurnLimits};
use toolbus_models::{
    AssistantMessage, AssistantPart, CallArguments, Completion, Message, ModelCall, StopReason,
    ToolResult,
};

use crate::support::{Answer, Bench, completion, scope};

fn call(id: &str) -> ModelCall {
    let arguments = CallArguments::Json { value: json!({}) };
    ModelCall { id: id.to_owned(), name: "look".to_owned(), arguments, written: None }
}

fn answered(calls: Vec<ModelCall>, stop: StopReason) -> Event {
    let parts = calls.into_iter().map(AssistantPart::Call).collect();
    let completion = Completion { message: AssistantMessage { parts }, stop, ..completion() };
    Event::Answered { completion }
}

/// A conversation in which a user has said something.
fn begun(limits: TurnLimits) -> Conversation {
    let mut session = Conversation::new(limits);
    session.apply(Event::said("hello")).expect("it is idle");
    session
}

/// What was said last, or the results that came last.
fn last_texts(session: &Conversation) -> Vec<String> {
    match &**session.messages().last().expect("something was said") {
        Message::User { text } => vec![text.clone()],
        Message::Results { results } => results.iter().map(|one| one.text.clone()).collect(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_call_that_fails_is_an_error_in_words() {
    let bench = Bench::sqlite();
    let calls = ["fail", "nothing", "no name", "stuck"];
    let calls = calls.into_iter().zip(["1", "2", "3", "4"]);
    bench.script.add([Answer::Calls(calls.map(|(tool, id)| (id, tool, json!({}))).collect())]);
    bench.say_in(&scope("session/a"), "hello").await;

    let asked = bench.script.asked.lock();
    let Message::Results { results } = &*asked[1].messages[2] else { panic!("{asked:?}") };
    let texts: Vec<_> = results.iter().map(|result| result.text.as_str()).collect();
    assert_eq!(texts[0], "Error: it broke\u{7} \u{0}");
    assert_eq!(texts[1], "Error: Tool 'nothing' is not registered.");
    assert_eq!(texts[2], "Error: Tool 'no name' is not registered.");
    assert_eq!(texts[3], "Error: tool 'stuck' did not end within 50 ms");
}

#[test]
fn a_result_that_is_cut_says_so() {
    let mut session = begun(TurnLimits::default());
    session.apply(answered(vec![call("a")], StopReason::ToolCalls)).expect("it is asked");
    let result = ToolResult::success("a", "x".repeat(100_000));
    session.apply(Event::CallEnded { result, timed_out: false }).expect("it is called");
    session.apply(Event::TooLong).expect("it is asked");
    let expected = "x".repeat(2_000) + "\n[truncated to fit context window]";
    assert_eq!(last_texts(&session), [expected]);
}

#[test]
fn what_was_left_out_is_told() {
    let mut session = begun(TurnLimits::default());
    let said = |text: &str| Event::said(text);
    for text in ["second", "third"] {
        session.apply(answered(Vec::new(), StopReason::End)).expect("it is asked");
        session.apply(said(text)).expect("it is idle");
    }
    session.apply(Event::TooLong).expect("it is asked");
    let Message::User { text } = &*session.messages()[0] else { panic!("{session:?}") };
    assert_eq!(text, "[Earlier messages were left out, because they no longer fit.]");
}

#[test]
fn a_turn_that_must_end_is_told_why() {
    let after = |limits: TurnLimits, timed_out: bool| {
        let mut session = begun(limits);
        session.apply(answered(vec![call("a")], StopReason::ToolCalls)).expect("it is asked");
        let result = ToolResult::success("a", "x");
        session.apply(Event::CallEnded { result, timed_out }).expect("it is called");
        last_texts(&session).remove(0)
    };
    let limits = TurnLimits { rounds_max: 1, timeout_rounds_max: 1, ..TurnLimits::default() };
    assert_eq!(
        after(limits, false),
        "[No more tools can be called in this turn. Answer with what you have, and say what is \
         missing.]"
    );
    assert_eq!(
        after(limits, true),
        "[Every call of the last rounds timed out, so no more tools can be called in this turn. \
         Say what did not answer, and what you know without it.]"
    );
}

#[test]
fn an_answer_that_was_cut_off_is_asked_for_its_rest() {
    let mut session = begun(TurnLimits::default());
    session.apply(answered(Vec::new(), StopReason::MaxTokens)).expect("it is asked");
    assert_eq!(
        last_texts(&session),
        ["[Your answer was cut off at its longest. Go on exactly where it stopped, without \
          repeating anything.]"]
    );
}

#[test]
fn calls_that_are_not_made_have_results_that_say_why() {
    let mut session = begun(TurnLimits { calls_max: 2, ..TurnLimits::default() });
    let (text, problem) = ("[".to_owned(), "it ends too soon".to_owned());
    let broken = ModelCall { arguments: CallArguments::NotJson { text, problem }, ..call("a") };
    let calls = vec![broken, call("b"), call("c")];
    session.apply(answered(calls, StopReason::ToolCalls)).expect("it is asked");
    let effects = session.apply(Event::Cancelled).expect("a turn is under way");
    assert_eq!(effects, [Effect::Stop, Effect::End(TurnEnd::Cancelled)]);
    assert_eq!(
        last_texts(&session),
        [
            "Error: not run: its arguments are no JSON object: it ends too soon",
            "Error: the turn was cancelled before the call ended; it may have had effects.",
            "Error: not run: an answer may make 2 calls at a time. Call again for this one.",
        ]
    );
}
