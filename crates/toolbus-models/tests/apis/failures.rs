//! Servers that refuse, break off, are silent, or say too much.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_models::{ErrorKind, ModelEvent, ModelRequest, Tier, TimedPhase};

use crate::support::{
    DONE, KEY, Told, ask, block, chunk, data, event, message_end, message_start, model, models,
    request, with_tools,
};
use toolbus_testkit::scripted_server::{Part, Reply, Server};

fn text(delta: &str) -> String {
    chunk(&json!({"content": delta}), None)
}

fn good() -> Reply {
    Reply::events([text("Hi"), chunk(&json!({}), Some("stop")), DONE.to_owned()])
}

fn busy(status: u16) -> Reply {
    Reply::error(status, &json!({"error": {"message": "busy", "type": "rate_limit_error"}}))
}

/// Asks a model that is asked again up to so often.
async fn ask_with_retries(server: &Server, retries: u32) -> Told {
    let endpoint = json!({
        "provider": "openai", "model": "model-1", "base_url": server.url, "api_key": KEY,
    });
    let settings = json!({
        "endpoints": {"main": endpoint}, "retries": retries, "retry_wait_max": "20s"
    });
    let model = models(&settings).tier(Tier::Low).expect("there is one");
    ask(model.as_ref(), &request("Hi")).await
}

/// Asks models of both APIs, with each of which this happens.
async fn both(reply: impl Fn() -> Reply, settings: &Value) -> Vec<Told> {
    let mut told = Vec::new();
    for provider in ["openai", "anthropic"] {
        let server = Server::start([reply()]).await;
        let model = model(provider, &server.url, settings);
        told.push(ask(model.as_ref(), &with_tools(request("Hi"))).await);
    }
    told
}

#[tokio::test]
async fn a_rate_limit_is_waited_for() {
    let server = Server::start([busy(429).header("retry-after", "1"), good()]).await;
    let begun = Instant::now();
    let told = ask_with_retries(&server, 3).await;
    assert!(begun.elapsed() >= Duration::from_secs(1));
    assert!(
        matches!(&told.events[0], ModelEvent::Retrying { wait, reason, .. }
        if *wait >= Duration::from_secs(1) && reason.contains("busy")),
        "{:?}",
        told.events
    );
    assert_eq!(told.completion().text(), "Hi");
    assert_eq!(server.asked().len(), 2);
    assert_eq!(server.asked()[0].body, server.asked()[1].body);
}

#[tokio::test]
async fn a_wait_that_is_too_long_is_not_waited() {
    let server = Server::start([busy(429).header("retry-after", "3600"), good()]).await;
    let told = ask_with_retries(&server, 3).await;
    assert_eq!(told.events, []);
    assert!(matches!(told.error().kind, ErrorKind::RateLimited { retry_after: Some(_), .. }));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_server_that_stays_broken_is_given_up() {
    let server = Server::start([busy(500), busy(503), busy(529), good()]).await;
    let told = ask_with_retries(&server, 2).await;
    assert_eq!(told.events.len(), 2);
    assert!(matches!(told.error().kind, ErrorKind::Overloaded { status: 529, .. }));
    assert_eq!(server.asked().len(), 3);
}

#[tokio::test]
async fn what_no_repetition_helps_is_not_repeated() {
    let quota = json!({"error": {"message": "x", "code": "insufficient_quota"}});
    for (status, body) in [(400, json!({})), (401, json!({})), (404, json!({})), (429, quota)] {
        let server = Server::start([Reply::error(status, &body), good()]).await;
        ask_with_retries(&server, 3).await.error();
        assert_eq!(server.asked().len(), 1, "{status}");
    }
}

#[tokio::test]
async fn nothing_is_asked_again_once_a_token_was_passed_on() {
    let broken = Reply::events([text("Hel")]).then(Part::Break);
    let server = Server::start([broken, good()]).await;
    let told = ask_with_retries(&server, 3).await;
    assert_eq!(told.text(), "Hel");
    let error = told.error();
    assert!(matches!(error.kind, ErrorKind::BrokenStream { .. }), "{error:?}");
    assert!(!error.is_retryable());
    let partial = error.partial.expect("there is some of it");
    assert_eq!(partial.text(), "Hel");
    assert!(partial.usage.is_estimated);
    assert_eq!(server.asked().len(), 1);

    // Before that it is.
    let broken = Reply::events([": wait\n\n"]).then(Part::Break);
    let server = Server::start([broken, good()]).await;
    assert_eq!(ask_with_retries(&server, 3).await.completion().text(), "Hi");
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_no_answer() {
    let server = Server::start([Reply::events([text("Hel"), text("lo")])]).await;
    let told = ask(model("openai", &server.url, &json!({})).as_ref(), &request("Hi")).await;
    assert!(matches!(told.error().kind, ErrorKind::BrokenStream { .. }));

    let call = json!({"type": "tool_use", "id": "a", "name": "search", "input": {}});
    let whole = block(0, &call, &[]).concat();
    let begun = block(1, &call, &[]).remove(0);
    let server = Server::start([Reply::events([message_start(), whole, begun])]).await;
    let model = model("anthropic", &server.url, &json!({}));
    let told = ask(model.as_ref(), &with_tools(request("Hi"))).await;
    let error = told.error();
    assert!(matches!(error.kind, ErrorKind::BrokenStream { .. }));
    // A call that was not written to its end is none.
    assert_eq!(error.partial.expect("there is some of it").calls().count(), 1);
}

#[tokio::test]
async fn errors_within_a_stream_are_errors() {
    let overloaded = json!({"type": "overloaded_error", "message": "busy"});
    let error = event(&json!({"type": "error", "error": overloaded}));
    let server = Server::start([Reply::events([message_start(), error])]).await;
    let told = ask(model("anthropic", &server.url, &json!({})).as_ref(), &request("Hi")).await;
    let error = told.error();
    assert!(matches!(error.kind, ErrorKind::Overloaded { status: 529, .. }), "{error:?}");
    assert!(error.is_retryable());

    let untyped = data(&json!({"error": {"message": "gone", "code": "503"}}));
    let server = Server::start([Reply::events([message_start(), untyped])]).await;
    let told = ask(model("anthropic", &server.url, &json!({})).as_ref(), &request("Hi")).await;
    let kind = told.error().kind;
    assert!(matches!(kind, ErrorKind::Overloaded { status: 503, .. }), "{kind:?}");

    let gone = json!({"code": 502, "message": "gone"});
    let choice = json!({"index": 0, "delta": {}, "finish_reason": "error", "error": gone});
    for event in [json!({"error": gone, "choices": []}), json!({"choices": [choice]})] {
        let server = Server::start([Reply::events([text("Hi"), data(&event)])]).await;
        let told = ask(model("openai", &server.url, &json!({})).as_ref(), &request("Hi")).await;
        let error = told.error();
        assert!(matches!(error.kind, ErrorKind::Overloaded { status: 502, .. }), "{error:?}");
        assert!(!error.is_retryable());
        assert!(error.partial.is_some());
    }
}

#[tokio::test]
async fn a_request_that_does_not_fit_is_told_apart() {
    let openai = json!({"error": {"message": "too long", "code": "context_length_exceeded"}});
    let anthropic = json!({"type": "error", "error": {
        "type": "invalid_request_error", "message": "prompt is too long: 300000 tokens > 200000"
    }});
    for (provider, body) in [("openai", openai), ("anthropic", anthropic)] {
        let server = Server::start([Reply::error(400, &body)]).await;
        let model = model(provider, &server.url, &json!({}));
        let error = ask(model.as_ref(), &request("Hi")).await.error();
        assert!(matches!(error.kind, ErrorKind::ContextTooLong { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn silence_has_an_end() {
    let silent = || Reply::events([""]).then(Part::Hang);
    for told in both(silent, &json!({"idle_timeout": "200ms"})).await {
        let error = told.error();
        let expected = ErrorKind::TimedOut { phase: TimedPhase::NextEvent };
        assert_eq!(error.kind, expected);
        assert!(error.is_retryable());
    }

    let after_some = Reply::events([text("Hel")]).then(Part::Hang);
    let server = Server::start([after_some]).await;
    let model = model("openai", &server.url, &json!({"idle_timeout": "200ms"}));
    let error = ask(model.as_ref(), &request("Hi")).await.error();
    assert_eq!(error.kind, ErrorKind::TimedOut { phase: TimedPhase::NextEvent });
    assert!(error.partial.is_some());
}

#[tokio::test]
async fn an_answer_without_an_end_has_one() {
    let drip = || {
        let parts = (0..100).map(|_| Part::Wait(Duration::from_millis(50)));
        parts.fold(Reply::events([""]), |reply, wait| {
            reply.then(wait).then(Part::Bytes(b": drip\n\n".to_vec()))
        })
    };
    for told in both(drip, &json!({"idle_timeout": "10s", "timeout": "500ms"})).await {
        let expected = ErrorKind::TimedOut { phase: TimedPhase::WholeAnswer };
        assert_eq!(told.error().kind, expected);
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused() {
    let line = || Reply::events(["data: "]).then(Part::Forever(vec![b'x'; 1 << 16]));
    for told in both(line, &json!({})).await {
        let error = told.error();
        assert!(matches!(&error.kind, ErrorKind::TooLarge { limit } if limit.contains("event")));
        assert!(!error.is_retryable());
    }

    let comments = Reply::events([""]).then(Part::Forever(b": x\n\n".repeat(10_000)));
    let server = Server::start([comments]).await;
    let told = ask(model("openai", &server.url, &json!({})).as_ref(), &request("Hi")).await;
    assert!(matches!(told.error().kind, ErrorKind::TooLarge { .. }));

    let piece = json!({"name": "search", "arguments": "{}"});
    let calls = (0..200).map(|at| {
        let call = json!({"index": at, "id": format!("c{at}"), "function": piece});
        chunk(&json!({"tool_calls": [call]}), None)
    });
    let server = Server::start([Reply::events(calls)]).await;
    let told = ask(model("openai", &server.url, &json!({})).as_ref(), &request("Hi")).await;
    let error = told.error();
    assert!(matches!(&error.kind, ErrorKind::TooLarge { limit } if limit.contains("calls")));

    let endless = || {
        let body = Part::Forever(vec![b' '; 1 << 16]);
        Reply::json(200, &json!({})).then(body)
    };
    for told in both(endless, &json!({})).await {
        assert!(matches!(told.error().kind, ErrorKind::TooLarge { .. }));
    }
    let refusal = || Reply::json(400, &json!({})).then(Part::Forever(vec![b' '; 1 << 16]));
    for told in both(refusal, &json!({})).await {
        assert!(matches!(told.error().kind, ErrorKind::Refused { .. }));
    }
}

#[tokio::test]
async fn nonsense_is_a_broken_stream_or_passed_over_and_never_a_panic() {
    let nonsense = [
        "data: {\n\n".to_owned(),
        "data: \u{0}\n\n".to_owned(),
        format!("data: {}\n\n", "[".repeat(100_000)),
        data(&json!({"choices": 7})),
        data(&json!({"choices": [{"delta": 7, "finish_reason": {}}]})),
        data(&json!({"choices": [{"delta": {"tool_calls": [7, {"index": -1}, {"function": 7}]}}]})),
        data(&json!({"usage": {"prompt_tokens": -1, "completion_tokens": 1e300}})),
        data(&json!({"type": "content_block_start"})),
        data(&json!({"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta"}})),
        data(&json!({"type": "message_start", "message": 7})),
        data(&json!({"type": "message_delta"})),
        data(&json!({"type": 7})),
        data(&json!("text")),
    ];
    for event in nonsense {
        for told in both(|| Reply::events([event.clone()]), &json!({})).await {
            let error = told.error();
            assert!(matches!(error.kind, ErrorKind::BrokenStream { .. }), "{event}: {error:?}");
        }
    }
    // Bytes that are no text.
    for told in
        both(|| Reply::events([[b'd', b'a', b't', b'a', b':', 0xff, b'\n', b'\n']]), &json!({}))
            .await
    {
        assert!(matches!(told.error().kind, ErrorKind::BrokenStream { .. }));
    }
}

#[tokio::test]
async fn another_model_is_asked_where_one_cannot_answer() {
    let first = Server::start([busy(529), busy(529)]).await;
    let second = Server::start([Reply::events([
        message_start(),
        block(0, &json!({"type": "text", "text": "Hi"}), &[]).concat(),
        message_end("end_turn"),
    ])])
    .await;
    let settings = json!({
        "endpoints": {
            "a": {"provider": "openai", "model": "one", "base_url": first.url},
            "b": {"provider": "anthropic", "model": "two", "base_url": second.url},
            "c": {"provider": "openai", "model": "gone", "base_url": "http://127.0.0.1:9/v1"},
        },
        "tiers": {"high": ["c", "a", "b"], "low": ["b"]},
    });
    let models = models(&settings);
    let model = models.tier(Tier::High).expect("there is one");
    assert_eq!(model.name(), "gone");
    let request = ModelRequest { ..with_tools(request("Hi")) };
    let told = ask(model.as_ref(), &request).await;
    let changes = told.events.iter().filter_map(|event| match event {
        ModelEvent::FellBack { model, .. } => Some(model.as_str()),
        _ => None,
    });
    assert_eq!(changes.collect::<Vec<_>>(), ["one", "two"]);
    assert_eq!(told.completion().text(), "Hi");
    // Once more, and then the next.
    assert_eq!(first.asked().len(), 2);
    assert_eq!(second.asked()[0].body["tools"][0]["name"], "search");

    // A request that is wrong is so with everybody.
    let wrong = Server::start([Reply::error(400, &json!({}))]).await;
    let settings = json!({"endpoints": {
        "a": {"provider": "openai", "model": "one", "base_url": wrong.url},
        "b": {"provider": "openai", "model": "two", "base_url": second.url},
    }});
    let model = self::models(&settings).tier(Tier::Low).expect("there is one");
    ask(model.as_ref(), &request).await.error();
    assert_eq!(second.asked().len(), 1);
}
