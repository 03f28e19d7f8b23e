//! The callback of a login: a port on this machine that waits for one request of a browser, and
//! the terminal, for a browser that is on another machine.
//!
//! Whoever can connect to the port can send anything: only a request that carries the `state` of
//! this login counts, others get an answer and change nothing.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use reqwest::Url;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::login::Error;
use crate::eraser::shorten_text;

/// The path that the authorization server sends the browser to.
const PATH: &str = "/callback";
/// How long a request may take to be sent, and its answer to be taken.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest request, in bytes.
const REQUEST_BYTES_MAX: u64 = 16 << 10;
/// Requests at a time; browsers open some connections that they do not use.
const REQUESTS_MAX: usize = 16;
/// Longest line that is pasted, in bytes.
const PASTED_BYTES_MAX: u64 = 16 << 10;
/// Longest text of an authorization server that is repeated, in bytes.
const TEXT_BYTES_MAX: usize = 200;

/// The local port that the browser comes back to.
pub struct Callback {
    listener: TcpListener,
    address: SocketAddr,
}

impl Callback {
    /// Listens on 127.0.0.1 only, on this port or on a free one.
    ///
    /// # Errors
    /// When the port cannot be opened.
    pub async fn listen(port: Option<u16>) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.unwrap_or(0))).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// What the authorization server is told to send the browser to.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("http://{}{PATH}", self.address)
    }

    /// Waits for the answer of the login with this `state`, from the browser or pasted. The caller
    /// bounds the time.
    ///
    /// # Errors
    /// When the authorization server refused ([`Error::Refused`]).
    pub async fn wait_for_answer(
        &self,
        state: &str,
        pasted: impl AsyncBufRead + Unpin,
    ) -> Result<Url, Error> {
        let mut lines = pasted.take(PASTED_BYTES_MAX);
        let mut line = Vec::new();
        let mut terminal_is_open = true;
        let mut requests: JoinSet<Option<Url>> = JoinSet::new();

        loop {
            // Every arm only waits: a line that is read in part stays in `line`.
            let url = tokio::select! {
                accepted = self.listener.accept(), if requests.len() < REQUESTS_MAX => {
                    if let Ok((stream, _)) = accepted {
                        requests.spawn(serve_request(stream, self.redirect_uri(), state.to_owned()));
                    }
                    None
                }
                Some(served) = requests.join_next() => served.ok().flatten(),
                read = lines.read_until(b'\n', &mut line), if terminal_is_open => {
                    terminal_is_open = matches!(read, Ok(1..));
                    lines.set_limit(PASTED_BYTES_MAX);
                    let text = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
                    Url::parse(text.trim()).ok().filter(|url| has_state(url, state))
                }
            };

            if let Some(url) = url {
                // The browser has its page when its request is served to the end.
                return refusal_in(&url).map_or(Ok(url), Err);
            }
        }
    }
}

/// Answers one request, and returns its address if it is the one that is waited for.
async fn serve_request(stream: TcpStream, redirect_uri: String, state: String) -> Option<Url> {
    let (reader, mut writer) = stream.into_split();
    let served = timeout(REQUEST_TIMEOUT, async {
        let mut reader = BufReader::new(reader.take(REQUEST_BYTES_MAX));
        let mut line = String::new();
        reader.read_line(&mut line).await.ok()?;
        let url = parse_request_line(&line, &redirect_uri).filter(|url| has_state(url, &state));
        // The head is read to its end, or closing the connection would look like a failure.
        let mut header = String::new();
        while reader.read_line(&mut header).await.ok()? > 2 {
            header.clear();
        }
        let (status, text) = match &url {
            Some(_) => ("200 OK", "This page can be closed. The terminal tells how it went."),
            None => ("404 Not Found", "This is not the login that is waited for."),
        };
        let answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n{text}",
            text.len()
        );
        // A browser that does not take it has still brought the answer.
        let _ = writer.write_all(answer.as_bytes()).await;
        url
    });

    served.await.ok().flatten()
}

/// The address of a request line: `GET /callback?… HTTP/1.1`.
pub(super) fn parse_request_line(line: &str, redirect_uri: &str) -> Option<Url> {
    let mut words = line.split_ascii_whitespace();
    let target = (words.next() == Some("GET")).then(|| words.next()).flatten()?;
    let query = target.strip_prefix(PATH)?.strip_prefix('?')?;
    Url::parse(&format!("{redirect_uri}?{query}")).ok()
}

fn has_state(url: &Url, state: &str) -> bool {
    let mut pairs = url.query_pairs();
    pairs.any(|(name, value)| name == "state" && value == state)
}

/// The error that the authorization server answers with, if it does.
pub(super) fn refusal_in(url: &Url) -> Option<Error> {
    let value = |wanted: &str| {
        url.query_pairs().find(|(name, _)| name == wanted).map(|(_, value)| value.into_owned())
    };
    let error = value("error")?;
    let text = match value("error_description") {
        Some(description) => format!("{error}: {description}"),
        None => error,
    };
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    Some(Error::Refused(shorten_text(&text, TEXT_BYTES_MAX).into_owned()))
}

#[cfg(test)]
mod tests;
