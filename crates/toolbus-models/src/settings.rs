//! The section `models` of the settings, as an operator writes it.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{HttpUrl, Mistakes, Secret, TimeSpan};

use crate::completion::TokenUsage;

pub(crate) use toolbus_config::KeyReference;

/// Longest name of an endpoint or of a model, in bytes.
const NAME_BYTES_MAX: usize = 128;
/// Longest time limit.
const TIMEOUT_MAX: TimeSpan = TimeSpan::seconds(24 * 3600);
/// Highest price, in US dollars for a million tokens.
const PRICE_MAX_USD: f64 = 1e6;

/// Models, and which of them answers what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelSettings {
    /// The models, by names of your own: letters, digits, `-`, `_` and `.`.
    pub endpoints: BTreeMap<String, EndpointSettings>,
    /// Which of them are asked for work of each kind.
    pub tiers: TierSettings,
    /// How often a request is made again that met a rate limit, an overload or no connection, while
    /// nothing of an answer has come. Once only where another model can be asked instead.
    #[schemars(range(max = 20))]
    pub retries: u32,
    /// The longest wait before a request is made again. Where an API wants a longer one, the next
    /// model is asked, and without one the request fails.
    pub retry_wait_max: TimeSpan,
}

/// The endpoints of each tier, by name, in the order in which they are asked: the next one where
/// one cannot answer. A tier without any has those of the nearest that has some; where none has,
/// all of the endpoints, in the order of their names.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TierSettings {
    /// For small work: fast and cheap.
    #[schemars(length(max = 16))]
    pub low: Vec<String>,
    /// For most work.
    #[schemars(length(max = 16))]
    pub balanced: Vec<String>,
    /// For hard work.
    #[schemars(length(max = 16))]
    pub high: Vec<String>,
}

/// A model, and how it is reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EndpointSettings {
    /// Whose API it is.
    pub provider: Provider,
    /// The model, as its API calls it.
    pub model: String,
    /// Where the API is, instead of where its provider has it: `http://localhost:11434/v1` for
    /// Ollama, `http://localhost:8080/v1` for llama.cpp. May hold no user, query or fragment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<HttpUrl>,
    /// The key: `${vault:NAME}` for the credential NAME of `model:ENDPOINT` in the vault, `${NAME}`
    /// for the variable NAME of the environment, or the key itself. When not set, the variable that
    /// the provider's own clients read (`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`,
    /// `OPENROUTER_API_KEY`), and none at all with a `base_url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<Secret>,
    /// How the model calls tools.
    #[serde(default)]
    pub calls: CallStyle,
    /// Most tokens of one answer. The API's own limit when not set; 16384 with Anthropic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_max: Option<NonZeroU32>,
    /// How much the model thinks before it answers. Left to the API when not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_effort: Option<ReasoningEffort>,
    /// What tokens cost, where the API does not say what an answer did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<TokenPrices>,
    /// How long a connection may take to open.
    #[serde(default = "default_connect_timeout")]
    pub connect_timeout: TimeSpan,
    /// How long nothing may come: from the request to the first part of an answer, and from each to
    /// the next. Models that think may be silent for minutes.
    #[serde(default = "default_idle_timeout")]
    pub idle_timeout: TimeSpan,
    /// How long an answer may take, from the request to its end.
    #[serde(default = "default_timeout")]
    pub timeout: TimeSpan,
}

/// Whose API it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// OpenAI's chat completions, and with a `base_url` what imitates them: Ollama, llama.cpp,
    /// vLLM, LiteLLM and others.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// OpenRouter.
    OpenRouter,
}

/// How a model calls tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CallStyle {
    /// As its API has it.
    #[default]
    Native,
    /// In its text, as the system prompt tells it: for models that were not made to call tools.
    Text,
}

/// How much a model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReasoningEffort {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// What tokens cost, in US dollars for a million of them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenPrices {
    /// Those that are read.
    pub input: f64,
    /// Those that are written.
    pub output: f64,
    /// Those that are read from the prompt cache. As `input` when not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<f64>,
    /// Those that are put into the prompt cache. As `input` when not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
}

/// What a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// Small work.
    Low,
    /// Most work.
    #[default]
    Balanced,
    /// Hard work.
    High,
}

fn default_connect_timeout() -> TimeSpan {
    TimeSpan::seconds(10)
}

fn default_idle_timeout() -> TimeSpan {
    TimeSpan::seconds(180)
}

fn default_timeout() -> TimeSpan {
    TimeSpan::seconds(1200)
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self {
            endpoints: BTreeMap::new(),
            tiers: TierSettings::default(),
            retries: 4,
            retry_wait_max: TimeSpan::seconds(60),
        }
    }
}

impl Tier {
    /// Every tier.
    pub const ALL: [Self; 3] = [Self::Low, Self::Balanced, Self::High];

    /// Its name, as operators write it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Balanced => "balanced",
            Self::High => "high",
        }
    }

    /// The tiers whose models answer for this one, the nearest first.
    fn stand_ins(self) -> [Self; 3] {
        match self {
            Self::Low => [Self::Low, Self::Balanced, Self::High],
            Self::Balanced => [Self::Balanced, Self::High, Self::Low],
            Self::High => [Self::High, Self::Balanced, Self::Low],
        }
    }
}

impl TierSettings {
    fn names(&self, tier: Tier) -> &[String] {
        match tier {
            Tier::Low => &self.low,
            Tier::Balanced => &self.balanced,
            Tier::High => &self.high,
        }
    }
}

impl ModelSettings {
    /// The names of the endpoints that are asked for this tier, in order.
    #[must_use]
    pub fn endpoints_of(&self, tier: Tier) -> Vec<&str> {
        let stand_ins = tier.stand_ins();
        let mut named = stand_ins.iter().map(|tier| self.tiers.names(*tier));
        match named.find(|names| !names.is_empty()) {
            Some(names) => names.iter().map(String::as_str).collect(),
            None => self.endpoints.keys().map(String::as_str).collect(),
        }
    }

    /// Adds what is wrong with them, under the key that they have.
    pub fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        for (name, endpoint) in &self.endpoints {
            let key = format!("{key}.endpoints.{name}");
            if !is_name(name) {
                let what = format!(
                    "a name has letters, digits, '-', '_' and '.', at most {NAME_BYTES_MAX}"
                );
                mistakes.add(&key, what);
            }
            endpoint.check(&key, mistakes);
        }

        for tier in Tier::ALL {
            for (at, name) in self.tiers.names(tier).iter().enumerate() {
                if !self.endpoints.contains_key(name) {
                    let what = format!("there is no endpoint '{name}'");
                    mistakes.add(&format!("{key}.tiers.{}[{at}]", tier.as_str()), what);
                }
            }
        }
        check_time(&format!("{key}.retry_wait_max"), self.retry_wait_max, mistakes);
    }
}

impl EndpointSettings {
    fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let is_model = (1..=NAME_BYTES_MAX).contains(&self.model.len())
            && self.model.chars().all(|c| c.is_ascii_graphic());
        if !is_model {
            mistakes.add(&format!("{key}.model"), "it is no name of a model");
        }

        // What a URL may hold beside scheme, host, port and path would be lost or leak.
        if let Some(url) = self.base_url.as_ref().map(HttpUrl::expose) {
            let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next());
            if url.contains(['?', '#']) || authority.is_some_and(|host| host.contains('@')) {
                let what = "it may have no user, password, query or fragment: the key is api_key";
                mistakes.add(&format!("{key}.base_url"), what);
            }
        }
        if let Some(api_key) = &self.api_key
            && let Err(what) = KeyReference::parse(api_key)
        {
            mistakes.add(&format!("{key}.api_key"), what);
        }

        if let Some(prices) = &self.prices {
            prices.check(&format!("{key}.prices"), mistakes);
        }
        check_time(&format!("{key}.connect_timeout"), self.connect_timeout, mistakes);
        check_time(&format!("{key}.idle_timeout"), self.idle_timeout, mistakes);
        check_time(&format!("{key}.timeout"), self.timeout, mistakes);
    }
}

impl TokenPrices {
    fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let Self { input, output, cache_read, cache_write } = *self;
        let prices = [
            ("input", Some(input)),
            ("output", Some(output)),
            ("cache_read", cache_read),
            ("cache_write", cache_write),
        ];
        for (name, price) in prices {
            if price.is_some_and(|price| !(0.0..=PRICE_MAX_USD).contains(&price)) {
                mistakes.add(&format!("{key}.{name}"), "it is 0 to a million dollars");
            }
        }
    }

    /// What these tokens cost, in millionths of a dollar, rounded up.
    #[must_use]
    pub fn cost_of(&self, usage: &TokenUsage) -> u64 {
        let plain = usage.input.saturating_sub(usage.cache_read.saturating_add(usage.cache_write));
        let priced = [
            (plain, self.input),
            (usage.output, self.output),
            (usage.cache_read, self.cache_read.unwrap_or(self.input)),
            (usage.cache_write, self.cache_write.unwrap_or(self.input)),
        ];
        // A price for a million in dollars is one for each in millionths.
        #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
        let cost: f64 = priced.iter().map(|(tokens, price)| *tokens as f64 * price).sum();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "prices are not negative, and a cast of more than fits is the most that does"
        )]
        let micro = cost.ceil() as u64;
        micro
    }
}

/// Whether an endpoint may have this name.
fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    (1..=NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_plain)
}

fn check_time(key: &str, time: TimeSpan, mistakes: &mut Mistakes<'_>) {
    if time == TimeSpan::default() || time > TIMEOUT_MAX {
        mistakes.add(key, format!("it is not from 1ms to {TIMEOUT_MAX}"));
    }
}

#[cfg(test)]
mod tests;
