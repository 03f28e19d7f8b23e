//! The key, which only the API may see.

use std::io;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_models::{ErrorKind, ModelDeps, ModelSettings, Models, Tier};
use toolbus_tools::{CredentialSource, UnreadableCredential};
use tracing_subscriber::fmt::MakeWriter;
use zeroize::Zeroizing;

use crate::support::{DONE, KEY, ask, chunk, data, model, request};
use toolbus_testkit::scripted_server::{Part, Reply, Server};

/// What was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn the_key_is_in_no_error_and_in_no_log() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone())
        .finish();
    let _guard = tracing::subscriber::set_default(subscriber);

    let said = format!("no such key: {KEY}");
    // The message is cut where the key stands.
    let long = format!("{}{KEY}", "x".repeat(985));
    let replies = || {
        [
            Reply::error(401, &json!({"error": {"message": said, "code": KEY}})),
            Reply::error(400, &json!({"error": {"message": long}})),
            Reply::error(400, &json!({"error": said})),
            Reply::error(429, &json!({"error": {"message": said}})).header("retry-after", KEY),
            Reply::error(500, &json!(said)),
            Reply::events([data(&json!({"error": {"message": long}}))]),
            Reply::events([format!("data: {KEY}\n\n")]),
            Reply::events([chunk(&json!({"content": "x"}), None)]).then(Part::Break),
        ]
    };
    let mut shown = String::new();
    for provider in ["openai", "anthropic", "openrouter"] {
        for reply in replies() {
            let server = Server::start([reply]).await;
            let model = model(provider, &server.url, &json!({}));
            let told = ask(model.as_ref(), &request("Hi")).await;
            shown += &format!("{:?}", told.events);
            let error = told.error();
            shown += &format!("{error} {error:?} {}", json!(error));
            tracing::error!(?error, "the request failed");
        }
    }
    let logged = String::from_utf8_lossy(&log.0.lock()).into_owned();
    assert!(logged.contains("the request failed"));
    for half in [&KEY[..12], &KEY[12..]] {
        assert!(!shown.contains(half), "{shown}");
        assert!(!logged.contains(half), "{logged}");
    }
}

#[test]
fn settings_do_not_show_the_key() {
    let settings: ModelSettings = serde_json::from_value(json!({"endpoints": {"main": {
        "provider": "openai", "model": "x", "api_key": KEY
    }}}))
    .expect("they are settings");
    let shown = format!("{settings:?} {}", json!(settings));
    assert!(!shown.contains(KEY), "{shown}");
    let deps = ModelDeps { environment: &|_| None, credentials: None };
    let models = Models::connect(&settings, &deps).expect("there are models");
    assert!(!format!("{models:?} {deps:?}").contains(KEY));
}

struct Vault(Mutex<Vec<Result<Option<&'static str>, UnreadableCredential>>>);

impl CredentialSource for Vault {
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Zeroizing<String>>, UnreadableCredential>> {
        assert_eq!((provider, name), ("model:main", "key"));
        let found = self.0.lock().remove(0);
        let found = found.map(|value| value.map(|value| Zeroizing::new(value.to_owned())));
        Box::pin(std::future::ready(found))
    }
}

fn models(api_key: &Value, base_url: Option<&str>, vault: Option<Vault>) -> Models {
    let mut endpoint = json!({"provider": "openai", "model": "x"});
    if !api_key.is_null() {
        endpoint["api_key"] = api_key.clone();
    }
    if let Some(url) = base_url {
        endpoint["base_url"] = json!(url);
    }
    let settings = json!({"endpoints": {"main": endpoint}, "retries": 0});
    let settings: ModelSettings = serde_json::from_value(settings).expect("they are settings");
    let environment = |name: &str| match name {
        "MY_KEY" => Some("of-the-environment".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    };
    let credentials = vault.map(|vault| Arc::new(vault) as Arc<dyn CredentialSource>);
    let deps = ModelDeps { environment: &environment, credentials };
    Models::connect(&settings, &deps).expect("there are models")
}

fn good() -> Reply {
    Reply::events([chunk(&json!({"content": "x"}), Some("stop")), DONE.to_owned()])
}

#[tokio::test]
async fn a_key_is_read_where_the_settings_say() {
    let server = Server::start([good(), good(), good(), good()]).await;
    let url = Some(server.url.as_str());
    let vault = Vault(Mutex::new(vec![Ok(Some("first-key")), Ok(Some("second-key"))]));

    let of_environment = models(&json!("${MY_KEY}"), url, None);
    let of_vault = models(&json!("${vault:key}"), url, Some(vault));
    let none = models(&Value::Null, url, None);
    for models in [&of_environment, &of_vault, &of_vault, &none] {
        let model = models.tier(Tier::Low).expect("there is one");
        ask(model.as_ref(), &request("Hi")).await.completion();
    }
    let asked = server.asked();
    let sent = asked.iter().map(|asked| asked.headers.get("authorization").map(String::as_str));
    // One that was changed in the vault is used from the next request on.
    assert_eq!(
        sent.collect::<Vec<_>>(),
        [
            Some("Bearer of-the-environment"),
            Some("Bearer first-key"),
            Some("Bearer second-key"),
            None,
        ]
    );
}

#[tokio::test]
async fn a_key_that_cannot_be_had_is_said() {
    let vault = || {
        let unreadable = UnreadableCredential("the store is away".to_owned());
        Some(Vault(Mutex::new(vec![Err(unreadable), Ok(None)])))
    };
    let url = Some("http://127.0.0.1:9/v1");
    let of_vault = models(&json!("${vault:key}"), url, vault());
    let cases = [
        (&models(&Value::Null, None, None), "OPENAI_API_KEY is not set"),
        (&models(&json!("${OTHER}"), url, None), "OTHER is not set"),
        (&models(&json!("${EMPTY}"), url, None), "EMPTY is not set"),
        (&models(&json!("${vault:key}"), url, None), "there is none"),
        (&of_vault, "the store is away"),
        (&of_vault, "the vault has no key of model:main"),
        (&models(&json!("a b"), url, None), "white space"),
    ];
    for (models, expected) in cases {
        let model = models.tier(Tier::High).expect("there is one");
        let error = ask(model.as_ref(), &request("Hi")).await.error();
        assert!(matches!(error.kind, ErrorKind::NoKey { .. }), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
