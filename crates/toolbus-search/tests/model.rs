//! A real static model: what the library that it comes from makes of texts, we make of them.

use serde_json::{Value, json};
use toolbus_search::StaticModel;
use toolbus_testkit::search::wordllama;

/// Texts and the first values of their vectors, as wordllama's own tokenizer and weights give them.
fn golden() -> Vec<(String, Vec<f64>)> {
    let all: Value =
        serde_json::from_str(include_str!("golden/wordllama.json")).expect("it is JSON");
    let one = |one: &Value| {
        let head = one["head"].as_array().expect("values").iter();
        let text = one["text"].as_str().expect("a text").to_owned();
        (text, head.map(|value| value.as_f64().expect("a number")).collect())
    };
    all.as_array().expect("texts").iter().map(one).collect()
}

fn check(model: &StaticModel) {
    for (text, head) in golden() {
        let vector = model.vector(&text);
        for (ours, theirs) in vector.iter().zip(&head) {
            assert!((f64::from(*ours) - theirs).abs() < 1e-4, "{text}: {ours} is not {theirs}");
        }
    }
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
