//! The transport to a child process: JSON-RPC, one message a line, on its stdin and stdout.
//!
//! Of what a child may write there, only its messages come through. Lines that are none are
//! skipped and counted. An answer that is too long or not understood ends its own call with an
//! error, and no other. The connection to a child that does not read what it is sent is ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use toolbus_json::Limits;

use super::batch::BatchQueue;
use super::bounded_lines::{CutLine, EDGE_BYTES, Line, LineReader};
use super::intercept::{BYTE_ORDER_MARK, Reading, WireState};
use super::process::{ChildMonitor, ChildPipes, ServerProcess};
use super::{MESSAGE_BYTES_MAX, MESSAGE_LIMITS};

/// How long one message may wait to be written, in all. Its time includes those before it.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// After so many lines that were no message, they are counted and no longer logged.
const STRAY_LINES_LOGGED: u64 = 10;
/// What one end of a long line may have, with its other brace. A byte that is no text has become
/// three.
const EDGE_LIMITS: Limits = Limits::of_bytes(3 * EDGE_BYTES + 1);

/// The transport over one child's stdin and stdout.
pub(crate) struct StdioTransport {
    lines: LineReader<ChildStdout>,
    batch: BatchQueue,
    stdin: Arc<Mutex<Option<ChildStdin>>>,
    /// Fires when everything is written that was to be sent so far.
    written: oneshot::Receiver<()>,
    stuck: CancellationToken,
    stray_lines: u64,
    server: String,
    wire: Arc<WireState>,
    monitor: Arc<ChildMonitor>,
    /// Ends the child with this transport.
    _process: ServerProcess,
}

/// The error text for a server whose answer is no message.
pub(super) const NO_MESSAGE: &str = "gave an answer that is not a valid MCP message";
/// The same for one that would take too much memory.
pub(super) const TOO_MANY_VALUES: &str = "gave an answer of too many values";

impl StdioTransport {
    pub(crate) fn new(
        server: &str,
        wire: Arc<WireState>,
        process: ServerProcess,
        pipes: ChildPipes,
    ) -> Self {
        Self {
            lines: LineReader::new(pipes.stdout, MESSAGE_BYTES_MAX),
            batch: BatchQueue::default(),
            stdin: Arc::new(Mutex::new(Some(pipes.stdin))),
            written: oneshot::channel().1,
            stuck: CancellationToken::new(),
            stray_lines: 0,
            server: server.to_owned(),
            wire,
            monitor: process.monitor(),
            _process: process,
        }
    }

    fn read_line(&mut self, line: Line) -> Received {
        match line {
            Line::End => Received::End,
            Line::Whole(line) if self.batch.try_take(&self.server, &line) => Received::Nothing,
            Line::Whole(line) => self.read_message(line),
            Line::Cut(line) => match line.answered_request() {
                Some(id) => replace_answer(id, too_long_text(line.length)),
                None => {
                    tracing::warn!(
                        server = self.server,
                        bytes = line.length,
                        "skipping line of MCP server: too long"
                    );
                    Received::Nothing
                }
            },
        }
    }

    fn read_message(&mut self, text: Vec<u8>) -> Received {
        let (bytes, is_blank) = (text.len(), text.trim_ascii().is_empty());
        match parse_line(&self.wire, text) {
            ParsedLine::Message(message) => Received::Message(message),
            ParsedLine::Answer(id, what) => replace_answer(id, what.to_owned()),
            ParsedLine::Stray => self.count_stray(bytes, is_blank),
        }
    }

    fn count_stray(&mut self, bytes: usize, is_blank: bool) -> Received {
        self.stray_lines += 1;
        if self.stray_lines <= STRAY_LINES_LOGGED && !is_blank {
            tracing::debug!(server = self.server, bytes, "skipping line of MCP server: no message");
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

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let stdin = Arc::clone(&self.stdin);
        let stuck = self.stuck.clone();
        // rmcp has every message sent by a task of its own. They are written in the order in which
        // they were given here, or a call could be cancelled before the server has it.
        let (done, written) = oneshot::channel();
        let before = std::mem::replace(&mut self.written, written);

        async move {
            let _done = done;
            let mut line = WireState::write(&message)?;
            line.push(b'\n');

            let written = timeout(WRITE_TIMEOUT, async {
                // An error is a message whose turn is over, too.
                let _ = before.await;
                let mut stdin = stdin.lock().await;
                let stdin = stdin.as_mut().ok_or(io::ErrorKind::NotConnected)?;
                write_line(stdin, &line).await
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
            while let Some(message) = self.batch.next_message() {
                if let Received::Message(message) =
                    self.read_message(message.get().as_bytes().to_vec())
                {
                    return Some(message);
                }
            }

            // Reading goes first, so that what a child wrote before its end is read. Every arm
            // may be dropped: the reader keeps what it has.
            let line = tokio::select! {
                biased;
                line = self.lines.next() => line,
                () = self.monitor.wait_reaped() => return None,
                () = self.stuck.cancelled() => return None,
            };

            match self.read_line(line) {
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
        self.monitor.stop();
        Ok(())
    }
}

async fn write_line(stdin: &mut (impl AsyncWrite + Unpin), line: &[u8]) -> io::Result<()> {
    stdin.write_all(line).await?;
    stdin.flush().await
}

/// Puts an error in the place of an answer that cannot be used: see [`super::is_replaced_answer`].
pub(super) fn replace_answer(id: RequestId, what: String) -> Received {
    Received::Message(RxJsonRpcMessage::<RoleClient>::error(super::unusable_answer(what), Some(id)))
}

pub(super) fn too_many_values() -> ErrorData {
    super::unusable_answer(TOO_MANY_VALUES)
}

pub(super) fn too_long_text(bytes: u64) -> String {
    format!("gave an answer of {bytes} bytes, more than {MESSAGE_BYTES_MAX}")
}

#[expect(clippy::large_enum_variant, reason = "on its way to rmcp, which takes it unboxed")]
pub(super) enum ParsedLine {
    Message(RxJsonRpcMessage<RoleClient>),
    /// An answer to this request, though not one that can be used, and what is wrong with it.
    Answer(RequestId, &'static str),
    Stray,
}

/// Parses a line as a message, or finds at least which request it answers.
pub(super) fn parse_line(wire: &WireState, line: Vec<u8>) -> ParsedLine {
    let line = match wire.look_at(line) {
        Reading::Text(line) => line,
        Reading::Message(message) => return ParsedLine::Message(*message),
        Reading::TooManyValues(Some(id)) => return ParsedLine::Answer(id, TOO_MANY_VALUES),
        Reading::TooManyValues(None) => return ParsedLine::Stray,
    };
    let line = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line);
    if let Ok(message) = toolbus_json::from_slice(line, &MESSAGE_LIMITS) {
        return ParsedLine::Message(message);
    }

    let value: Option<Value> = toolbus_json::from_slice(line, &MESSAGE_LIMITS).ok();
    let answers = value.filter(|value| value.get("method").is_none()).and_then(|v| read_id(&v));
    match answers.or_else(|| CutLine::of(line).answered_request()) {
        Some(id) => ParsedLine::Answer(id, NO_MESSAGE),
        None => ParsedLine::Stray,
    }
}

fn read_id(message: &Value) -> Option<RequestId> {
    match message.get("id")? {
        Value::Number(id) => id.as_i64().map(RequestId::Number),
        Value::String(id) => Some(RequestId::String(id.as_str().into())),
        _ => None,
    }
}

impl CutLine {
    /// The request that this line answers, when one of its ends shows it: the id stands before the
    /// result, or after it.
    pub(super) fn answered_request(&self) -> Option<RequestId> {
        id_before_result(&self.head).or_else(|| id_after_result(&self.tail))
    }
}

/// Reads `{"jsonrpc":"2.0","id":7` out of `{"jsonrpc":"2.0","id":7,"result":{…`.
fn id_before_result(head: &[u8]) -> Option<RequestId> {
    let head = String::from_utf8_lossy(head);
    let at = [r#""result""#, r#""error""#].iter().filter_map(|name| head.find(name)).min()?;
    let members = head[..at].trim_end().strip_suffix(',')?;
    read_id(&toolbus_json::from_str(&format!("{members}}}"), &EDGE_LIMITS).ok()?)
}

/// Reads `"id":7}` out of `…},"id":7}`: the longest end of the line that is members and `}`.
fn id_after_result(tail: &[u8]) -> Option<RequestId> {
    let tail = String::from_utf8_lossy(tail);
    let ends = tail.match_indices(',').map(|(at, _)| &tail[at + 1..]);
    ends.filter_map(|end| toolbus_json::from_str(&format!("{{{end}"), &EDGE_LIMITS).ok())
        .find_map(|value: Value| read_id(&value))
}

#[cfg(test)]
mod tests;
