//! A transformer of BERT's form that runs in this process, from the folder that the library
//! sentence-transformers keeps a model in. The encoder itself is candle's.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models::bert::{BertModel, Config};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::Semaphore;
use toolbus_json::Limits;
use toolbus_search::{DIMENSIONS_MAX, Embed, EmbedError};

use super::files::{self, TOKENIZER_BYTES_MAX, WEIGHTS_BYTES_MAX};
use super::tensors::Tensors;
use super::tokenizer::Tokenizer;

const CONFIG: &str = "the configuration of the model";
/// Largest file of a model's configuration that is read.
const CONFIG_BYTES_MAX: u64 = 1_024 * 1_024;
/// What such a file may have.
const CONFIG_LIMITS: Limits = Limits::of_bytes(CONFIG_BYTES_MAX as usize);
/// Most layers of a model.
const LAYERS_MAX: usize = 48;
/// Most values between the two halves of a layer.
const INTERMEDIATE_MAX: usize = 4 * DIMENSIONS_MAX;
/// Most tokens of a text, whatever the model could take: the work grows by the square of it.
const TEXT_TOKENS_MAX: usize = 512;
/// Texts that are asked about at once: a large model takes a second for each.
const BATCH_TEXTS: usize = 8;

/// A transformer of BERT's form (such as all-MiniLM, BGE or multilingual E5). It runs in this
/// process, without a network, in milliseconds for a short text.
pub struct TransformerModel {
    identity: String,
    dimensions: usize,
    encoder: Arc<Encoder>,
    /// One text at a time. It is fair, so a query waits for one text of a tool, not for a batch of
    /// them; and a query that was given up before its turn costs nothing.
    turn: Arc<Semaphore>,
}

struct Encoder {
    tokenizer: Tokenizer,
    bert: BertModel,
    dimensions: usize,
    pooling: Pooling,
}

/// What becomes the vector of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pooling {
    /// The mean of those of its tokens.
    Mean,
    /// That of the token that marks its start.
    First,
}

impl std::fmt::Debug for TransformerModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransformerModel")
            .field("identity", &self.identity)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

impl TransformerModel {
    /// Reads a model from its folder: `config.json`, `tokenizer.json`, `model.safetensors` and,
    /// where they are, `modules.json` and `1_Pooling/config.json`; without the last, a vector is
    /// the mean of its tokens. It reads and computes for seconds: call it where that may block.
    ///
    /// # Errors
    /// When a file cannot be read, is over a limit, does not fit the others or is not of a kind
    /// that is known.
    pub fn open(folder: &Path) -> Result<Self, EmbedError> {
        let file = |name: &str| folder.join(name);
        let config_file = files::read(CONFIG, &file("config.json"), CONFIG_BYTES_MAX)?;
        let config = read_config(&config_file)?;
        let modules = files::read_optional(CONFIG, &file("modules.json"), CONFIG_BYTES_MAX)?;
        modules.as_deref().map(check_modules).transpose()?;
        let pooling_file = file("1_Pooling/config.json");
        let pooling_file = files::read_optional(CONFIG, &pooling_file, CONFIG_BYTES_MAX)?;
        let pooling = pooling_file.as_deref().map(read_pooling).transpose()?;

        let tokenizer_file =
            files::read("the tokenizer", &file("tokenizer.json"), TOKENIZER_BYTES_MAX)?;
        let mut tokenizer = Tokenizer::read(&tokenizer_file)?;
        tokenizer.limit(config.max_position_embeddings.min(TEXT_TOKENS_MAX))?;
        let largest = tokenizer.largest() as usize;
        if largest >= config.vocab_size {
            let reason = format!("it has no vector for token {largest} of the tokenizer");
            return Err(EmbedError::malformed(CONFIG, reason));
        }

        let weights = files::read("the weights", &file("model.safetensors"), WEIGHTS_BYTES_MAX)?;
        let tensors = Tensors::read(&weights)?.into_floats()?;
        let tensors = VarBuilder::from_tensors(tensors, DType::F32, &Device::Cpu);
        let bert = BertModel::load(tensors, &config)
            .map_err(|error| EmbedError::malformed("the weights", error))?;

        let identity = files::identity(
            "transformer",
            &[&weights, &tokenizer_file, &config_file, &pooling_file.unwrap_or_default()],
        );
        let (pooling, dimensions) = (pooling.unwrap_or(Pooling::Mean), config.hidden_size);
        let encoder = Encoder { tokenizer, bert, dimensions, pooling };
        // A template of marks that the model has no vectors for shows here, and not at a query.
        encoder.vector("text")?;
        Ok(Self {
            identity,
            dimensions,
            encoder: Arc::new(encoder),
            turn: Arc::new(Semaphore::new(1)),
        })
    }
}

impl Encoder {
    fn vector(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        let tokens = self.tokenizer.split_marked(text)?;
        if tokens.is_empty() {
            return Ok(vec![0.0; self.dimensions]);
        }

        let mut vector =
            self.pool(&tokens).map_err(|error| EmbedError::Failed(error.to_string()))?;
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if !length.is_finite() {
            return Err(EmbedError::Failed("it gave a vector without a length".to_owned()));
        }
        vector.iter_mut().for_each(|value| *value /= length.max(f32::MIN_POSITIVE));
        Ok(vector)
    }

    fn pool(&self, tokens: &[u32]) -> candle_core::Result<Vec<f32>> {
        let tokens = Tensor::new(tokens, &Device::Cpu)?.unsqueeze(0)?;
        let vectors = self.bert.forward(&tokens, &tokens.zeros_like()?, None)?.squeeze(0)?;
        match self.pooling {
            Pooling::Mean => vectors.mean(0)?.to_vec1(),
            Pooling::First => vectors.get(0)?.to_vec1(),
        }
    }
}

#[async_trait]
impl Embed for TransformerModel {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn batch_texts(&self) -> usize {
        BATCH_TEXTS
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for text in texts {
            let turn = Arc::clone(&self.turn).acquire_owned().await;
            let turn = turn.map_err(|error| EmbedError::Failed(error.to_string()))?;
            let (encoder, text) = (Arc::clone(&self.encoder), text.clone());
            let made = tokio::task::spawn_blocking(move || {
                let vector = encoder.vector(&text);
                drop(turn);
                vector
            });
            vectors.push(made.await.map_err(|error| EmbedError::Failed(error.to_string()))??);
        }
        Ok(vectors)
    }
}

/// The JSON of one of the configuration's files.
fn parse<T: DeserializeOwned>(file: &[u8]) -> Result<T, EmbedError> {
    let read = toolbus_json::from_slice(file, &CONFIG_LIMITS);
    read.map_err(|error| EmbedError::malformed(CONFIG, error))
}

fn read_config(file: &[u8]) -> Result<Config, EmbedError> {
    let malformed = |reason: &str| EmbedError::malformed(CONFIG, reason);
    let json: Value = parse(file)?;
    // Others number positions otherwise, or have other layers.
    let kind = json["model_type"].as_str().unwrap_or("without a type");
    if kind != "bert" {
        return Err(EmbedError::Unsupported { what: "the model", kind: kind.to_owned() });
    }
    let config: Config =
        serde_json::from_value(json).map_err(|error| EmbedError::malformed(CONFIG, error))?;

    let is_bounded = (1..=LAYERS_MAX).contains(&config.num_hidden_layers)
        && (1..=DIMENSIONS_MAX).contains(&config.hidden_size)
        && (1..=INTERMEDIATE_MAX).contains(&config.intermediate_size)
        && (1..=config.hidden_size).contains(&config.num_attention_heads);
    if !is_bounded {
        return Err(malformed("it has too many layers, dimensions or heads, or none"));
    }
    if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
        return Err(malformed("its dimensions are not shared evenly by its heads"));
    }
    if !(config.layer_norm_eps.is_finite() && config.layer_norm_eps > 0.0) {
        return Err(malformed("layer_norm_eps is not above 0"));
    }
    Ok(config)
}

/// Refuses models that do more to a vector than is done here.
fn check_modules(file: &[u8]) -> Result<(), EmbedError> {
    let json: Value = parse(file)?;
    for module in json.as_array().into_iter().flatten() {
        let kind = module["type"].as_str().unwrap_or("without a type");
        let name = kind.rsplit('.').next().unwrap_or(kind);
        if !matches!(name, "Transformer" | "Pooling" | "Normalize") {
            return Err(EmbedError::Unsupported { what: "the module", kind: kind.to_owned() });
        }
    }
    Ok(())
}

fn read_pooling(file: &[u8]) -> Result<Pooling, EmbedError> {
    let json: serde_json::Map<String, Value> = parse(file)?;
    // Older files have a member for each mode, newer ones its name.
    let named = json.get("pooling_mode").and_then(Value::as_str);
    let set = json.iter().filter(|(_, value)| **value == Value::Bool(true));
    let set = set.filter_map(|(name, _)| name.strip_prefix("pooling_mode_"));
    let modes: Vec<&str> = named.into_iter().chain(set).collect();
    match modes[..] {
        ["mean" | "mean_tokens"] => Ok(Pooling::Mean),
        ["cls" | "cls_token"] => Ok(Pooling::First),
        _ => Err(EmbedError::Unsupported { what: "the pooling", kind: modes.join(", ") }),
    }
}

#[cfg(test)]
mod tests;
