//! One flow of the recording on a broker of its own: publishes its requests and collects answers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use toolbus_bus::Bus;
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_testkit::eventually;
use toolbus_testkit::rabbit::{self, Message, Vhost};
use toolbus_wire::fixtures::{self, RecordedFrame};
use toolbus_wire::frame::HeaderValue;

use crate::compare::Reply;

/// Where answers are collected.
const ANSWERS: &str = "test.answers";
/// How long all answers of a flow may take.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) struct Stage {
    vhost: Vhost,
    bus: Arc<dyn Bus>,
    frames: Vec<RecordedFrame>,
    collected: Mutex<Vec<Reply>>,
}

impl Stage {
    /// A virtual host with a queue for every topic that the flow's answers go to.
    pub(crate) async fn set(flow: &str) -> Option<Self> {
        let vhost = rabbit::vhost().await?;
        let config = Config::new(&vhost.amqp_url()).expect("a URL");
        let bus = RabbitBus::connect(config).await.expect("the broker is there");
        vhost.declare_queue(ANSWERS, json!({"durable": true})).await.expect("a queue");
        let replies = [
            "client.replies",
            "tool.result",
            "tool.result.RockBot",
            "custom.reply.topic",
            "mcp.manage.response.RockBot",
            "script.result.RockBot",
        ];
        for topic in replies {
            vhost.bind("rockbot", ANSWERS, topic).await.expect("a binding");
        }
        let frames = fixtures::flow(flow).frames;
        Some(Self { vhost, bus, frames, collected: Mutex::default() })
    }

    pub(crate) fn bus(&self) -> Arc<dyn Bus> {
        Arc::clone(&self.bus)
    }

    /// Publishes every request of the flow, and pairs each recorded answer with ours.
    pub(crate) async fn replay(&self, edit: impl Fn(String) -> String) -> Vec<(Reply, Reply)> {
        self.replay_but("", edit).await
    }

    /// The same without the request of that call id.
    pub(crate) async fn replay_but(
        &self,
        call_id: &str,
        edit: impl Fn(String) -> String,
    ) -> Vec<(Reply, Reply)> {
        let is_answer = |frame: &&RecordedFrame| {
            frame.routing_key.contains("result")
                || frame.routing_key.contains("response")
                || frame.routing_key.contains("repl")
        };

        let live = || self.frames.iter().filter(|frame| frame.exchange == "rockbot");
        let recorded: Vec<Reply> = live().filter(is_answer).map(of_recording).collect();
        let mut pairs = Vec::new();

        for request in live().filter(|frame| !is_answer(frame)) {
            let body = String::from_utf8(request.frame.body.to_vec()).expect("text");
            if !call_id.is_empty() && body.contains(call_id) {
                continue;
            }
            self.publish(request, edit(body)).await;
            // One after the other, as it was recorded: to register a server and to unregister it
            // are no requests to run at the same time.
            if let Some(recorded) = recorded.iter().find(|recorded| answers(recorded, request)) {
                let ours = self.answer(|reply| belongs(reply, recorded)).await;
                pairs.push((recorded.clone(), ours));
            }
        }

        pairs
    }

    /// Our answer to a request that has none in the recording.
    pub(crate) async fn unmatched(&self, correlation_id: &str) -> Reply {
        self.answer(|reply| reply.correlation_id == correlation_id).await
    }

    /// Waits until nothing is left in a queue, nor out for handling.
    pub(crate) async fn expect_quiet(&self, queue: &str) {
        eventually(LIMIT, async || {
            let queue = self.vhost.queue(queue).await?.context("no such queue")?;
            anyhow::ensure!(queue.messages == 0, "{queue:?}");
            Ok(())
        })
        .await;
        let left = self.vhost.take(ANSWERS, 100).await.expect("the queue of answers");
        assert!(left.is_empty(), "answered more than once: {left:?}");
    }

    /// Waits for a dead letter, and asserts that it says why it is one.
    pub(crate) async fn expect_dead_letter(&self, queue: &str, correlation_id: &str) {
        let letter = eventually(LIMIT, async || {
            let mut letters = self.vhost.take(queue, 1).await?;
            letters.pop().context("no dead letter yet")
        })
        .await;
        assert_eq!(letter.properties["correlation_id"], correlation_id);
        assert!(letter.properties["headers"]["rb-dead-letter-reason"].is_string(), "{letter:?}");
    }

    pub(crate) async fn strike(self) {
        self.bus.close(Duration::from_secs(1)).await;
    }

    async fn publish(&self, request: &RecordedFrame, body: String) {
        let properties = &request.frame.properties;
        let headers: Map<String, Value> = request
            .frame
            .headers
            .iter()
            .filter_map(|(name, value)| Some((name.to_string(), json!(long_string(value)?))))
            .collect();
        let properties = json!({
            "content_type": properties.content_type,
            "delivery_mode": properties.delivery_mode,
            "correlation_id": properties.correlation_id,
            "reply_to": properties.reply_to,
            "message_id": properties.message_id,
            "timestamp": properties.timestamp,
            "type": properties.message_type,
            "headers": headers,
        });

        let routed = self
            .vhost
            .publish(&request.exchange, &request.routing_key, properties, body.as_bytes())
            .await
            .expect("the broker takes it");

        assert!(routed, "nobody listens to {}", request.routing_key);
    }

    async fn answer(&self, wanted: impl Fn(&Reply) -> bool) -> Reply {
        eventually(LIMIT, async || {
            let new = self.vhost.take(ANSWERS, 100).await?;
            let mut collected = self.collected.lock();
            collected.extend(new.iter().map(of_message));
            let at = collected.iter().position(&wanted);
            at.map(|at| collected.remove(at)).with_context(|| format!("only {collected:#?}"))
        })
        .await
    }
}

/// Whether a recorded reply answers a recorded request.
fn answers(reply: &Reply, request: &RecordedFrame) -> bool {
    let correlation_id = request.frame.properties.correlation_id.as_deref().unwrap_or_default();
    if !correlation_id.is_empty() {
        return reply.correlation_id == correlation_id;
    }
    // A null body has no call id, nor has it an answer.
    let body: Value = serde_json::from_slice(&request.frame.body).unwrap_or_default();
    let call_id = body.get("toolCallId").or_else(|| body.get("ToolCallId"));
    reply.correlation_id.is_empty() && call_id == reply.body.get("toolCallId")
}

/// Whether a reply of ours answers what a recorded one does: scripts and one call of a tool have
/// no correlation id, and there the call's own id tells.
fn belongs(ours: &Reply, recorded: &Reply) -> bool {
    ours.correlation_id == recorded.correlation_id
        && (!recorded.correlation_id.is_empty()
            || ours.body["toolCallId"] == recorded.body["toolCallId"])
}

fn of_recording(frame: &RecordedFrame) -> Reply {
    let properties = &frame.frame.properties;
    let text = |text: &Option<std::borrow::Cow<'static, str>>| {
        text.as_deref().unwrap_or_default().to_owned()
    };
    let headers = frame
        .frame
        .headers
        .iter()
        .filter_map(|(name, value)| Some((name.to_string(), long_string(value)?.to_owned())));
    Reply {
        routing_key: frame.routing_key.clone(),
        message_type: text(&properties.message_type),
        correlation_id: text(&properties.correlation_id),
        headers: without_trace(headers),
        body: serde_json::from_slice(&frame.frame.body).expect("a recorded answer is JSON"),
    }
}

fn of_message(message: &Message) -> Reply {
    let property = |name: &str| {
        message.properties.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let headers = message.properties.get("headers").and_then(Value::as_object);
    let headers = headers.into_iter().flatten().map(|(name, value)| {
        (name.clone(), value.as_str().expect("headers are long strings").to_owned())
    });
    Reply {
        routing_key: message.routing_key.clone(),
        message_type: property("type"),
        correlation_id: property("correlation_id"),
        headers: without_trace(headers),
        body: serde_json::from_slice(&message.body).expect("our answers are JSON"),
    }
}

/// The text of a header, as every header of a live message is; dead letters have tables as well.
fn long_string<'a>(value: &'a HeaderValue<'_>) -> Option<&'a str> {
    match value {
        HeaderValue::LongString(bytes) => Some(std::str::from_utf8(bytes).expect("text")),
        HeaderValue::Other => None,
    }
}

fn without_trace(headers: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    let mut headers: Vec<_> = headers.filter(|(name, _)| name != "rb-traceparent").collect();
    headers.sort();
    headers
}
