//! Questions to real workers: what they answer, and what they do not survive.

mod answers;
mod engine;
mod files;
mod hostile;
#[cfg(feature = "parquet")]
mod parquet;
mod properties;
mod sql;
mod support;
