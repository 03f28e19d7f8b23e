use rmcp::model::CallToolResult;
use toolbus_wire::message::toolbus::{AskKind, AskRound};

use super::*;

fn client(capabilities: Value) -> ClientCapabilities {
    serde_json::from_value(capabilities).unwrap()
}

fn everything() -> ClientCapabilities {
    client(json!({"elicitation": {}, "sampling": {}, "roots": {}}))
}

fn form() -> Value {
    json!({"message": "?", "requestedSchema": {"type": "object", "properties": {}}})
}

fn question(kind: AskKind, params: Value, round: Option<(&str, u32)>) -> Question {
    let round = round.map(|(key, size)| AskRound { key: key.to_owned(), size });
    Question { kind, from: None, params, round }
}

/// A call that puts rounds of questions and ends with everything that it was told.
fn begin_call(
    client: ClientCapabilities,
    early_answers: Value,
    rounds: Vec<Vec<Question>>,
) -> PendingCall {
    let early_answers = serde_json::from_value(early_answers).unwrap();
    PendingCall::begin(
        &SuspendedCalls::new(),
        client,
        early_answers,
        Progress::none(),
        NewCall {
            slot: Slot::none(),
            begin: |means: ClientLinks| -> BoxFuture<'static, CallOutcome> {
                Box::pin(async move {
                    let mut told = Vec::new();
                    for round in rounds {
                        let asked = round.into_iter().map(|question| means.asker.ask(question));
                        for answer in futures_util::future::join_all(asked).await {
                            told.push(answer.unwrap_or_else(|error| json!(error.code.as_str())));
                        }
                    }
                    Err(ErrorData::internal_error(Value::from(told).to_string(), None))
                })
            },
        },
    )
}

/// The methods that are asked, by their keys.
async fn asked(call: &mut PendingCall) -> Value {
    match call.next_event().await {
        PendingCallEvent::NeedsInput(asked) => {
            let asked = serde_json::to_value(asked).unwrap();
            let methods = asked.as_object().unwrap().iter();
            methods.map(|(key, request)| (key.clone(), request["method"].clone())).collect()
        }
        PendingCallEvent::Finished(ended) => panic!("it has ended: {ended:?}"),
    }
}

async fn ended(mut call: PendingCall) -> Value {
    match call.next_event().await {
        PendingCallEvent::Finished(Err(ended)) => serde_json::from_str(&ended.message).unwrap(),
        PendingCallEvent::Finished(Ok(reply)) => panic!("{reply:?}"),
        PendingCallEvent::NeedsInput(asked) => panic!("it asks {asked:?}"),
    }
}

fn responses(given: Value) -> InputResponses {
    serde_json::from_value(given).unwrap()
}

#[tokio::test]
async fn the_questions_of_a_round_are_put_together_and_rounds_follow_each_other() {
    let sample = json!({"messages": [], "maxTokens": 1});
    let first = vec![
        question(AskKind::Elicitation, form(), Some(("name", 3))),
        question(AskKind::Sampling, sample, Some(("greeting", 3))),
        question(AskKind::Roots, Value::Null, Some(("roots", 3))),
    ];
    let second = vec![question(AskKind::Elicitation, form(), Some(("name", 1)))];
    let mut call = begin_call(everything(), json!({}), vec![first, second]);
    let expected = json!({
        "name": "elicitation/create", "greeting": "sampling/createMessage", "roots": "roots/list",
    });
    assert_eq!(asked(&mut call).await, expected);
    let given = json!({"name": {"n": 1}, "greeting": {"n": 2}, "roots": {"n": 3}, "other": {}});
    call.take_answers(responses(given), everything());
    assert_eq!(asked(&mut call).await, json!({"name": "elicitation/create"}));
    call.take_answers(responses(json!({"name": {"n": 4}})), everything());
    assert_eq!(ended(call).await, json!([{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]));
}

#[tokio::test]
async fn what_is_not_answered_is_asked_again() {
    let round = ["a", "b"].map(|key| question(AskKind::Elicitation, form(), Some((key, 2))));
    let mut call = begin_call(everything(), json!({}), vec![round.into()]);
    asked(&mut call).await;
    call.take_answers(responses(json!({"b": {"n": 2}, "a": 12345, "c": {}})), everything());
    assert_eq!(asked(&mut call).await, json!({"a": "elicitation/create"}));
    call.take_answers(responses(json!({})), everything());
    assert_eq!(asked(&mut call).await, json!({"a": "elicitation/create"}));
    call.take_answers(responses(json!({"a": {"n": 1}})), everything());
    assert_eq!(ended(call).await, json!([{"n": 1}, {"n": 2}]));
}

#[tokio::test]
async fn what_a_client_cannot_answer_is_refused_and_the_rest_is_asked() {
    let sampling = client(json!({"sampling": {}}));
    let round = vec![
        question(AskKind::Elicitation, form(), Some(("name", 3))),
        question(AskKind::Sampling, json!({"messages": [], "maxTokens": 1}), Some(("text", 3))),
        // Nothing of the protocol has this form.
        question(AskKind::Sampling, json!({"messages": 1}), Some(("odd", 3))),
    ];
    let mut call = begin_call(sampling.clone(), json!({}), vec![round]);
    assert_eq!(asked(&mut call).await, json!({"text": "sampling/createMessage"}));
    call.take_answers(responses(json!({"text": {}})), sampling.clone());
    assert_eq!(ended(call).await, json!(["unsupported", {}, "unsupported"]));

    let refused = vec![question(AskKind::Roots, Value::Null, Some(("roots", 1)))];
    let alone = vec![question(AskKind::Sampling, json!({"messages": [], "maxTokens": 1}), None)];
    let mut call = begin_call(sampling.clone(), json!({}), vec![refused, alone.clone(), alone]);
    assert_eq!(asked(&mut call).await, json!({"question": "sampling/createMessage"}));
    call.refuse_questions(&AskError::new(AskErrorCode::Busy, "full"));
    assert_eq!(asked(&mut call).await, json!({"question": "sampling/createMessage"}));
    call.take_answers(responses(json!({"question": {}})), sampling);
    assert_eq!(ended(call).await, json!(["unsupported", "busy", {}]));
}

#[tokio::test]
async fn answers_that_come_first_are_taken_for_the_first_round_alone() {
    let one = || question(AskKind::Elicitation, form(), Some(("name", 1)));
    let early_answers = json!({"name": {"n": 1}, "other": {}});
    let call = begin_call(everything(), early_answers, vec![vec![one()]]);
    assert_eq!(ended(call).await, json!([{"n": 1}]));

    let mut call = begin_call(everything(), json!({"name": 12345}), vec![vec![one()], vec![one()]]);
    assert_eq!(asked(&mut call).await, json!({"name": "elicitation/create"}));
}

#[tokio::test(start_paused = true)]
async fn a_round_that_does_not_come_whole_is_not_waited_for() {
    let round = vec![question(AskKind::Elicitation, form(), Some(("a", 2)))];
    let mut call = begin_call(everything(), json!({}), vec![round]);
    let began = Instant::now();
    assert_eq!(asked(&mut call).await, json!({"a": "elicitation/create"}));
    assert_eq!(began.elapsed().as_secs(), ROUND_TIMEOUT.as_secs());
}

#[tokio::test]
async fn news_go_to_whoever_waits() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let hear = |who: &'static str| {
        let heard = Arc::clone(&heard);
        Progress::to(move |_| heard.lock().push(who.to_owned()))
    };
    let line = ProgressSwitch::default();
    let progress = line.progress();
    line.redirect_to(hear("first"));
    progress.send(ToolProgress::default());
    line.disconnect();
    progress.send(ToolProgress::default());
    line.redirect_to(hear("second"));
    progress.send(ToolProgress::default());
    assert_eq!(*heard.lock(), ["first", "second"]);
}

#[tokio::test]
async fn an_outcome_that_finds_no_room_is_told_as_unknown() {
    let (suspended, text) = (SuspendedCalls::new(), "x".repeat(100));
    let result = || {
        let block = rmcp::model::ContentBlock::text(text.clone());
        Ok(RawJson::of(&CallToolResult::success(vec![block])))
    };
    let (ended, room) = keep_within_room(&suspended, result());
    assert!(ended.is_ok() && room.is_some());
    drop(room);
    let _most = std::iter::from_fn(|| suspended.reserve_bytes(1 << 20)).collect::<Vec<_>>();
    let _rest = std::iter::from_fn(|| suspended.reserve_bytes(1)).collect::<Vec<_>>();
    let (ended, room) = keep_within_room(&suspended, result());
    assert!(ended.unwrap_err().message.starts_with("outcome_unknown: ") && room.is_none());
}
