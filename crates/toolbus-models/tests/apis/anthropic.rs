//! Anthropic's messages.

use serde_json::{Value, json};
use toolbus_models::{
    AssistantPart, CallArguments, Message, ModelEvent, ModelRequest, OutsideText, StopReason,
    ToolResult, outside_messages,
};
use toolbus_tools::Nonce;

use crate::support::{
    KEY, Told, ask, block, event, message_end, message_start, model, request, with, with_tools,
};
use toolbus_testkit::scripted_server::{Reply, Server};

async fn told(events: Vec<String>) -> Told {
    let server = Server::start([Reply::events(events)]).await;
    let model = model("anthropic", &server.url, &json!({}));
    ask(model.as_ref(), &with_tools(request("Hi"))).await
}

fn text_block(index: u64, text: &str) -> Vec<String> {
    let delta = json!({"type": "text_delta", "text": text});
    block(index, &json!({"type": "text", "text": ""}), &[delta])
}

fn call_block(index: u64, id: &str, name: &str, pieces: &[&str]) -> Vec<String> {
    let pieces =
        pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
    let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    block(index, &start, &pieces.collect::<Vec<_>>())
}

fn thinking_block(index: u64) -> Vec<String> {
    block(
        index,
        &json!({"type": "thinking", "thinking": "", "signature": ""}),
        &[
            json!({"type": "thinking_delta", "thinking": "Hm"}),
            json!({"type": "thinking_delta", "thinking": "."}),
            json!({"type": "signature_delta", "signature": "c2ln"}),
        ],
    )
}

fn stream(blocks: impl IntoIterator<Item = Vec<String>>, stop_reason: &str) -> Vec<String> {
    let mut events = vec![message_start(), event(&json!({"type": "ping"}))];
    events.extend(blocks.into_iter().flatten());
    events.push(message_end(stop_reason));
    events
}

#[tokio::test]
async fn text_is_told_while_it_comes_and_counted() {
    let events = stream([text_block(0, "Hel"), text_block(1, "lo")], "end_turn");
    let server = Server::start([Reply::events(events)]).await;
    let prices = json!({"prices": {
        "input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_write": 3.75
    }});
    let told = ask(model("anthropic", &server.url, &prices).as_ref(), &request("Hi")).await;
    assert_eq!(told.text(), "Hello");

    let completion = told.completion();
    assert_eq!(completion.stop, StopReason::End);
    assert_eq!(completion.model, "model-1-2026");
    let usage = completion.usage;
    assert_eq!((usage.input, usage.output), (115, 20));
    assert_eq!((usage.cache_read, usage.cache_write), (100, 5));
    // 30 + 300 + 30 + 18.75
    assert_eq!(usage.cost_micro_usd, Some(379));

    let asked = server.only_request();
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(asked.headers["x-api-key"], KEY);
    assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
    assert!(!asked.headers.contains_key("authorization"));
    assert_eq!(asked.body["max_tokens"], 16_384);
}

#[tokio::test]
async fn thoughts_and_calls_go_back_as_they_came() {
    let first = stream(
        [
            thinking_block(0),
            block(1, &json!({"type": "redacted_thinking", "data": "AAAA"}), &[]),
            text_block(2, "I look."),
            call_block(3, "toolu_1", "search", &["", "{\"q\":", " \"x\"}"]),
            call_block(4, "toolu_2", "mail_send", &[]),
        ],
        "tool_use",
    );
    let second = stream([text_block(0, "Done.")], "end_turn");
    let server = Server::start([Reply::events(first), Reply::events(second)]).await;
    let model = model("anthropic", &server.url, &json!({}));
    let request = ModelRequest { session_key: Some("s".into()), ..with_tools(request("Hi")) };
    let told = ask(model.as_ref(), &request).await;
    let thoughts = told.events.iter().filter(|event| matches!(event, ModelEvent::Reasoning { .. }));
    assert_eq!(thoughts.count(), 2);

    let answer = told.completion();
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let calls: Vec<_> = answer.calls().collect();
    assert_eq!(calls[0].arguments, CallArguments::Json { value: json!({"q": "x"}) });
    assert_eq!((&*calls[1].name, calls[1].arguments.value()), ("mail.send", Some(&json!({}))));
    let AssistantPart::Reasoning(thought) = &answer.message.parts[0] else { panic!("{answer:?}") };
    assert_eq!(thought.text, "Hm.");

    let results =
        vec![ToolResult::success("toolu_1", "found"), ToolResult::failure("toolu_2", "x")];
    let again = with(request, [Message::Assistant(answer.message), Message::Results { results }]);
    ask(model.as_ref(), &again).await.completion();
    let messages = &server.asked()[1].body["messages"];
    assert_eq!(
        messages[1]["content"],
        json!([
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "AAAA"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "search", "input": {"q": "x"}},
            {"type": "tool_use", "id": "toolu_2", "name": "mail_send", "input": {}},
        ])
    );
    let other = self::model("anthropic", &server.url, &json!({"model": "model-2"}));
    ask(other.as_ref(), &again).await.error();
    let content = &server.asked()[2].body["messages"][1]["content"];
    assert_eq!(content[0]["type"], "text");

    assert_eq!(
        messages[2]["content"],
        json!([
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "found"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "x", "is_error": true,
             "cache_control": {"type": "ephemeral"}},
        ])
    );
}

#[tokio::test]
async fn what_repeats_is_marked_for_the_prompt_cache() {
    let server = Server::start([]).await;
    let model = model("anthropic", &server.url, &json!({}));
    let once = with_tools(request("Hi"));
    let keyed = ModelRequest { session_key: Some("s".into()), ..once.clone() };
    ask(model.as_ref(), &once).await.error();
    ask(model.as_ref(), &keyed).await.error();

    let mark = json!({"type": "ephemeral"});
    let bodies: Vec<Value> = server.asked().into_iter().map(|asked| asked.body).collect();
    for body in &bodies {
        assert_eq!(body["tools"][0].get("cache_control"), None);
        assert_eq!(body["tools"][1]["cache_control"], mark);
        assert_eq!(body["system"][0]["cache_control"], mark);
    }
    // Whoever asks once only has nothing of a session to find again.
    assert_eq!(bodies[0]["messages"][0]["content"][0].get("cache_control"), None);
    assert_eq!(bodies[1]["messages"][0]["content"][0]["cache_control"], mark);
    // The beginning of a request is the same from one to the next, byte by byte.
    assert_eq!(bodies[0]["tools"].to_string(), bodies[1]["tools"].to_string());
}

#[tokio::test]
async fn arguments_that_are_not_json_are_told_apart() {
    let blocks = [
        call_block(0, "a", "search", &["{\"q\": \"x\""]),
        call_block(1, "b", "search", &["{\"q\": \"\\ud83e\"}"]),
    ];
    let completion = told(stream(blocks, "tool_use")).await.completion();
    let calls: Vec<_> = completion.calls().map(|call| &call.arguments).collect();
    assert!(matches!(calls[0], CallArguments::NotJson { .. }));
    assert_eq!(calls[1].value(), Some(&json!({"q": "\u{FFFD}"})));

    // A block that came whole.
    let start = json!({"type": "tool_use", "id": "a", "name": "search", "input": {"q": "x"}});
    let completion = told(stream([block(0, &start, &[])], "tool_use")).await.completion();
    let calls: Vec<_> = completion.calls().map(|call| call.arguments.value()).collect();
    assert_eq!(calls, [Some(&json!({"q": "x"}))]);
}

#[tokio::test]
async fn every_reason_to_stop_has_its_meaning() {
    let cases = [
        ("end_turn", StopReason::End),
        ("stop_sequence", StopReason::End),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("refusal", StopReason::ContentFilter),
        ("pause_turn", StopReason::Other),
        ("tool_use", StopReason::Other),
        ("something_new", StopReason::Other),
    ];
    for (reason, expected) in cases {
        let completion = told(stream([text_block(0, "a")], reason)).await.completion();
        assert_eq!(completion.stop, expected, "{reason}");
    }

    // Nobody can tell arguments that were cut off from none.
    for pieces in [&[][..], &["{\"q\": "]] {
        let events = stream([call_block(0, "a", "search", pieces)], "max_tokens");
        let completion = told(events).await.completion();
        let calls: Vec<_> = completion.calls().collect();
        assert!(matches!(calls[0].arguments, CallArguments::NotJson { .. }), "{calls:?}");
    }
}

#[tokio::test]
async fn what_the_provider_did_itself_is_kept_in_its_place() {
    let query = json!({"type": "input_json_delta", "partial_json": "{\"query\": \"x\"}"});
    let start = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []});
    let blocks = [block(0, &start, &[query]), block(1, &found, &[]), text_block(2, "Found.")];
    let completion = told(stream(blocks, "end_turn")).await.completion();
    assert_eq!(completion.calls().count(), 0);

    let server = Server::start([]).await;
    let model = model("anthropic", &server.url, &json!({}));
    let again = with(request("Hi"), [Message::Assistant(completion.message), Message::user("?")]);
    ask(model.as_ref(), &again).await.error();
    let content = &server.only_request().body["messages"][1]["content"];
    assert_eq!(content[0]["input"], json!({"query": "x"}));
    assert_eq!(content[1], found);
    assert_eq!(content[2]["text"], "Found.");
}

#[tokio::test]
async fn effort_is_adaptive_thinking() {
    let server = Server::start([]).await;
    let model = model("anthropic", &server.url, &json!({"reasoning_effort": "low"}));
    let warm = ModelRequest { temperature: Some(1.5), ..request("Hi") };
    ask(model.as_ref(), &warm).await.error();
    let body = server.only_request().body;
    assert_eq!(body["thinking"], json!({"type": "adaptive"}));
    assert_eq!(body["output_config"], json!({"effort": "low"}));
    assert_eq!(body.get("temperature"), None);
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_as_well() {
    let body = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "model-1",
        "content": [
            {"type": "text", "text": "Hi"},
            {"type": "tool_use", "id": "a", "name": "search", "input": {"q": "x"}}
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 3, "output_tokens": 4}
    });
    let server = Server::start([Reply::json(200, &body)]).await;
    let model = model("anthropic", &server.url, &json!({}));
    let completion = ask(model.as_ref(), &with_tools(request("Hi"))).await.completion();
    assert_eq!((&*completion.text(), completion.stop), ("Hi", StopReason::ToolCalls));
    let calls: Vec<_> = completion.calls().map(|call| call.arguments.value()).collect();
    assert_eq!(calls, [Some(&json!({"q": "x"}))]);
    assert_eq!((completion.usage.input, completion.usage.output), (3, 4));
}

#[tokio::test]
async fn thoughts_that_were_cut_off_do_not_go_back() {
    let thought = |index: u64| {
        let mut events = thinking_block(index);
        events.remove(3);
        events
    };
    let cut = told(stream([thought(0)], "max_tokens")).await.completion();
    let mut broken = stream([thinking_block(0), text_block(1, "Hel")], "end_turn");
    broken.truncate(8);
    let broken = told(broken).await.error().partial.expect("there is some of it");

    for answer in [cut, *broken] {
        let AssistantPart::Reasoning(thought) = &answer.message.parts[0] else {
            panic!("{answer:?}");
        };
        assert_eq!(thought.text, "Hm.");
        assert_eq!(thought.opaque, None);
    }
}

/// Text from outside is the result of a call, even for a model without tools: the API accepts calls
/// only beside definitions.
#[tokio::test]
async fn text_from_outside_is_the_result_of_a_call() {
    let server = Server::start([]).await;
    let model = model("anthropic", &server.url, &json!({}));
    let item = OutsideText::new("agent B", "It is 42.");
    let nonce = Nonce::random();
    let asked = with(request("Hi"), outside_messages(&[item], &nonce, 1));
    ask(model.as_ref(), &asked).await.error();
    ask(model.as_ref(), &with_tools(asked)).await.error();

    let mark = nonce.as_str();
    let fenced = format!("<<outside {mark} from=\"agent B\">>\nIt is 42.\n<<end {mark}>>");
    let [without, with] = [server.asked()[0].body.clone(), server.asked()[1].body.clone()];
    assert_eq!(
        without["messages"],
        json!([
            {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            {"role": "assistant", "content": [{
                "type": "tool_use", "id": "notice_1", "name": "read_notices",
                "input": {"mark": mark},
            }]},
            {"role": "user", "content": [{
                "type": "tool_result", "tool_use_id": "notice_1",
                "content": fenced,
            }]},
        ])
    );
    assert_eq!(without["tools"][0]["name"], "read_notices");
    assert_eq!(without["tool_choice"], json!({"type": "none"}));
    assert_eq!(with["messages"], without["messages"]);
    assert_eq!((&with["tools"][0]["name"], with.get("tool_choice")), (&json!("search"), None));
}
