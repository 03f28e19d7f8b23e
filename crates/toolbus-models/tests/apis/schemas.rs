//! What is sent and streamed here, by the types that the vendors publish.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_models::{
    AssistantMessage, AssistantPart, CallArguments, Message, ModelCall, ModelRequest,
    OpaqueReasoning, Reasoning, ReasoningForm, ToolResult,
};

use crate::support::{
    ask, block, chunk, message_end, message_start, model, request, usage_chunk, with, with_tools,
};
use toolbus_testkit::scripted_server::Server;

const CHECK: &str = include_str!("check_requests.py");

/// What is wrong with these values, by the vendors' types. `None` where those are not there.
fn complaints(values: &[(&str, Value)]) -> Option<Vec<String>> {
    let mut command = toolbus_testkit::model_sdks::python()?;
    let command = command.args(["-c", CHECK]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut python = command.spawn().expect("Python starts");
    let mut input = python.stdin.take().expect("it is piped");
    let lines = values.iter().map(|(kind, value)| json!({"kind": kind, "value": value}));
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    // It reads all before it has much to say.
    input.write_all(lines.as_bytes()).expect("Python reads");
    drop(input);

    let output = python.wait_with_output().expect("Python ends");
    let mut said: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
    assert_eq!(said.pop(), Some(format!("checked {}", values.len())), "{said:?}");
    Some(said)
}

fn call(id: &str, name: &str, arguments: CallArguments) -> AssistantPart {
    AssistantPart::Call(ModelCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments,
        written: None,
    })
}

fn text(text: &str) -> AssistantPart {
    AssistantPart::Text { text: text.to_owned() }
}

fn reasoning(form: ReasoningForm, value: Value) -> AssistantPart {
    let opaque = OpaqueReasoning { form, model: "model-1".to_owned(), value };
    AssistantPart::Reasoning(Reasoning { text: "Hm.".to_owned(), opaque: Some(opaque) })
}

fn answer(parts: Vec<AssistantPart>) -> Message {
    Message::Assistant(AssistantMessage { parts })
}

fn results(results: Vec<ToolResult>) -> Message {
    Message::Results { results }
}

/// A session with everything in it that is hard to send.
fn session() -> Vec<Message> {
    let q = || CallArguments::Json { value: json!({"q": "x"}) };
    let broken = || CallArguments::NotJson { text: "{\"q\"".to_owned(), problem: "cut".to_owned() };
    vec![
        answer(vec![
            reasoning(
                ReasoningForm::AnthropicBlock,
                json!({"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}),
            ),
            reasoning(
                ReasoningForm::AnthropicBlock,
                json!({"type": "redacted_thinking", "data": "AAAA"}),
            ),
            text("I look."),
            call("same", "search", q()),
            call("ill:egal/id", "mail.send", broken()),
        ]),
        results(vec![
            ToolResult::success("same", ""),
            ToolResult::failure("ill:egal/id", "Error: they were cut off"),
        ]),
        answer(vec![call("same", "gone.tool", q())]),
        results(vec![ToolResult::success("same", "found \u{FFFD} it")]),
        answer(vec![text("Done.")]),
        Message::user(""),
        answer(Vec::new()),
        answer(vec![text("\n"), reasoning(ReasoningForm::OpenRouterDetails, json!([]))]),
        Message::user("And now?"),
    ]
}

fn requests() -> Vec<ModelRequest> {
    let keyed = ModelRequest { session_key: Some("session/a".into()), ..request("Hi") };
    let full = ModelRequest {
        output_tokens_max: Some(100),
        temperature: Some(1.5),
        ..with(with_tools(keyed.clone()), session())
    };
    let found = with_tools(request("Hi"));
    let found_tools = toolbus_models::ToolList::new(found.tools.tools().to_vec());
    let found_tools = Arc::new(found_tools.with_found(vec!["rarely".to_owned()]));
    vec![
        request("Hi"),
        ModelRequest { system: "".into(), ..request("Hi") },
        keyed,
        with_tools(request("Hi")),
        ModelRequest { tools: found_tools, ..found },
        with(request("Hi"), session()),
        full,
    ]
}

/// What this provider is sent of each request, with each of these settings.
async fn bodies(provider: &str, settings: &[Value]) -> Vec<Value> {
    let server = Server::start([]).await;
    for settings in settings {
        let model = model(provider, &server.url, settings);
        for request in requests() {
            ask(model.as_ref(), &request).await.error();
        }
    }
    let bodies: Vec<Value> = server.asked().into_iter().map(|asked| asked.body).collect();
    assert_eq!(bodies.len(), settings.len() * requests().len());
    bodies
}

#[tokio::test]
async fn requests_are_what_the_vendors_clients_would_send() {
    let settings = [json!({}), json!({"reasoning_effort": "high", "output_tokens_max": 50})];
    let mut sent = Vec::new();
    for body in bodies("openai", &settings).await {
        sent.push(("openai", body));
    }
    for body in bodies("anthropic", &settings).await {
        sent.push(("anthropic", body));
    }
    for mut body in bodies("openrouter", &settings).await {
        // What OpenRouter's published description has besides.
        let members = body.as_object_mut().expect("it is an object");
        members.remove("session_id");
        members.remove("cache_control");
        let messages = members["messages"].as_array_mut().expect("it is a list");
        for message in messages {
            message.as_object_mut().expect("it is an object").remove("reasoning_details");
        }
        sent.push(("openai", body));
    }

    let Some(complaints) = complaints(&sent) else { return };
    assert!(complaints.is_empty(), "{} of {}: {complaints:#?}", complaints.len(), sent.len());
}

/// The scripted server streams what the vendors' servers would.
#[test]
fn events_of_the_scripted_server_are_what_vendors_stream() {
    let call = json!({"index": 0, "id": "c", "type": "function",
        "function": {"name": "search", "arguments": ""}});
    let openai = [
        chunk(&json!({"role": "assistant", "content": ""}), None),
        chunk(&json!({"content": "Hi"}), None),
        chunk(&json!({"tool_calls": [call]}), None),
        chunk(&json!({}), Some("tool_calls")),
        usage_chunk(&json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3})),
    ];
    let anthropic = [
        vec![message_start()],
        block(
            0,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
            &[
                json!({"type": "thinking_delta", "thinking": "Hm."}),
                json!({"type": "signature_delta", "signature": "c2ln"}),
            ],
        ),
        block(
            1,
            &json!({"type": "text", "text": ""}),
            &[json!({"type": "text_delta", "text": "Hi"})],
        ),
        block(
            2,
            &json!({"type": "tool_use", "id": "t", "name": "search", "input": {}}),
            &[json!({"type": "input_json_delta", "partial_json": "{}"})],
        ),
        vec![message_end("tool_use")],
    ];

    let read = |kind: &'static str, events: &str| -> Vec<(&'static str, Value)> {
        let lines = events.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.map(|data| (kind, serde_json::from_str(data).expect("it is JSON"))).collect()
    };
    let mut streamed = read("openai_event", &openai.concat());
    streamed.extend(read("anthropic_event", &anthropic.concat().concat()));
    let Some(complaints) = complaints(&streamed) else { return };
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// A check that finds nothing wrong with anything would be none.
#[tokio::test]
async fn what_vendors_do_not_take_is_found() {
    let server = Server::start([]).await;
    let session = with(with_tools(request("Hi")), session());
    ask(model("openai", &server.url, &json!({})).as_ref(), &session).await.error();
    ask(model("anthropic", &server.url, &json!({})).as_ref(), &session).await.error();
    let asked = server.asked();
    let break_one = |at: usize, pointer: &str, value: Value| {
        let mut body = asked[at].body.clone();
        *body.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is there")) = value;
        (["openai", "anthropic"][at], body)
    };
    let broken = [
        break_one(0, "/messages/2/tool_calls/0/function/arguments", json!({"q": "x"})),
        break_one(0, "/messages/2/tool_calls/0/type", json!("tool")),
        break_one(0, "/messages/2/tool_calls/0/id", json!("else")),
        break_one(0, "/messages/3", json!({"role": "tool", "content": "x"})),
        break_one(0, "/stream_options", json!({"usage": true})),
        break_one(0, "/stream", json!(false)),
        break_one(1, "/messages/1/content/0", json!({"type": "thinking", "thinking": "x"})),
        break_one(1, "/messages/1/content/3/input", json!("{}")),
        break_one(1, "/messages/2/content/0/tool_use_id", json!("else")),
        break_one(1, "/messages/0/content/0/text", json!(" ")),
        break_one(1, "/tools/1/cache_control", json!({"type": "eternal"})),
        break_one(1, "/max_tokens", json!("many")),
    ];
    let Some(found) = complaints(&broken) else { return };
    assert_eq!(found.len(), broken.len(), "{found:#?}");
    let good = [("openai", asked[0].body.clone()), ("anthropic", asked[1].body.clone())];
    assert_eq!(complaints(&good), Some(Vec::new()));
}
