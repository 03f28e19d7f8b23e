//! Through a proxy that others wrote, which reads what we send, translates it, and writes streams
//! of its own.

use serde_json::{Value, json};
use toolbus_models::{
    AssistantPart, ErrorKind, Message, Model, ModelRequest, StopReason, ToolResult,
};
use toolbus_testkit::litellm::LiteLlm;

use crate::support::{
    DONE, ask, block, chunk, message_end, message_start, model, request, usage_chunk, with,
    with_tools,
};
use toolbus_testkit::scripted_server::{Reply, Server};

/// A model of the proxy, asked by this provider's API.
fn proxied(proxy: &LiteLlm, provider: &str, name: &str) -> std::sync::Arc<dyn Model> {
    let url = match provider {
        "anthropic" => proxy.url(),
        _ => format!("{}/v1", proxy.url()),
    };
    model(provider, &url, &json!({"model": name, "api_key": LiteLlm::KEY}))
}

/// A turn of a server that speaks OpenAI's API: two calls, and then text.
fn openai_turn() -> [Reply; 2] {
    let call = |index: u64, id: &str, name: &str, arguments: &str| {
        let function = json!({"name": name, "arguments": arguments});
        let call = json!({"index": index, "id": id, "type": "function", "function": function});
        chunk(&json!({"tool_calls": [call]}), None)
    };
    let more = |index: u64, arguments: &str| {
        let call = json!({"index": index, "function": {"arguments": arguments}});
        chunk(&json!({"tool_calls": [call]}), None)
    };
    let usage = |tokens: u64| {
        usage_chunk(&json!({
            "prompt_tokens": tokens, "completion_tokens": 7, "total_tokens": tokens + 7
        }))
    };
    let first = [
        chunk(&json!({"role": "assistant", "content": "I look."}), None),
        call(0, "call_a", "search", ""),
        more(0, "{\"q\": \"x"),
        more(0, "\"}"),
        call(1, "call_b", "mail_send", "{\"q\": \"y\"}"),
        chunk(&json!({}), Some("tool_calls")),
        usage(100),
        DONE.to_owned(),
    ];
    let second = [
        chunk(&json!({"content": "Do"}), None),
        chunk(&json!({"content": "ne."}), None),
        chunk(&json!({}), Some("stop")),
        usage(200),
        DONE.to_owned(),
    ];
    [Reply::events(first), Reply::events(second)]
}

/// The same of one that speaks Anthropic's.
fn anthropic_turn() -> [Reply; 2] {
    let text = |index: u64, text: &str| {
        let delta = json!({"type": "text_delta", "text": text});
        block(index, &json!({"type": "text", "text": ""}), &[delta])
    };
    let call = |index: u64, id: &str, name: &str, pieces: &[&str]| {
        let pieces =
            pieces.iter().map(|piece| json!({"type": "input_json_delta", "partial_json": piece}));
        let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
        block(index, &start, &pieces.collect::<Vec<_>>())
    };
    let first = [
        vec![message_start()],
        text(0, "I look."),
        call(1, "call_a", "search", &["{\"q\": \"x", "\"}"]),
        call(2, "call_b", "mail_send", &["{\"q\": \"y\"}"]),
        vec![message_end("tool_use")],
    ];
    let second = [vec![message_start()], text(0, "Done."), vec![message_end("end_turn")]];
    [Reply::events(first.concat()), Reply::events(second.concat())]
}

/// A turn of two requests, and what came of it at the other side of the proxy.
async fn check_turn(model: &dyn Model, backend: &Server) {
    let request = ModelRequest { output_tokens_max: Some(500), ..with_tools(request("Hi")) };
    let told = ask(model, &request).await;
    assert_eq!(told.text(), "I look.", "{:?} {:?}", told.result, backend.asked());
    let answer = told.completion();
    assert_eq!(answer.stop, StopReason::ToolCalls);
    let calls: Vec<_> =
        answer.calls().map(|call| (call.name.as_str(), call.arguments.value().cloned())).collect();
    assert_eq!(
        calls,
        [("search", Some(json!({"q": "x"}))), ("mail.send", Some(json!({"q": "y"}))),]
    );
    assert!(answer.usage.input > 0 && answer.usage.output > 0, "{:?}", answer.usage);
    assert!(!answer.usage.is_estimated);

    let ids: Vec<String> = answer.calls().map(|call| call.id.clone()).collect();
    let results =
        vec![ToolResult::success(&ids[0], "found x"), ToolResult::failure(&ids[1], "no mail")];
    let again = with(request, [Message::Assistant(answer.message), Message::Results { results }]);
    let second = ask(model, &again).await.completion();
    assert_eq!((&*second.text(), second.stop), ("Done.", StopReason::End));

    let asked = backend.asked();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let body = asked[1].body.to_string();
    for sent in ["You help.", "I look.", "found x", "no mail", "mail_send", "call_a", "call_b"] {
        assert!(body.contains(sent), "{sent}: {body}");
    }
}

fn to_backend(name: &str, model: &str, url: &str) -> Value {
    json!({"model_name": name, "litellm_params": {"model": model, "api_base": url, "api_key": "x"}})
}

fn mocked(name: &str, response: &str) -> Value {
    let params = json!({"model": "openai/gpt-4o", "api_key": "x", "mock_response": response});
    json!({"model_name": name, "litellm_params": params})
}

#[tokio::test]
async fn turns_through_a_translating_proxy() {
    let mut models = Vec::new();
    let mut backends = Vec::new();
    for provider in ["openai", "anthropic"] {
        let openai = Server::start(openai_turn()).await;
        let anthropic = Server::start(anthropic_turn()).await;
        let base = anthropic.url.trim_end_matches("/v1").to_owned();
        let name = |api: &str| format!("{provider}-to-{api}");
        models.push(to_backend(&name("openai"), "hosted_vllm/model-1", &openai.url));
        models.push(to_backend(&name("anthropic"), "anthropic/claude-sonnet-4-20250514", &base));
        backends.push((provider, name("openai"), openai));
        backends.push((provider, name("anthropic"), anthropic));
    }
    let Some(proxy) = LiteLlm::start(&json!(models).to_string()).await else { return };
    for (provider, name, backend) in &backends {
        let model = proxied(&proxy, provider, name);
        check_turn(model.as_ref(), backend).await;
    }
}

#[tokio::test]
async fn the_answers_and_errors_of_the_proxy_itself() {
    let models = json!([
        mocked("mock", "Hello from the mock."),
        mocked("limited", "litellm.RateLimitError"),
        mocked("long", "litellm.ContextWindowExceededError"),
        mocked("broken", "litellm.InternalServerError"),
    ]);
    let Some(proxy) = LiteLlm::start(&models.to_string()).await else { return };
    for provider in ["openai", "anthropic"] {
        let ask = async |name: &str| {
            let model = proxied(&proxy, provider, name);
            ask(model.as_ref(), &request("Hi")).await
        };
        let completion = ask("mock").await.completion();
        assert_eq!(completion.stop, StopReason::End);
        let text = AssistantPart::Text { text: "Hello from the mock.".to_owned() };
        assert_eq!(completion.message.parts, [text]);
        assert!(completion.usage.input > 0 && completion.usage.output > 0);

        let kind = ask("limited").await.error().kind;
        assert!(matches!(kind, ErrorKind::RateLimited { .. }), "{kind:?}");
        let kind = ask("long").await.error().kind;
        assert!(matches!(kind, ErrorKind::ContextTooLong { .. }), "{kind:?}");
        let kind = ask("broken").await.error().kind;
        assert!(matches!(kind, ErrorKind::Overloaded { status: 500, .. }), "{kind:?}");
        let kind = ask("nothing").await.error().kind;
        assert!(matches!(kind, ErrorKind::Refused { status: 400, .. }), "{kind:?}");

        let wrong = json!({"model": "mock", "api_key": "sk-wrong"});
        let model = model(provider, &format!("{}/v1", proxy.url()), &wrong);
        let kind = crate::support::ask(model.as_ref(), &request("Hi")).await.error().kind;
        assert!(!kind.is_transient(), "{kind:?}");
    }
}
