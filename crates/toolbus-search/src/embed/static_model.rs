//! Static embeddings: a vector for each token, and for a text the mean of those of its tokens.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use async_trait::async_trait;
use sha2::{Digest as _, Sha256};

use super::tensors::Tensors;
use super::tokenizer::Tokenizer;
use super::{Embed, EmbedError};
use crate::DIMENSIONS_MAX;

/// Largest file of weights that is read.
const WEIGHTS_BYTES_MAX: u64 = 1_024 * 1_024 * 1_024;
/// Largest tokenizer that is read.
const TOKENIZER_BYTES_MAX: u64 = 64 * 1_024 * 1_024;
/// What the weights are called by wordllama, and by model2vec.
const NAMES: [&str; 2] = ["embedding.weight", "embeddings"];

/// A model of the form of model2vec or wordllama: a table of vectors of tokens. It runs in this
/// process, without a network, in microseconds.
pub struct StaticModel {
    identity: String,
    tokenizer: Tokenizer,
    dimensions: usize,
    values: Vec<f32>,
    /// Where it has them: the row and the weight of each token.
    rows: Option<Vec<u32>>,
    weights: Option<Vec<f32>>,
}

impl std::fmt::Debug for StaticModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StaticModel")
            .field("identity", &self.identity)
            .field("dimensions", &self.dimensions)
            .finish_non_exhaustive()
    }
}

impl StaticModel {
    /// Reads a model from its weights (safetensors) and its `tokenizer.json`.
    ///
    /// # Errors
    /// When a file cannot be read, is over a limit or is not of a kind that is known.
    pub fn open(weights: &Path, tokenizer: &Path) -> Result<Self, EmbedError> {
        let weights = read("the weights", weights, WEIGHTS_BYTES_MAX)?;
        let tokenizer = read("the tokenizer", tokenizer, TOKENIZER_BYTES_MAX)?;
        Self::from_bytes(&weights, &tokenizer)
    }

    /// The same from the bytes of both files.
    ///
    /// # Errors
    /// When one is not of a kind that is known.
    pub fn from_bytes(weights: &[u8], tokenizer: &[u8]) -> Result<Self, EmbedError> {
        const WHAT: &str = "the weights";
        let tensors = Tensors::read(weights)?;
        let tokenizer_read = Tokenizer::read(tokenizer)?;
        let mut table = None;
        for name in NAMES {
            table = match table {
                None => tensors.find(name)?,
                found => found,
            };
        }
        let table = table.ok_or_else(|| EmbedError::malformed(WHAT, "there is no table"))?;
        let [count, dimensions] = table.shape[..] else {
            return Err(EmbedError::malformed(WHAT, "the table has not two dimensions"));
        };
        if dimensions == 0 || dimensions > DIMENSIONS_MAX {
            let reason = format!("the table has {dimensions} dimensions");
            return Err(EmbedError::malformed(WHAT, reason));
        }

        let rows = tensors.find("mapping")?.map(|tensor| tensor.places()).transpose()?;
        let weights_of_tokens =
            tensors.find("weights")?.map(|tensor| tensor.floats()).transpose()?;
        let largest = tokenizer_read.largest() as usize;
        let last_row = match &rows {
            Some(rows) if rows.len() > largest => rows.iter().copied().max().unwrap_or(0) as usize,
            Some(_) => usize::MAX,
            None => largest,
        };
        let has_weights = weights_of_tokens.as_ref().is_none_or(|all| all.len() > largest);
        if last_row >= count || !has_weights {
            return Err(EmbedError::malformed(WHAT, "a token of the tokenizer has no vector"));
        }

        let identity = identity(weights, tokenizer);
        let values = table.floats()?;
        Ok(Self {
            identity,
            tokenizer: tokenizer_read,
            dimensions,
            values,
            rows,
            weights: weights_of_tokens,
        })
    }

    /// The vector of a text, at length 1; zeros for one that the model knows nothing of.
    #[must_use]
    pub fn vector(&self, text: &str) -> Vec<f32> {
        let mut sum = vec![0.0_f32; self.dimensions];
        for token in self.tokenizer.split(text) {
            let token = token as usize;
            let row = self.rows.as_ref().map_or(token, |rows| rows[token] as usize);
            let weight = self.weights.as_ref().map_or(1.0, |weights| weights[token]);
            let values = &self.values[row * self.dimensions..][..self.dimensions];
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
        }

        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            sum.iter_mut().for_each(|value| *value /= length);
        }
        sum
    }

    #[cfg(test)]
    pub(super) fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.split(text)
    }
}

#[async_trait]
impl Embed for StaticModel {
    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError> {
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}

fn identity(weights: &[u8], tokenizer: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update((weights.len() as u64).to_le_bytes());
    hash.update(weights);
    hash.update(tokenizer);
    let digest = hash.finalize();
    digest[..16].iter().fold(String::from("static-"), |all, byte| format!("{all}{byte:02x}"))
}

fn read(what: &'static str, path: &Path, limit: u64) -> Result<Vec<u8>, EmbedError> {
    let failed = |source| EmbedError::Read { path: path.display().to_string(), source };
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    if bytes > limit {
        return Err(EmbedError::TooLarge { what, bytes, limit });
    }
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}
