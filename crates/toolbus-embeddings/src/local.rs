//! Models that run in the process, read from files.

mod files;
mod static_model;
mod tensors;
mod tokenizer;
mod transformer;

pub use static_model::StaticModel;
pub use transformer::TransformerModel;

#[cfg(test)]
mod tests;
