//! Models of a server, requests, and what events of each API look like.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_models::{
    Completion, Message, Model, ModelDeps, ModelError, ModelEvent, ModelRequest, ModelSettings,
    Models, Tier, ToolList,
};
use toolbus_tools::Tool;
use toolbus_tools::call::Output;
use toolbus_tools::registry::{Offer, Registry, ToolEntry};

/// The key of every model here.
pub(crate) const KEY: &str = "sk-5ec2e7c0ffee5ec2e7c0ffee";

/// Within this everything has happened that should.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);

/// A model of this provider at this address, with these settings besides.
pub(crate) fn model(provider: &str, url: &str, settings: &Value) -> Arc<dyn Model> {
    let mut endpoint = json!({
        "provider": provider,
        "model": "model-1",
        "base_url": url,
        "api_key": KEY,
    });
    for (name, value) in settings.as_object().expect("settings are an object") {
        endpoint[name] = value.clone();
    }
    models(&json!({"endpoints": {"main": endpoint}, "retries": 0}))
        .tier(Tier::Balanced)
        .expect("there is one")
}

/// The models of these settings.
pub(crate) fn models(settings: &Value) -> Models {
    let settings: ModelSettings =
        serde_json::from_value(settings.clone()).expect("they are settings");
    let environment = |_: &str| None;
    let deps = ModelDeps { environment: &environment, credentials: None };
    Models::connect(&settings, &deps).expect("there are models")
}

/// What became of a request, and what was told meanwhile.
pub(crate) struct Told {
    pub(crate) result: Result<Completion, ModelError>,
    pub(crate) events: Vec<ModelEvent>,
}

/// Asks a model.
pub(crate) async fn ask(model: &dyn Model, request: &ModelRequest) -> Told {
    let mut events = Vec::new();
    let mut on_event = |event| events.push(event);
    let asking = model.complete(request, &mut on_event);
    let result = tokio::time::timeout(LIMIT, asking).await.expect("it ends");
    Told { result, events }
}

impl Told {
    /// The answer.
    pub(crate) fn completion(self) -> Completion {
        self.result.unwrap_or_else(|error| panic!("{error}: {:?}", self.events))
    }

    /// Why there is none.
    pub(crate) fn error(self) -> ModelError {
        self.result.err().unwrap_or_else(|| panic!("there is an answer: {:?}", self.events))
    }

    /// The text that was told.
    pub(crate) fn text(&self) -> String {
        let texts = self.events.iter().filter_map(|event| match event {
            ModelEvent::Text { delta } => Some(delta.as_str()),
            _ => None,
        });
        texts.collect()
    }
}

/// A request with this text of a person.
pub(crate) fn request(text: &str) -> ModelRequest {
    ModelRequest {
        system: "You help.".into(),
        messages: vec![Arc::new(Message::user(text))],
        ..ModelRequest::default()
    }
}

/// The same request with these messages behind its own.
pub(crate) fn with(request: ModelRequest, more: impl IntoIterator<Item = Message>) -> ModelRequest {
    let messages = request.messages.iter().cloned().chain(more.into_iter().map(Arc::new)).collect();
    ModelRequest { messages, ..request }
}

/// The same request with some tools.
pub(crate) fn with_tools(request: ModelRequest) -> ModelRequest {
    let parameters = json!({
        "type": "object",
        "properties": {"q": {"type": "string"}, "limit": {"type": "integer"}},
        "required": ["q"]
    });
    let tool = |name: &str| {
        Tool::new(name, format!("Does {name}."), "test").with_parameters(parameters.clone())
    };
    let tools = [tool("search"), tool("mail.send"), tool("rarely").deferred()];
    ModelRequest { tools: Arc::new(ToolList::new(entries(tools))), ..request }
}

fn entries(tools: impl IntoIterator<Item = Tool>) -> Vec<Arc<ToolEntry>> {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let offer = |tool: Tool| Offer::new(tool, |_| std::future::ready(Ok(Output::default())));
    assert!(provider.publish(tools.into_iter().map(offer).collect()).is_empty());
    registry.snapshot().tools().to_vec()
}

/// An event of OpenAI's stream with this piece of an answer.
pub(crate) fn chunk(delta: &Value, finish_reason: Option<&str>) -> String {
    data(&json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_764_000_000,
        "model": "model-1-2026",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        "usage": null,
    }))
}

/// The last event with something in it, which has the usage.
pub(crate) fn usage_chunk(usage: &Value) -> String {
    data(&json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_764_000_000,
        "model": "model-1-2026",
        "choices": [],
        "usage": usage,
    }))
}

/// An event without a type.
pub(crate) fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// The end of OpenAI's stream.
pub(crate) const DONE: &str = "data: [DONE]\n\n";

/// An event of Anthropic's stream.
pub(crate) fn event(value: &Value) -> String {
    format!("event: {}\ndata: {value}\n\n", value["type"].as_str().expect("it has a type"))
}

/// The first event of Anthropic's stream.
pub(crate) fn message_start() -> String {
    event(&json!({"type": "message_start", "message": {
        "id": "msg_1", "type": "message", "role": "assistant", "content": [],
        "model": "model-1-2026", "stop_reason": null, "stop_sequence": null,
        "usage": {
            "input_tokens": 10, "output_tokens": 1,
            "cache_creation_input_tokens": 5, "cache_read_input_tokens": 100
        }
    }}))
}

/// The last events of Anthropic's stream.
pub(crate) fn message_end(stop_reason: &str) -> String {
    let delta = json!({
        "type": "message_delta",
        "delta": {"stop_reason": stop_reason, "stop_sequence": null},
        "usage": {"output_tokens": 20}
    });
    event(&delta) + &event(&json!({"type": "message_stop"}))
}

/// The events of a block of Anthropic's stream.
pub(crate) fn block(index: u64, start: &Value, deltas: &[Value]) -> Vec<String> {
    let start = json!({"type": "content_block_start", "index": index, "content_block": start});
    let deltas = deltas.iter().map(|delta| {
        event(&json!({"type": "content_block_delta", "index": index, "delta": delta}))
    });
    let stop = event(&json!({"type": "content_block_stop", "index": index}));
    std::iter::once(event(&start)).chain(deltas).chain([stop]).collect()
}
