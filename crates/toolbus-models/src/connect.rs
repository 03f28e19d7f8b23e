//! From settings to models.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use toolbus_config::{HttpUrl, TimeSpan};
use toolbus_tools::CredentialSource;
use url::Url;

use crate::api::{ApiModel, ChatFlavour, HttpClients, KeySource, Protocol};
use crate::fallback::{FallbackModel, RetryLimits};
use crate::metrics::Recorder;
use crate::model::Model;
use crate::models::Models;
use crate::settings::{CallStyle, EndpointSettings, KeyReference, ModelSettings, Provider, Tier};
use crate::text_calls::TextCallModel;

/// What models are made with.
pub struct ModelDeps<'a> {
    /// The variables of the environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// Where keys are read from that the settings name by `${vault:NAME}`.
    pub credentials: Option<Arc<dyn CredentialSource>>,
}

/// Why there are no models.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no HTTP client.
    #[error("no HTTP client for models")]
    Http(#[source] reqwest::Error),
    /// A tier names a model that there is not. Checked settings do not.
    #[error("there is no model endpoint '{0}'")]
    UnknownEndpoint(String),
}

impl fmt::Debug for ModelDeps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ModelDeps")
    }
}

impl Models {
    /// The models that these settings name. Nothing is asked yet, and a key that is missing is an
    /// error of the requests that need it.
    ///
    /// # Errors
    /// When there is no HTTP client, or a tier names a model that there is not.
    pub fn connect(settings: &ModelSettings, deps: &ModelDeps<'_>) -> Result<Self, ConnectError> {
        let limits = RetryLimits {
            retries_max: settings.retries,
            wait_max: settings.retry_wait_max.duration(),
        };
        let mut clients = Clients::default();
        let mut models: BTreeMap<String, Arc<dyn Model>> = BTreeMap::new();
        for (name, endpoint) in &settings.endpoints {
            let http = clients.with(endpoint.connect_timeout).map_err(ConnectError::Http)?;
            models.insert(name.clone(), connect_endpoint(name, endpoint, deps, http));
        }

        let mut tiers = Vec::new();
        for tier in Tier::ALL {
            let names = settings.endpoints_of(tier);
            let found = names.into_iter().map(|name| {
                let model = models.get(name).cloned();
                model.ok_or_else(|| ConnectError::UnknownEndpoint(name.to_owned()))
            });
            let mut found = found.collect::<Result<Vec<_>, _>>()?.into_iter();
            if let Some(first) = found.next() {
                let model = FallbackModel::new(first, found.collect(), limits);
                tiers.push((tier, Arc::new(model) as Arc<dyn Model>));
            }
        }

        let alone = models.into_iter().map(|(name, model)| {
            let model: Arc<dyn Model> = Arc::new(FallbackModel::new(model, Vec::new(), limits));
            (name, model)
        });
        Ok(Self::new(alone, tiers))
    }
}

/// HTTP clients, which endpoints share that have the same time to connect.
#[derive(Default)]
struct Clients(BTreeMap<Duration, HttpClients>);

impl Clients {
    fn with(&mut self, connect_timeout: TimeSpan) -> Result<HttpClients, reqwest::Error> {
        let connect_timeout = connect_timeout.duration();
        if let Some(clients) = self.0.get(&connect_timeout) {
            return Ok(clients.clone());
        }
        let clients = HttpClients::new(connect_timeout)?;
        self.0.insert(connect_timeout, clients.clone());
        Ok(clients)
    }
}

fn connect_endpoint(
    name: &str,
    endpoint: &EndpointSettings,
    deps: &ModelDeps<'_>,
    http: HttpClients,
) -> Arc<dyn Model> {
    let protocol = protocol_of(endpoint);
    let model = ApiModel {
        http,
        protocol,
        url: url_of(endpoint, protocol),
        model: endpoint.model.clone(),
        key: key_of(name, endpoint, deps),
        output_tokens_max: endpoint.output_tokens_max.map(NonZeroU32::get),
        effort: endpoint.reasoning_effort,
        prices: endpoint.prices,
        idle_timeout: endpoint.idle_timeout.duration(),
        timeout: endpoint.timeout.duration(),
        recorder: Recorder::new(&endpoint.model, protocol.provider()),
    };
    match endpoint.calls {
        CallStyle::Native => Arc::new(model),
        CallStyle::Text => Arc::new(TextCallModel::new(Arc::new(model))),
    }
}

pub(crate) fn protocol_of(endpoint: &EndpointSettings) -> Protocol {
    let is_own = endpoint.base_url.as_ref().is_none_or(|url| {
        Url::parse(url.expose()).is_ok_and(|url| url.host_str() == Some("api.openai.com"))
    });
    match endpoint.provider {
        Provider::OpenAi if is_own => Protocol::Chat(ChatFlavour::OpenAi),
        Provider::OpenAi => Protocol::Chat(ChatFlavour::Compatible),
        Provider::OpenRouter => Protocol::Chat(ChatFlavour::OpenRouter),
        Provider::Anthropic => Protocol::Anthropic,
    }
}

/// Where the API of an endpoint is.
pub(crate) fn base_of(endpoint: &EndpointSettings) -> HttpUrl {
    endpoint.base_url.clone().unwrap_or_else(|| {
        let own = match endpoint.provider {
            Provider::OpenAi => "https://api.openai.com/v1",
            Provider::Anthropic => "https://api.anthropic.com",
            Provider::OpenRouter => "https://openrouter.ai/api/v1",
        };
        own.parse().expect("it is a URL")
    })
}

/// Where requests of an endpoint go.
fn url_of(endpoint: &EndpointSettings, protocol: Protocol) -> Url {
    let base = base_of(endpoint);
    let url = match protocol {
        Protocol::Chat(_) => base.below(&["chat", "completions"]),
        // Anthropic's own clients take an address without the version; some write it all the same.
        Protocol::Anthropic if base.expose().trim_end_matches('/').ends_with("/v1") => {
            base.below(&["messages"])
        }
        Protocol::Anthropic => base.below(&["v1", "messages"]),
    };
    Url::parse(HttpUrl::expose(&url)).expect("it was one")
}

pub(crate) fn key_of(name: &str, endpoint: &EndpointSettings, deps: &ModelDeps<'_>) -> KeySource {
    let variable = |name: &str| match (deps.environment)(name) {
        Some(key) if !key.trim().is_empty() => KeySource::Set(key.into()),
        _ => KeySource::Missing(format!("the environment variable {name} is not set")),
    };
    let Some(set) = &endpoint.api_key else {
        // A stranger's server is not sent the key of somebody else.
        return match endpoint.provider {
            _ if endpoint.base_url.is_some() => KeySource::None,
            Provider::OpenAi => variable("OPENAI_API_KEY"),
            Provider::Anthropic => variable("ANTHROPIC_API_KEY"),
            Provider::OpenRouter => variable("OPENROUTER_API_KEY"),
        };
    };

    match (KeyReference::parse(set), &deps.credentials) {
        (Ok(KeyReference::Key(key)), _) => KeySource::Set(key),
        (Ok(KeyReference::Variable(name)), _) => variable(&name),
        (Ok(KeyReference::Vault(credential)), Some(source)) => KeySource::Vault {
            source: source.clone(),
            provider: format!("model:{name}"),
            name: credential,
        },
        (Ok(KeyReference::Vault(_)), None) => {
            KeySource::Missing("it is in the vault, and there is none".to_owned())
        }
        (Err(problem), _) => KeySource::Missing(problem.to_owned()),
    }
}

#[cfg(test)]
mod tests;
