//! What is the matter with the models of the settings, for `doctor`: whether each API is reached
//! and takes the key. What is asked for costs nothing.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use futures_util::{StreamExt as _, stream};
use toolbus_config::{ClockReading, Finding, HttpUrl, nearest_name};
use url::Url;

use crate::api::{ChatFlavour, HttpClients, KeySource, ModelList, Protocol, request_models};
use crate::connect::{ModelDeps, base_of, key_of, protocol_of};
use crate::error::ErrorKind;
use crate::settings::{EndpointSettings, ModelSettings, Provider};

/// How long an API may take to answer, and to be connected to.
const ASK_TIMEOUT: Duration = Duration::from_secs(10);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How many are asked at a time.
const CONCURRENCY_MAX: usize = 8;
/// Most models that are named.
const MODELS_NAMED_MAX: usize = 3;

/// What was found of an endpoint.
#[derive(Debug)]
pub struct Examined {
    /// How it is.
    pub finding: Finding,
    /// What time it is there, where it says so.
    pub clock: Option<ClockReading>,
}

/// The endpoints of the settings, to be looked at.
#[derive(Debug)]
pub struct ModelChecks(Vec<Subject>);

/// An endpoint that is looked at.
#[derive(Debug)]
struct Subject {
    name: String,
    endpoint: EndpointSettings,
    key: KeySource,
}

impl ModelChecks {
    /// Those of the settings. Nothing is asked yet.
    #[must_use]
    pub fn new(settings: &ModelSettings, deps: &ModelDeps<'_>) -> Self {
        let subjects = settings.endpoints.iter().map(|(name, endpoint)| Subject {
            name: name.clone(),
            endpoint: endpoint.clone(),
            key: key_of(name, endpoint, deps),
        });
        Self(subjects.collect())
    }

    /// Asks the API of each endpoint which models it has.
    pub async fn run(self) -> Vec<Examined> {
        if self.0.is_empty() {
            let none = Finding::note("models", "none is set, so `chat` and `ask` do not work")
                .mended_by("a section models.endpoints.NAME of the settings: docs/agent.md");
            return vec![Examined { finding: none, clock: None }];
        }
        let http = match HttpClients::new(CONNECT_TIMEOUT) {
            Ok(http) => http,
            Err(error) => {
                let detail = format!("no HTTP client for them: {}", error.without_url());
                return vec![Examined { finding: Finding::wrong("models", detail), clock: None }];
            }
        };

        let asking = self.0.into_iter().map(|subject| subject.examine(http.clone()));
        stream::iter(asking).buffered(CONCURRENCY_MAX).collect().await
    }
}

/// Where an API says which models it has. Anthropic is asked for the one, since its list has no
/// aliases; OpenRouter's list is for everybody, so it is asked about the key.
fn list_url(endpoint: &EndpointSettings, protocol: Protocol) -> Url {
    let base = base_of(endpoint);
    let url = match protocol {
        Protocol::Chat(ChatFlavour::OpenRouter) => base.below(&["key"]),
        Protocol::Chat(_) => base.below(&["models"]),
        Protocol::Anthropic if base.expose().trim_end_matches('/').ends_with("/v1") => {
            base.below(&["models", &endpoint.model])
        }
        Protocol::Anthropic => base.below(&["v1", "models", &endpoint.model]),
    };
    Url::parse(HttpUrl::expose(&url)).expect("it was one")
}

impl Subject {
    async fn examine(self, http: HttpClients) -> Examined {
        let key = match self.key.load().await {
            Ok(key) => key,
            Err(kind) => return Examined { finding: self.describe_failure(&kind), clock: None },
        };

        let protocol = protocol_of(&self.endpoint);
        let url = list_url(&self.endpoint, protocol);
        let asked = request_models(&http, protocol, url, key.as_ref(), ASK_TIMEOUT).await;
        match asked {
            Err(kind) => Examined { finding: self.describe_failure(&kind), clock: None },
            Ok(list) => {
                let clock = list.date.map(|(date, took)| self.read_clock(date, took));
                Examined { finding: self.describe(list, key.is_some()), clock }
            }
        }
    }

    fn title(&self) -> String {
        format!("model {}", self.name)
    }

    fn setting(&self, member: &str) -> String {
        format!("models.endpoints.{}.{member}", self.name)
    }

    fn describe(&self, list: ModelList, has_key: bool) -> Finding {
        let EndpointSettings { provider, model, base_url, .. } = &self.endpoint;
        let key = if has_key { "takes the key" } else { "wants no key" };
        let has_model = |models: &[String]| models.iter().any(|id| is_same_model(id, model));

        match list.models {
            // OpenRouter was asked about the key.
            None if *provider == Provider::OpenRouter => {
                Finding::ok(self.title(), format!("the API answers and {key}; {model}"))
            }
            Some(models) if has_model(&models) => {
                Finding::ok(self.title(), format!("the API answers, {key} and has {model}"))
            }
            // Anthropic's own API was asked for this one.
            None if *provider == Provider::Anthropic && base_url.is_none() => self.no_model(&[]),
            Some(models) if !models.is_empty() => self.no_model(&models),
            _ => {
                let detail = format!(
                    "the API answers, and does not say which models it has: whether it has \
                     {model}, and takes the key, is not known"
                );
                Finding::note(self.title(), detail)
            }
        }
    }

    /// The API does not list the model. Servers that imitate one may have it all the same.
    fn no_model(&self, models: &[String]) -> Finding {
        let model = &self.endpoint.model;
        let detail = format!("the API answers and has no model {model}");
        let near = nearest_name(model, models.iter().map(String::as_str));
        let named = match near {
            Some(near) => near.to_owned(),
            None => models.iter().take(MODELS_NAMED_MAX).cloned().collect::<Vec<_>>().join(", "),
        };
        let setting = self.setting("model");
        let mend = match named.as_str() {
            "" => format!("set {setting} to one that it has"),
            named => format!("set {setting} to one that it has, such as {named}"),
        };

        let finding = match self.endpoint.base_url {
            None => Finding::wrong(self.title(), detail),
            Some(_) => Finding::note(self.title(), detail),
        };
        finding.mended_by(mend)
    }

    fn describe_failure(&self, kind: &ErrorKind) -> Finding {
        let mend = match kind {
            ErrorKind::NoKey { .. } | ErrorKind::Unauthenticated { .. } => self.mend_of_key(),
            ErrorKind::QuotaSpent { .. } => "see to the account at its provider".to_owned(),
            ErrorKind::RateLimited { .. } | ErrorKind::Overloaded { .. } => {
                return Finding::note(self.title(), kind.to_string()).mended_by("try again later");
            }
            _ if self.endpoint.base_url.is_some() => {
                format!("start the server, or correct {}", self.setting("base_url"))
            }
            _ => "look at the network, and at HTTPS_PROXY where there is one".to_owned(),
        };
        Finding::wrong(self.title(), kind.to_string()).mended_by(mend)
    }

    fn mend_of_key(&self) -> String {
        let setting = self.setting("api_key");
        let variable = match self.endpoint.provider {
            _ if self.endpoint.api_key.is_some() || self.endpoint.base_url.is_some() => None,
            Provider::OpenAi => Some("OPENAI_API_KEY"),
            Provider::Anthropic => Some("ANTHROPIC_API_KEY"),
            Provider::OpenRouter => Some("OPENROUTER_API_KEY"),
        };
        match variable {
            Some(variable) => format!("set {variable}, or {setting}"),
            None => format!("set {setting} to a key that holds, or to where one is"),
        }
    }

    /// A date is that of a whole second, some time between the request and its answer.
    fn read_clock(&self, date: SystemTime, took: Duration) -> ClockReading {
        let ms = |time: Duration| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        let since_epoch =
            |time: SystemTime| ms(time.duration_since(UNIX_EPOCH).unwrap_or_default());
        let half = ms(took) / 2;
        let ours = since_epoch(SystemTime::now()).saturating_sub(half);
        ClockReading {
            source: format!("the API of {}", self.title()),
            ahead_ms: since_epoch(date).saturating_add(500).saturating_sub(ours),
            error_ms: half.saturating_add(500),
        }
    }
}

/// Ollama lists `llama3` as `llama3:latest`.
fn is_same_model(listed: &str, model: &str) -> bool {
    listed == model || listed.strip_suffix(":latest") == Some(model)
}
