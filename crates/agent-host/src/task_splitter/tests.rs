//! What a model is asked, and what is taken of its answers.

use serde_json::{Value, json};
use toolbus_testkit::scripted_server::{Reply, Server};

use super::*;

fn answer(text: &str) -> Reply {
    let chunk = |delta: Value, stop: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
        let chunk = json!({
            "id": "a", "object": "chat.completion.chunk", "created": 1, "model": "model-1",
            "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let events = [chunk(json!({"content": text}), None), chunk(json!({}), Some("stop"))];
    Reply::events(events.into_iter().chain(["data: [DONE]\n\n".to_owned()]))
}

fn splitter(url: &str) -> Arc<dyn SplitTask> {
    let endpoint = json!({
        "provider": "openai", "model": "model-1", "base_url": url, "api_key": "sk-hunter2",
    });
    let settings = json!({"endpoints": {"main": endpoint}, "retries": 0});
    let settings: ModelSettings = serde_json::from_value(settings).expect("they are settings");
    ModelSplitter::connect(&settings, None).expect("there is a model")
}

#[tokio::test]
async fn a_model_is_given_the_task_and_answers_its_steps() {
    toolbus_runtime::tls::install();
    let server =
        Server::start([answer("Here:\n```json\n[\"read the log\", \" open a ticket \"]\n```")]);
    let server = server.await;
    let steps = splitter(&server.url).split("Read the log, a ticket would be good").await;
    assert_eq!(steps, Some(vec!["read the log".to_owned(), "open a ticket".to_owned()]));

    let asked = server.only_request();
    assert_eq!(asked.path, "/v1/chat/completions");
    let messages = &asked.body["messages"];
    assert_eq!(messages.as_array().map(Vec::len), Some(4), "{messages}");
    assert_eq!(messages[1]["content"], SPLIT_IT);
    let task = messages[3]["content"].as_str().expect("a text");
    assert_eq!(task.lines().nth(1), Some("Read the log, a ticket would be good"), "{task}");
    assert!(asked.body.get("tools").is_none(), "{}", asked.body);
}

#[tokio::test]
async fn what_is_no_list_of_steps_is_none() {
    toolbus_runtime::tls::install();
    let failure = Reply::error(500, &json!({"error": {"message": "no"}}));
    let server = Server::start([answer("I cannot do that."), answer("[1, 2]"), failure]).await;
    let splitter = splitter(&server.url);
    for _ in 0..3 {
        assert_eq!(splitter.split("a task").await, None);
    }
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn answers_are_bounded() {
    assert_eq!(read_steps("[]"), Some(vec![]));
    assert_eq!(read_steps("] ["), None);
    let long = format!("[\"{}\"]", "x".repeat(ANSWER_BYTES_MAX));
    assert_eq!(read_steps(&long), None);
}
