//! Real models: what the libraries that they come from make of texts, we make of them.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use toolbus_embeddings::{StaticModel, TransformerModel};
use toolbus_search::Embed as _;
use toolbus_testkit::search::{minilm, wordllama};

/// As wordllama's own tokenizer and weights give them.
const WORDLLAMA: &str = include_str!("golden/wordllama.json");
/// As golden/minilm.py gives them.
const MINILM: &str = include_str!("golden/minilm.json");

/// Texts and the first values of their vectors.
fn golden(json: &str) -> Vec<(String, Vec<f64>)> {
    let all: Value = serde_json::from_str(json).expect("it is JSON");
    let one = |one: &Value| {
        let head = one["head"].as_array().expect("values").iter();
        let text = one["text"].as_str().expect("a text").to_owned();
        (text, head.map(|value| value.as_f64().expect("a number")).collect())
    };
    all.as_array().expect("texts").iter().map(one).collect()
}

fn check_head(text: &str, vector: &[f32], head: &[f64]) {
    for (ours, theirs) in vector.iter().zip(head) {
        assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{text}: {ours} is not {theirs}");
    }
}

fn check(model: &StaticModel) {
    for (text, head) in golden(WORDLLAMA) {
        check_head(&text, &model.vector(&text).expect("a vector"), &head);
    }
}

fn cosine(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).map(|(one, other)| one * other).sum()
}

#[test]
fn wordllama_gives_the_vectors_of_its_own_library() {
    let Some((weights, tokenizer)) = wordllama() else { return };
    check(&StaticModel::open(&weights, &tokenizer).expect("it is a model"));
}

/// The same weights in the form of model2vec: another name, and a type of its own.
#[test]
fn the_form_of_model2vec_is_read() {
    let Some((weights, tokenizer)) = wordllama() else { return };
    let file = std::fs::read(weights).expect("the weights");
    let (length, rest) = file.split_first_chunk::<8>().expect("a length");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Value = serde_json::from_slice(header).expect("a header");
    let table = header["embedding.weight"].clone();
    let rows = table["shape"][0].as_u64().expect("rows");

    // The first rows are as they are; each token is found through a mapping, with a weight.
    let mapping: Vec<u8> = (0..rows as i64).flat_map(i64::to_le_bytes).collect();
    let token_weights: Vec<u8> = (0..rows).flat_map(|_| 2.0_f64.to_le_bytes()).collect();
    let (first, second) = (data.len(), data.len() + mapping.len());
    let header = json!({
        "embeddings": table,
        "mapping": {"dtype": "I64", "shape": [rows], "data_offsets": [first, second]},
        "weights": {
            "dtype": "F64",
            "shape": [rows],
            "data_offsets": [second, second + token_weights.len()],
        },
    })
    .to_string();
    let length = (header.len() as u64).to_le_bytes();
    let file = [&length[..], header.as_bytes(), data, &mapping, &token_weights].concat();
    let tokenizer = std::fs::read(tokenizer).expect("the tokenizer");
    check(&StaticModel::from_bytes(&file, &tokenizer).expect("it is a model"));
}

#[tokio::test]
async fn minilm_gives_the_vectors_of_another_implementation() {
    let Some(folder) = minilm() else { return };
    let model = TransformerModel::open(&folder).expect("it is a model");
    assert_eq!(model.dimensions(), 384);
    let golden = golden(MINILM);
    let texts: Vec<_> = golden.iter().map(|(text, _)| text.clone()).collect();
    let vectors = model.embed(&texts).await.expect("vectors");
    for ((text, head), vector) in golden.iter().zip(&vectors) {
        check_head(text, vector, head);
    }

    // The similarities that the documentation of sentence-transformers gives for this model.
    for (one, other, similarity) in [(0, 1, 0.6660), (0, 2, 0.1046), (1, 2, 0.1411)] {
        let ours = cosine(&vectors[one], &vectors[other]);
        assert!((ours - similarity).abs() < 1e-4, "{ours} is not {similarity}");
    }
}

#[tokio::test]
async fn minilm_holds_texts_of_one_meaning_to_be_near() {
    let Some(folder) = minilm() else { return };
    let model = TransformerModel::open(&folder).expect("it is a model");
    let texts = ["how warm will it be", "current weather for a city", "merge a pull request", " "];
    let vectors = model.embed(&texts.map(str::to_owned)).await.expect("vectors");
    let near = cosine(&vectors[0], &vectors[1]);
    assert!(near > cosine(&vectors[0], &vectors[2]) + 0.2, "{near}");
    assert!(vectors[3].iter().all(|value| *value == 0.0), "nothing means nothing");
}

/// The runtime has one thread, and goes on while texts are embedded; and a query has its turn
/// between two texts of a batch.
#[tokio::test]
async fn a_query_does_not_wait_for_a_batch() {
    const BATCH_TIMEOUT: Duration = Duration::from_secs(120);
    let Some(folder) = minilm() else { return };
    let model = TransformerModel::open(&folder).expect("it is a model");
    let tools = vec!["list the issues of a repository ".repeat(40); model.batch_texts()];
    let query = ["show me the issues".to_owned()];
    let batch = model.embed(&tools);
    tokio::pin!(batch);

    let is_first = tokio::select! {
        biased;
        _ = &mut batch => false,
        answer = model.embed(&query) => answer.is_ok(),
    };
    assert!(is_first, "the query came after the batch");
    let batch = timeout(BATCH_TIMEOUT, batch).await.expect("in time").expect("vectors");
    assert_eq!(batch.len(), tools.len());
}
