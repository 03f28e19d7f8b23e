//! Calls in text, over an API that knows of no tools.

use serde_json::json;
use toolbus_models::{CallArguments, ErrorKind, Message, ModelEvent, StopReason, ToolResult};

use crate::support::{DONE, ask, chunk, model, request, with, with_tools};
use toolbus_testkit::scripted_server::{Part, Reply, Server};

#[tokio::test]
async fn a_session_of_calls_in_text() {
    let pieces = [
        "I lo",
        "ok.\n``",
        "`tool_call\n{\"name\": \"mail.send\", \"argu",
        "ments\": {\"q\": 1}}\n",
        "```\n",
    ];
    let first = pieces.map(|piece| chunk(&json!({"content": piece}), None));
    let end = [chunk(&json!({}), Some("stop")), DONE.to_owned()];
    let second = [chunk(&json!({"content": "Done."}), None)];
    let server = Server::start([
        Reply::events(first.iter().chain(&end)),
        Reply::events(second.iter().chain(&end)),
    ])
    .await;
    let model = model("openai", &server.url, &json!({"calls": "text"}));
    let request = with_tools(request("Hi"));
    let told = ask(model.as_ref(), &request).await;
    assert_eq!(told.text(), "I look.\n");
    let begun = ModelEvent::CallBegun { id: "call_1".into(), name: "mail.send".into() };
    assert_eq!(told.events.last(), Some(&begun));

    let answer = told.completion();
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let calls: Vec<_> = answer.calls().collect();
    assert_eq!(calls[0].id, "call_1");
    assert_eq!(calls[0].arguments, CallArguments::Json { value: json!({"q": 1}) });

    let results = vec![ToolResult::success("call_1", "sent ```` it")];
    let again = with(request, [Message::Assistant(answer.message), Message::Results { results }]);
    assert_eq!(ask(model.as_ref(), &again).await.completion().text(), "Done.");

    let asked = server.asked();
    let body = &asked[1].body;
    assert_eq!(body.get("tools"), None);
    let system = body["messages"][0]["content"].as_str().expect("it is text");
    assert!(system.starts_with("You help.\n\n# Tools"), "{system}");
    assert!(system.contains("## mail.send") && !system.contains("## rarely"), "{system}");
    assert_eq!(
        body["messages"][2]["content"],
        "I look.\n```tool_call\n{\"name\":\"mail.send\",\"arguments\":{\"q\":1}}\n```\n"
    );
    assert_eq!(body["messages"][3]["role"], "user");
    let results = body["messages"][3]["content"].as_str().expect("it is text");
    let lines: Vec<&str> = results.lines().collect();
    let mark = lines[0].strip_prefix("Results of your calls, marked ").expect("a mark");
    let mark = mark.trim_end_matches(':');
    let begin = format!("<<outside {mark} from=\"mail.send\">>");
    let end = format!("<<end {mark}>>");
    assert_eq!(
        lines[1..],
        ["", "Result of call_1 (mail.send):", &*begin, "sent ```` it", &*end],
        "{results}"
    );
    // What repeats is the same.
    assert_eq!(asked[0].body["messages"][0], body["messages"][0]);
}

#[tokio::test]
async fn a_block_that_breaks_off_is_no_call() {
    let pieces = ["I look.\n", "```tool_call\n{\"name\": \"search\"}\n```\n", "```tool_call\n{"];
    let pieces = pieces.map(|piece| chunk(&json!({"content": piece}), None));
    let server = Server::start([Reply::events(pieces).then(Part::Break)]).await;
    let model = model("openai", &server.url, &json!({"calls": "text"}));
    let told = ask(model.as_ref(), &with_tools(request("Hi"))).await;
    let begun = ModelEvent::CallBegun { id: "call_1".into(), name: "search".into() };
    assert_eq!(told.events.last(), Some(&begun));

    let error = told.error();
    assert!(matches!(error.kind, ErrorKind::BrokenStream { .. }), "{error:?}");
    let partial = error.partial.expect("there is some of it");
    assert_eq!(partial.text(), "I look.\n");
    assert_eq!(partial.calls().count(), 1);
}
