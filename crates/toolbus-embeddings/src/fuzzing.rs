//! The parsers of this crate as targets of a fuzzer: those of models that run in the process.

use std::sync::LazyLock;

use crate::StaticModel;
use crate::local::{fuzz_tensors, fuzz_tokenizer};

/// Texts that are split by what is read.
const TEXTS: [&str; 4] = ["", "a text, 1 \u{fc} \u{6f22}", "red blue Redder!", "[SEP] \u{1f980}\0"];

/// A tokenizer of four tokens.
const TOKENIZER: &str = r###"{
    "version": "1.0",
    "truncation": null,
    "padding": null,
    "added_tokens": [],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": true,
        "handle_chinese_chars": true,
        "strip_accents": null,
        "lowercase": true
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": null,
    "decoder": null,
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {"red": 0, "##der": 1, "blue": 2, "[UNK]": 3}
    }
}"###;
/// A vector of two dimensions for each of them.
const TABLE: &str = r#"{"embeddings": {"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]}}"#;
const VECTORS: [f32; 8] = [1.0, 0.0, 0.0, 1.0, -1.0, 0.0, 9.0, 9.0];

static MODEL: LazyLock<StaticModel> = LazyLock::new(|| {
    let mut weights = (TABLE.len() as u64).to_le_bytes().to_vec();
    weights.extend_from_slice(TABLE.as_bytes());
    weights.extend(VECTORS.iter().flat_map(|value| value.to_le_bytes()));
    StaticModel::from_bytes(&weights, TOKENIZER.as_bytes()).expect("it is a model")
});

/// Reads a `tokenizer.json`, and splits some texts as it says. Panics of the library are errors.
pub fn tokenizer_file(bytes: &[u8]) {
    fuzz_tokenizer(bytes, &TEXTS);
}

/// Reads a safetensors file: its tensors, and as the weights of a model, whose vectors are finite.
pub fn weights_file(bytes: &[u8]) {
    fuzz_tensors(bytes);
    let Ok(model) = StaticModel::from_bytes(bytes, TOKENIZER.as_bytes()) else { return };
    for text in TEXTS {
        check_vector(&model, text);
    }
}

/// Makes a vector of a text, which is finite.
pub fn embedded_text(bytes: &[u8]) {
    check_vector(&MODEL, &String::from_utf8_lossy(bytes));
}

fn check_vector(model: &StaticModel, text: &str) {
    if let Ok(vector) = model.vector(text) {
        assert!(vector.iter().all(|value| value.is_finite()), "{vector:?}");
    }
}
