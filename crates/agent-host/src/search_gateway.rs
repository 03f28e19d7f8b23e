//! The search over tools for an MCP client that starts this program: MCP over standard input and
//! output, version 2024-11-05, with three tools, one prompt and one resource.
//!
//! A line is a message. What is answered is ASCII, for readers that know nothing else. Lines are
//! bounded, and answered in their order, one at a time.

mod answers;
pub(crate) mod protocol;

use std::sync::Arc;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use toolbus_discovery::Discovery;
use toolbus_tools::{Invoker, Scope};

use protocol::Reply;

/// Longest line that is read, in bytes.
const LINE_BYTES_MAX: usize = 4 << 20;

/// What the search works with.
pub(crate) struct SearchGateway {
    pub(crate) discovery: Discovery,
    pub(crate) invoker: Invoker,
    /// Who asks.
    pub(crate) scope: Arc<Scope>,
}

impl SearchGateway {
    /// Answers until the input ends or it is cancelled.
    ///
    /// # Errors
    /// When input or output fails.
    pub(crate) async fn serve(
        &self,
        mut input: impl AsyncBufRead + Unpin,
        mut output: impl AsyncWrite + Unpin,
        cancelled: CancellationToken,
    ) -> std::io::Result<()> {
        let work = async {
            loop {
                let reply = match read_line(&mut input).await? {
                    Line::End => return Ok(()),
                    Line::Text(line) => self.answer(&line).await,
                    Line::TooLong => Some(*protocol::too_long(LINE_BYTES_MAX)),
                };
                if let Some(reply) = reply {
                    output.write_all(reply.into_line().as_bytes()).await?;
                    output.flush().await?;
                }
            }
        };
        cancelled.run_until_cancelled(work).await.unwrap_or(Ok(()))
    }

    /// The answer to a message. `None`: it takes none.
    async fn answer(&self, line: &[u8]) -> Option<Reply> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return None;
        }
        let request = match protocol::parse(line) {
            Ok(request) => request?,
            Err(refused) => return Some(*refused),
        };
        Some(Reply { id: request.id.clone(), outcome: self.handle(&request).await })
    }
}

enum Line {
    Text(Vec<u8>),
    /// It is passed over to its end.
    TooLong,
    End,
}

async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Line> {
    let mut line = Vec::new();
    let mut bounded = (&mut *input).take(LINE_BYTES_MAX as u64 + 1);
    if bounded.read_until(b'\n', &mut line).await? == 0 {
        return Ok(Line::End);
    }
    if line.len() <= LINE_BYTES_MAX || line.ends_with(b"\n") {
        return Ok(Line::Text(line));
    }

    loop {
        let available = input.fill_buf().await?;
        let Some(end) = available.iter().position(|byte| *byte == b'\n') else {
            let length = available.len();
            if length == 0 {
                return Ok(Line::TooLong);
            }
            input.consume(length);
            continue;
        };
        input.consume(end + 1);
        return Ok(Line::TooLong);
    }
}

#[cfg(test)]
mod tests;
