//! Static embeddings: a vector for each token, and for a text the mean of those of its tokens.

use std::borrow::Cow;
use std::path::Path;

use async_trait::async_trait;
use toolbus_search::{DIMENSIONS_MAX, Embed, EmbedError, is_stop_word};

use super::files::{self, TOKENIZER_BYTES_MAX, WEIGHTS_BYTES_MAX};
use super::tensors::Tensors;
use super::tokenizer::Tokenizer;

/// What the weights are called by wordllama, and by model2vec.
const NAMES: [&str; 2] = ["embedding.weight", "embeddings"];

/// A model of the form of model2vec or wordllama: a table of vectors of tokens. It runs in this
/// process, without a network, in microseconds. Where it gives tokens no weights, words of English
/// that say nothing are left out of what is searched.
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
        let weights = files::read("the weights", weights, WEIGHTS_BYTES_MAX)?;
        let tokenizer = files::read("the tokenizer", tokenizer, TOKENIZER_BYTES_MAX)?;
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
                None => tensors.floats(name)?,
                found => found,
            };
        }
        let (shape, values) =
            table.ok_or_else(|| EmbedError::malformed(WHAT, "there is no table"))?;
        let [count, dimensions] = shape[..] else {
            return Err(EmbedError::malformed(WHAT, "the table has not two dimensions"));
        };
        if dimensions == 0 || dimensions > DIMENSIONS_MAX {
            let reason = format!("the table has {dimensions} dimensions");
            return Err(EmbedError::malformed(WHAT, reason));
        }

        let rows = tensors.places("mapping")?;
        let weights_of_tokens = tensors.floats("weights")?.map(|(_, weights)| weights);
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

        Ok(Self {
            identity: files::identity("static", &[weights, tokenizer]),
            tokenizer: tokenizer_read,
            dimensions,
            values,
            rows,
            weights: weights_of_tokens,
        })
    }

    /// The vector of a text, at length 1; zeros for one that the model knows nothing of.
    ///
    /// # Errors
    /// When the tokenizer cannot split it.
    pub fn vector(&self, text: &str) -> Result<Vec<f32>, EmbedError> {
        // At 64 bits: no numbers of 32 bits have a sum or a length that is out of range there.
        let mut sum = vec![0.0_f64; self.dimensions];
        for token in self.tokenizer.split(text)? {
            let token = token as usize;
            let row = self.rows.as_ref().map_or(token, |rows| rows[token] as usize);
            let weight = self.weights.as_ref().map_or(1.0, |weights| f64::from(weights[token]));
            let values = &self.values[row * self.dimensions..][..self.dimensions];
            sum.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * f64::from(*value));
        }

        let length = sum.iter().map(|value| value * value).sum::<f64>().sqrt();
        let length = length.max(f64::MIN_POSITIVE);
        Ok(sum.into_iter().map(|value| (value / length) as f32).collect())
    }

    #[cfg(test)]
    pub(super) fn tokens(&self, text: &str) -> Vec<u32> {
        self.tokenizer.split(text).expect("it is split")
    }
}

/// A text without words that say nothing, unless it has no others.
fn without_stop_words(text: &str) -> Cow<'_, str> {
    let says = |word: &&str| {
        let bare = word.trim_matches(|c: char| c.is_ascii_punctuation());
        !is_stop_word(&bare.to_lowercase())
    };
    let words: Vec<&str> = text.split_whitespace().filter(says).collect();
    if words.is_empty() { text.into() } else { words.join(" ").into() }
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
        // Where tokens have weights, those of such words are small.
        let says = |text: &str| match self.weights {
            None => self.vector(&without_stop_words(text)),
            Some(_) => self.vector(text),
        };
        texts.iter().map(|text| says(text)).collect()
    }
}
