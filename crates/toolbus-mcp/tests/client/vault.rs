//! Credentials of a vault: a server has them from its connection, says none of them, and has those
//! that were changed from the next connection on.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_mcp::config::{self, Variables};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{CallError, ServerCredentials, ServerState};
use toolbus_testkit::eventually;
use toolbus_tools::{CredentialSource, UnreadableCredential};
use toolbus_wire::ErrorCode;
use zeroize::Zeroizing;

use crate::support::*;

const TOKEN: &str = "tok-\"quoted\\\"-é1";
const KEY: &str = "key-of-the-server";

/// A vault in memory.
#[derive(Clone, Default)]
struct Vault(Arc<Mutex<Contents>>);

#[derive(Default)]
struct Contents {
    values: BTreeMap<(String, String), String>,
    is_sealed_with_another_key: bool,
}

impl Vault {
    fn with(values: &[(&str, &str, &str)]) -> Self {
        let vault = Self::default();
        values.iter().for_each(|(provider, name, value)| vault.set(provider, name, value));
        vault
    }

    fn set(&self, provider: &str, name: &str, value: &str) {
        let place = (provider.to_owned(), name.to_owned());
        self.0.lock().values.insert(place, value.to_owned());
    }
}

impl CredentialSource for Vault {
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Zeroizing<String>>, UnreadableCredential>> {
        let kept = self.0.lock();
        let found = match kept.is_sealed_with_another_key {
            true => Err(UnreadableCredential("it has another key".to_owned())),
            false => Ok(kept.values.get(&(provider.to_owned(), name.to_owned())).cloned()),
        };
        Box::pin(std::future::ready(found.map(|value| value.map(Zeroizing::new))))
    }
}

/// Starts the servers and waits for their first attempts.
async fn start(servers: Value, vault: Option<&Vault>) -> ServerPool {
    let text = json!({"mcpServers": servers}).to_string();
    let config = config::parse(&text, Variables::From(&|_| None)).expect("JSON");
    assert_eq!(config.mistakes, []);
    let mut options = options();
    options.credentials = vault.map(|vault| ServerCredentials(Arc::new(vault.clone())));
    let set = ServerPool::start(config.servers, options).expect("an HTTP client");
    set.wait_settled().await;
    set
}

fn leaking() -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/leaking.py");
    json!({"command": "python3", "args": ["-I", script, "--key", "${vault:KEY}"],
        "env": {"API_TOKEN": "${vault:TOKEN}", "LOG_LEVEL": "information"}})
}

fn leaking_vault() -> Vault {
    Vault::with(&[("mcp:l", "KEY", KEY), ("mcp:l", "TOKEN", TOKEN), ("mcp:m", "TOKEN", "other")])
}

async fn said_by(set: &ServerPool, tool: &str) -> String {
    format!("{:?}", call(set, "l", tool, json!({})).await)
}

#[track_caller]
fn holds_none(seen: &str) {
    for value in [TOKEN, KEY, "tok-", "quoted", "key-of"] {
        assert!(!seen.contains(value), "{value} is in {seen}");
    }
}

#[tokio::test]
async fn a_program_has_them_and_says_none() {
    let set = start(json!({"l": leaking()}), Some(&leaking_vault())).await;
    for tool in ["say", "fail", "progress", "die"] {
        holds_none(&said_by(&set, tool).await);
    }
    let (sink, heard) = progress();
    set.call(call_of("l", "progress", json!({})).with_progress(sink)).await.unwrap();
    let heard = heard.lock().clone();
    assert_eq!(heard.len(), 2, "{heard:?}");
    holds_none(&format!("{heard:?}"));

    let said = call(&set, "l", "say", json!({})).await.unwrap();
    let text = said.text.unwrap();
    assert!(text.starts_with("*** and *** in information"), "{text}");
    holds_none(&format!("{:?} {:?}", set.list(), set.details("l")));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn without_them_it_is_not_connected_and_says_how_to_set_them() {
    let vault = Vault::with(&[("mcp:other", "KEY", KEY), ("mcp:l", "TOKEN", TOKEN)]);
    let none = start(json!({"l": leaking()}), None).await;
    let set = start(json!({"l": leaking()}), Some(&vault)).await;
    let sealed = leaking_vault();
    sealed.0.lock().is_sealed_with_another_key = true;
    let wrong = start(json!({"l": leaking()}), Some(&sealed)).await;

    for (set, reason) in [
        (
            &none,
            "its credential 'KEY' is to come from a vault, and there is none here: it takes \
             vault.key_file in the settings, and `agent-host vault set mcp:l KEY`",
        ),
        (
            &set,
            "its credential 'KEY' is not in the vault: `agent-host vault set mcp:l KEY` puts it there",
        ),
        (
            &wrong,
            "its credential 'KEY', of `agent-host vault set mcp:l KEY`, cannot be read: it has \
             another key",
        ),
    ] {
        let ServerState::Failed { failure, .. } = state(set, "l") else {
            panic!("it is connected")
        };
        assert_eq!(failure.to_string(), reason);
        let error = call(set, "l", "say", json!({})).await.unwrap_err();
        assert_eq!(error.to_string(), format!("MCP server 'l' is not connected: {reason}"));
        assert_eq!(error.code(), ErrorCode::Denied);
    }

    // However often that failed: with the credential the next call is made.
    for _ in 0..4 {
        call(&set, "l", "say", json!({})).await.unwrap_err();
    }
    vault.set("mcp:l", "KEY", KEY);
    assert!(call(&set, "l", "say", json!({})).await.is_ok());
    for set in [none, set, wrong] {
        set.close(PATIENCE).await;
    }
}

/// The beginnings of the SHA-256 of the two tokens.
const FIRST: &str = r#"{"digest": "c3f6e283", "tokens": ["***"]}"#;
const SECOND: &str = r#"{"digest": "e3ae6d0f", "tokens": ["***", "***"]}"#;

#[tokio::test]
async fn a_changed_one_is_used_from_the_next_connection_on() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/remembering.py");
    let folder = tempfile::tempdir().unwrap();
    let servers = json!({"r": {"command": "python3", "args": ["-E", "-s", "-B", script, folder.path()],
        "env": {"TOKEN": "${vault:TOKEN}"}}});
    let vault = Vault::with(&[("mcp:r", "TOKEN", "first-value")]);
    let set = start(servers, Some(&vault)).await;
    assert_eq!(told(&set).await.unwrap(), FIRST);

    vault.set("mcp:r", "TOKEN", "second-value");
    assert_eq!(told(&set).await.unwrap(), FIRST, "it is the same connection");
    let error = call(&set, "r", "tell", json!({"die": true})).await.unwrap_err();
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    // It says the old one as well, which it has kept.
    let told = eventually(CONNECT_LIMIT, async || told(&set).await).await;
    assert_eq!(told, SECOND);
    set.close(PATIENCE).await;
}

async fn told(set: &ServerPool) -> Result<String, CallError> {
    Ok(call(set, "r", "tell", json!({})).await?.text.unwrap())
}

#[tokio::test]
async fn an_http_server_is_sent_them() {
    let server = Script::start("sent_http.py", "");
    let entry = json!({"url": server.url("/mcp?key=${vault:KEY}"),
        "headers": {"X-Key": "v ${vault:KEY}"}, "auth": {"type": "bearer", "token": "${vault:T}"}});
    let vault = Vault::with(&[("mcp:h", "KEY", "k&e=y/1"), ("mcp:h", "T", "token-1")]);
    let set = start(json!({"h": entry}), Some(&vault)).await;

    let said = call(&set, "h", "sent", json!({})).await.unwrap().text.unwrap();
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["path"], "/mcp?key=***");
    assert_eq!(said["headers"]["x-key"], "v ***");
    assert_eq!(said["headers"]["authorization"], "Bearer ***");
    let error = call(&set, "h", "sent", json!({"fail": true})).await.unwrap_err().to_string();
    assert!(!error.contains("token-1") && !error.contains("e=y"), "{error}");
    assert!(!error.contains("e%3Dy"), "{error}");

    let log = server.log().await;
    assert!(log.len() > 3, "{log:?}");
    for request in log {
        assert_eq!(request["path"], "/mcp?key=k%26e%3Dy%2F1", "{request}");
        assert_eq!(request["headers"]["x-key"], "v k&e=y/1", "{request}");
        assert_eq!(request["headers"]["authorization"], "Bearer token-1", "{request}");
    }
    set.close(PATIENCE).await;
}
