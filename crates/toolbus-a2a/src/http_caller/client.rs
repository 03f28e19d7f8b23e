//! Requests to one agent: its card, and JSON-RPC. Whatever it answers is bounded, and what is wrong
//! with it is a typed error.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use reqwest::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, Url};
use serde::Deserialize as _;
use serde_json::{Value, json};
use toolbus_json::Limits;
use toolbus_mcp::{HttpClients, PrivateAddress};
use toolbus_tools::credentials::ERASED_LENGTH_MIN;
use toolbus_tools::{CredentialSource, SecretFinder};
use toolbus_wire::message::a2a::AgentCard;
use zeroize::Zeroizing;

use super::{AgentHeaderValue, HttpAgent};
use crate::protocol::{
    HTTP_DEPTH_HEADER, HTTP_DOORS_HEADER, Interface, Method, RemoteCard, VERSION_HEADER, Version,
};
use crate::{CARD_BYTES_MAX, TaskLineage};

/// How long a card may take to come.
const CARD_TIMEOUT: Duration = Duration::from_secs(15);
/// What a card may have.
const CARD_LIMITS: Limits = Limits::of_bytes(CARD_BYTES_MAX).with_values(16 << 10);
/// What an answer may have: a result, its artifacts, and what JSON takes.
const ANSWER_LIMITS: Limits = Limits::of_bytes(8 << 20);
/// How much of an agent's own words on an error is kept, in characters.
const WORDS_CHARS_MAX: usize = 500;

/// Why an agent cannot be asked over HTTP.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpAgentError {
    /// Two have one name.
    #[error("two agents over HTTP are named '{0}'")]
    Twice(String),
    /// Agents over HTTP have been named before.
    #[error("the tasks have agents over HTTP already")]
    Started,
    /// No agent has the name.
    #[error("no agent over HTTP is named '{0}'")]
    Unknown(String),
    /// The address of a card is none. It may hold a key, and is not told.
    #[error("the agent '{0}' has no address of http or https")]
    Url(String),
    /// What a card names is none.
    #[error("the agent's card names '{0}', which is no address of http or https")]
    Interface(String),
    /// The header is none.
    #[error("the header of the agent '{0}' cannot be used")]
    Header(String),
    /// A secret would be sent in the open.
    #[error("the header of the agent '{0}' is sent by https alone, for it is not internal")]
    InTheOpen(String),
    /// There is no client.
    #[error("no HTTP client can be made")]
    Client(#[source] reqwest::Error),
    /// It is at an address that is not public.
    #[error("the address of the agent is not a public one, and it is not declared internal")]
    PrivateAddress,
    /// A card leads elsewhere.
    #[error(
        "the agent's card leads to '{0}', which is not where the card is: an internal agent is \
         asked at the host of its card, and one with a header at its scheme, host and port"
    )]
    OtherHost(String),
    /// Nothing of the card is spoken here.
    #[error("the agent's card names no interface of JSON-RPC in version 1.0 or 0.3")]
    NoInterface,
    /// The credential is not there, or cannot be read.
    #[error("the credential for the agent cannot be had: {0}")]
    Credential(String),
    /// There is no connection.
    #[error("the agent cannot be reached")]
    Connect(#[source] reqwest::Error),
    /// It did not answer in time.
    #[error("the agent did not answer in time")]
    Timeout,
    /// The connection broke.
    #[error("the connection to the agent broke")]
    Broken(#[source] reqwest::Error),
    /// It sends elsewhere.
    #[error("the agent redirects to another address, which is not followed")]
    Redirect,
    /// It answers with an error of HTTP.
    #[error("the agent answers with status {0}")]
    Status(u16),
    /// It answers too much.
    #[error("the agent answers more than {0} bytes")]
    TooLarge(usize),
    /// What it answers is not what was asked for.
    #[error("the agent answers something else than what was asked for")]
    Answer,
    /// It answers with an error.
    #[error("{message} ({code})")]
    Rpc {
        /// Which one.
        code: i64,
        /// What it says.
        message: String,
    },
}

impl HttpAgentError {
    /// Whether the agent has not begun what was sent, for sure.
    pub(super) fn is_not_sent(&self) -> bool {
        match self {
            Self::Timeout | Self::Broken(_) | Self::TooLarge(_) | Self::Answer => false,
            Self::Status(status) => (400..500).contains(status) && *status != 408,
            _ => true,
        }
    }

    /// Whether it may go well when it is tried again soon.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Status(429) => true,
            Self::Rpc { code, .. } => *code == crate::protocol::ErrorKind::Busy.code(),
            _ => false,
        }
    }

    fn of_request(error: reqwest::Error) -> Self {
        // The address may hold a key.
        let error = error.without_url();
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(one) = cause {
            if one.is::<PrivateAddress>() {
                return Self::PrivateAddress;
            }
            cause = one.source();
        }
        match (error.is_connect(), error.is_timeout()) {
            (true, _) => Self::Connect(error),
            (false, true) => Self::Timeout,
            (false, false) => Self::Broken(error),
        }
    }
}

/// What asks one agent.
pub(super) struct AgentClient {
    agent: HttpAgent,
    card_url: Url,
    header: Option<HeaderName>,
    http: HttpClients,
    credentials: Option<Arc<dyn CredentialSource>>,
    /// Where it is asked, as its card said last.
    interface: Mutex<Option<Interface>>,
}

impl AgentClient {
    pub(super) fn new(
        agent: HttpAgent,
        credentials: Option<Arc<dyn CredentialSource>>,
    ) -> Result<Self, HttpAgentError> {
        let card_url = parse_url(&agent.card_url);
        let card_url = card_url.ok_or_else(|| HttpAgentError::Url(agent.name.to_string()))?;
        let header = agent.header.as_ref().map(|header| {
            let name = HeaderName::try_from(&header.name);
            name.map_err(|_| HttpAgentError::Header(agent.name.to_string()))
        });
        let header = header.transpose()?;
        if header.is_some() && !agent.is_internal && card_url.scheme() != "https" {
            return Err(HttpAgentError::InTheOpen(agent.name.to_string()));
        }
        let http = match agent.is_internal {
            true => HttpClients::new(),
            false => HttpClients::public_only(),
        };
        let http = http.map_err(HttpAgentError::Client)?;
        Ok(Self { agent, card_url, header, http, credentials, interface: Mutex::default() })
    }

    pub(super) fn name(&self) -> &str {
        self.agent.name.as_str()
    }

    /// Reads the card, and takes note of where the agent is asked.
    pub(super) async fn read_card(&self) -> Result<AgentCard, HttpAgentError> {
        self.check_address(&self.card_url).await?;
        let request = self.client(&self.card_url)?.get(self.card_url.clone());
        let request = request.timeout(CARD_TIMEOUT).header(VERSION_HEADER, Version::V1.as_str());
        let card = self.send(request, &CARD_LIMITS).await?;
        let card = RemoteCard::deserialize(card).map_err(|_| HttpAgentError::Answer)?;

        let interface = card.interface().ok_or(HttpAgentError::NoInterface)?;
        let url = self.card_url.join(&interface.url).ok().filter(is_web_address);
        let url = url.ok_or_else(|| HttpAgentError::Interface(shorten(&interface.url)))?;
        self.check_host(&url)?;
        self.check_address(&url).await?;
        let interface = Interface { url: url.to_string(), ..interface };
        let card = card.into_card(self.name(), &interface);
        *self.interface.lock() = Some(interface);
        let auth_header_name = self.header.as_ref().map(|name| name.as_str().to_owned());
        Ok(AgentCard { auth_header_name, ..card })
    }

    /// Where the agent is asked, by a card that was read, now or before.
    pub(super) async fn interface(&self) -> Result<Interface, HttpAgentError> {
        if let Some(interface) = self.interface.lock().clone() {
            return Ok(interface);
        }
        self.read_card().await?;
        self.interface.lock().clone().ok_or(HttpAgentError::NoInterface)
    }

    /// Has the card be read before the agent is asked the next time.
    pub(super) fn forget_interface(&self) {
        *self.interface.lock() = None;
    }

    /// Asks the agent for something, and waits for the result.
    pub(super) async fn call(
        &self,
        interface: &Interface,
        asked: &Asked<'_>,
    ) -> Result<Value, HttpAgentError> {
        let url = parse_url(&interface.url);
        let url = url.ok_or_else(|| HttpAgentError::Interface(shorten(&interface.url)))?;
        // It may have been written by a process with other settings.
        self.check_host(&url)?;
        let body = json!({
            "jsonrpc": "2.0",
            "id": asked.id,
            "method": asked.method.name(interface.version),
            "params": asked.params,
        });

        let request = self.client(&url)?.post(url).timeout(asked.timeout);
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .header(VERSION_HEADER, interface.version.as_str())
            .header(HTTP_DEPTH_HEADER, u16::from(asked.lineage.depth))
            .header(HTTP_DOORS_HEADER, asked.lineage.doors.to_string())
            .body(body.to_string());
        read_result(self.send(request, &ANSWER_LIMITS).await?, asked.id)
    }

    fn client(&self, url: &Url) -> Result<&reqwest::Client, HttpAgentError> {
        self.http.client_for(url).map_err(|PrivateAddress| HttpAgentError::PrivateAddress)
    }

    /// An early word on an address that the connection would refuse.
    async fn check_address(&self, url: &Url) -> Result<(), HttpAgentError> {
        let checked = self.http.check_address(url).await;
        checked.map_err(|PrivateAddress| HttpAgentError::PrivateAddress)
    }

    /// A header is for one origin, and an internal agent leads nowhere else in the network.
    fn check_host(&self, url: &Url) -> Result<(), HttpAgentError> {
        let is_there = match self.header {
            Some(_) => url.origin() == self.card_url.origin(),
            None => !self.agent.is_internal || url.host() == self.card_url.host(),
        };
        if is_there {
            return Ok(());
        }

        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
        Err(HttpAgentError::OtherHost(shorten(&host)))
    }

    /// The answer to a request, as JSON without what the header says.
    async fn send(
        &self,
        request: RequestBuilder,
        limits: &Limits,
    ) -> Result<Value, HttpAgentError> {
        let (client, request) = request.build_split();
        let mut request = request.map_err(HttpAgentError::of_request)?;
        let secret = match &self.header {
            Some(name) => {
                // Whoever has named the address.
                self.check_host(request.url())?;
                let (value, secret) = self.header_value().await?;
                request.headers_mut().append(name.clone(), value);
                Some(secret)
            }
            None => None,
        };

        let response = client.execute(request).await.map_err(HttpAgentError::of_request)?;
        let status = response.status();
        if status.is_redirection() {
            return Err(HttpAgentError::Redirect);
        }
        if !status.is_success() {
            return Err(HttpAgentError::Status(status.as_u16()));
        }

        let body = read_bounded(response, limits.bytes).await?;
        let answer = toolbus_json::from_slice(&body, limits);
        let mut answer = answer.map_err(|_| HttpAgentError::Answer)?;
        let secret = secret.as_ref().filter(|secret| secret.len() >= ERASED_LENGTH_MIN);
        if let Some(finder) = secret.and_then(|secret| SecretFinder::new([secret.as_str()])) {
            finder.erase(&mut answer);
        }
        Ok(answer)
    }

    /// The value of the header, and the secret in it.
    async fn header_value(&self) -> Result<(HeaderValue, Zeroizing<String>), HttpAgentError> {
        let unusable = || HttpAgentError::Header(self.name().to_owned());
        let header = self.agent.header.as_ref().ok_or_else(unusable)?;
        let (secret, scheme) = match &header.value {
            AgentHeaderValue::Fixed(value) => (value.clone(), None),
            AgentHeaderValue::Credential { name, scheme } => {
                (self.find_credential(name).await?, scheme.as_ref())
            }
        };
        let value = match scheme {
            Some(scheme) => Zeroizing::new(format!("{scheme} {}", secret.trim())),
            None => secret.clone(),
        };
        // What is given out is the last word of a value such as `Bearer TOKEN`.
        let secret = secret.trim().rsplit(' ').next().unwrap_or_default().to_owned();

        let mut value = HeaderValue::from_str(&value).map_err(|_| unusable())?;
        value.set_sensitive(true);
        Ok((value, Zeroizing::new(secret)))
    }

    async fn find_credential(&self, name: &str) -> Result<Zeroizing<String>, HttpAgentError> {
        let source = self.credentials.as_ref();
        let source = source.ok_or_else(|| HttpAgentError::Credential("no vault".to_owned()))?;
        let provider = format!("a2a:{}", self.name());
        match source.find(&provider, name).await {
            Ok(Some(value)) => Ok(value),
            Ok(None) => Err(HttpAgentError::Credential(format!("there is no '{name}'"))),
            Err(error) => Err(HttpAgentError::Credential(error.to_string())),
        }
    }
}

/// What an agent is asked for.
pub(super) struct Asked<'a> {
    /// Id of the request.
    pub(super) id: &'a str,
    pub(super) method: Method,
    pub(super) params: Value,
    pub(super) lineage: TaskLineage,
    pub(super) timeout: Duration,
}

fn parse_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(is_web_address)
}

fn is_web_address(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.has_host()
}

fn shorten(text: &str) -> String {
    text.chars().take(200).collect()
}

async fn read_bounded(mut response: Response, bytes_max: usize) -> Result<Vec<u8>, HttpAgentError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(HttpAgentError::of_request)? {
        if body.len() + chunk.len() > bytes_max {
            return Err(HttpAgentError::TooLarge(bytes_max));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn read_result(mut body: Value, id: &str) -> Result<Value, HttpAgentError> {
    if let Some(error) = body.get("error").filter(|error| error.is_object()) {
        let message = error["message"].as_str().unwrap_or("an error without words");
        let message = message.chars().take(WORDS_CHARS_MAX).collect();
        let code = error["code"].as_i64().ok_or(HttpAgentError::Answer)?;
        return Err(HttpAgentError::Rpc { code, message });
    }
    if body["id"] != id {
        return Err(HttpAgentError::Answer);
    }
    body.get_mut("result").map(Value::take).ok_or(HttpAgentError::Answer)
}
