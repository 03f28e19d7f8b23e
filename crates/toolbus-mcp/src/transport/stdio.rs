//! The transport to a child process: JSON-RPC, one message a line, on its stdin and stdout.
//!
//! Of what a child may write there, only its messages come through. Lines that are none are passed
//! over and counted. An answer that is too long or not understood ends its own call with an error,
//! and no other. A child that does not read what it is sent is given up.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::RequestId;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::MESSAGE_BYTES_MAX;
use super::line::{CutLine, Line, LineReader};
use super::process::{Pipes, Process, Watch};

/// How long one message may wait to be written, in all. Its time includes those before it.
const WRITE_WAIT: Duration = Duration::from_secs(10);
/// After so many lines that were no message, they are counted and no longer logged.
const STRAY_LINES_LOGGED: u64 = 10;

/// One child's stdin and stdout.
pub(crate) struct Stdio {
    lines: LineReader<ChildStdout>,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// Fires when everything is written that was to be sent so far.
    written: oneshot::Receiver<()>,
    stuck: CancellationToken,
    stray_lines: u64,
    server: String,
    watch: Arc<Watch>,
    /// Ends the child with this transport.
    _process: Process,
}

/// What a server has done whose answer is none.
pub(super) const NO_MESSAGE: &str = "gave an answer that is not a valid MCP message";

impl Stdio {
    pub(crate) fn new(server: &str, process: Process, pipes: Pipes) -> Self {
        Self {
            lines: LineReader::new(pipes.stdout, MESSAGE_BYTES_MAX),
            stdin: Arc::new(Mutex::new(Some(pipes.stdin))),
            written: oneshot::channel().1,
            stuck: CancellationToken::new(),
            stray_lines: 0,
            server: server.to_owned(),
            watch: process.watch(),
            _process: process,
        }
    }

    fn understand(&mut self, line: Line) -> Received {
        match line {
            Line::End => Received::End,
            Line::Whole(line) => match parse(&line) {
                Parsed::Message(message) => Received::Message(message),
                Parsed::Answer(id) => failed(id, NO_MESSAGE.to_owned()),
                Parsed::Stray => self.stray(&line),
            },
            Line::Cut(line) => match line.answers() {
                Some(id) => failed(id, too_long(line.length)),
                None => {
                    tracing::warn!(server = self.server, bytes = line.length, "line too long");
                    Received::Nothing
                }
            },
        }
    }

    fn stray(&mut self, line: &[u8]) -> Received {
        self.stray_lines += 1;
        if self.stray_lines <= STRAY_LINES_LOGGED && !line.trim_ascii().is_empty() {
            tracing::debug!(server = self.server, bytes = line.len(), "a line that is no message");
        }
        Received::Nothing
    }
}

#[expect(clippy::large_enum_variant, reason = "on its way to rmcp, which takes it unboxed")]
pub(super) enum Received {
    Message(RxJsonRpcMessage<RoleClient>),
    Nothing,
    End,
}

impl Transport<RoleClient> for Stdio {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let (stdin, stuck) = (Arc::clone(&self.stdin), self.stuck.clone());
        // rmcp has every message sent by a task of its own. They are written in the order in which
        // they were given here, or a call could be cancelled before the server has it.
        let (done, written) = oneshot::channel();
        let before = std::mem::replace(&mut self.written, written);
        async move {
            let _done = done;
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let written = timeout(WRITE_WAIT, async {
                // An error is a message whose turn is over, too.
                let _ = before.await;
                let mut stdin = stdin.lock().await;
                let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                write(stdin, &line).await
            });
            written.await.unwrap_or_else(|_| {
                // Part of the message may be written: nothing after it would be understood.
                stuck.cancel();
                Err(io::Error::new(io::ErrorKind::TimedOut, "the server does not read its input"))
            })
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            // Reading goes first, so that what a child said before its end is heard. Every arm
            // may be dropped: the reader keeps what it has.
            let line = tokio::select! {
                biased;
                line = self.lines.next() => line,
                () = self.watch.gone() => return None,
                () = self.stuck.cancelled() => return None,
            };
            match self.understand(line) {
                Received::Message(message) => return Some(message),
                Received::Nothing => {}
                Received::End => return None,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        // A write that hangs holds the lock; the child is then ended without a closed stdin.
        if let Ok(mut stdin) = self.stdin.try_lock() {
            stdin.take();
        }
        self.watch.stop();
        Ok(())
    }
}

async fn write(stdin: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    stdin.write_all(line).await?;
    stdin.flush().await
}

/// An error of ours in the place of an answer that cannot be used: see [`super::is_ours`].
pub(super) fn failed(id: RequestId, what: String) -> Received {
    Received::Message(RxJsonRpcMessage::<RoleClient>::error(super::unusable(what), Some(id)))
}

pub(super) fn too_long(bytes: u64) -> String {
    format!("gave an answer of {bytes} bytes, more than {MESSAGE_BYTES_MAX}")
}

#[expect(clippy::large_enum_variant, reason = "on its way to rmcp, which takes it unboxed")]
pub(super) enum Parsed {
    Message(RxJsonRpcMessage<RoleClient>),
    /// An answer to this request, though not one that can be understood.
    Answer(RequestId),
    Stray,
}

pub(super) fn parse(line: &[u8]) -> Parsed {
    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
    if let Ok(message) = serde_json::from_slice(line) {
        return Parsed::Message(message);
    }
    let value: Option<Value> = serde_json::from_slice(line).ok();
    let answers = value.filter(|value| value.get("method").is_none()).and_then(|v| id_of(&v));
    match answers.or_else(|| CutLine::of(line).answers()) {
        Some(id) => Parsed::Answer(id),
        None => Parsed::Stray,
    }
}

fn id_of(message: &Value) -> Option<RequestId> {
    match message.get("id")? {
        Value::Number(id) => id.as_i64().map(RequestId::Number),
        Value::String(id) => Some(RequestId::String(id.as_str().into())),
        _ => None,
    }
}

impl CutLine {
    /// The request that this line answers, when one of its ends shows it: the id stands before the
    /// result, or after it.
    pub(super) fn answers(&self) -> Option<RequestId> {
        before_the_result(&self.head).or_else(|| after_the_result(&self.tail))
    }
}

/// Reads `{"jsonrpc":"2.0","id":7` out of `{"jsonrpc":"2.0","id":7,"result":{…`.
fn before_the_result(head: &[u8]) -> Option<RequestId> {
    let head = String::from_utf8_lossy(head);
    let at = [r#""result""#, r#""error""#].iter().filter_map(|name| head.find(name)).min()?;
    let members = head[..at].trim_end().strip_suffix(',')?;
    id_of(&serde_json::from_str(&format!("{members}}}")).ok()?)
}

/// Reads `"id":7}` out of `…},"id":7}`: the longest end of the line that is members and `}`.
fn after_the_result(tail: &[u8]) -> Option<RequestId> {
    let tail = String::from_utf8_lossy(tail);
    let ends = tail.match_indices(',').map(|(at, _)| &tail[at + 1..]);
    ends.filter_map(|end| serde_json::from_str(&format!("{{{end}")).ok())
        .find_map(|value: Value| id_of(&value))
}

#[cfg(test)]
mod tests;
