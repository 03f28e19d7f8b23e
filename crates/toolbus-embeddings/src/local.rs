//! Models that run in the process, read from files.

mod files;
mod static_model;
mod tensors;
mod tokenizer;
mod transformer;

pub use static_model::StaticModel;
pub use transformer::TransformerModel;

/// Reads a `tokenizer.json`, and splits texts as it says.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_tokenizer(file: &[u8], texts: &[&str]) {
    let Ok(mut tokenizer) = tokenizer::Tokenizer::read(file) else { return };
    let _ = tokenizer.largest();
    for text in texts {
        let _ = (tokenizer.split(text), tokenizer.split_marked(text));
    }
    if tokenizer.limit(8).is_ok() {
        let _ = texts.iter().try_for_each(|text| tokenizer.split_marked(text).map(drop));
    }
}

/// Reads a file of tensors, and what models read of them.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz_tensors(file: &[u8]) {
    let Ok(tensors) = tensors::Tensors::read(file) else { return };
    let _ = (tensors.floats("embeddings"), tensors.places("mapping"));
    let _ = tensors.into_floats();
}

#[cfg(test)]
mod tests;
