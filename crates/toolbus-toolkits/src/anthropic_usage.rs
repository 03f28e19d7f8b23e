//! `anthropic_usage`: what an organization uses of Anthropic's API, and what that costs.
//!
//! To wire it: check [`AnthropicUsageSettings`] with those of the program and call [`register`]
//! with the places of credentials (`anthropic` is the provider in the vault). Without a key there
//! is no tool. Add [`guide`] to the guides where there is one.
//!
//! Invariant: the key goes to the API alone, and what that says is freed from it.

mod money;

use std::time::Duration;

use futures_util::future::BoxFuture;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;
use reqwest::header::{ACCEPT, HeaderMap, HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use toolbus_config::{HttpUrl, KeyReference, Mistakes, Secret, TimeSpan};
use toolbus_fetch::{BodyLimit, FetchConfig, FetchRequest, Fetcher, Oversize, decode_text};
use toolbus_json::Limits;
use toolbus_tools::arguments::{text, whole_number};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::{Executor, Guide, Tool};

use crate::audience::{self, audience_of};
use crate::credential::{CredentialPlaces, CredentialReference};

/// Name of the tool.
pub const NAME: &str = "anthropic_usage";
/// The variable of the environment that has the key where the settings have none.
pub const KEY_VARIABLE: &str = "ANTHROPIC_ADMIN_API_KEY";
/// The provider of the key in the vault.
pub const VAULT_PROVIDER: &str = "anthropic";
const OWN_URL: &str = "https://api.anthropic.com";
const VERSION: &str = "2023-06-01";
/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 8 << 20;
/// A report. It has a value for every 20 bytes or so.
const REPORT_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX).with_values(512 << 10);
/// How much of an error is shown, in characters.
const ERROR_CHARS_MAX: usize = 2_000;
/// The longest time that a report may take.
const TIMEOUT_MAX: Duration = Duration::from_secs(5 * 60);
/// How much longer than a report its call may take.
const CALL_GRACE: Duration = Duration::from_secs(10);
/// What stays as it is in a query.
const ENCODED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Reports of Anthropic's API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnthropicUsageSettings {
    /// The admin key: itself, `${NAME}` for a variable of the environment, or `${vault:NAME}` for a
    /// credential of the vault, there of `anthropic`. When not set: the variable
    /// `ANTHROPIC_ADMIN_API_KEY`. Without a key there is no tool.
    pub api_key: Option<Secret>,
    /// Who has this tool, as globs over `PROOF:NAME` as policy rules have them, such as
    /// `claimed:mcp` or `token:http/NAME`; `*` is everybody. For others it is not there, whatever
    /// the policy allows. `local:*` is whoever runs the program, with the schedules and subagents
    /// of that person.
    #[schemars(length(max = 64))]
    pub principals: Vec<String>,
    /// Where the API is, if not at its own address.
    pub base_url: Option<HttpUrl>,
    /// How long a report may take, up to five minutes.
    pub timeout: TimeSpan,
}

/// What can be reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Usage,
    Cost,
    ClaudeCode,
}

struct UsageTool {
    key: CredentialReference,
    base: Url,
    is_internal: bool,
    timeout: Duration,
    fetcher: Fetcher,
}

impl Default for AnthropicUsageSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            principals: audience::local_alone(),
            base_url: None,
            timeout: TimeSpan::seconds(30),
        }
    }
}

impl AnthropicUsageSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as
    /// `anthropic_usage`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        if let Some(Err(problem)) = self.api_key.as_ref().map(KeyReference::parse) {
            mistakes.add("anthropic_usage.api_key", problem);
        }
        audience::check("anthropic_usage.principals", &self.principals, mistakes);
        if !(Duration::from_millis(100)..=TIMEOUT_MAX).contains(&self.timeout.duration()) {
            mistakes.add("anthropic_usage.timeout", "between 100 ms and five minutes");
        }
    }
}

/// The guide to reports.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: NAME.to_owned(),
        summary: "Report the use and the cost of Anthropic's API".to_owned(),
        document: include_str!("anthropic_usage/guide.md").to_owned(),
    }
}

/// Why there is no tool.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There is no HTTP client.
    #[error("no HTTP client for reports")]
    Http(#[source] reqwest::Error),
    /// The name is taken.
    #[error(transparent)]
    Registry(#[from] registry::Error),
}

/// Registers the tool where there is a key, and says whether there is one.
///
/// # Errors
/// When its name is taken, or the machine's certificates cannot be read.
pub fn register(
    registry: &Registry,
    settings: &AnthropicUsageSettings,
    places: &CredentialPlaces,
) -> Result<bool, RegisterError> {
    let key = places.find(settings.api_key.as_ref(), Some(KEY_VARIABLE), VAULT_PROVIDER);
    if key.is_absent() {
        return Ok(false);
    }
    let base = settings.base_url.as_ref().map_or(OWN_URL, HttpUrl::expose);
    let timeout = settings.timeout.duration();
    let tool = UsageTool {
        key,
        base: Url::parse(base).expect("it was read as a URL"),
        is_internal: settings.base_url.is_some(),
        timeout,
        fetcher: Fetcher::new(FetchConfig::default()).map_err(RegisterError::Http)?,
    };
    let audience = audience_of(&settings.principals);
    registry.register(definition(timeout).for_audience(audience), tool)?;
    Ok(true)
}

fn definition(timeout: Duration) -> Tool {
    let string = |text: &str| json!({"type": "string", "description": text});
    let parameters = json!({
        "type": "object",
        "properties": {
            "action": string("'usage' (tokens), 'cost' (US dollars) or 'claude_code'"),
            "starting_at": string("Where the report begins, such as 2026-01-01T00:00:00Z; for claude_code a date"),
            "ending_at": string("Where it ends"),
            "bucket_width": string("'1m', '1h' or '1d'; a cost report has '1d' alone"),
            "group_by": {
                "type": "array", "items": {"type": "string"},
                "description": "What to group by, such as model, workspace_id or description"
            },
            "limit": {"type": "integer", "minimum": 1, "description": "How many buckets at most"}
        },
        "required": ["action", "starting_at"]
    });

    let description = "Query the Anthropic Admin API for organization usage and cost reports.";
    Tool::new(NAME, description, NAME)
        .in_group(NAME)
        .read_only()
        .with_timeout(timeout + CALL_GRACE)
        .with_parameters(parameters)
}

impl Action {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "usage" => Some(Self::Usage),
            "cost" => Some(Self::Cost),
            "claude_code" => Some(Self::ClaudeCode),
            _ => None,
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Usage => "usage_report/messages",
            Self::Cost => "cost_report",
            Self::ClaudeCode => "usage_report/claude_code",
        }
    }

    fn label(self) -> &'static str {
        match self {
            Self::Usage => "Token Usage Report",
            Self::Cost => "Cost Report",
            Self::ClaudeCode => "Claude Code Usage Report",
        }
    }
}

impl Executor for UsageTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let cancelled = call.context.cancelled.clone();
            match cancelled.run_until_cancelled(self.report(&call.arguments)).await {
                Some(output) => Ok(output),
                None => Err(CallError::cancelled()),
            }
        })
    }

    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        if let Some(limit) = arguments.get("limit").and_then(whole_number) {
            arguments.insert("limit".to_owned(), limit.into());
        }
    }
}

impl UsageTool {
    async fn report(&self, arguments: &Map<String, Value>) -> Output {
        let written = text(arguments, "action").unwrap_or_default();
        let Some(action) = Action::parse(written) else {
            let shown: String = written.chars().take(100).collect();
            return Output::error(format!(
                "Unknown action '{shown}'. Use one of: usage, cost, claude_code"
            ));
        };
        let width = text(arguments, "bucket_width");
        if action == Action::Cost && width.is_some_and(|width| width != "1d") {
            return Output::error("Error: a cost report has buckets of '1d' alone (bucket_width)");
        }

        match self.get(action, arguments).await {
            Ok(value) => {
                let value = if action == Action::Cost { money::in_dollars(value) } else { value };
                let pretty = serde_json::to_string_pretty(&value).unwrap_or_default();
                Output::text(format!("{}:\n{pretty}", action.label()))
            }
            Err(problem) => Output::error(problem),
        }
    }

    async fn get(&self, action: Action, arguments: &Map<String, Value>) -> Result<Value, String> {
        let failed = |problem: &dyn std::fmt::Display| {
            format!("Error querying Anthropic's usage: {problem}")
        };
        let key = self.key.load().await.map_err(|error| failed(&error))?;
        let headers = HeaderMap::from_iter([
            (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(VERSION)),
            (ACCEPT, HeaderValue::from_static("application/json")),
        ]);
        let request = FetchRequest {
            headers,
            credentials: key.headers(HeaderName::from_static("x-api-key"), ""),
            is_internal: self.is_internal,
            redirects_max: 0,
            timeout: self.timeout,
            ..FetchRequest::get(self.url(action, arguments))
        };

        let response = self.fetcher.send(request).await.map_err(|error| failed(&error))?;
        let (status, content_type) = (response.status(), response.content_type());
        let limit = BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize: Oversize::Refuse };
        let body = response.read(limit).await.map_err(|error| failed(&error))?;
        let text = decode_text(&body.bytes, &content_type).unwrap_or_default();
        let text = key.erase(&text);
        if !status.is_success() {
            let shown: String = text.chars().take(ERROR_CHARS_MAX).collect();
            return Err(format!("Error: HTTP {} from Anthropic's API: {shown}", status.as_u16()));
        }
        toolbus_json::from_str(&text, &REPORT_LIMITS).map_err(|error| failed(&error))
    }

    fn url(&self, action: Action, arguments: &Map<String, Value>) -> Url {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["v1", "organizations"]).extend(action.path().split('/'));
        }

        let encode = |text: &str| utf8_percent_encode(text, &ENCODED).to_string();
        let mut query = Vec::new();
        for name in ["starting_at", "ending_at", "bucket_width"] {
            if let Some(value) = text(arguments, name) {
                query.push(format!("{name}={}", encode(value)));
            }
        }
        let groups = arguments.get("group_by").and_then(Value::as_array);
        let groups = groups.into_iter().flatten().filter_map(Value::as_str);
        query.extend(groups.map(|group| format!("group_by[]={}", encode(group))));
        if let Some(limit) = arguments.get("limit").and_then(Value::as_u64) {
            query.push(format!("limit={limit}"));
        }
        url.set_query(Some(&query.join("&")));
        url
    }
}
