//! The settings of REST endpoints.

use std::collections::HashSet;
use std::time::Duration;

use reqwest::header::HeaderName;
use reqwest::{Method, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolbus_config::{
    ByteSize, ConfiguredAddress, HttpUrl, KeyReference, Mistakes, Secret, TimeSpan,
};
use toolbus_fetch::AllowedHost;
use toolbus_json::Limits;
use toolbus_tools::id::ToolName;
use toolbus_tools::schema::Schema;
use toolbus_tools::tool::Risk;

use super::template::UrlTemplate;

/// The header of API keys where nobody says.
const API_KEY_HEADER: &str = "X-Api-Key";
/// Most documents.
const DOCUMENTS_MAX: usize = 50;
/// Longest prefix of the names of a document's tools, in characters.
const NAME_PREFIX_CHARS_MAX: usize = 32;
/// Most endpoints.
const ENDPOINTS_MAX: usize = 500;
/// The longest time that a request may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(10 * 60);
/// The largest answer, in bytes.
const RESPONSE_BYTES_MAX: u64 = 32 << 20;
/// Largest schema, in bytes.
const SCHEMA_BYTES_MAX: usize = 256 << 10;
/// The schema of the arguments of an endpoint.
const SCHEMA_LIMITS: Limits = Limits::of_bytes(SCHEMA_BYTES_MAX);
/// Headers that say where a message ends or goes, and are no place for a credential.
const FORBIDDEN_HEADERS: [&str; 7] =
    ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer"];

/// HTTP endpoints that are tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RestSettings {
    /// The endpoints.
    pub endpoints: Vec<RestEndpoint>,
    /// OpenAPI documents, whose operations are endpoints too.
    pub openapi: Vec<OpenApiDocument>,
    /// What endpoints that are not internal, and redirects, may reach though its address is not
    /// public: names, `*.domain`, addresses and networks.
    pub allowed_hosts: Vec<AllowedHost>,
    /// The largest answer, up to 32 MiB; a larger one is refused.
    pub response_max: ByteSize,
    /// How long a request may take, up to ten minutes.
    pub timeout: TimeSpan,
}

/// One endpoint, and so one tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RestEndpoint {
    /// The name of the tool.
    #[serde(alias = "Name")]
    pub name: String,
    /// What it does, for models.
    #[serde(alias = "Description")]
    pub description: String,
    /// The address, with `{argument}` for an argument in the path or the query, and
    /// `{?first,second}` for parameters that are left out where they are not given. An argument is
    /// encoded; one that is not given stays as it is written here.
    #[serde(alias = "UrlTemplate")]
    pub url_template: ConfiguredAddress,
    /// The method.
    #[serde(alias = "Method")]
    pub method: RestMethod,
    /// The JSON Schema of the arguments, as a text.
    #[serde(alias = "ParametersSchema")]
    pub parameters_schema: Option<String>,
    /// How a request is authenticated.
    #[serde(alias = "AuthType")]
    pub auth_type: AuthType,
    /// The variable of the environment that has the credential.
    #[serde(alias = "AuthEnvVar")]
    pub auth_env_var: Option<String>,
    /// The credential in its place: `${vault:NAME}` for one of the vault, there of `rest:` and the
    /// name of the endpoint; `${NAME}` for a variable; or the credential itself. It is read for
    /// each request.
    pub auth_credential: Option<Secret>,
    /// The header that an API key goes into.
    #[serde(alias = "ApiKeyHeader")]
    pub api_key_header: String,
    /// Whether the arguments are sent as JSON, with `POST`, `PUT` and `PATCH`.
    #[serde(alias = "SendBodyAsJson")]
    pub send_body_as_json: bool,
    /// The argument that is the body. When not set, all arguments are.
    pub body_argument: Option<String>,
    /// Whether its address may be one that is not public.
    pub internal: bool,
    /// How much harm it can do. When not set: `low` for `GET` and `HEAD`, which change nothing, and
    /// `high` for all others.
    pub risk: Option<Risk>,
    /// How long its requests may take, if not as long as all others.
    pub timeout: Option<TimeSpan>,
    /// The document that it is an operation of. Credentials of the vault are the document's then.
    #[serde(skip)]
    pub document: Option<String>,
    /// The only origin that it is called at and that gets its credential, such as
    /// `https://api.example.com`. When not set: that of its address.
    #[serde(skip)]
    pub origin: Option<String>,
}

/// An OpenAPI document (3.0 or 3.1, JSON or YAML), and so a tool for each of its operations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenApiDocument {
    /// What it is called: in messages, and as the owner of credentials in the vault.
    pub name: String,
    /// The file, or the address that it is fetched from at the start.
    pub document: ConfiguredAddress,
    /// The operations, by `operationId`, or `METHOD /path` where they have none. When not set, all.
    pub operations: Option<Vec<String>>,
    /// Where the API is, in place of what the document says. It has to be set for a document that
    /// is fetched where requests have a credential or `internal` is set: whoever writes the
    /// document would say where those go. Without it, requests with a credential go to the origin
    /// of the first server of the file alone.
    pub server: Option<HttpUrl>,
    /// What the names of its tools begin with.
    pub name_prefix: String,
    /// How requests are authenticated.
    pub auth_type: AuthType,
    /// The variable of the environment that has the credential.
    pub auth_env_var: Option<String>,
    /// The credential in its place: `${vault:NAME}` for one of the vault, there of `rest:` and the
    /// name of the document; `${NAME}` for a variable; or the credential itself. It is read for
    /// each request, and not sent for the document itself.
    pub auth_credential: Option<Secret>,
    /// The header that an API key goes into.
    pub api_key_header: String,
    /// Whether the addresses of the document and of the API may be ones that are not public.
    pub internal: bool,
}

/// A method of HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RestMethod {
    /// Reads.
    #[default]
    Get,
    /// Reads the headers.
    Head,
    /// Sends.
    Post,
    /// Replaces.
    Put,
    /// Changes.
    Patch,
    /// Deletes.
    Delete,
}

/// How a request is authenticated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthType {
    /// Not at all.
    #[default]
    None,
    /// By `Authorization: Bearer`.
    Bearer,
    /// By a header of its own.
    ApiKey,
}

impl Default for RestSettings {
    fn default() -> Self {
        Self {
            endpoints: Vec::new(),
            openapi: Vec::new(),
            allowed_hosts: Vec::new(),
            response_max: ByteSize::mebibytes(2),
            timeout: TimeSpan::seconds(30),
        }
    }
}

impl Default for RestEndpoint {
    fn default() -> Self {
        Self {
            name: String::new(),
            description: String::new(),
            url_template: ConfiguredAddress::default(),
            method: RestMethod::Get,
            parameters_schema: None,
            auth_type: AuthType::None,
            auth_env_var: None,
            auth_credential: None,
            api_key_header: API_KEY_HEADER.to_owned(),
            send_body_as_json: false,
            body_argument: None,
            internal: false,
            risk: None,
            timeout: None,
            document: None,
            origin: None,
        }
    }
}

impl Default for OpenApiDocument {
    fn default() -> Self {
        Self {
            name: String::new(),
            document: ConfiguredAddress::default(),
            operations: None,
            server: None,
            name_prefix: String::new(),
            auth_type: AuthType::None,
            auth_env_var: None,
            auth_credential: None,
            api_key_header: API_KEY_HEADER.to_owned(),
            internal: false,
        }
    }
}

impl RestMethod {
    /// Whether its requests have a body.
    pub(super) fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put | Self::Patch)
    }
}

impl From<RestMethod> for Method {
    fn from(method: RestMethod) -> Self {
        match method {
            RestMethod::Get => Self::GET,
            RestMethod::Head => Self::HEAD,
            RestMethod::Post => Self::POST,
            RestMethod::Put => Self::PUT,
            RestMethod::Patch => Self::PATCH,
            RestMethod::Delete => Self::DELETE,
        }
    }
}

impl RestSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `rest`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        if self.endpoints.len() > ENDPOINTS_MAX {
            mistakes.add("rest.endpoints", "500 at most");
        }
        let mut names = HashSet::new();
        for (at, endpoint) in self.endpoints.iter().enumerate() {
            let key = format!("rest.endpoints[{at}]");
            if let Err(problem) = endpoint.check() {
                mistakes.add(&key, problem);
            } else if !names.insert(&endpoint.name) {
                mistakes.add(&key, format!("there are two endpoints '{}'", endpoint.name));
            }
        }

        if self.openapi.len() > DOCUMENTS_MAX {
            mistakes.add("rest.openapi", "50 at most");
        }
        let mut documents = HashSet::new();
        for (at, document) in self.openapi.iter().enumerate() {
            let key = format!("rest.openapi[{at}]");
            if let Err(problem) = document.check() {
                mistakes.add(&key, problem);
            } else if !documents.insert(&document.name) {
                mistakes.add(&key, format!("there are two documents '{}'", document.name));
            }
        }

        if !(1 << 10..=RESPONSE_BYTES_MAX).contains(&self.response_max.bytes()) {
            mistakes.add("rest.response_max", "between 1 KiB and 32 MiB");
        }
        if !is_timeout(self.timeout) {
            mistakes.add("rest.timeout", "between 100 ms and ten minutes");
        }
    }
}

impl RestEndpoint {
    /// What is wrong with it, without a word of its credential.
    pub(super) fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        self.template().map_err(|error| format!("url_template: {error}"))?;
        self.parameters()?;

        check_auth(
            self.auth_type,
            &self.api_key_header,
            self.auth_env_var.as_deref(),
            self.auth_credential.as_ref(),
        )?;
        if self.timeout.is_some_and(|timeout| !is_timeout(timeout)) {
            return Err("timeout: between 100 ms and ten minutes".to_owned());
        }
        Ok(())
    }

    /// Whose credentials of the vault it takes.
    #[must_use]
    pub fn vault_provider(&self) -> String {
        format!("rest:{}", self.document.as_ref().unwrap_or(&self.name))
    }

    /// The address.
    pub(super) fn template(&self) -> Result<UrlTemplate, String> {
        let template = UrlTemplate::parse(self.url_template.expose());
        let template = template.map_err(|error| error.to_string())?;
        match &self.origin {
            Some(origin) if origin != template.origin() => Err(format!(
                "it is not at {origin}, where requests of this API go: leave the operation out, or \
                 set server"
            )),
            _ => Ok(template),
        }
    }

    /// The schema of the arguments.
    pub(super) fn parameters(&self) -> Result<Option<Value>, String> {
        let Some(text) = &self.parameters_schema else { return Ok(None) };
        if text.len() > SCHEMA_BYTES_MAX {
            return Err(format!("parameters_schema: more than {SCHEMA_BYTES_MAX} bytes"));
        }
        let schema: Value = toolbus_json::from_str(text, &SCHEMA_LIMITS)
            .map_err(|error| format!("parameters_schema: it is no JSON: {error}"))?;
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            return Err("parameters_schema: it is no schema of an object".to_owned());
        }
        Schema::compile(&schema).map_err(|error| format!("parameters_schema: {error}"))?;
        Ok(Some(schema))
    }
}

impl OpenApiDocument {
    /// What is wrong with it, without a look into the document.
    fn check(&self) -> Result<(), String> {
        check_name(&self.name)?;
        if self.document.expose().trim().is_empty() {
            return Err("document: it needs a file or an address".to_owned());
        }
        if self.name_prefix.len() > NAME_PREFIX_CHARS_MAX || !is_plain(&self.name_prefix) {
            return Err(format!(
                "name_prefix: at most {NAME_PREFIX_CHARS_MAX} letters, digits, '_', '-' and '.'"
            ));
        }

        let is_trusted = self.auth_type != AuthType::None || self.internal;
        if self.url().is_some() && is_trusted && self.server.is_none() {
            return Err("server: it is needed for a document that is fetched, where there is a \
                        credential or internal is set"
                .to_owned());
        }

        check_auth(
            self.auth_type,
            &self.api_key_header,
            self.auth_env_var.as_deref(),
            self.auth_credential.as_ref(),
        )
    }

    /// Where it is fetched from. `None`: it is a file.
    pub(super) fn url(&self) -> Option<Url> {
        let url = Url::parse(self.document.expose().trim()).ok()?;
        matches!(url.scheme(), "http" | "https").then_some(url)
    }
}

fn check_name(name: &str) -> Result<(), String> {
    ToolName::parse(name).map_err(|error| format!("name: {error}"))?;
    match is_plain(name) {
        true => Ok(()),
        false => Err("name: letters, digits, '_', '-' and '.'".to_owned()),
    }
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

fn check_auth(
    auth_type: AuthType,
    api_key_header: &str,
    variable: Option<&str>,
    credential: Option<&Secret>,
) -> Result<(), String> {
    let header = api_key_header.to_ascii_lowercase();
    if HeaderName::from_bytes(header.as_bytes()).is_err()
        || FORBIDDEN_HEADERS.contains(&header.as_str())
    {
        return Err("api_key_header: it is no name of a header for a key".to_owned());
    }
    if let Some(credential) = credential {
        KeyReference::parse(credential).map_err(|problem| format!("auth_credential: {problem}"))?;
    }
    if auth_type != AuthType::None && credential.is_none() && variable.is_none() {
        return Err("auth_type: it needs auth_env_var or auth_credential".to_owned());
    }
    Ok(())
}

fn is_timeout(timeout: TimeSpan) -> bool {
    (Duration::from_millis(100)..=TIMEOUT_MAX).contains(&timeout.duration())
}
