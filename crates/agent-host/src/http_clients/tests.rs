use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use toolbus_tools::UnreadableCredential;
use toolbus_tools::scope::Proof;
use toolbus_tools::visitors::Visitors;
use zeroize::Zeroizing;

use super::*;

/// Not set anywhere.
const UNSET: &str = "TOOLBUS_TEST_NO_SUCH_TOKEN";
const TOKEN: &str = "a-token-of-the-tests";

/// A vault with one credential of the provider `http:tokens`.
struct Vault;

impl CredentialSource for Vault {
    fn find<'a>(
        &'a self,
        provider: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Zeroizing<String>>, UnreadableCredential>> {
        let found = match (provider, name) {
            ("http:tokens", "alice") => Ok(Some(Zeroizing::new(TOKEN.to_owned()))),
            ("http:tokens", "locked") => {
                Err(UnreadableCredential("the vault is locked".to_owned()))
            }
            _ => Ok(None),
        };
        std::future::ready(found).boxed()
    }
}

fn with_token(written: &str) -> HttpSettings {
    let tokens = [("alice".to_owned(), Secret::from(written.to_owned()))].into();
    HttpSettings { tokens, ..HttpSettings::default() }
}

fn with_file(text: &str) -> (HttpSettings, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("alice");
    std::fs::write(&file, text).expect("written");
    let token_files = [("alice".to_owned(), file)].into();
    (HttpSettings { token_files, ..HttpSettings::default() }, folder)
}

/// The name that a request with this token is known by.
fn known_by(clients: &HttpClients, token: &str) -> Option<Arc<str>> {
    let settings = HttpSettings { allowed_hosts: vec!["x".to_owned()], ..HttpSettings::default() };
    let visitors = Visitors::new(settings.api_settings(clients));
    let request = axum::http::Request::get("/").header("host", "x");
    let request = request.header("authorization", format!("Bearer {token}"));
    let (head, ()) = request.body(()).expect("a request").into_parts();
    let principal = visitors.admit(&head).ok()?;
    assert!(matches!(&principal.proof, Proof::Token { issuer, .. } if &**issuer == "http"));
    Some(principal.name)
}

#[tokio::test]
async fn a_reference_is_no_token_and_what_it_names_is_one() {
    let folder = env!("CARGO_MANIFEST_DIR");
    let (file, _folder) = with_file(&format!("{TOKEN}\n"));
    for (settings, token) in [
        (with_token(TOKEN), TOKEN),
        (with_token("${CARGO_MANIFEST_DIR}"), folder),
        (with_token("${vault:alice}"), TOKEN),
        (file, TOKEN),
    ] {
        let clients = HttpClients::read(&settings, Some(&Vault)).await.expect("its token is there");
        assert_eq!(known_by(&clients, token).as_deref(), Some("alice"));
        for reference in ["${CARGO_MANIFEST_DIR}", "${vault:alice}", "CARGO_MANIFEST_DIR"] {
            assert_eq!(known_by(&clients, reference), None, "{reference}");
        }
    }
}

#[tokio::test]
async fn a_token_that_is_not_there_is_a_mistake_that_names_it() {
    let unset = format!("${{{UNSET}}}");
    let (short, _folder) = with_file("hunter2\n");
    let missing = [("alice".to_owned(), "/nowhere/alice".into())].into();
    let missing = HttpSettings { token_files: missing, ..HttpSettings::default() };
    for (settings, expected) in [
        (with_token(&unset), format!("http.tokens.alice: the variable {UNSET} is not set")),
        (
            with_token("${vault:bob}"),
            "http.tokens.alice: the vault has no bob of http:tokens; `agent-host vault set \
             http:tokens bob` puts it there"
                .to_owned(),
        ),
        (
            with_token("${vault:locked}"),
            "http.tokens.alice: locked cannot be read from the vault: the vault is locked"
                .to_owned(),
        ),
        (short, "http.token_files.alice: a token has at least 16 characters".to_owned()),
        (missing, "http.token_files.alice: it cannot be read from /nowhere/alice: ".to_owned()),
    ] {
        let told = HttpClients::read(&settings, Some(&Vault)).await.err().expect("a mistake");
        let told = told.to_string();
        assert!(told.contains(&expected) && !told.contains("hunter2"), "{told}");
    }

    let told = HttpClients::read(&with_token("${vault:alice}"), None).await.err();
    let told = told.expect("a mistake").to_string();
    let expected = "alice is in the vault, and there is none: set vault.key_file";
    assert!(told.contains(expected), "{told}");
}

/// Of several, all are told.
#[tokio::test]
async fn every_token_that_is_not_there_is_told() {
    let mut settings = with_token("${TOOLBUS_TEST_NO_SUCH_TOKEN}");
    settings.tokens.insert("bob".to_owned(), Secret::from("${vault:bob}".to_owned()));
    settings.tokens.insert("carol".to_owned(), Secret::from(TOKEN.to_owned()));
    let told = HttpClients::read(&settings, Some(&Vault)).await.err().expect("mistakes");
    let told = told.to_string();
    assert!(told.contains("http.tokens.alice: ") && told.contains("http.tokens.bob: "), "{told}");
    assert!(!told.contains("carol") && !told.contains(TOKEN), "{told}");
}
