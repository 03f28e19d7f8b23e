//! A server whose answers a test writes, down to their bytes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::eventually;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its method.
    pub method: String,
    /// Its path, with the query.
    pub path: String,
    /// Its headers, by their names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What was sent, of a form its text; null where nothing was.
    pub body: Value,
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    parts: Vec<Part>,
    /// Whether its length is said before; else it comes in chunks.
    has_length: bool,
}

/// A part of its body.
#[derive(Debug, Clone)]
pub enum Part {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing for a while.
    Wait(Duration),
    /// Nothing more, until the other side hangs up.
    Hang,
    /// The connection ends in the middle of the answer.
    Break,
    /// These bytes again and again, until nobody takes them any more.
    Forever(Vec<u8>),
}

/// The server. It is gone when it is dropped.
pub struct Server {
    /// Where it is, with `/v1` at the end.
    pub url: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

/// Gives the answer to a request.
type Script = Box<dyn FnMut(&Asked) -> Reply + Send>;

struct State {
    script: Script,
    /// Whether requests without a body are hung up on.
    wants_body: bool,
    asked: Vec<Asked>,
    /// How many connections were given up by the other side.
    hung_up: usize,
}

impl Server {
    /// Starts one that gives these answers, in order.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let mut script: VecDeque<_> = script.into_iter().collect();
        let over = || Reply::error(418, &json!({"error": {"message": "the script is over"}}));
        Self::answering(move |_| script.pop_front().unwrap_or_else(over)).await
    }

    /// Starts one that answers each request so. One without a body, such as for a list of models,
    /// is hung up on.
    pub async fn answering(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        Self::listen(Box::new(script), true).await
    }

    /// The same, which answers requests without a body, too.
    pub async fn answering_any(script: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        Self::listen(Box::new(script), false).await
    }

    async fn listen(script: Script, wants_body: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}/v1", listener.local_addr().expect("it is bound"));
        let state = State { script, wants_body, asked: Vec::new(), hung_up: 0 };
        let state = Arc::new(Mutex::new(state));
        let mut tasks = JoinSet::new();
        let accepted = state.clone();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, accepted.clone()));
            }
        });
        Self { url, state, _tasks: tasks }
    }

    /// What it was asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().asked.clone()
    }

    /// The one request that there was.
    pub fn only_request(&self) -> Asked {
        let mut asked = self.asked();
        assert_eq!(asked.len(), 1, "{asked:?}");
        asked.remove(0)
    }

    /// Waits until the other side has given up a connection.
    pub async fn hung_up(&self) {
        let look = async || match self.state.lock().hung_up {
            0 => Err("nobody has hung up"),
            _ => Ok(()),
        };
        eventually(Duration::from_secs(10), look).await;
    }
}

impl Reply {
    /// A stream of these events.
    pub fn events(events: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Self {
        let parts = events.into_iter().map(|event| Part::Bytes(event.as_ref().to_vec())).collect();
        let headers = vec![("content-type".to_owned(), "text/event-stream".to_owned())];
        Self { status: 200, headers, parts, has_length: false }
    }

    /// An error with this body.
    pub fn error(status: u16, body: &Value) -> Self {
        Self::json(status, body)
    }

    /// A body of JSON.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::body(status, "application/json", body.to_string())
    }

    /// A body of this type.
    pub fn body(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        Self::empty(status).header("content-type", content_type).then(Part::Bytes(body.into()))
    }

    /// Nothing but a status.
    pub fn empty(status: u16) -> Self {
        Self { status, headers: Vec::new(), parts: Vec::new(), has_length: false }
    }

    /// The same, with the length of its bytes in a header.
    pub fn with_length(mut self) -> Self {
        let lengths = self.parts.iter().map(|part| match part {
            Part::Bytes(bytes) => bytes.len(),
            _ => 0,
        });
        let length: usize = lengths.sum();
        self.has_length = true;
        self.header("content-length", &length.to_string())
    }

    /// The same with another header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same, and then this.
    pub fn then(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}

async fn serve(mut stream: TcpStream, state: Arc<Mutex<State>>) {
    let Some(asked) = read_request(&mut stream).await else { return };
    let reply = {
        let mut state = state.lock();
        if state.wants_body && asked.body.is_null() {
            return;
        }
        let reply = (state.script)(&asked);
        state.asked.push(asked);
        reply
    };
    if write_reply(&mut stream, reply).await.is_none() {
        state.lock().hung_up += 1;
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let mut request_line = lines.next()?.split(' ');
    let method = request_line.next()?.to_owned();
    let path = request_line.next()?.to_owned();
    let headers = lines.filter_map(|line| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    });
    let headers: BTreeMap<_, _> = headers.collect();

    let length = headers.get("content-length").and_then(|length| length.parse().ok());
    let length: usize = length.unwrap_or_default();
    while bytes.len() < end + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    let body = match &bytes[end + 4..] {
        [] => Value::Null,
        body if headers.get("content-type").is_some_and(|of| of.contains("form-urlencoded")) => {
            Value::String(String::from_utf8_lossy(body).into_owned())
        }
        body => serde_json::from_slice(body).expect("a request is JSON"),
    };
    Some(Asked { method, path, headers, body })
}

/// Writes an answer; `None` where the other side has hung up.
async fn write_reply(stream: &mut TcpStream, reply: Reply) -> Option<()> {
    let mut head = format!("HTTP/1.1 {} Scripted\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if !reply.has_length {
        head += "transfer-encoding: chunked\r\n";
    }
    head += "connection: close\r\n\r\n";
    stream.write_all(head.as_bytes()).await.ok()?;

    for part in reply.parts {
        match part {
            Part::Bytes(bytes) if reply.has_length => stream.write_all(&bytes).await.ok()?,
            Part::Bytes(bytes) => write_chunk(stream, &bytes).await?,
            Part::Wait(time) => tokio::time::sleep(time).await,
            Part::Hang => {
                let mut byte = [0];
                let read = stream.read(&mut byte).await;
                return (read.ok()? > 0).then_some(());
            }
            Part::Break => return Some(()),
            Part::Forever(bytes) => loop {
                write_chunk(stream, &bytes).await?;
            },
        }
    }
    if reply.has_length {
        return stream.flush().await.ok();
    }
    stream.write_all(b"0\r\n\r\n").await.ok()
}

async fn write_chunk(stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    if bytes.is_empty() {
        return Some(());
    }
    let head = format!("{:x}\r\n", bytes.len());
    stream.write_all(&[head.as_bytes(), bytes, b"\r\n"].concat()).await.ok()?;
    stream.flush().await.ok()
}
