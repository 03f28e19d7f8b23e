//! `conformance-names PORT URL PREFIX`: an HTTP proxy on 127.0.0.1 in front of an MCP server whose
//! tools have names that begin with PREFIX; to its clients, they have the rest of them. For tests
//! only. It ends with its standard input.
//!
//! The official suite looks for tools by the names that a server gives them, and `/mcp` offers them
//! as `server__tool`, beside the tools of others, which keep their names. Nothing else is changed:
//! not the order of events, no status and no header but those that name a tool or the length of the
//! text.

use std::collections::HashSet;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use parking_lot::Mutex;
use serde_json::Value;

/// Longest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 4 << 20;
/// The header of 2026-07-28 that repeats the name of a called tool.
const NAME_HEADER: &str = "mcp-name";

struct Proxy {
    client: reqwest::Client,
    url: String,
    prefix: String,
    /// The names that clients were shown without the prefix.
    shortened: ShortNames,
}

type ShortNames = Arc<Mutex<HashSet<Vec<u8>>>>;

impl Proxy {
    async fn forward(&self, request: Request) -> anyhow::Result<Response> {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, BODY_BYTES_MAX).await?;
        let mut headers = parts.headers;
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);

        let body = match self.lengthen_name(&body, &mut headers) {
            Some(changed) => Bytes::from(changed),
            None => body,
        };
        let sent = self.client.request(parts.method, &self.url).headers(headers).body(body);
        let response = sent.send().await?;

        let status = response.status();
        let mut headers = response.headers().clone();
        headers.remove(CONTENT_LENGTH);
        headers.remove(TRANSFER_ENCODING);
        let shortened = Shortened {
            response,
            prefix: self.prefix.clone(),
            held: Vec::new(),
            name: None,
            names: Arc::clone(&self.shortened),
        };
        let body = Body::from_stream(stream::try_unfold(shortened, Shortened::next));
        Ok((status, headers, body).into_response())
    }

    /// The body and the headers of a call with the name that the tool has behind the proxy. `None`
    /// for anything else, which stays as it is.
    fn lengthen_name(&self, body: &[u8], headers: &mut HeaderMap) -> Option<Vec<u8>> {
        let mut message: Value = serde_json::from_slice(body).ok()?;
        if message["method"] != "tools/call" {
            return None;
        }
        let name = message["params"].get_mut("name")?;
        let short = name.as_str()?;
        if !self.shortened.lock().contains(short.as_bytes()) {
            return None;
        }
        let long = format!("{}{short}", self.prefix);

        // One that says something else than the body has to arrive as it is, and be refused.
        let repeats =
            |header: &&HeaderValue| Some(header.as_bytes()) == name.as_str().map(str::as_bytes);
        if headers.get(NAME_HEADER).filter(repeats).is_some() {
            headers.insert(NAME_HEADER, HeaderValue::from_str(&long).ok()?);
        }
        *name = Value::String(long);

        serde_json::to_vec(&message).ok()
    }
}

/// The body of a response without the prefix, wherever it stands: nothing but names has it.
struct Shortened {
    response: reqwest::Response,
    prefix: String,
    /// The end of what came last, where the prefix may begin.
    held: Vec<u8>,
    /// As much of a name as came after a prefix, until its last character.
    name: Option<Vec<u8>>,
    names: ShortNames,
}

impl Shortened {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, reqwest::Error> {
        let Some(chunk) = self.response.chunk().await? else {
            let held = std::mem::take(&mut self.held);
            return Ok((!held.is_empty()).then(|| (Bytes::from(held), self)));
        };

        self.held.extend_from_slice(&chunk);
        let prefix = self.prefix.as_bytes();
        let mut out = Vec::with_capacity(self.held.len());
        let mut rest = self.held.as_slice();
        while let Some((first, others)) = rest.split_first() {
            if let Some(after) = rest.strip_prefix(prefix) {
                self.name = Some(Vec::new());
                rest = after;
            } else if prefix.starts_with(rest) {
                break;
            } else {
                match &mut self.name {
                    Some(name) if is_in_name(*first) => name.push(*first),
                    name => self.names.lock().extend(name.take()),
                }
                out.push(*first);
                rest = others;
            }
        }

        self.held = rest.to_vec();
        Ok(Some((Bytes::from(out), self)))
    }
}

fn is_in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

async fn handle(State(proxy): State<Arc<Proxy>>, request: Request) -> Response {
    let failed = |error: anyhow::Error| (StatusCode::BAD_GATEWAY, format!("{error:#}"));
    proxy.forward(request).await.unwrap_or_else(|error| failed(error).into_response())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, url, prefix] = arguments.as_slice() else {
        anyhow::bail!("usage: conformance-names PORT URL PREFIX");
    };
    let port: u16 = port.parse().context("the port is not a number")?;

    // Nothing of TLS is used, and the client wants a provider all the same. One may be there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build()?;
    let (url, prefix) = (url.clone(), prefix.clone());
    let proxy = Proxy { client, url, prefix, shortened: ShortNames::default() };
    let router = Router::new().fallback(handle).with_state(Arc::new(proxy));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let ended = async {
        // The process that started this one holds the other end; how it is closed does not matter.
        let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
    };

    tokio::select! {
        served = axum::serve(listener, router) => served.context("serving"),
        () = ended => Ok(()),
    }
}
