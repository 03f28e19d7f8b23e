//! Tests of models.

use proptest::prelude::*;
use serde_json::json;
use toolbus_search::EmbedError;

use super::tensors::Tensors;
use super::*;

pub(super) fn safetensors(header: &serde_json::Value, data: &[u8]) -> Vec<u8> {
    let header = header.to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

/// Four tokens of two dimensions; the last is the one of words that are not known.
fn weights(values: [f32; 6]) -> Vec<u8> {
    let values = values.iter().chain(&[9.0, 9.0]);
    let data: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
    let table = json!({"dtype": "F32", "shape": [4, 2], "data_offsets": [0, 32]});
    safetensors(&json!({"embeddings": table}), &data)
}

fn word_pieces() -> Vec<u8> {
    tokenizer(&word_piece_model(json!({"red": 0, "##der": 1, "blue": 2, "[UNK]": 3})))
}

fn word_piece_model(vocabulary: serde_json::Value) -> serde_json::Value {
    json!({
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": vocabulary,
    })
}

/// A tokenizer with what BERT does before its model.
fn tokenizer(model: &serde_json::Value) -> Vec<u8> {
    let normalizer = json!({
        "type": "BertNormalizer",
        "clean_text": true,
        "handle_chinese_chars": true,
        "strip_accents": null,
        "lowercase": true,
    });
    json!({
        "version": "1.0",
        "truncation": {"max_length": 5, "strategy": "LongestFirst", "stride": 0},
        "padding": null,
        "added_tokens": [],
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": null,
        "decoder": null,
        "model": model,
    })
    .to_string()
    .into_bytes()
}

#[test]
fn a_text_is_the_mean_of_its_tokens() {
    let model = StaticModel::from_bytes(&weights([1.0, 0.0, 0.0, 1.0, -1.0, 0.0]), &word_pieces());
    let model = model.expect("it is a model");
    assert_eq!(model.tokens("Redder, BLUE! greenish"), [0, 1, 2]);
    let vector = |text: &str| model.vector(text).expect("a vector");
    assert_eq!(vector("réd"), [1.0, 0.0]);
    assert_eq!(vector("redder blue"), [0.0, 1.0]);
    assert_eq!(vector("unknown"), [0.0, 0.0]);
    assert_eq!(vector(&"red ".repeat(100_000)), [1.0, 0.0]);
}

#[test]
fn a_vector_of_any_numbers_is_finite_and_has_length_one() {
    for value in [2.5e38, 1e-30] {
        let weights = weights([value, 0.0, 0.0, value / 4.0, -value, 0.0]);
        let model = StaticModel::from_bytes(&weights, &word_pieces()).expect("it is a model");
        assert_eq!(model.vector("red").expect("a vector"), [1.0, 0.0], "{value}");
        assert_eq!(model.vector("red red red").expect("a vector"), [1.0, 0.0], "{value}");
        assert_eq!(model.vector("redder blue").expect("a vector"), [0.0, 1.0], "{value}");
        assert_eq!(model.vector("red blue").expect("a vector"), [0.0, 0.0], "{value}");
    }
}

/// Static models of other makers have these.
#[test]
fn other_kinds_of_tokenizers_are_known() {
    let unigram = json!({
        "type": "Unigram",
        "unk_id": 3,
        "byte_fallback": false,
        "vocab": [["red", -1.0], ["der", -2.0], ["blue", -1.5], ["<unk>", 0.0]],
    });
    let pairs = json!({
        "type": "BPE",
        "vocab": {"r": 0, "e": 1, "re": 2, "d": 3},
        "merges": [["r", "e"]],
    });
    for (kind, expected) in [(&unigram, [0, 1, 2].as_slice()), (&pairs, &[2, 3, 3, 1, 0, 1])] {
        let model = StaticModel::from_bytes(&weights([1.0; 6]), &tokenizer(kind)).expect("a model");
        assert_eq!(model.tokens("Redder blue"), expected, "{kind}");
    }
}

#[test]
fn what_is_no_model_is_refused() {
    let good = weights([1.0; 6]);
    let refused = |file: &[u8]| StaticModel::from_bytes(file, &word_pieces()).expect_err("refused");
    let header = |table: serde_json::Value| safetensors(&json!({"embeddings": table}), &[0; 32]);

    for cut in 0..good.len() {
        assert!(matches!(refused(&good[..cut]), EmbedError::Malformed { .. }), "cut at {cut}");
    }
    let mut huge = good.clone();
    huge[..8].copy_from_slice(&10_000_000_000_u64.to_le_bytes());
    assert!(matches!(refused(&huge), EmbedError::Malformed { .. }));
    let not_numbers = refused(&weights([1.0, f32::NAN, 1.0, 1.0, 1.0, 1.0]));
    assert!(matches!(not_numbers, EmbedError::Malformed { .. }));
    for table in [
        json!({"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 32]}),
        json!({"dtype": "F32", "shape": [4, 2], "data_offsets": [8, 40]}),
        json!({"dtype": "F32", "shape": [4, 2], "data_offsets": [32, 0]}),
        json!({"dtype": "F32", "shape": [u64::MAX, 4], "data_offsets": [0, 32]}),
        json!({"dtype": "F32", "shape": [8], "data_offsets": [0, 32]}),
        json!({"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]}),
        json!({"dtype": "F32", "shape": [0, 0], "data_offsets": [0, 0]}),
        json!({"dtype": "F8", "shape": [4, 2], "data_offsets": [0, 32]}),
        json!(7),
    ] {
        assert!(matches!(refused(&header(table.clone())), EmbedError::Malformed { .. }), "{table}");
    }
    let other = json!({"dtype": "I32", "shape": [4, 2], "data_offsets": [0, 32]});
    assert!(matches!(refused(&header(other)), EmbedError::Unsupported { .. }));
}

#[test]
fn a_header_of_tensors_is_bounded() {
    let good = weights([1.0; 6]);
    let (length, rest) = good.split_first_chunk::<8>().expect("a length");
    let length = u64::from_le_bytes(*length) as usize;
    let padded = |bytes: usize| {
        let (header, data) = rest.split_at(length);
        let padding = vec![b' '; bytes - length];
        [&(bytes as u64).to_le_bytes()[..], header, &padding[..], data].concat()
    };
    assert!(Tensors::read(&padded(4 << 20)).is_ok());
    let error = Tensors::read(&padded((4 << 20) + 8)).err().expect("refused").to_string();
    assert!(error.contains("its header has more than 4194304 bytes"), "{error}");
}

#[test]
fn tokenizers_that_do_not_fit_are_refused() {
    let long_words = json!({
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 1_000_000_000,
        "vocab": {"[UNK]": 0},
    });
    for model in [
        json!({"type": "Sentences", "vocab": {"a": 1}}),
        json!({"type": "Unigram", "unk_id": 7, "vocab": [["a", -1.0]]}),
        json!({"type": "BPE", "vocab": {"a": 0}, "merges": [["a", "b"]]}),
        word_piece_model(json!({})),
        word_piece_model(json!({"a": 1})),
        word_piece_model(json!({"[UNK]": -1})),
        word_piece_model(json!({"[UNK]": 4})),
        // The library panics at these.
        json!({"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": [["a", "b"]]}),
        json!({
            "type": "BPE",
            "continuing_subword_prefix": "##",
            "vocab": {"a": 0, "b": 1},
            "merges": [["a", "b"]],
        }),
        long_words,
        json!(7),
    ] {
        let error = StaticModel::from_bytes(&weights([1.0; 6]), &tokenizer(&model));
        let error = error.expect_err("refused");
        assert!(matches!(error, EmbedError::Malformed { .. }), "{model}: {error}");
    }
    assert!(StaticModel::from_bytes(&weights([1.0; 6]), b"[]").is_err());
}

/// The library panics at a character that the table of its normalizer does not reach.
#[test]
fn a_text_at_which_the_library_panics_is_an_error() {
    // 98 zeros of four bytes, after the number of those bytes: the last is that of `a`.
    let table = format!("iAEA{}", "A".repeat(524));
    let mut file: serde_json::Value = serde_json::from_slice(&word_pieces()).expect("JSON");
    file["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": table});
    let model = StaticModel::from_bytes(&weights([1.0; 6]), file.to_string().as_bytes());
    let model = model.expect("it is a model");

    assert_eq!(model.vector("a").expect("a vector"), [0.0, 0.0]);
    let error = model.vector("red").expect_err("refused");
    assert!(matches!(error, EmbedError::Failed(_)), "{error}");
    assert_eq!(model.vector("a").expect("a vector"), [0.0, 0.0]);
}

#[test]
fn a_file_at_which_the_library_panics_is_refused() {
    let mut file: serde_json::Value = serde_json::from_slice(&word_pieces()).expect("JSON");
    file["normalizer"] = json!({"type": "Precompiled", "precompiled_charsmap": "AA=="});
    let refused = StaticModel::from_bytes(&weights([1.0; 6]), file.to_string().as_bytes());
    assert!(matches!(refused, Err(EmbedError::Malformed { .. })));
}

proptest! {
    /// Files of strangers are refused or read, and never break it.
    #[test]
    fn any_bytes_are_refused_or_read(
        at in 0..200_usize,
        byte in any::<u8>(),
        tokenizer in prop::collection::vec(any::<u8>(), 0..60),
        (place, other) in (any::<usize>(), any::<u8>()),
    ) {
        let mut file = weights([1.0; 6]);
        let at = at % file.len();
        file[at] = byte;
        if let Ok(model) = StaticModel::from_bytes(&file, &word_pieces()) {
            let vector = model.vector("red blue redder").expect("a vector");
            prop_assert!(vector.iter().all(|value| value.is_finite()));
        }
        prop_assert!(StaticModel::from_bytes(&weights([1.0; 6]), &tokenizer).is_err());

        let mut tokenizer = word_pieces();
        let place = place % tokenizer.len();
        tokenizer[place] = other;
        if let Ok(model) = StaticModel::from_bytes(&weights([1.0; 6]), &tokenizer) {
            prop_assert!(model.vector("red blue redder").is_ok());
        }
    }
}
