use std::sync::Arc;

use parking_lot::Mutex;
use toolbus_wire::message::Secret;

use super::*;

/// What becomes of an elicitation that is answered so, and the question as the caller saw it.
async fn elicited(params: Value, answer: Result<Value, AskErrorCode>) -> (Value, Option<Question>) {
    let seen = Arc::new(Mutex::new(None));
    let asked = Arc::clone(&seen);
    let asker = Asker::to(move |question| {
        *asked.lock() = Some(question);
        let answer = answer.clone().map_err(|code| AskError::new(code, "no"));
        async move { answer }
    });
    let eraser = Eraser::new([Secret::from("hunter2-hunter2".to_owned())]);
    let questions = CallerQuestions { server: "s", eraser: &eraser, asker: &asker, round: None };
    let result = serde_json::to_value(questions.elicit(params).await).unwrap();
    let question = seen.lock().take();
    (result, question)
}

#[tokio::test]
async fn what_nobody_decides_is_cancelled_and_what_somebody_decides_is_told() {
    let form = || json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let url = || json!({"mode": "url", "message": "m", "url": "https://x.example"});
    let check = async |params: Value, answer, expected: Value| {
        assert_eq!(elicited(params, answer).await.0, expected);
    };
    let accepted = json!({"action": "accept", "content": {"a": 1}});
    let (accept, decline, cancel) =
        (json!({"action": "accept"}), json!({"action": "decline"}), json!({"action": "cancel"}));
    check(form(), Ok(accepted.clone()), accepted.clone()).await;
    check(form(), Ok(decline.clone()), decline.clone()).await;
    check(form(), Ok(cancel.clone()), cancel.clone()).await;
    check(form(), Err(AskErrorCode::Unsupported), cancel.clone()).await;
    // An answer that is none is not passed on.
    check(form(), Ok(accept.clone()), cancel.clone()).await;
    check(form(), Ok(json!({"action": "accept", "content": "a"})), cancel.clone()).await;
    check(form(), Ok(json!({"action": "maybe"})), cancel.clone()).await;
    check(form(), Ok(json!("accept")), cancel).await;
    // Content goes along with a form that is accepted, and with nothing else.
    check(url(), Ok(accepted), accept).await;
    check(form(), Ok(json!({"action": "decline", "content": {"a": 1}})), decline).await;
}

#[tokio::test]
async fn a_question_says_who_asks_and_holds_no_secret() {
    let params = json!({
        "_meta": {"progressToken": 1},
        "message": "your key is hunter2-hunter2",
        "requestedSchema": {"properties": {"a": {"default": ["hunter2-hunter2"]}}},
    });
    let question = elicited(params, Err(AskErrorCode::Busy)).await.1.expect("asked");
    assert_eq!(question.from.as_deref(), Some("MCP server 's'"));
    assert_eq!(question.kind, AskKind::Elicitation);
    let expected = json!({
        "message": "your key is ***",
        "requestedSchema": {"properties": {"a": {"default": ["***"]}}},
    });
    assert_eq!(question.params, expected);
}

#[tokio::test]
async fn a_question_that_is_too_deep_is_not_asked() {
    let deep = (0..100).fold(json!("x"), |inner, _| json!([inner]));
    let (result, question) = elicited(json!({"message": deep}), Ok(json!({}))).await;
    assert_eq!((result, question), (json!({"action": "cancel"}), None));
}

#[tokio::test]
async fn a_completion_is_an_object_or_an_error_of_the_protocol() {
    let sampled = async |answer: Result<Value, AskError>| {
        let asker = Asker::to(move |question: Question| {
            assert_eq!(question.kind, AskKind::Sampling);
            let answer = answer.clone();
            async move { answer }
        });
        let eraser = Eraser::default();
        let questions =
            CallerQuestions { server: "s", eraser: &eraser, asker: &asker, round: None };
        questions.sample(json!({"messages": []})).await.map_err(|error| refusal_error(&error))
    };
    assert_eq!(sampled(Ok(json!({"model": "m"}))).await, Ok(json!({"model": "m"})));
    assert_eq!(sampled(Ok(json!("text"))).await.unwrap_err().code, REFUSED);
    let error = sampled(Err(AskError::new(AskErrorCode::Unsupported, "no model"))).await;
    let error = serde_json::to_value(error.unwrap_err()).unwrap();
    let expected = json!({"code": -1, "message": "no model", "data": {"code": "unsupported"}});
    assert_eq!(error, expected);
}
