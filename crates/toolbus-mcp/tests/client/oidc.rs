//! OAuth as an authorization server sees it that others wrote: what we send passes its rules, and
//! what it sends is understood.

use std::collections::BTreeMap;
use std::path::Path;

use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use serde_json::{Value, json};
use toolbus_mcp::login::Login;
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_testkit::oidc;
use toolbus_wire::ErrorCode;

use crate::support::*;

/// Longest chain of pages at a login.
const PAGES_MAX: usize = 10;

fn server() -> Option<Script> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/servers/oidc.mjs");
    Some(Script::run(&mut oidc::library()?.command(&script)))
}

fn entry(server: &Script, auth: &Value) -> Value {
    json!({"o": {"url": server.url("/mcp"), "auth": auth}})
}

fn keeping(folder: &Path) -> PoolConfig {
    let mut options = options();
    options.tokens = Some(folder.to_owned());
    options
}

async fn text(set: &ServerPool, tool: &str) -> Result<String, (String, ErrorCode)> {
    let called = call(set, "o", tool, json!({})).await;
    called
        .map(|result| result.text.expect("text"))
        .map_err(|error| (error.to_string(), error.code()))
}

/// How many tokens were asked for.
async fn tokens(server: &Script) -> usize {
    server.log().await.iter().filter(|request| request["path"] == "/token").count()
}

/// A browser: it keeps cookies and goes where it is sent, to the end.
async fn browse(mut page: String) {
    let browser = toolbus_testkit::http_client_builder().redirect(Policy::none());
    let browser = browser.build().expect("a browser");
    let mut cookies = BTreeMap::new();
    for _ in 0..PAGES_MAX {
        let sent: Vec<String> = cookies.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let answer = browser.get(&page).header(COOKIE, sent.join("; ")).send().await;
        let answer = answer.expect("a page");
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("a cookie");
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            cookies.insert(name.to_owned(), value.to_owned());
        }
        let Some(next) = answer.headers().get(LOCATION) else {
            return assert!(
                answer.status().is_success(),
                "{page}: {}",
                answer.text().await.unwrap()
            );
        };
        let next = next.to_str().expect("an address");
        page = answer.url().join(next).expect("an address").to_string();
    }
    panic!("it does not end: {page}");
}

async fn log_in(server: &Script, auth: &Value, folder: &Path) {
    let entry = entries(entry(server, auth)).remove(0);
    let login = Login::begin(&entry, Some(folder.to_owned())).await.expect("a login");
    let page = login.url().to_owned();
    let (finished, ()) = tokio::join!(login.finish(PATIENCE, tokio::io::empty()), browse(page));
    finished.expect("a token");
}

#[tokio::test]
async fn a_person_logs_in_by_code_and_proof() {
    let Some(server) = server() else { return };
    let (auth, folder) = (json!({"type": "authorization_code"}), tempfile::tempdir().unwrap());
    let set = start_with(entry(&server, &auth), keeping(folder.path())).await;
    let (error, code) = text(&set, "echo").await.unwrap_err();
    assert!(error.ends_with("needs login: mcp-bridge login o"), "{error}");
    assert_eq!(code, ErrorCode::AuthRequired);

    log_in(&server, &auth, folder.path()).await;
    assert_eq!(text(&set, "echo").await.as_deref(), Ok("here"));
    assert_eq!(tokens(&server).await, 1);

    // What is refused is refreshed, twice: each refresh token is for one use.
    for refreshed in 2..4 {
        // sleeps: its clock has whole seconds: a token of this one would not be at its end.
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        server.ask("/expire", None).await;
        assert_eq!(text(&set, "echo").await.as_deref(), Ok("here"));
        assert_eq!(tokens(&server).await, refreshed);
    }

    // More is for the person to grant.
    let (error, _) = text(&set, "admin").await.unwrap_err();
    assert!(error.ends_with("(for the scope \"admin\")"), "{error}");
    log_in(&server, &auth, folder.path()).await;
    assert_eq!(text(&set, "admin").await.as_deref(), Ok("here"));
    assert_eq!(text(&set, "echo").await.as_deref(), Ok("here"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_program_shows_its_id_and_secret() {
    let Some(server) = server() else { return };
    let auth = json!({"type": "client_credentials", "issuer": server.url("/login"),
        "clientId": "service", "clientSecret": "s3cret-of-the-service-77"});
    let set = start(entry(&server, &auth)).await;
    assert_eq!(text(&set, "echo").await.as_deref(), Ok("here"));
    assert_eq!(tokens(&server).await, 1);
    assert_eq!(text(&set, "admin").await.as_deref(), Ok("here"), "it asks for the scope itself");
    assert_eq!(tokens(&server).await, 2);
    set.close(PATIENCE).await;

    let wrong = json!({"type": "client_credentials", "issuer": server.url("/login"),
        "clientId": "service", "clientSecret": "another-secret-88"});
    let set = start(entry(&server, &wrong)).await;
    let (error, _) = text(&set, "echo").await.unwrap_err();
    assert!(error.contains("its authorization server gives no token"), "{error}");
    assert!(!error.contains("another-secret-88"), "{error}");
    set.close(PATIENCE).await;
}
