//! The settings of the model that turns texts of tools into vectors: files that run in this
//! process, or an endpoint of OpenAI's API or one that imitates it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Url};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use toolbus_config::{HttpUrl, KeyReference, Mistakes, Secret};
use toolbus_fetch::{BodyLimit, FetchConfig, FetchRequest, Fetcher, Oversize};
use toolbus_json::Limits;
use toolbus_search::{BATCH_TEXTS_MAX, DIMENSIONS_MAX, Embed, EmbedError};
use toolbus_tools::CredentialSource;
use zeroize::Zeroizing;

#[cfg(feature = "local")]
use crate::{StaticModel, TransformerModel};
#[cfg(not(feature = "local"))]
use toolbus_config::build_features::{BuildFeature, LeftOut};

/// The provider of the endpoint's key in the vault.
const VAULT_PROVIDER: &str = "embeddings";
/// Largest answer of an endpoint, in bytes.
const ANSWER_BYTES_MAX: usize = 32 << 20;
/// What an answer may have: twice the largest vectors of a batch.
const ANSWER_LIMITS: Limits =
    Limits::of_bytes(ANSWER_BYTES_MAX).with_values(2 * BATCH_TEXTS_MAX * DIMENSIONS_MAX);
/// How long an endpoint may take for a batch of texts.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The model that tools are found by, beside their words.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbeddingSettings {
    /// The weights of a static model, of the form of model2vec or wordllama (`.safetensors`): it
    /// runs in this process. With `tokenizer`.
    pub weights: Option<PathBuf>,
    /// Its `tokenizer.json`.
    pub tokenizer: Option<PathBuf>,
    /// Instead, the folder of a transformer of BERT's form as sentence-transformers keeps it, such
    /// as all-MiniLM-L6-v2: `config.json`, `tokenizer.json`, `model.safetensors` and, where it has
    /// it, `1_Pooling/config.json`. It runs in this process.
    pub transformer: Option<PathBuf>,
    /// Instead, an endpoint that has `/embeddings` of OpenAI's API, such as
    /// `http://127.0.0.1:11434/v1`. With `model` and `dimensions`.
    pub base_url: Option<HttpUrl>,
    /// The model that the endpoint is asked for.
    pub model: Option<String>,
    /// How many dimensions its vectors have.
    pub dimensions: Option<usize>,
    /// The endpoint's key: `${NAME}` for a variable of the environment, `${vault:NAME}` for a
    /// credential of the vault (provider `embeddings`), or the key itself.
    pub api_key: Option<Secret>,
}

/// An endpoint of embeddings.
struct EmbeddingEndpoint {
    fetcher: Fetcher,
    url: Url,
    model: String,
    dimensions: usize,
    key: Option<Zeroizing<String>>,
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<AnswerVector>,
}

#[derive(Deserialize)]
struct AnswerVector {
    index: usize,
    embedding: Vec<f32>,
}

impl EmbeddingSettings {
    /// Adds what is wrong with them, under the key that they have.
    pub fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        let mut wrong = |name: &str, what: &str| mistakes.add(&format!("{key}.{name}"), what);
        if self.weights.is_some() != self.tokenizer.is_some() {
            wrong("weights", "weights and tokenizer are set together");
        }
        let kinds = [
            ("weights", self.weights.is_some()),
            ("transformer", self.transformer.is_some()),
            ("base_url", self.base_url.is_some()),
        ];
        let mut set = kinds.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| name);
        if let (Some(one), Some(other)) = (set.next(), set.next()) {
            wrong(other, &format!("there is one model: set either {one} or {other}"));
        }

        let endpoint = [self.base_url.is_some(), self.model.is_some(), self.dimensions.is_some()];
        if endpoint.contains(&true) && endpoint.contains(&false) {
            wrong("base_url", "base_url, model and dimensions are set together");
        }
        if self.api_key.is_some() && self.base_url.is_none() {
            wrong("api_key", "the key is an endpoint's: set base_url, too");
        }
        if self.dimensions.is_some_and(|count| !(1..=DIMENSIONS_MAX).contains(&count)) {
            wrong("dimensions", &format!("1 to {DIMENSIONS_MAX}"));
        }
        if let Some(Err(problem)) = self.api_key.as_ref().map(KeyReference::parse) {
            wrong("api_key", problem);
        }

        #[cfg(not(feature = "local"))]
        for (name, _) in kinds.into_iter().filter(|(name, is_set)| *is_set && *name != "base_url") {
            wrong(name, &LeftOut(BuildFeature::Embeddings).to_string());
        }
    }

    /// Opens the model of the settings. `None` if they name none, or if it cannot be used, which is
    /// logged: tools are then found by their words. `vault` has the credential that `api_key`
    /// names.
    pub async fn open(&self, vault: Option<&dyn CredentialSource>) -> Option<Arc<dyn Embed>> {
        let opened = if let (Some(weights), Some(tokenizer)) = (&self.weights, &self.tokenizer) {
            open_static(weights, tokenizer).await
        } else if let Some(folder) = &self.transformer {
            open_transformer(folder).await
        } else if let Some(base_url) = &self.base_url {
            let endpoint = self.open_endpoint(base_url, vault).await;
            endpoint.map(|endpoint| Arc::new(endpoint) as Arc<dyn Embed>)
        } else {
            return None;
        };

        opened
            .inspect_err(|error| {
                let error = error as &dyn std::error::Error;
                tracing::warn!(error, "tools are found by words alone: the model cannot be used");
            })
            .ok()
    }

    async fn open_endpoint(
        &self,
        base_url: &HttpUrl,
        vault: Option<&dyn CredentialSource>,
    ) -> Result<EmbeddingEndpoint, EmbedError> {
        let url = base_url.below(&["embeddings"]);
        Ok(EmbeddingEndpoint {
            fetcher: Fetcher::new(FetchConfig::default()).map_err(failed)?,
            url: Url::parse(url.expose()).map_err(failed)?,
            model: self.model.clone().unwrap_or_default(),
            dimensions: self.dimensions.unwrap_or_default(),
            key: self.key(vault).await?,
        })
    }

    async fn key(
        &self,
        vault: Option<&dyn CredentialSource>,
    ) -> Result<Option<Zeroizing<String>>, EmbedError> {
        let Some(written) = &self.api_key else { return Ok(None) };
        match KeyReference::parse(written).map_err(failed)? {
            KeyReference::Key(key) => Ok(Some(key.expose().to_owned().into())),
            KeyReference::Variable(name) => match std::env::var(&name) {
                Ok(value) => Ok(Some(value.into())),
                Err(_) => Err(failed(format!("the variable {name} is not set"))),
            },
            KeyReference::Vault(name) => {
                let source =
                    vault.ok_or_else(|| failed("its key is in the vault: there is none"))?;
                let found = source.find(VAULT_PROVIDER, &name).await.map_err(failed)?;
                let missing = || failed(format!("the vault has no {name} of {VAULT_PROVIDER}"));
                found.ok_or_else(missing).map(Some)
            }
        }
    }
}

#[async_trait]
impl Embed for EmbeddingEndpoint {
    fn identity(&self) -> String {
        format!("{} at {}, {} dimensions", self.model, self.url.authority(), self.dimensions)
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut credentials = HeaderMap::new();
        if let Some(key) = &self.key {
            let text = Zeroizing::new(format!("Bearer {}", key.as_str()));
            let value = HeaderValue::from_str(&text);
            let mut value = value.map_err(|_| failed("the key has characters of no header"))?;
            value.set_sensitive(true);
            credentials.insert(AUTHORIZATION, value);
        }

        let body = json!({"model": self.model, "input": texts, "encoding_format": "float"});
        let json = HeaderValue::from_static("application/json");
        let request = FetchRequest {
            method: Method::POST,
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json)]),
            credentials,
            body: Some(body.to_string().into()),
            // The operator names it.
            is_internal: true,
            redirects_max: 0,
            timeout: REQUEST_TIMEOUT,
            ..FetchRequest::get(self.url.clone())
        };
        let response = self.fetcher.send(request).await.map_err(failed)?;
        if !response.status().is_success() {
            // What it says beside that may repeat the key.
            return Err(failed(format!("HTTP {}", response.status().as_u16())));
        }

        let limit = BodyLimit { bytes_max: ANSWER_BYTES_MAX, oversize: Oversize::Refuse };
        let body = response.read(limit).await.map_err(failed)?;
        let answer: Answer = toolbus_json::from_slice(&body.bytes, &ANSWER_LIMITS)
            .map_err(|_| failed("it answers something else than embeddings"))?;
        in_order(answer, texts.len())
    }
}

#[cfg(feature = "local")]
async fn open_static(weights: &Path, tokenizer: &Path) -> Result<Arc<dyn Embed>, EmbedError> {
    let (weights, tokenizer) = (weights.to_owned(), tokenizer.to_owned());
    read_model(move || StaticModel::open(&weights, &tokenizer)).await
}

#[cfg(feature = "local")]
async fn open_transformer(folder: &Path) -> Result<Arc<dyn Embed>, EmbedError> {
    let folder = folder.to_owned();
    read_model(move || TransformerModel::open(&folder)).await
}

#[cfg(not(feature = "local"))]
async fn open_static(_: &Path, _: &Path) -> Result<Arc<dyn Embed>, EmbedError> {
    Err(failed(LeftOut(BuildFeature::Embeddings)))
}

#[cfg(not(feature = "local"))]
async fn open_transformer(_: &Path) -> Result<Arc<dyn Embed>, EmbedError> {
    Err(failed(LeftOut(BuildFeature::Embeddings)))
}

/// Reads the files of a model on a thread that may block.
#[cfg(feature = "local")]
async fn read_model<M: Embed + 'static>(
    open: impl FnOnce() -> Result<M, EmbedError> + Send + 'static,
) -> Result<Arc<dyn Embed>, EmbedError> {
    let opened = tokio::task::spawn_blocking(open).await;
    let model = opened.unwrap_or_else(|error| Err(failed(error)))?;
    Ok(Arc::new(model))
}

/// The vectors in the order of the texts.
fn in_order(answer: Answer, count: usize) -> Result<Vec<Vec<f32>>, EmbedError> {
    let mut vectors = vec![Vec::new(); count];
    for AnswerVector { index, embedding } in answer.data {
        let place = vectors.get_mut(index);
        *place.ok_or_else(|| failed("it answers more than it was asked"))? = embedding;
    }
    Ok(vectors)
}

fn failed(error: impl ToString) -> EmbedError {
    EmbedError::Failed(error.to_string())
}

#[cfg(test)]
mod tests;
