//! Tests of models.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn safetensors(header: &serde_json::Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// Three tokens of two dimensions.
fn weights(values: [f32; 6]) -> Vec<u8> {
    let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let table = json!({"dtype": "F32", "shape": [3, 2], "data_offsets": [0, 24]});
    safetensors(&json!({"embeddings": table}), &data)
}

fn word_pieces() -> Vec<u8> {
    let vocabulary = json!({"red": 0, "##der": 1, "blue": 2});
    let model = json!({"type": "WordPiece", "vocab": vocabulary});
    json!({"model": model, "normalizer": {"lowercase": true}}).to_string().into_bytes()
}

#[test]
fn a_text_is_the_mean_of_its_tokens() {
    let model = StaticModel::from_bytes(&weights([1.0, 0.0, 0.0, 1.0, -1.0, 0.0]), &word_pieces());
    let model = model.expect("it is a model");
    assert_eq!(model.tokens("Redder, BLUE! greenish"), [0, 1, 2]);
    assert_eq!(model.vector("réd"), [1.0, 0.0]);
    assert_eq!(model.vector("redder blue"), [0.0, 1.0]);
    assert_eq!(model.vector("unknown"), [0.0, 0.0]);
}

#[test]
fn what_is_no_model_is_refused() {
    let good = weights([1.0; 6]);
    let refused = |file: &[u8]| StaticModel::from_bytes(file, &word_pieces()).expect_err("refused");
    let header = |table: serde_json::Value| safetensors(&json!({"embeddings": table}), &[0; 24]);

    for cut in 0..good.len() {
        assert!(matches!(refused(&good[..cut]), EmbedError::Malformed { .. }), "cut at {cut}");
    }
    let mut huge = good.clone();
    huge[..8].copy_from_slice(&10_000_000_000_u64.to_le_bytes());
    assert!(matches!(refused(&huge), EmbedError::TooLarge { bytes: 10_000_000_000, .. }));
    let not_numbers = refused(&weights([1.0, f32::NAN, 1.0, 1.0, 1.0, 1.0]));
    assert!(matches!(not_numbers, EmbedError::Malformed { .. }));
    for table in [
        json!({"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 24]}),
        json!({"dtype": "F32", "shape": [3, 2], "data_offsets": [8, 32]}),
        json!({"dtype": "F32", "shape": [3, 2], "data_offsets": [24, 0]}),
        json!({"dtype": "F32", "shape": [u64::MAX, 4], "data_offsets": [0, 24]}),
        json!({"dtype": "F32", "shape": [6], "data_offsets": [0, 24]}),
        json!({"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}),
        json!({"dtype": "F32", "shape": [0, 0], "data_offsets": [0, 0]}),
        json!(7),
    ] {
        assert!(matches!(refused(&header(table.clone())), EmbedError::Malformed { .. }), "{table}");
    }
    let other = json!({"dtype": "F8", "shape": [3, 2], "data_offsets": [0, 24]});
    assert!(matches!(refused(&header(other)), EmbedError::Unsupported { .. }));
}

#[test]
fn tokenizers_that_are_not_known_are_refused() {
    for (tokenizer, is_unsupported) in [
        (json!({"model": {"type": "Unigram", "vocab": {"a": 1}}}), true),
        (json!({"model": {"type": "WordPiece", "vocab": {}}}), false),
        (json!({"model": {"type": "WordPiece", "vocab": {"a": -1}}}), false),
        (json!({"model": {"type": "WordPiece", "vocab": {"a": 3}}}), false),
        (json!([]), true),
    ] {
        let error = StaticModel::from_bytes(&weights([1.0; 6]), tokenizer.to_string().as_bytes())
            .expect_err("refused");
        assert_eq!(matches!(error, EmbedError::Unsupported { .. }), is_unsupported, "{error}");
    }
}

proptest! {
    /// Files of strangers are refused or read, and never break it.
    #[test]
    fn any_bytes_are_refused_or_read(
        at in 0..200_usize,
        byte in any::<u8>(),
        tokenizer in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut file = weights([1.0; 6]);
        let at = at % file.len();
        file[at] = byte;
        if let Ok(model) = StaticModel::from_bytes(&file, &word_pieces()) {
            prop_assert!(model.vector("red blue redder").iter().all(|value| value.is_finite()));
        }
        prop_assert!(StaticModel::from_bytes(&weights([1.0; 6]), &tokenizer).is_err());
    }
}
