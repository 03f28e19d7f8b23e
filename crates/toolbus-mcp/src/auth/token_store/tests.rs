//! The file: who may read it, whom it is for, and what becomes of it.

use std::os::unix::fs::PermissionsExt;

use oauth2::basic::BasicTokenType;
use oauth2::{AccessToken, RefreshToken};
use rmcp::transport::auth::{OAuthTokenResponse, VendorExtraTokenFields};

use super::*;

fn store(folder: &Path, url: &str) -> TokenStore {
    let name = ServerName::parse("Linear.app").expect("a name");
    TokenStore::new(
        Some(folder.join("a/b")),
        &name,
        &Url::parse(url).expect("a URL"),
        Eraser::default(),
    )
}

fn credentials(refresh: &str, granted: &[&str]) -> StoredCredentials {
    let access = AccessToken::new(format!("access-{refresh}"));
    let extra = VendorExtraTokenFields::default();
    let mut given = OAuthTokenResponse::new(access, BasicTokenType::Bearer, extra);
    given.set_refresh_token(Some(RefreshToken::new(refresh.to_owned())));
    let granted = granted.iter().map(|&scope| scope.to_owned()).collect();
    StoredCredentials::new("client-1".to_owned(), Some(given), granted, Some(1))
}

const URL: &str = "https://mcp.example.org/mcp";

#[tokio::test]
async fn only_its_owner_reads_it_and_it_is_for_one_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(folder.path(), URL);
    let secret = Secret::from("client-secret".to_owned());
    let login = LoginNotes { client_secret: Some(secret), ..LoginNotes::default() };
    store.for_login(login).save(credentials("refresh-1", &["a"])).await.expect("saved");
    let file = folder.path().join("a/b/linear.app.json");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(&folder.path().join("a/b"))), (0o600, 0o700));
    let left: Vec<_> = fs::read_dir(folder.path().join("a/b")).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");

    let kept = store.read().await.expect("read").expect("kept");
    assert_eq!(kept.client_secret.as_ref().map(Secret::expose), Some("client-secret"));
    let said = "access-refresh-1 refresh-1 client-secret";
    assert_eq!(store.eraser.erase(said), "*** *** ***");
    let elsewhere = self::store(folder.path(), "https://mcp.example.org/other");
    assert!(elsewhere.read().await.expect("read").is_none());

    // What a refresh saves keeps the secret of the client.
    store.save(credentials("refresh-2", &["a"])).await.expect("saved");
    let kept = store.read().await.expect("read").expect("kept");
    assert!(kept.client_secret.is_some());
}

#[tokio::test]
async fn what_is_wanted_stays_until_it_is_granted() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(folder.path(), URL);
    store.record_wanted_scopes(&["b".to_owned()]).await.expect("nothing to note it in");
    store.save(credentials("refresh-1", &["a"])).await.expect("saved");
    store
        .record_wanted_scopes(&["b".to_owned(), "b".to_owned(), "c".to_owned()])
        .await
        .expect("noted");
    store.record_wanted_scopes(&["b".to_owned()]).await.expect("noted");
    let wanted = async || store.read().await.expect("read").expect("kept").wanted_scopes;
    assert_eq!(wanted().await, ["b", "b", "c"]);
    store.save(credentials("refresh-2", &["a", "b"])).await.expect("saved");
    assert_eq!(wanted().await, ["c"]);
}

#[tokio::test]
async fn a_refused_refresh_token_is_forgotten_and_no_newer_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(folder.path(), URL);
    store.save(credentials("refresh-2", &[])).await.expect("saved");
    let has_token =
        async || store.load().await.expect("read").expect("kept").token_response.is_some();
    store.on_refresh_token_rejected(&credentials("refresh-1", &[])).await.expect("looked at");
    assert!(has_token().await);
    store.on_refresh_token_rejected(&credentials("refresh-2", &[])).await.expect("looked at");
    assert!(!has_token().await);
}

#[tokio::test]
async fn a_file_that_makes_no_sense_keeps_nothing_and_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(folder.path(), URL);
    fs::create_dir_all(folder.path().join("a/b")).expect("a folder");
    fs::write(folder.path().join("a/b/linear.app.json"), "{\"url\": 7").expect("written");
    assert!(store.read().await.expect("read").is_none());
    store.save(credentials("refresh-1", &[])).await.expect("saved");
    assert!(store.read().await.expect("read").is_some());
    store.clear().await.expect("removed");
    store.clear().await.expect("removed already");
    assert!(store.load().await.expect("read").is_none());
}

#[tokio::test(start_paused = true)]
async fn refreshes_go_one_after_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = store(folder.path(), URL);
    let first = store.acquire_refresh_guard().await.expect("a guard");
    let error = store.acquire_refresh_guard().await.err().expect("it is held");
    assert!(error.to_string().ends_with("another process is refreshing this token"), "{error}");
    drop(first);
    store.acquire_refresh_guard().await.expect("it is free");
}

#[tokio::test]
async fn without_a_folder_nothing_is_kept() {
    let name = ServerName::parse("x").expect("a name");
    let url = Url::parse(URL).expect("a URL");
    let store = TokenStore::new(None, &name, &url, Eraser::default());
    assert!(store.read().await.expect("read").is_none());
    let error = store.save(credentials("refresh-1", &[])).await.expect_err("no folder");
    assert!(error.to_string().contains("set mcp.tokens"), "{error}");
}
