//! REST endpoints as tools: what the settings name, or an OpenAPI document.
//!
//! An endpoint is an address with places for arguments ([`RestEndpoint`]); each becomes a tool. The
//! addresses that arguments make stay below the one of the settings: no argument changes the host,
//! leaves its segment of the path or adds a parameter.
//!
//! To wire it: check [`RestSettings`] with those of the program, make the endpoints of OpenAPI
//! documents ([`Imported::read`]) and add them to those of the settings, make [`Rest::new`] with
//! the places of credentials ([`RestEndpoint::vault_provider`] names the provider in the vault),
//! and call [`register`]; add [`guide`] to the guides where there are endpoints.
//!
//! Invariants: an endpoint that is not declared internal reaches public addresses only; a
//! credential goes to its endpoint's origin and nowhere else, whatever made the address, and stands
//! in no result, error or log; a request that writes is never sent twice.

pub(crate) mod documents;
mod example;
pub mod openapi;
mod settings;
pub(crate) mod template;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use reqwest::Method;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT,
};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;
use toolbus_fetch::{
    BodyLimit, Error, FetchConfig, FetchRequest, FetchResponse, Fetcher, Oversize, ResolveHost,
    SystemResolver, decode_text,
};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Executor, Guide, Tool};
use toolbus_wire::{ErrorCode, Execution};

use crate::credential::{Credential, CredentialPlaces, CredentialReference};
pub use documents::{DOCUMENT_BYTES_MAX, DocumentError, Imported};
pub use settings::{AuthType, OpenApiDocument, RestEndpoint, RestMethod, RestSettings};
pub use template::TemplateError;
use template::{ExpandError, UrlTemplate, origin_of};

const SOURCE: &str = "rest";
/// Most requests at a time; others wait.
const CONCURRENT_MAX: usize = 16;
/// How much longer than a request its call may take.
const CALL_GRACE: Duration = Duration::from_secs(15);
/// Largest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 8 << 20;
/// How many endpoints the guide lists, and how many calls it shows.
const LISTED_MAX: usize = 100;
const EXAMPLES_MAX: usize = 5;
const AGENT: &str = concat!("toolbus/", env!("CARGO_PKG_VERSION"));

/// The endpoints, ready to be called.
pub struct Rest {
    tools: Vec<(Tool, RestTool)>,
}

/// What endpoints work with.
#[derive(Clone)]
pub struct RestDeps {
    /// Where credentials are looked for.
    pub credentials: CredentialPlaces,
    /// Finds the addresses of names.
    pub resolver: Arc<dyn ResolveHost>,
}

/// Why there are no endpoints.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// There is no HTTP client.
    #[error("no HTTP client for endpoints")]
    Http(#[source] reqwest::Error),
    /// An endpoint is none. Checked settings have no such.
    #[error("the endpoint '{name}' cannot be used: {problem}")]
    Endpoint {
        /// Which.
        name: String,
        /// Why.
        problem: String,
    },
}

/// Runs one endpoint.
struct RestTool {
    template: UrlTemplate,
    /// The only origin that is called, and that the credential goes to.
    origin: String,
    method: Method,
    auth: Option<Auth>,
    body: BodyArguments,
    is_internal: bool,
    timeout: Duration,
    response_bytes_max: usize,
    fetcher: Fetcher,
    permits: Arc<Semaphore>,
}

/// A credential and the header that it goes into.
struct Auth {
    credential: CredentialReference,
    header: HeaderName,
    prefix: &'static str,
}

/// What of the arguments is the body.
enum BodyArguments {
    None,
    All,
    One(String),
}

/// Why a request was not made, or has no answer that can be used.
#[derive(Debug, thiserror::Error)]
enum RestError {
    #[error(transparent)]
    Arguments(#[from] ExpandError),
    #[error("the address would lead to another origin than that of the endpoint")]
    OtherOrigin,
    #[error("the body has more than {BODY_BYTES_MAX} bytes")]
    Body,
    #[error("{0}")]
    NoCredential(String),
    #[error(transparent)]
    Fetch(#[from] Error),
}

impl Default for RestDeps {
    fn default() -> Self {
        Self { credentials: CredentialPlaces::of_process(), resolver: Arc::new(SystemResolver) }
    }
}

/// The guide to REST endpoints.
#[must_use]
pub fn guide(rest: &Rest) -> Guide {
    let lines = rest.tools.iter().map(|(tool, _)| {
        let description = tool.description.split_whitespace().collect::<Vec<_>>().join(" ");
        let description: String = description.chars().take(120).collect();
        format!("- `{}`: {description}", tool.name)
    });
    let lines = lines.take(LISTED_MAX).collect::<Vec<_>>().join("\n");
    let examples = rest.tools.iter().filter_map(|(tool, _)| example::example_call(tool));
    let examples = examples.take(EXAMPLES_MAX).collect::<Vec<_>>().join("\n");

    let document = include_str!("rest/guide.md");
    Guide {
        name: SOURCE.to_owned(),
        summary: "Call the HTTP endpoints that this agent was given".to_owned(),
        document: document.replace("{endpoints}", &lines).replace("{examples}", &examples),
    }
}

/// Registers a tool for each endpoint. One whose name is taken is left out, and a warning names
/// both.
///
/// # Errors
/// When the registry has no room.
pub fn register(registry: &Registry, rest: Rest) -> Result<(), registry::Error> {
    for (tool, executor) in rest.tools {
        match registry.register(tool, executor) {
            Err(error @ registry::Error::Duplicate { .. }) => {
                tracing::warn!(%error, "an endpoint is left out");
            }
            registered => registered?,
        }
    }
    Ok(())
}

impl Rest {
    /// Makes tools of the endpoints.
    ///
    /// # Errors
    /// When one is none, or the machine's certificates cannot be read.
    pub fn new(settings: &RestSettings, deps: RestDeps) -> Result<Self, SetupError> {
        let config =
            FetchConfig { allowed_hosts: settings.allowed_hosts.clone(), resolver: deps.resolver };
        let fetcher = Fetcher::new(config).map_err(SetupError::Http)?;
        let permits = Arc::new(Semaphore::new(CONCURRENT_MAX));

        let mut tools = Vec::new();
        for endpoint in &settings.endpoints {
            let wrong =
                |problem: String| SetupError::Endpoint { name: endpoint.name.clone(), problem };
            endpoint.check().map_err(wrong)?;
            let timeout = endpoint.timeout.unwrap_or(settings.timeout).duration();
            let template = endpoint.template().map_err(wrong)?;
            let executor = RestTool {
                origin: endpoint.origin.clone().unwrap_or_else(|| template.origin().to_owned()),
                template,
                method: endpoint.method.into(),
                auth: auth_of(endpoint, &deps.credentials).map_err(wrong)?,
                body: BodyArguments::of(endpoint),
                is_internal: endpoint.internal,
                timeout,
                response_bytes_max: usize::try_from(settings.response_max.bytes())
                    .unwrap_or(usize::MAX),
                fetcher: fetcher.clone(),
                permits: Arc::clone(&permits),
            };
            let tool = definition(endpoint, timeout).map_err(wrong)?;
            tools.push((tool, executor));
        }
        Ok(Self { tools })
    }
}

fn definition(endpoint: &RestEndpoint, timeout: Duration) -> Result<Tool, String> {
    let tool = Tool::new(&endpoint.name, &endpoint.description, SOURCE).in_group(SOURCE);
    let tool = match endpoint.method {
        RestMethod::Get | RestMethod::Head => tool.read_only(),
        RestMethod::Delete => tool.destructive().with_risk(Risk::High),
        _ => tool.with_risk(Risk::High),
    };
    let tool = match endpoint.risk {
        Some(risk) => tool.with_risk(risk),
        None => tool,
    };
    let parameters = endpoint.parameters()?;
    Ok(tool
        .with_timeout(timeout + CALL_GRACE)
        .with_parameters(parameters.unwrap_or_else(|| json!({"type": "object", "properties": {}}))))
}

fn auth_of(endpoint: &RestEndpoint, places: &CredentialPlaces) -> Result<Option<Auth>, String> {
    let (header, prefix) = match endpoint.auth_type {
        AuthType::None => return Ok(None),
        AuthType::Bearer => (AUTHORIZATION, "Bearer "),
        AuthType::ApiKey => {
            let header = HeaderName::from_bytes(endpoint.api_key_header.as_bytes());
            (header.map_err(|_| "api_key_header is no name of a header".to_owned())?, "")
        }
    };
    let variable = endpoint.auth_env_var.as_deref();
    let provider = endpoint.vault_provider();
    let credential = places.find(endpoint.auth_credential.as_ref(), variable, &provider);
    Ok(Some(Auth { credential, header, prefix }))
}

impl BodyArguments {
    fn of(endpoint: &RestEndpoint) -> Self {
        if !endpoint.send_body_as_json || !endpoint.method.has_body() {
            return Self::None;
        }
        match &endpoint.body_argument {
            Some(argument) => Self::One(argument.clone()),
            None => Self::All,
        }
    }

    fn write(&self, arguments: &Map<String, Value>) -> Result<Option<Bytes>, RestError> {
        let written = match self {
            Self::None => return Ok(None),
            Self::All => serde_json::to_vec(arguments),
            Self::One(name) => match arguments.get(name) {
                Some(value) => serde_json::to_vec(value),
                None => return Ok(None),
            },
        };
        let written = written.expect("JSON values are written as JSON");
        if written.len() > BODY_BYTES_MAX {
            return Err(RestError::Body);
        }
        Ok(Some(written.into()))
    }
}

impl Executor for RestTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let cancelled = call.context.cancelled.clone();
            let work = async {
                let _permit = self.permits.acquire().await;
                self.call(&call.arguments).await
            };
            match cancelled.run_until_cancelled(work).await {
                Some(outcome) => outcome.map_err(|error| self.describe(&error)),
                None => Err(CallError::cancelled()),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        // In a body null says something.
        arguments.retain(|name, value| !value.is_null() || !self.template.has(name));
    }
}

impl RestTool {
    async fn call(&self, arguments: &Map<String, Value>) -> Result<Output, RestError> {
        let url = self.template.expand(arguments)?;
        // Whoever wrote the template does not say where the credential goes.
        if origin_of(&url) != self.origin {
            return Err(RestError::OtherOrigin);
        }
        let body = self.body.write(arguments)?;
        let mut headers = HeaderMap::from_iter([
            (USER_AGENT, HeaderValue::from_static(AGENT)),
            (ACCEPT, HeaderValue::from_static("application/json, text/*;q=0.9, */*;q=0.1")),
        ]);
        if body.is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }

        let credential = match &self.auth {
            Some(auth) => {
                let loaded = auth.credential.load().await;
                Some((loaded.map_err(|error| RestError::NoCredential(error.to_string()))?, auth))
            }
            None => None,
        };
        let credentials = credential
            .as_ref()
            .map(|(value, auth)| value.headers(auth.header.clone(), auth.prefix));
        let request = FetchRequest {
            method: self.method.clone(),
            headers,
            credentials: credentials.unwrap_or_default(),
            body,
            is_internal: self.is_internal,
            timeout: self.timeout,
            ..FetchRequest::get(url)
        };

        let response = self.fetcher.send(request).await?;
        let output = self.read(response).await?;
        Ok(match &credential {
            Some((credential, _)) => erase(credential, output),
            None => output,
        })
    }

    /// The answer as it is, which is an error of the tool where its status says so.
    async fn read(&self, response: FetchResponse) -> Result<Output, RestError> {
        let (status, content_type) = (response.status(), response.content_type());
        if !content_type.may_be_text() {
            let media_type = content_type.media_type;
            return Ok(Output::error(format!(
                "HTTP {}: the answer is {media_type}, which cannot be read as text",
                status.as_u16()
            )));
        }

        let bytes_max = self.response_bytes_max;
        let read = response.read(BodyLimit { bytes_max, oversize: Oversize::Refuse }).await;
        let body = match read {
            Ok(body) => body,
            // It was answered, and what a request that writes did is done.
            Err(error) if self.writes() => {
                let status = status.as_u16();
                return Ok(Output::error(format!(
                    "HTTP {status}: the request was answered, and the answer cannot be read: {error}"
                )));
            }
            Err(error) => return Err(error.into()),
        };
        let Some(text) = decode_text(&body.bytes, &content_type) else {
            let status = status.as_u16();
            return Ok(Output::error(format!("HTTP {status}: the answer is binary")));
        };

        Ok(match (status.is_success(), text.trim().is_empty()) {
            (true, false) => Output::text(text),
            (true, true) => Output::text(format!("HTTP {}", status.as_u16())),
            (false, false) => Output::error(format!("HTTP {}: {text}", status.as_u16())),
            (false, true) => Output::error(format!("HTTP {}", status.as_u16())),
        })
    }

    fn writes(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD)
    }

    /// What the caller of a request without an answer may conclude.
    fn describe(&self, error: &RestError) -> CallError {
        let text = error.to_string();
        let code = match error {
            RestError::Arguments(_) | RestError::OtherOrigin | RestError::Body => {
                ErrorCode::InvalidArguments
            }
            RestError::NoCredential(_) => ErrorCode::AuthRequired,
            RestError::Fetch(error) if error.is_before_request() => {
                return CallError::execution_failed(text).with_execution(Execution::NotStarted);
            }
            RestError::Fetch(_) if self.writes() => ErrorCode::OutcomeUnknown,
            RestError::Fetch(Error::TimedOut(_)) => {
                return CallError::new(ErrorCode::Timeout, text).of_repeatable();
            }
            RestError::Fetch(_) => ErrorCode::ExecutionFailed,
        };
        CallError::new(code, text)
    }
}

/// The same output without the credential, which some servers repeat.
fn erase(credential: &Credential, mut output: Output) -> Output {
    if let Some(content) = &mut output.content {
        *content = credential.erase(content).into_owned();
    }
    output
}

#[cfg(test)]
mod tests;
