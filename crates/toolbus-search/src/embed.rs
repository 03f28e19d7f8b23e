//! The port to models that turn texts into vectors, and the file that keeps their vectors. The
//! models are in the crate `toolbus-embeddings`.

mod cache;

use std::fmt;

use async_trait::async_trait;

pub(crate) use cache::VectorCache;

/// Most texts that a model is asked about at once.
pub const BATCH_TEXTS_MAX: usize = 64;

/// A model that turns texts into vectors, such that like meanings are near.
#[async_trait]
pub trait Embed: Send + Sync {
    /// What tells this model from others: vectors of another one are not compared with its own.
    fn identity(&self) -> String;

    /// How many dimensions each of its vectors has, at most [`DIMENSIONS_MAX`].
    ///
    /// [`DIMENSIONS_MAX`]: crate::DIMENSIONS_MAX
    fn dimensions(&self) -> usize;

    /// How many texts of tools it is asked about at once, so that it answers within a minute.
    fn batch_texts(&self) -> usize {
        BATCH_TEXTS_MAX
    }

    /// One vector for each text, in their order. At most [`BATCH_TEXTS_MAX`] texts are asked about,
    /// each of a few KiB. A text without any meaning to the model has zeros.
    ///
    /// # Errors
    /// When the model gives no vectors.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

/// A model that cannot be used, or gave no vectors.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// A file cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than is read.
    #[error("{what} of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// What is too large.
        what: &'static str,
        /// How large it is.
        bytes: u64,
        /// How large it may be.
        limit: u64,
    },
    /// A file is cut off, or is not what it should be.
    #[error("{what} is malformed: {reason}")]
    Malformed {
        /// What it is.
        what: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// A model, its tokenizer or a tensor is of a kind that is not known here.
    #[error("{what} '{kind}' is not supported")]
    Unsupported {
        /// What it is.
        what: &'static str,
        /// Its kind.
        kind: String,
    },
    /// The model gave other vectors than it was asked for.
    #[error("the model gave {vectors} vectors of {dimensions} dimensions")]
    WrongShape {
        /// How many it gave.
        vectors: usize,
        /// Dimensions of the first that is wrong.
        dimensions: usize,
    },
    /// The model did not answer in time.
    #[error("the model did not answer in time")]
    TimedOut,
    /// The model failed.
    #[error("the model failed: {0}")]
    Failed(String),
}

impl EmbedError {
    /// A file `what` that is cut off, or does not have the expected form.
    pub fn malformed(what: &'static str, reason: impl fmt::Display) -> Self {
        Self::Malformed { what, reason: reason.to_string() }
    }
}
