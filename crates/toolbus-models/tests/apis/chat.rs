//! OpenAI's chat completions, and what imitates them.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_models::{
    AssistantPart, CallArguments, Message, ModelEvent, ModelRequest, OutsideText, ReasoningForm,
    StopReason, ToolResult, outside_messages,
};
use toolbus_tools::Nonce;

use crate::support::{
    DONE, KEY, LIMIT, Told, ask, chunk, data, model, request, usage_chunk, with, with_tools,
};
use toolbus_testkit::scripted_server::{Part, Reply, Server};

/// Asks a model of this provider, which is answered with these events, with tools.
async fn told(provider: &str, events: impl IntoIterator<Item = String>) -> Told {
    let server = Server::start([Reply::events(events)]).await;
    let model = model(provider, &server.url, &json!({}));
    ask(model.as_ref(), &with_tools(request("Hi"))).await
}

fn call(index: u64, id: &str, name: &str, arguments: &str) -> String {
    let function = json!({"name": name, "arguments": arguments});
    let call = json!({"index": index, "id": id, "type": "function", "function": function});
    chunk(&json!({"tool_calls": [call]}), None)
}

fn arguments(index: u64, piece: &str) -> String {
    chunk(&json!({"tool_calls": [{"index": index, "function": {"arguments": piece}}]}), None)
}

fn text(delta: &str) -> String {
    chunk(&json!({"content": delta}), None)
}

fn stop(reason: &str) -> String {
    chunk(&json!({}), Some(reason))
}

fn done() -> String {
    DONE.to_owned()
}

#[tokio::test]
async fn text_is_told_while_it_comes_and_counted() {
    let usage = json!({
        "prompt_tokens": 120, "completion_tokens": 8, "total_tokens": 128,
        "prompt_tokens_details": {"cached_tokens": 100}
    });
    let events = [text(""), text("Hel"), text("lo"), stop("stop"), usage_chunk(&usage), done()];
    let server = Server::start([Reply::events(events)]).await;
    let prices = json!({"prices": {"input": 2.0, "output": 10.0, "cache_read": 0.5}});
    let told = ask(model("openai", &server.url, &prices).as_ref(), &request("Hi")).await;

    assert_eq!(told.events, ["Hel", "lo"].map(|delta| ModelEvent::Text { delta: delta.into() }));
    let completion = told.completion();
    assert_eq!(completion.text(), "Hello");
    assert_eq!(completion.stop, StopReason::End);
    assert_eq!(completion.model, "model-1-2026");
    let usage = completion.usage;
    assert_eq!((usage.input, usage.output, usage.cache_read), (120, 8, 100));
    assert_eq!(usage.cost_micro_usd, Some(20 * 2 + 8 * 10 + 50));
    assert!(!usage.is_estimated);

    let asked = server.only_request();
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked.body["messages"][0], json!({"role": "system", "content": "You help."}));
    assert_eq!(asked.body["stream_options"], json!({"include_usage": true}));
    assert_eq!(asked.body.get("tools"), None);
}

#[tokio::test]
async fn the_first_token_is_passed_on_before_the_next_comes() {
    let reply = Reply::events([text("a")]).then(Part::Wait(Duration::from_millis(300)));
    let rest = [text("b"), stop("stop"), done()].concat();
    let server = Server::start([reply.then(Part::Bytes(rest.into_bytes()))]).await;
    let model = model("openai", &server.url, &json!({}));

    let times = Mutex::new(Vec::new());
    let mut on_event = |_| times.lock().push(Instant::now());
    let request = request("Hi");
    model.complete(&request, &mut on_event).await.expect("it answers");
    let times = times.into_inner();
    assert!(times[1] - times[0] > Duration::from_millis(200), "{times:?}");
}

#[tokio::test]
async fn several_calls_come_with_their_arguments_in_order() {
    let events = [
        text("I look."),
        call(0, "a", "search", ""),
        arguments(0, "{\"q\":"),
        arguments(0, " \"x\", \"limit\": null}"),
        call(1, "b", "mail_send", "{}"),
        call(2, "c", "unknown.tool", "{\"a\":1}"),
        stop("tool_calls"),
        done(),
    ];
    let told = told("openai", events).await;
    let begun = |id: &str, name: &str| ModelEvent::CallBegun { id: id.into(), name: name.into() };
    assert_eq!(
        told.events[1..],
        [begun("a", "search"), begun("b", "mail.send"), begun("c", "unknown.tool"),]
    );

    let completion = told.completion();
    assert_eq!(completion.stop, StopReason::ToolCalls);
    assert!(matches!(completion.message.parts[0], AssistantPart::Text { .. }));
    let calls: Vec<_> = completion.calls().collect();
    assert_eq!(calls[0].name, "search");
    // Null was what the tool's dialect had to say for an argument that is not there.
    assert_eq!(calls[0].arguments, CallArguments::Json { value: json!({"q": "x"}) });
    assert_eq!(calls[0].written_arguments(), "{\"q\": \"x\", \"limit\": null}");
    assert_eq!(calls[1].name, "mail.send");
    assert_eq!(calls[2].arguments, CallArguments::Json { value: json!({"a": 1}) });
}

#[tokio::test]
async fn a_session_goes_on_in_the_words_of_the_model() {
    let first = [call(0, "a", "mail_send", "{ \"q\":\"x\" }"), stop("tool_calls"), done()];
    let second = [text("Sent."), stop("stop"), done()];
    let server = Server::start([Reply::events(first), Reply::events(second)]).await;
    let model = model("openai", &server.url, &json!({}));
    let request = with_tools(request("Hi"));
    let answer = ask(model.as_ref(), &request).await.completion();
    let stored = serde_json::to_string(&answer.message).expect("it is stored");
    let answer = Message::Assistant(serde_json::from_str(&stored).expect("it is read"));
    let results = Message::Results { results: vec![ToolResult::success("a", "sent")] };
    ask(model.as_ref(), &with(request, [answer, results])).await.completion();

    let messages = &server.asked()[1].body["messages"];
    let function = json!({"name": "mail_send", "arguments": "{ \"q\":\"x\" }"});
    let calls = json!([{"id": "a", "type": "function", "function": function}]);
    let expected = json!({"role": "assistant", "content": null, "tool_calls": calls});
    assert_eq!(messages[2], expected);
    assert_eq!(messages[3], json!({"role": "tool", "tool_call_id": "a", "content": "sent"}));
}

#[tokio::test]
async fn arguments_that_are_not_json_are_told_apart() {
    let events = [
        call(0, "a", "search", "{\"q\": \"x\""),
        call(1, "b", "search", "[1]"),
        call(2, "c", "search", "{\"q\": \"\\ud83e\"}"),
        call(3, "d", "search", ""),
        stop("tool_calls"),
        done(),
    ];
    let completion = told("openai", events).await.completion();
    let calls: Vec<_> = completion.calls().map(|call| &call.arguments).collect();
    let CallArguments::NotJson { text, problem } = calls[0] else { panic!("{calls:?}") };
    assert_eq!(text, "{\"q\": \"x\"");
    assert!(problem.contains("not JSON"), "{problem}");
    assert!(matches!(calls[1], CallArguments::NotJson { .. }));
    assert_eq!(calls[2].value(), Some(&json!({"q": "\u{FFFD}"})));
    assert_eq!(calls[3].value(), Some(&json!({})));
}

#[tokio::test]
async fn an_answer_at_its_limit_says_so_and_its_last_call_is_cut() {
    let events = |last: &str| {
        [call(0, "a", "search", "{}"), call(1, "b", "search", last), stop("length"), done()]
    };
    for last in ["", "{\"q\": "] {
        let completion = told("openai", events(last)).await.completion();
        assert_eq!(completion.stop, StopReason::MaxTokens);
        let calls: Vec<_> = completion.calls().map(|call| &call.arguments).collect();
        assert!(matches!(calls[0], CallArguments::Json { .. }));
        assert!(matches!(calls[1], CallArguments::NotJson { .. }), "{last:?}");
    }

    let completion = told("openai", [text("a"), stop("length"), done()]).await.completion();
    assert_eq!(completion.stop, StopReason::MaxTokens);
    let filtered = told("openai", [text("a"), stop("content_filter"), done()]).await;
    assert_eq!(filtered.completion().stop, StopReason::ContentFilter);
    let refused = chunk(&json!({"refusal": "I will not."}), None);
    let refused = told("openai", [refused, stop("stop"), done()]).await.completion();
    assert_eq!((refused.stop, &*refused.text()), (StopReason::ContentFilter, "I will not."));
}

/// What servers do that imitate the API.
#[tokio::test]
async fn calls_of_every_server_are_understood() {
    let piece = |call: &Value| chunk(&json!({"tool_calls": [call]}), None);
    let without_index = |id: &str, q: &str| {
        let arguments = json!({"q": q}).to_string();
        piece(&json!({"id": id, "function": {"name": "search", "arguments": arguments}}))
    };
    let same_index = |id: &str, q: &str| {
        let arguments = json!({"q": q}).to_string();
        let function = json!({"name": "search", "arguments": arguments});
        piece(&json!({"index": 0, "id": id, "function": function}))
    };
    let repeated = |arguments: &str| call(0, "a", "search", arguments);
    let object = json!({"index": 0, "id": "a",
        "function": {"name": "search", "arguments": {"q": "x"}}});
    let cases = [
        (vec![without_index("a", "x"), without_index("b", "y")], 2),
        // Without ids, each with its name is another call.
        (vec![without_index("", "x"), without_index("", "y")], 2),
        (vec![same_index("a", "x"), same_index("b", "y")], 2),
        (vec![repeated("{\"q\""), repeated(": \"x\"}")], 1),
        (vec![piece(&object)], 1),
        // The name comes behind the id.
        (
            vec![
                piece(&json!({"index": 0, "id": "a", "function": {"arguments": ""}})),
                call(0, "a", "search", "{\"q\":"),
                arguments(0, "\"x\"}"),
            ],
            1,
        ),
        (vec![same_index("same", "x"), call(1, "same", "search", "{\"q\":\"y\"}")], 2),
    ];
    for (mut events, expected) in cases {
        // Some say `stop`, and mean the calls.
        events.extend([stop("stop"), done()]);
        let completion = told("openai", events.clone()).await.completion();
        assert_eq!(completion.stop, StopReason::ToolCalls);
        let calls: Vec<_> = completion.calls().collect();
        assert_eq!(calls.len(), expected, "{events:?}");
        for (call, q) in calls.iter().zip(["x", "y"]) {
            assert_eq!(call.name, "search", "{events:?}");
            assert_eq!(call.arguments.value(), Some(&json!({"q": q})), "{events:?}");
        }
        let mut ids: Vec<_> = calls.iter().map(|call| &call.id).collect();
        ids.dedup();
        assert_eq!(ids.len(), expected, "{events:?}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_read_as_well() {
    let function = json!({"name": "search", "arguments": "{\"q\":\"x\"}"});
    let body = json!({
        "id": "1", "object": "chat.completion", "created": 1, "model": "model-1",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "Hi",
            "tool_calls": [{"id": "a", "type": "function", "function": function}]
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    });
    let server = Server::start([Reply::json(200, &body)]).await;
    let model = model("openai", &server.url, &json!({}));
    let completion = ask(model.as_ref(), &with_tools(request("Hi"))).await.completion();
    assert_eq!((&*completion.text(), completion.stop), ("Hi", StopReason::ToolCalls));
    assert_eq!(completion.calls().count(), 1);
    assert_eq!((completion.usage.input, completion.usage.output), (3, 4));
}

#[tokio::test]
async fn tokens_that_nobody_counted_are_estimated() {
    let completion = told("openai", [text(&"x".repeat(4_000)), stop("stop")]).await.completion();
    assert!(completion.usage.is_estimated);
    assert!((1_000..1_100).contains(&completion.usage.output), "{:?}", completion.usage);
    assert!(completion.usage.input > 100, "{:?}", completion.usage);
    assert_eq!(completion.usage.of_turn().turns, 1);
}

#[tokio::test]
async fn a_server_that_does_not_hang_up_does_not_hold_the_answer() {
    let reply = Reply::events([text("a"), stop("stop")]).then(Part::Hang);
    let server = Server::start([reply]).await;
    let model = model("openai", &server.url, &json!({"idle_timeout": "1m"}));
    let completion = ask(model.as_ref(), &request("Hi")).await.completion();
    assert_eq!(completion.text(), "a");

    let broken = Reply::events([text("a"), stop("stop")]).then(Part::Break);
    let server = Server::start([broken]).await;
    let model = self::model("openai", &server.url, &json!({}));
    assert_eq!(ask(model.as_ref(), &request("Hi")).await.completion().text(), "a");
}

#[tokio::test]
async fn dropping_the_future_hangs_up() {
    let server = Server::start([Reply::events([text("a")]).then(Part::Hang)]).await;
    let model = model("openai", &server.url, &json!({}));
    let begun = tokio::sync::Notify::new();
    let mut on_event = |_| begun.notify_one();
    let request = request("Hi");
    let asking = model.complete(&request, &mut on_event);
    tokio::select! {
        _ = asking => panic!("it does not end"),
        begun = tokio::time::timeout(LIMIT, begun.notified()) => begun.expect("it begins"),
    }
    server.hung_up().await;
}

#[tokio::test]
async fn reasoning_is_told_and_given_back_to_whom_it_is_of_use() {
    let detail = |text: &str| json!({"type": "reasoning.text", "text": text, "format": "anthropic-claude-v1", "index": 0});
    let signature = json!({"type": "reasoning.text", "signature": "c2ln", "index": 0});
    let thought = |text: &str, detail: Value| {
        chunk(&json!({"reasoning": text, "reasoning_details": [detail]}), None)
    };
    let events = [
        thought("Hm", detail("Hm")),
        thought(".", detail(".")),
        thought("", signature),
        call(0, "a", "search", "{\"q\":\"x\"}"),
        stop("tool_calls"),
        done(),
    ];
    let replies = [Reply::events(events.clone()), Reply::events([text("Ok"), stop("stop")])];
    let server = Server::start(replies).await;
    let model = model("openrouter", &server.url, &json!({}));
    let request = ModelRequest { session_key: Some("s".into()), ..with_tools(request("Hi")) };
    let told = ask(model.as_ref(), &request).await;
    let thoughts = told.events.iter().filter(|event| matches!(event, ModelEvent::Reasoning { .. }));
    assert_eq!(thoughts.count(), 2);
    let answer = told.completion();
    let AssistantPart::Reasoning(reasoning) = &answer.message.parts[0] else {
        panic!("{answer:?}");
    };
    assert_eq!(reasoning.text, "Hm.");

    let results = Message::Results { results: vec![ToolResult::success("a", "found")] };
    let again = with(request, [Message::Assistant(answer.message), results]);
    ask(model.as_ref(), &again).await.completion();
    let body = &server.asked()[1].body;
    assert_eq!(
        body["messages"][2]["reasoning_details"],
        json!([{
            "type": "reasoning.text", "text": "Hm.", "format": "anthropic-claude-v1", "index": 0,
            "signature": "c2ln"
        }])
    );
    assert_eq!(body["session_id"], "s");

    // Another API does not know it, and another model has no use for it.
    for (provider, settings) in [("openai", json!({})), ("openrouter", json!({"model": "model-2"}))]
    {
        let server = Server::start([]).await;
        let other = self::model(provider, &server.url, &settings);
        ask(other.as_ref(), &again).await.error();
        assert_eq!(server.only_request().body["messages"][2].get("reasoning_details"), None);
    }
}

#[tokio::test]
async fn reasoning_content_goes_back_with_its_calls() {
    let thought = chunk(&json!({"reasoning_content": "Hm."}), None);
    let events = [thought, call(0, "a", "search", "{}"), stop("tool_calls"), done()];
    let server = Server::start([Reply::events(events)]).await;
    let model = model("openai", &server.url, &json!({}));
    let request = with_tools(request("Hi"));
    let answer = ask(model.as_ref(), &request).await.completion();
    let AssistantPart::Reasoning(reasoning) = &answer.message.parts[0] else {
        panic!("{answer:?}");
    };
    let form = reasoning.opaque.as_ref().map(|opaque| opaque.form);
    assert_eq!(form, Some(ReasoningForm::ReasoningContent));

    let results = Message::Results { results: vec![ToolResult::success("a", "found")] };
    let again = with(request, [Message::Assistant(answer.message), results]);
    ask(model.as_ref(), &again).await.error();
    assert_eq!(server.asked()[1].body["messages"][2]["reasoning_content"], "Hm.");
}

/// Text from outside is the result of a call that was made for the model. If the API rejects calls
/// without reasoning, the call has fixed reasoning text.
#[tokio::test]
async fn text_from_outside_has_the_role_of_a_tool() {
    let thought = chunk(&json!({"reasoning_content": "Hm."}), None);
    let events = [thought, call(0, "a", "search", "{}"), stop("tool_calls"), done()];
    let server = Server::start([Reply::events(events)]).await;
    let endpoint = |name: &str| model("openai", &server.url, &json!({"model": name}));
    let answer = ask(endpoint("model-1").as_ref(), &with_tools(request("Hi"))).await.completion();
    let nonce = Nonce::random();
    let pair = outside_messages(&[OutsideText::new("agent B", "It is 42.")], &nonce, 1);
    let plain = with(request("Hi"), pair.clone());
    ask(endpoint("model-1").as_ref(), &plain).await.error();
    ask(endpoint("deepseek-reasoner").as_ref(), &plain).await.error();
    let results = Message::Results { results: vec![ToolResult::success("a", "found")] };
    let thinking = with(request("Hi"), [Message::Assistant(answer.message), results]);
    ask(endpoint("model-1").as_ref(), &with(thinking, pair)).await.error();

    let mark = nonce.as_str();
    let bodies: Vec<Value> = server.asked().into_iter().skip(1).map(|asked| asked.body).collect();
    let messages = |at: usize| bodies[at]["messages"].as_array().expect("a list");
    assert_eq!(messages(0)[1], json!({"role": "user", "content": "Hi"}));
    assert_eq!(messages(0)[2]["tool_calls"][0]["function"]["name"], "read_notices");
    assert_eq!(messages(0)[2].get("reasoning_content"), None);
    assert_eq!(
        messages(0)[3],
        json!({"role": "tool", "tool_call_id": "notice_1",
            "content": format!("<<outside {mark} from=\"agent B\">>\nIt is 42.\n<<end {mark}>>")})
    );
    let words = json!("There is text from outside to read.");
    assert_eq!(messages(1)[2]["reasoning_content"], words);
    assert_eq!(messages(2)[4]["reasoning_content"], words);
}

#[tokio::test]
async fn what_openrouter_charged_is_what_it_cost() {
    let usage = json!({
        "prompt_tokens": 1_000, "completion_tokens": 10, "total_tokens": 1_010, "cost": 0.001_234_5
    });
    let events = [text("a"), stop("stop"), usage_chunk(&usage), done()];
    let server = Server::start([Reply::events(events)]).await;
    let prices = json!({"prices": {"input": 100.0, "output": 100.0}, "model": "anthropic/x"});
    let model = model("openrouter", &server.url, &prices);
    let request = ModelRequest { session_key: Some("s".into()), ..request("Hi") };
    let completion = ask(model.as_ref(), &request).await.completion();
    assert_eq!(completion.usage.cost_micro_usd, Some(1_235));
    let body = server.only_request().body;
    assert_eq!(body["cache_control"], json!({"type": "ephemeral"}));
}

#[tokio::test]
async fn what_comes_besides_is_passed_over() {
    let events = [
        ": OPENROUTER PROCESSING\n\n".to_owned(),
        data(&json!({"id": "x", "choices": []})),
        data(&json!({"choices": [{"index": 1, "delta": {"content": "other"}}]})),
        data(&json!(null)),
        data(&json!([1])),
        chunk(
            &json!({"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                {"type": "text", "text": "Hi"}
            ]}),
            None,
        ),
        stop("stop"),
        DONE.to_owned(),
        text("behind the end"),
    ];
    let told = told("openai", events).await;
    assert_eq!(told.text(), "Hi");
    assert_eq!(told.completion().stop, StopReason::End);
}

#[tokio::test]
async fn half_a_character_is_no_broken_stream() {
    let half = r#"data: {"choices": [{"index": 0, "delta": {"content": "a\ud83e"}}]}"#;
    let events = [format!("{half}\n\n"), text("b"), stop("stop"), done()];
    assert_eq!(told("openai", events).await.completion().text(), "a\u{FFFD}b");
}
