//! Models that answer at once, by themselves and behind an API: they call a tool where the last
//! message is a user's, and say something else where it is a result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use toolbus_models::connect::ModelDeps;
use toolbus_models::models::Models;
use toolbus_models::settings::ModelSettings;
use toolbus_models::{
    AssistantMessage, AssistantPart, CallArguments, Completion, Message, Model, ModelCall,
    ModelError, ModelRequest, OnEvent, StopReason, TokenUsage,
};

const TOOL: &str = "look_7";
const SAYS: &str = "There is nothing to see.";

/// A model that takes no time.
pub(super) struct Instantly;

/// A model that takes this long.
pub(super) struct After(pub(super) Duration);

impl Model for Instantly {
    fn name(&self) -> &str {
        "instantly"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        std::future::ready(Ok(answer_to(request))).boxed()
    }
}

impl Model for After {
    fn name(&self) -> &str {
        "after"
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        _: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        async move {
            tokio::time::sleep(self.0).await;
            Ok(answer_to(request))
        }
        .boxed()
    }
}

fn answer_to(request: &ModelRequest) -> Completion {
    let is_result =
        request.messages.last().is_some_and(|last| matches!(**last, Message::Results { .. }));
    let (part, stop) = match is_result {
        true => (AssistantPart::Text { text: SAYS.to_owned() }, StopReason::End),
        false => {
            let call = ModelCall {
                id: "call_1".to_owned(),
                name: TOOL.to_owned(),
                arguments: CallArguments::Json { value: json!({"path": "/"}) },
                written: None,
            };
            (AssistantPart::Call(call), StopReason::ToolCalls)
        }
    };
    let message = AssistantMessage { parts: vec![part] };
    Completion { message, stop, usage: TokenUsage::default(), model: "model".to_owned() }
}

/// OpenAI's chat completions, as far as a turn needs them. It is gone when it is dropped.
pub(super) struct Streaming {
    url: String,
    /// When the first text of the last answer was written.
    first_written: Arc<Mutex<Option<Instant>>>,
    _tasks: JoinSet<()>,
}

impl Streaming {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?);
        let first_written = Arc::<Mutex<Option<Instant>>>::default();
        let mut tasks = JoinSet::new();
        let written = Arc::clone(&first_written);
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let written = Arc::clone(&written);
                connections.spawn(async move { drop(serve(stream, &written).await) });
            }
        });
        Ok(Self { url, first_written, _tasks: tasks })
    }

    pub(super) fn model(&self) -> anyhow::Result<Arc<dyn Model>> {
        let settings: ModelSettings = serde_json::from_value(json!({"endpoints": {"main": {
            "provider": "openai", "model": "model", "base_url": self.url, "api_key": "none",
        }}}))?;
        let environment = |_: &str| None;
        let models = Models::connect(
            &settings,
            &ModelDeps { environment: &environment, credentials: None },
        )?;
        models.find("main").ok_or_else(|| anyhow::anyhow!("there is no model"))
    }

    pub(super) fn first_written(&self) -> Option<Instant> {
        *self.first_written.lock()
    }
}

async fn serve(mut stream: TcpStream, written: &Mutex<Option<Instant>>) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    loop {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "it is over");
            continue;
        };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.unwrap_or("0").trim().parse()?;
        while bytes.len() < end + 4 + length {
            anyhow::ensure!(stream.read_buf(&mut bytes).await? > 0, "it is over");
        }
        // What the last message is can be told by the end of the body, which is not read.
        let body = &bytes[end + 4..end + 4 + length];
        let is_result = last_role_is_tool(body);
        bytes.drain(..end + 4 + length);

        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n").await?;
        if is_result {
            *written.lock() = Some(Instant::now());
            write_event(&mut stream, json!({"content": SAYS}), None).await?;
            write_event(&mut stream, json!({}), Some("stop")).await?;
        } else {
            let function = json!({"name": TOOL, "arguments": "{\"path\": \"/\"}"});
            let call =
                json!({"index": 0, "id": "call_1", "type": "function", "function": function});
            write_event(&mut stream, json!({"tool_calls": [call]}), None).await?;
            write_event(&mut stream, json!({}), Some("tool_calls")).await?;
        }
        write_chunk(&mut stream, "data: [DONE]\n\n").await?;
        stream.write_all(b"0\r\n\r\n").await?;
    }
}

fn last_role_is_tool(body: &[u8]) -> bool {
    let text = String::from_utf8_lossy(body);
    let messages = text.find("\"messages\":").map_or(&*text, |at| &text[at..]);
    let role = messages.rfind("\"role\":\"").map(|at| &messages[at + 8..]);
    role.is_some_and(|role| role.starts_with("tool"))
}

async fn write_event(
    stream: &mut TcpStream,
    delta: Value,
    stop: Option<&str>,
) -> anyhow::Result<()> {
    let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
    let event = json!({
        "id": "answer", "object": "chat.completion.chunk", "created": 1, "model": "model",
        "choices": [choice],
    });
    write_chunk(stream, &format!("data: {event}\n\n")).await
}

async fn write_chunk(stream: &mut TcpStream, text: &str) -> anyhow::Result<()> {
    stream.write_all(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes()).await?;
    Ok(())
}
