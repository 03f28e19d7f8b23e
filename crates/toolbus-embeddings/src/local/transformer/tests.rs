//! A transformer of four dimensions, and what may be wrong with its files.

use std::fs;

use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::local::tests::safetensors;

const WORDS: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "red"];

/// The files of a model, which a test changes before it writes them.
struct Files {
    config: Value,
    tokenizer: Value,
    /// The shapes of its tensors by their names.
    shapes: Vec<(String, Vec<usize>)>,
    modules: Value,
    pooling: Value,
    /// What the bias of the last layer is.
    bias: f32,
}

fn files() -> Files {
    let config = json!({
        "model_type": "bert",
        "vocab_size": 5,
        "hidden_size": 4,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 6,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "max_position_embeddings": 8,
        "type_vocab_size": 2,
        "initializer_range": 0.02,
        "layer_norm_eps": 1e-12,
        "pad_token_id": 0,
    });
    let normalise = json!({"type": "sentence_transformers.models.Normalize"});
    Files {
        config,
        tokenizer: tokenizer(),
        shapes: shapes(),
        modules: json!([{"type": "sentence_transformers.models.Transformer"}, normalise]),
        pooling: json!({"pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false}),
        bias: 0.25,
    }
}

fn tokenizer() -> Value {
    let special = |id: usize| {
        json!({
            "id": id,
            "content": WORDS[id],
            "single_word": false,
            "lstrip": false,
            "rstrip": false,
            "normalized": false,
            "special": true,
        })
    };
    let mark = |id: &str| json!({"SpecialToken": {"id": id, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let marked = |id: usize| json!({"id": WORDS[id], "ids": [id], "tokens": [WORDS[id]]});
    let vocabulary = WORDS.iter().enumerate().map(|(id, word)| ((*word).to_owned(), json!(id)));
    json!({
        "version": "1.0",
        "added_tokens": [special(0), special(1), special(2), special(3)],
        "normalizer": null,
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [mark("[CLS]"), text, mark("[SEP]")],
            "pair": [],
            "special_tokens": {"[CLS]": marked(2), "[SEP]": marked(3)},
        },
        "decoder": null,
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": serde_json::Map::from_iter(vocabulary),
        },
    })
}

fn shapes() -> Vec<(String, Vec<usize>)> {
    let layer = "encoder.layer.0";
    let mut shapes = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![5, 4]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![8, 4]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 4]),
    ];
    for (name, into, from) in [
        ("attention.self.query", 4, 4),
        ("attention.self.key", 4, 4),
        ("attention.self.value", 4, 4),
        ("attention.output.dense", 4, 4),
        ("intermediate.dense", 6, 4),
        ("output.dense", 4, 6),
    ] {
        shapes.push((format!("{layer}.{name}.weight"), vec![into, from]));
        shapes.push((format!("{layer}.{name}.bias"), vec![into]));
    }
    let norms = ["attention.output", "output"].map(|part| format!("{layer}.{part}.LayerNorm"));
    for norm in norms.into_iter().chain(["embeddings.LayerNorm".to_owned()]) {
        shapes.push((format!("{norm}.weight"), vec![4]));
        shapes.push((format!("{norm}.bias"), vec![4]));
    }
    shapes
}

impl Files {
    fn weights(&self) -> Vec<u8> {
        let mut header = serde_json::Map::new();
        let mut data: Vec<u8> = Vec::new();
        for (name, shape) in &self.shapes {
            let start = data.len();
            let count: usize = shape.iter().product();
            // Any numbers do, if they differ.
            let value = |at: usize| (((start / 4 + at) * 37 % 23) as f32 - 11.0) / 11.0;
            let is_last = name == "encoder.layer.0.output.LayerNorm.bias";
            let values = (0..count).map(|at| if is_last { self.bias } else { value(at) });
            data.extend(values.flat_map(f32::to_le_bytes));
            let offsets = [start, data.len()];
            let tensor = json!({"dtype": "F32", "shape": shape, "data_offsets": offsets});
            header.insert(name.clone(), tensor);
        }
        safetensors(&Value::Object(header), &data)
    }

    fn write(&self) -> TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, content: &[u8]| {
            fs::write(folder.path().join(name), content).expect("it is written");
        };
        fs::create_dir(folder.path().join("1_Pooling")).expect("a folder");
        write("config.json", self.config.to_string().as_bytes());
        write("tokenizer.json", self.tokenizer.to_string().as_bytes());
        write("modules.json", self.modules.to_string().as_bytes());
        write("1_Pooling/config.json", self.pooling.to_string().as_bytes());
        write("model.safetensors", &self.weights());
        folder
    }

    fn open(&self) -> Result<TransformerModel, EmbedError> {
        TransformerModel::open(self.write().path())
    }
}

/// Opens a model after a change of its files.
fn opened_after(change: impl FnOnce(&mut Files)) -> Result<TransformerModel, EmbedError> {
    let mut files = files();
    change(&mut files);
    files.open()
}

#[tokio::test]
async fn texts_have_vectors_of_length_one() {
    let model = files().open().expect("it is a model");
    let texts = ["red", "", "red red", "[SEP]", &"red ".repeat(100_000)].map(str::to_owned);
    let vectors = model.embed(&texts).await.expect("vectors");
    for (text, vector) in texts.iter().zip(&vectors) {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        let expected = if text.is_empty() { 0.0 } else { 1.0 };
        assert!((length - expected).abs() < 1e-5, "{text:.9}: {vector:?}");
    }
    assert_ne!(vectors[0], vectors[2]);
    assert_eq!(model.dimensions(), 4);
}

#[tokio::test]
async fn a_vector_is_the_mean_or_that_of_the_first_token() {
    let mean = files().open().expect("it is a model");
    let first = opened_after(|files| files.pooling = json!({"pooling_mode": "cls"}));
    let first = first.expect("it is a model");
    let without = files().write();
    fs::remove_dir_all(without.path().join("1_Pooling")).expect("it is removed");
    fs::remove_file(without.path().join("modules.json")).expect("it is removed");
    let without = TransformerModel::open(without.path()).expect("it is a model");

    let text = ["red".to_owned()];
    let by_mean = mean.embed(&text).await.expect("a vector");
    assert_ne!(by_mean, first.embed(&text).await.expect("a vector"));
    assert_eq!(by_mean, without.embed(&text).await.expect("a vector"));
    assert_ne!(mean.identity(), first.identity());
}

/// A stranger's text has no token that only a model's own marks have.
#[test]
fn marks_in_a_text_are_words() {
    let tokenizer = Tokenizer::read(tokenizer().to_string().as_bytes()).expect("a tokenizer");
    let tokens = tokenizer.split_marked("red [SEP] red").expect("tokens");
    assert_eq!(tokens, [2, 4, 1, 1, 1, 4, 3]);
    assert!(tokenizer.split_marked("  ").expect("tokens").is_empty());
}

#[test]
fn configurations_that_are_not_known_are_refused() {
    let unsupported: [fn(&mut Files); 4] = [
        |files| files.config["model_type"] = json!("distilbert"),
        |files| files.modules = json!([{"type": "sentence_transformers.models.Dense"}]),
        |files| files.pooling = json!({"pooling_mode_max_tokens": true}),
        |files| files.pooling = json!({}),
    ];
    for (at, change) in unsupported.into_iter().enumerate() {
        let error = opened_after(change).expect_err("refused");
        assert!(matches!(error, EmbedError::Unsupported { .. }), "{at}: {error}");
    }

    let malformed: [fn(&mut Files); 14] = [
        |files| files.config["hidden_size"] = json!(4_000_000_000_u64),
        |files| files.config["hidden_size"] = json!(0),
        |files| files.config["hidden_size"] = json!(8),
        |files| files.config["num_attention_heads"] = json!(0),
        |files| files.config["num_attention_heads"] = json!(3),
        |files| files.config["num_hidden_layers"] = json!(u64::MAX),
        |files| files.config["num_hidden_layers"] = json!(2),
        |files| files.config["intermediate_size"] = json!(u64::MAX),
        |files| files.config["layer_norm_eps"] = json!(-1.0),
        |files| files.config["max_position_embeddings"] = json!(2),
        |files| files.config["max_position_embeddings"] = json!(u64::MAX),
        |files| files.config["vocab_size"] = json!(4),
        |files| files.config["vocab_size"] = json!(6),
        |files| files.config = json!([]),
    ];
    for (at, change) in malformed.into_iter().enumerate() {
        let error = opened_after(change).err();
        let is_typed =
            matches!(error, Some(EmbedError::Malformed { .. } | EmbedError::Unsupported { .. }));
        assert!(is_typed, "{at}: {error:?}");
    }
}

#[test]
fn weights_that_do_not_fit_are_refused() {
    let refused = |change: fn(&mut Files)| opened_after(change).expect_err("refused");
    for error in [
        refused(|files| files.bias = f32::NAN),
        refused(|files| files.bias = f32::INFINITY),
        refused(|files| files.shapes[0].1 = vec![4, 5]),
        refused(|files| drop(files.shapes.pop())),
    ] {
        assert!(matches!(error, EmbedError::Malformed { .. }), "{error}");
    }

    // The numbers of the marks are those of the template, not of the vocabulary.
    let error = refused(|files| {
        files.tokenizer["post_processor"]["special_tokens"]["[CLS]"]["ids"] = json!([9]);
    });
    assert!(matches!(error, EmbedError::Failed(_)), "{error}");

    let folder = files().write();
    let path = folder.path().join("model.safetensors");
    let whole = fs::read(&path).expect("the weights");
    for cut in (0..whole.len()).step_by(97) {
        fs::write(&path, &whole[..cut]).expect("it is written");
        let error = TransformerModel::open(folder.path()).expect_err("refused");
        assert!(matches!(error, EmbedError::Malformed { .. }), "cut at {cut}: {error}");
    }
    fs::remove_file(&path).expect("it is removed");
    let error = TransformerModel::open(folder.path()).expect_err("refused");
    assert!(matches!(error, EmbedError::Read { .. }), "{error}");
}

proptest! {
    /// Files with one byte changed are refused or read, and never break it.
    #[test]
    fn changed_files_are_refused_or_read(
        name in prop::sample::select(vec![
            "config.json",
            "tokenizer.json",
            "modules.json",
            "1_Pooling/config.json",
            "model.safetensors",
        ]),
        place in any::<usize>(),
        byte in any::<u8>(),
    ) {
        let folder = files().write();
        let path = folder.path().join(name);
        let mut content = fs::read(&path).expect("a file");
        let place = place % content.len();
        content[place] = byte;
        fs::write(&path, content).expect("it is written");
        if let Ok(model) = TransformerModel::open(folder.path()) {
            let vector = model.encoder.vector("red, other");
            prop_assert!(vector.is_err() || vector.is_ok_and(|all| all.len() == 4));
        }
    }
}
