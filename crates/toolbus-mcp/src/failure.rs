//! Why a server is not connected, in words that people and models may read.
//!
//! What a server says stands in quotation marks behind `the server says`, on one line and without
//! hidden characters: a reader must not take it for what this program says.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::service::{ClientInitializeError, ServiceError};
use rmcp::transport::DynamicTransportError;
use toolbus_tools::hidden_text;

use crate::auth;
use crate::eraser::{Eraser, shorten_text};
use crate::http::{self, root_cause};
use crate::transport::is_replaced_answer;
use crate::transport::older_sse::SseTransport;

/// Longest text of a server in ours, in bytes. Servers send whole pages.
pub(crate) const SERVER_TEXT_BYTES_MAX: usize = 400;
/// Longest text of a failure, in bytes: what a server says, and what it is about.
pub(crate) const TEXT_BYTES_MAX: usize = SERVER_TEXT_BYTES_MAX + 200;
/// How much of a text is cleaned, in bytes; the rest is cut off before.
const CLEANED_BYTES_MAX: usize = 64 << 10;

/// The end of a failure that the older transport may not have.
const OLDER_HTTP_HINT: &str =
    "; if it speaks the older HTTP with server-sent events, its type is sse";

/// Why a server is not connected. It holds no credential of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    text: String,
    last_words: Option<String>,
    /// Whether a simpler handshake, on a new connection, may succeed.
    pub(crate) may_be_of_the_handshake: bool,
    /// Whether the server rejected the request as no message of streamable HTTP, as servers of the
    /// older transport do.
    pub(crate) may_be_older_http: bool,
    /// Whether its command could not be started.
    pub(crate) is_of_start: bool,
    /// Whether its time was up.
    pub(crate) is_timeout: bool,
    /// Whether a person has to log in.
    pub(crate) needs_login: bool,
    /// Whether an operator has to see to a credential of the vault.
    pub(crate) needs_credential: bool,
}

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            last_words: None,
            may_be_of_the_handshake: false,
            may_be_older_http: false,
            is_of_start: false,
            is_timeout: false,
            needs_login: false,
            needs_credential: false,
        }
    }

    /// The failure of a server that lacks a credential of the vault.
    pub(crate) fn of_credential(text: String) -> Self {
        Self { needs_credential: true, ..Self::new(text) }
    }

    pub(crate) fn start(command: &str, error: &std::io::Error) -> Self {
        let text = format!("its command {command:?} cannot be started: {error}");
        Self { is_of_start: true, ..Self::new(text) }
    }

    pub(crate) fn disabled() -> Self {
        Self::new("the operator has disabled it")
    }

    pub(crate) fn timeout(limit: Duration) -> Self {
        let text = format!("it did not finish connecting within {} ms", limit.as_millis());
        Self { is_timeout: true, ..Self::new(text) }
    }

    /// The failure of a handshake.
    pub(crate) fn handshake(error: &ClientInitializeError, eraser: &Eraser) -> Self {
        let text = match error {
            ClientInitializeError::LegacyFallbackFailed { fallback, .. } => {
                // Both ways to begin were tried.
                let failure = Self::handshake(fallback, eraser);
                return Self { may_be_of_the_handshake: false, ..failure };
            }
            ClientInitializeError::TransportError { error, .. } => {
                let reached = !is_unreachable(error) && !is_unauthorized(error);
                let failure = Self::transport(error, eraser);
                return Self { may_be_of_the_handshake: reached, ..failure };
            }
            ClientInitializeError::ConnectionClosed(_) => "it ended before it answered".to_owned(),
            ClientInitializeError::JsonRpcError(error) => json_rpc_text(error, eraser),
            // Their own texts repeat whole messages and ids of the server's choice.
            ClientInitializeError::ExpectedInitResponse(_)
            | ClientInitializeError::ExpectedInitResult(_)
            | ClientInitializeError::ConflictInitResponseId(..)
            | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
                "its answer to the handshake is none".to_owned()
            }
            other => other.to_string(),
        };

        Self { may_be_of_the_handshake: true, ..Self::from_erased(&text, eraser) }
    }

    /// The failure of a request to a server that is connected.
    pub(crate) fn request(error: &ServiceError, eraser: &Eraser) -> Self {
        let text = match error {
            ServiceError::McpError(error) => json_rpc_text(error, eraser),
            ServiceError::TransportSend(error) => return Self::transport(error, eraser),
            ServiceError::TransportClosed => "the connection was closed".to_owned(),
            other => other.to_string(),
        };

        Self::from_erased(&text, eraser)
    }

    /// The failure to open a server's event stream.
    pub(crate) fn from_stream_error(error: http::Error, eraser: &Eraser) -> Self {
        let error = DynamicTransportError::new::<SseTransport, RoleClient>(error);
        let reached = !is_unreachable(&error) && !is_unauthorized(&error);
        Self { may_be_of_the_handshake: reached, ..Self::transport(&error, eraser) }
    }

    /// The failure of a server that takes neither transport.
    pub(crate) fn of_both_transports(newer: &Self, older: &Self) -> Self {
        let newer = newer.text.strip_suffix(OLDER_HTTP_HINT).unwrap_or(&newer.text);
        Self::new(format!("{newer}, and not the older HTTP with server-sent events: {older}"))
    }

    fn transport(error: &DynamicTransportError, eraser: &Eraser) -> Self {
        let http = error.error.downcast_ref();
        Self {
            may_be_older_http: matches!(http, Some(http::Error::UnexpectedServerResponse(text))
                if may_be_answer_of_older(text)),
            needs_login: http
                .and_then(auth::carried_error)
                .is_some_and(auth::Error::is_for_a_person),
            ..Self::from_erased(&transport_text(error, eraser), eraser)
        }
    }

    fn from_erased(text: &str, eraser: &Eraser) -> Self {
        Self::new(shorten_text(&clean_line(text, eraser), TEXT_BYTES_MAX))
    }

    /// The same failure with how the child ended, and with what it said last.
    pub(crate) fn of_child(mut self, ending: Option<String>, last_words: Option<String>) -> Self {
        if let Some(ending) = ending {
            self.text = format!("{} ({ending})", self.text);
        }
        Self { last_words, ..self }
    }

    /// The last line that the server wrote to its stderr, for the operator and not for models.
    #[must_use]
    pub fn last_words(&self) -> Option<&str> {
        self.last_words.as_deref()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The text on one line, without secrets and hidden characters.
pub(crate) fn clean_line(text: &str, eraser: &Eraser) -> String {
    let text = shorten_text(text, CLEANED_BYTES_MAX);
    // Before the cleaning, which changes a secret of several lines, and after it: what is hidden in
    // a secret keeps it from being found.
    let cleaned = hidden_text::clean_line(&eraser.erase(&text));
    eraser.erase(&cleaned).into_owned()
}

/// What a server says, marked as that.
pub(crate) fn quote_server(text: &str, eraser: &Eraser) -> String {
    format!("the server says {}", quote_text(&clean_line(text, eraser)))
}

/// The text in quotation marks that it cannot close.
pub(crate) fn quote_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        if quoted.len() > SERVER_TEXT_BYTES_MAX {
            quoted.push('…');
            break;
        }
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// The text of a JSON-RPC error of a server.
pub(crate) fn json_rpc_text(error: &rmcp::model::ErrorData, eraser: &Eraser) -> String {
    if is_replaced_answer(error) {
        return format!("it {}", error.message);
    }
    format!("MCP error {}: {}", error.code.0, quote_server(&error.message, eraser))
}

/// The text of an answer that HTTP brought and that is no message. What holds text of the server is
/// made when it comes; what rmcp says of its own is not.
fn unexpected_answer_text(text: Cow<'static, str>, eraser: &Eraser) -> String {
    let what = match text {
        Cow::Borrowed(ours) => ours.to_owned(),
        Cow::Owned(text) => match text.split_once(": ") {
            Some((kind, body)) if is_answer_kind(kind) => {
                format!("{kind}: {}", quote_server(body, eraser))
            }
            _ => quote_server(&text, eraser),
        },
    };
    format!("unexpected server response: {what}")
}

/// Whether the beginning of such a text is not of the server: the status of an answer, or rmcp's
/// complaint about one.
fn is_answer_kind(kind: &str) -> bool {
    kind.starts_with("HTTP ") || kind.starts_with("could not parse JSON response")
}

/// The text of an error of a transport. The causes of reqwest's errors are where the facts are.
fn transport_text(error: &DynamicTransportError, eraser: &Eraser) -> String {
    let http_error = error.error.downcast_ref();
    if let Some(error) = http_error.and_then(auth::carried_error) {
        return error.to_string();
    }

    match http_error {
        Some(http::Error::Client(error)) if error.is_connect() => {
            format!("nothing answers at its address: {}", root_cause(error))
        }
        Some(http::Error::Client(error)) => format!("the request failed: {}", root_cause(error)),
        _ if is_unauthorized(error) => "it asks for authorization".to_owned(),
        Some(http::Error::UnexpectedServerResponse(text)) if is_not_streamable(text) => format!(
            "it does not take streamable HTTP ({}){OLDER_HTTP_HINT}",
            text.split_once(':').map_or(&**text, |(status, _)| status)
        ),
        Some(http::Error::UnexpectedServerResponse(text)) => {
            unexpected_answer_text(text.clone(), eraser)
        }
        Some(http::Error::ReinitializationFailed(error)) => {
            format!("its session could not be renewed: {}", json_rpc_text(error, eraser))
        }
        // Its own text quotes what could not be read.
        Some(http::Error::Deserialize(_)) => "its answer is not a valid MCP message".to_owned(),
        Some(other) => other.to_string(),
        None => error.error.to_string(),
    }
}

fn is_not_streamable(text: &str) -> bool {
    ["HTTP 404", "HTTP 405"].iter().any(|status| text.starts_with(status))
}

/// Whether an answer to the first message may be that of a server of the older transport: some HTTP
/// 4xx, as the protocol's page about compatibility has it, that is not about who asks or how often.
fn may_be_answer_of_older(text: &str) -> bool {
    let status = text.strip_prefix("HTTP ").and_then(|text| text.get(..3)?.parse().ok());
    matches!(status, Some(400..=499)) && !matches!(status, Some(401 | 403 | 407 | 408 | 429))
}

/// Whether the server wants a credential, or another one.
pub(crate) fn is_unauthorized(error: &DynamicTransportError) -> bool {
    match error.error.downcast_ref() {
        Some(http::Error::AuthRequired(_) | http::Error::InsufficientScope(_)) => true,
        // Without a challenge, it comes as text.
        Some(http::Error::UnexpectedServerResponse(text)) => text.starts_with("HTTP 401"),
        Some(other) => auth::carried_error(other).is_some(),
        None => false,
    }
}

/// Whether no connection was made, so that nothing was sent.
pub(crate) fn is_unreachable(error: &DynamicTransportError) -> bool {
    matches!(error.error.downcast_ref(), Some(http::Error::Client(error)) if error.is_connect())
}
