//! What is outside of the fleet: models and other APIs, as a server that says what they would.

use std::net::TcpListener;

use serde_json::{Value, json};
use toolbus_testkit::scripted_server::{Reply, Server};

/// What a model answers, whatever it is asked.
const ANSWER: &str = "It is noon.";

/// A port of this machine that nobody listens on.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Answers for the APIs of models and of OpenRouter.
pub(crate) async fn model() -> Server {
    Server::answering_any(|asked| match asked.path.rsplit('/').next() {
        Some("messages") => anthropic(),
        Some("chat" | "completions") => openai(),
        Some("credits") => {
            Reply::json(200, &json!({"data": {"total_credits": 10.0, "total_usage": 2.5}}))
        }
        _ => Reply::json(404, &json!({"error": {"message": asked.path}})),
    })
    .await
}

fn openai() -> Reply {
    let event = |delta: Value, stop: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
        let chunk = json!({
            "id": "answer", "object": "chat.completion.chunk", "created": 1, "model": "model-1",
            "choices": [choice],
        });
        format!("data: {chunk}\n\n")
    };
    let said = event(json!({"content": ANSWER}), None);
    Reply::events([said, event(json!({}), Some("stop")), "data: [DONE]\n\n".to_owned()])
}

fn anthropic() -> Reply {
    let usage = json!({"input_tokens": 1, "output_tokens": 1});
    let message = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "model-1", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": usage,
    });
    let events = [
        json!({"type": "message_start", "message": message}),
        json!({
            "type": "content_block_start", "index": 0,
            "content_block": {"type": "text", "text": ""},
        }),
        json!({
            "type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": ANSWER},
        }),
        json!({"type": "content_block_stop", "index": 0}),
        json!({
            "type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null},
            "usage": usage,
        }),
        json!({"type": "message_stop"}),
    ];
    let line = |event: &Value| {
        format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
    };
    Reply::events(events.iter().map(line))
}
