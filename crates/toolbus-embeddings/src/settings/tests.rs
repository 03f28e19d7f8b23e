//! An endpoint of embeddings on loopback, and the rules between settings.

use serde_json::{Value, json};
use toolbus_config::{Environment, SettingsFile, Sources, load};
use toolbus_testkit::scripted_server::{Asked, Part, Reply, Server};

use super::*;

const KEY: &str = "canary-key-of-embeddings";

async fn endpoint(server: &Server) -> Arc<dyn Embed> {
    let settings = EmbeddingSettings {
        base_url: Some(server.url.parse().expect("a URL")),
        model: Some("small".to_owned()),
        dimensions: Some(2),
        api_key: Some(KEY.to_owned().into()),
        ..EmbeddingSettings::default()
    };
    settings.open(None).await.expect("it can be used")
}

#[tokio::test]
async fn texts_are_sent_and_vectors_come_in_their_order() {
    let server = Server::answering_any(|_: &Asked| {
        let vector = |index: usize, vector: Value| json!({"index": index, "embedding": vector});
        Reply::json(200, &json!({"data": [vector(1, json!([3, 4])), vector(0, json!([1.5, -2]))]}))
    })
    .await;
    let endpoint = endpoint(&server).await;
    let texts = ["one".to_owned(), "two".to_owned()];
    let vectors = endpoint.embed(&texts).await.expect("vectors");
    assert_eq!(vectors, [[1.5, -2.0], [3.0, 4.0]]);
    assert_eq!(endpoint.dimensions(), 2);

    let asked = server.only_request();
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/embeddings"));
    assert_eq!(asked.headers["authorization"], format!("Bearer {KEY}"));
    let expected = json!({"model": "small", "input": texts, "encoding_format": "float"});
    assert_eq!(asked.body, expected);
}

#[tokio::test]
async fn what_is_no_answer_is_an_error_without_the_key() {
    let replies = [
        Reply::json(401, &json!({"error": format!("no such key: {KEY}")})),
        Reply::body(200, "application/json", format!("{{\"data\": \"{KEY}\"")),
        Reply::json(200, &json!({"data": [{"index": 7, "embedding": [1, 2]}]})),
        Reply::body(200, "application/json", "[").then(Part::Forever(vec![b'1'; 1 << 16])),
        Reply::empty(204),
    ];
    for reply in replies {
        let server = Server::answering_any(move |_: &Asked| reply.clone()).await;
        let error = endpoint(&server).await.embed(&["one".to_owned()]).await.expect_err("refused");
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
}

#[tokio::test]
async fn a_model_that_cannot_be_used_is_none() {
    let settings = EmbeddingSettings {
        weights: Some("/nowhere/model.safetensors".into()),
        tokenizer: Some("/nowhere/tokenizer.json".into()),
        ..EmbeddingSettings::default()
    };
    assert!(settings.open(None).await.is_none());
    let settings =
        EmbeddingSettings { transformer: Some("/nowhere".into()), ..EmbeddingSettings::default() };
    assert!(settings.open(None).await.is_none());
    let settings = EmbeddingSettings {
        base_url: Some("http://127.0.0.1:9/v1".parse().expect("a URL")),
        model: Some("small".to_owned()),
        dimensions: Some(2),
        api_key: Some("${TOOLBUS_TEST_NO_SUCH_KEY}".to_owned().into()),
        ..EmbeddingSettings::default()
    };
    assert!(settings.open(None).await.is_none());
}

/// Settings with a section `embeddings`.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    embeddings: EmbeddingSettings,
}

impl toolbus_config::Settings for Settings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.embeddings.check("embeddings", mistakes);
    }
}

/// Returns the mistakes in a section `embeddings`; an empty text if there are none.
fn mistakes(section: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("toolbus.toml");
    std::fs::write(&path, format!("[embeddings]\n{section}")).expect("it is written");
    let environment: Environment = std::iter::empty::<(String, String)>().collect();
    let sources = Sources {
        file: SettingsFile::IfPresent(path),
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    };
    let loaded = load::<Settings>(sources);
    loaded.err().map(|errors| errors.to_string()).unwrap_or_default()
}

#[test]
fn there_is_one_model() {
    let (files, folder) = ("weights = \"w\"\ntokenizer = \"t\"\n", "transformer = \"f\"\n");
    let endpoint = "base_url = \"http://127.0.0.1:9\"\nmodel = \"m\"\ndimensions = 2\n";
    for right in ["", endpoint] {
        assert_eq!(mistakes(right), "", "{right}");
    }
    for local in [files, folder] {
        assert_eq!(mistakes(local).is_empty(), cfg!(feature = "local"), "{local}");
    }

    for (wrong, expected) in [
        (format!("{files}{folder}"), "set either weights or transformer"),
        (format!("{folder}{endpoint}"), "set either transformer or base_url"),
        (format!("{files}{endpoint}"), "set either weights or base_url"),
        (format!("{folder}tokenizer = \"t\""), "weights and tokenizer are set together"),
        ("weights = \"w\"".to_owned(), "weights and tokenizer are set together"),
        ("model = \"m\"".to_owned(), "base_url, model and dimensions are set together"),
        (format!("{folder}api_key = \"k\""), "set base_url, too"),
        (format!("{folder}config = \"c\""), "config"),
    ] {
        let mistakes = mistakes(&wrong);
        assert!(mistakes.contains(expected), "{wrong}: {mistakes}");
    }
}

#[cfg(not(feature = "local"))]
#[tokio::test]
async fn a_build_without_local_models_refuses_them_and_names_the_feature() {
    let text = "this build has no local embedding models; build with --features embeddings";
    for (section, key) in [
        ("weights = \"w\"\ntokenizer = \"t\"", "embeddings.weights"),
        ("transformer = \"f\"", "embeddings.transformer"),
    ] {
        let mistakes = mistakes(section);
        assert!(mistakes.contains(key) && mistakes.contains(text), "{mistakes}");
    }
    let error = open_transformer(Path::new("/model")).await.err().expect("refused");
    assert!(error.to_string().contains(text), "{error}");
}
