//! Servers that ask for OAuth: tokens obtained, refreshed, kept, asked for again; and metadata that
//! lies.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::Deadline;
use toolbus_mcp::login::{self, Login};
use toolbus_mcp::server_pool::{PoolConfig, ServerPool};
use toolbus_mcp::{CallError, ServerState};
use toolbus_testkit::eventually;
use toolbus_wire::ErrorCode;

use crate::support::*;

const NEEDS_LOGIN: &str = "needs login: mcp-bridge login h";

/// A program that the authorization server at `issuer` knows.
fn service(issuer: &str) -> Value {
    json!({"type": "client_credentials", "issuer": issuer, "clientId": "service",
        "clientSecret": "s3cret-of-the-service"})
}

fn person() -> Value {
    json!({"type": "authorization_code"})
}

fn server(behaviour: Value) -> Script {
    Script::start("oauth.py", &behaviour.to_string())
}

fn entry(server: &Script, auth: &Value) -> Value {
    json!({"h": {"url": server.url("/mcp"), "auth": auth}})
}

fn keeping(folder: &Path) -> PoolConfig {
    let mut options = options();
    options.tokens = Some(folder.to_owned());
    options
}

async fn start_keeping(server: &Script, auth: &Value, folder: &Path) -> ServerPool {
    start_with(entry(server, auth), keeping(folder)).await
}

async fn echo(set: &ServerPool) -> Result<String, CallError> {
    call(set, "h", "echo", json!({})).await.map(|result| result.text.expect("text"))
}

fn reason(set: &ServerPool) -> String {
    match state(set, "h") {
        ServerState::Failed { failure, .. } => failure.to_string(),
        other => panic!("{other:?}"),
    }
}

/// What was asked for at the token endpoint.
async fn grants(server: &Script) -> Vec<String> {
    let log = server.log().await;
    let tokens = log.iter().filter(|request| request["path"] == "/token");
    tokens.map(|request| request["grant"].as_str().expect("a grant").to_owned()).collect()
}

async fn begin(server: &Script, auth: &Value, folder: &Path) -> Result<Login, login::Error> {
    Login::begin(&entries(entry(server, auth))[0], Some(folder.to_owned())).await
}

/// A person whose browser follows the address that is printed.
async fn log_in(server: &Script, auth: &Value, folder: &Path) -> Result<(), login::Error> {
    let login = begin(server, auth, folder).await?;
    let url = login.url().to_owned();
    let browser = toolbus_testkit::http_client_builder().build().expect("a client");
    let (finished, page) =
        tokio::join!(login.finish(PATIENCE, tokio::io::empty()), browser.get(url).send());
    assert!(page.expect("a page").status().is_success());
    finished
}

#[tokio::test]
async fn a_program_has_its_tokens_by_itself() {
    let server = server(json!({}));
    let set = start(entry(&server, &service(&server.url("")))).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    assert_eq!(echo(&set).await.unwrap(), "here");
    // One token serves all requests, and is for this server.
    let log = server.log().await;
    let token: Vec<&Value> = log.iter().filter(|request| request["path"] == "/token").collect();
    assert_eq!(token.len(), 1, "{log:?}");
    assert_eq!(token[0]["resource"], server.url("/mcp"));

    // A token that ends before its time is replaced in the middle of many calls, once.
    server.ask("/control", Some(json!({"expire": true}))).await;
    let calls = (0..8).map(|_| echo(&set));
    for answer in futures_util::future::join_all(calls).await {
        assert_eq!(answer.unwrap(), "here");
    }
    assert_eq!(grants(&server).await, ["client_credentials"; 2]);

    // A tool that needs more than was asked for so far.
    let admin = call(&set, "h", "admin", json!({})).await.unwrap();
    assert_eq!(admin.text.as_deref(), Some("here"));
    let log = server.log().await;
    let last = log.iter().rfind(|request| request["path"] == "/token").expect("a request");
    assert_eq!(last["scope"], "admin");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_person_logs_in_and_the_running_bridge_takes_it_up() {
    let (server, folder) =
        (server(json!({"secret": true, "lifetime": 0})), tempfile::tempdir().unwrap());
    let set = start_keeping(&server, &person(), folder.path()).await;
    assert_eq!(reason(&set), NEEDS_LOGIN);
    let status = toolbus_mcp::status(&set);
    assert_eq!(status["servers"][0]["reason"], NEEDS_LOGIN);
    let error = echo(&set).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuthRequired);
    assert_eq!(error.to_string(), format!("MCP server 'h' {NEEDS_LOGIN}"));

    log_in(&server, &person(), folder.path()).await.unwrap();
    assert_eq!(echo(&set).await.unwrap(), "here");
    let file = folder.path().join("h.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);

    // An access token that is refused is refreshed, by a client with a secret of its own.
    server.ask("/control", Some(json!({"expire": true}))).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    assert_eq!(grants(&server).await, ["authorization_code", "refresh_token"]);

    // The next start needs neither a person nor a new token.
    set.close(PATIENCE).await;
    let set = start_keeping(&server, &person(), folder.path()).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    assert_eq!(grants(&server).await.len(), 2);

    // A refresh token that was revoked needs the person again, and is not offered again.
    server.ask("/control", Some(json!({"expire": true, "revoke": true}))).await;
    let error = echo(&set).await.unwrap_err();
    assert_eq!(error.to_string(), format!("MCP server 'h' {NEEDS_LOGIN}"));
    assert_eq!(error.code(), ErrorCode::AuthRequired);
    assert_eq!(reason(&set), NEEDS_LOGIN);
    echo(&set).await.unwrap_err();
    assert_eq!(grants(&server).await.len(), 3);
    log_in(&server, &person(), folder.path()).await.unwrap();
    assert_eq!(echo(&set).await.unwrap(), "here");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn an_expired_token_is_refreshed_before_it_is_used() {
    let (server, folder) = (server(json!({"lifetime": 1})), tempfile::tempdir().unwrap());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    let before = server.log().await.len();
    eventually(PATIENCE, async || {
        echo(&set).await.unwrap();
        let refreshed = grants(&server).await.len();
        if refreshed > 3 { Ok(()) } else { Err(format!("{refreshed} tokens")) }
    })
    .await;
    let log = server.log().await.split_off(before);
    let refused = log.iter().filter(|request| request["token"] == false).count();
    assert_eq!(refused, 0, "{log:?}");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn what_needs_more_than_was_granted_needs_a_login_for_that() {
    let (server, folder) = (server(json!({})), tempfile::tempdir().unwrap());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    let error = call(&set, "h", "admin", json!({})).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuthRequired);
    assert_eq!(
        error.to_string(),
        format!("MCP server 'h' {NEEDS_LOGIN} (for the scope \"admin\")")
    );
    // The rest works on, and the next login asks for both.
    assert_eq!(echo(&set).await.unwrap(), "here");
    let login = begin(&server, &person(), folder.path()).await.unwrap();
    assert!(login.url().contains("scope=tools+admin"), "{}", login.url());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let admin = call(&set, "h", "admin", json!({})).await.unwrap();
    assert_eq!(admin.text.as_deref(), Some("here"));
    set.close(PATIENCE).await;
}

/// The text and the code of what a call of the tool `admin` ends in.
async fn admin(set: &ServerPool) -> Result<String, (String, ErrorCode)> {
    let called = call(set, "h", "admin", json!({})).await;
    called
        .map(|result| result.text.expect("text"))
        .map_err(|error| (error.to_string(), error.code()))
}

#[tokio::test]
async fn what_is_asked_for_and_not_given_is_not_asked_for_without_end() {
    let asks = "MCP server 'h' asks for the scope \"admin\", which was asked for and not given";
    let in_vain = Err((asks.to_owned(), ErrorCode::Denied));
    let server = server(json!({"given": ["tools"]}));
    let set = start(entry(&server, &service(&server.url("")))).await;
    for _ in 0..3 {
        assert_eq!(admin(&set).await, in_vain);
    }
    assert_eq!(grants(&server).await, ["client_credentials"; 2], "the second one for the scope");
    assert_eq!(echo(&set).await.unwrap(), "here");
    set.close(PATIENCE).await;

    let folder = tempfile::tempdir().unwrap();
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    let (error, code) = admin(&set).await.unwrap_err();
    assert!(error.contains("needs login") && code == ErrorCode::AuthRequired, "{error}");
    log_in(&server, &person(), folder.path()).await.unwrap();
    // Another login would not help.
    for _ in 0..3 {
        assert_eq!(admin(&set).await, in_vain);
    }
    assert_eq!(echo(&set).await.unwrap(), "here");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn where_to_log_in_and_what_for_is_what_the_refusal_says() {
    let server = server(json!({"hidden": true}));
    let set = start(entry(&server, &service(&server.url("/tenant")))).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    set.close(PATIENCE).await;

    // The person is there before any bridge is.
    let folder = tempfile::tempdir().unwrap();
    let login = begin(&server, &person(), folder.path()).await.unwrap();
    assert!(login.url().contains("scope=tools&"), "{}", login.url());
    log_in(&server, &person(), folder.path()).await.unwrap();

    // The token has ended when the bridge starts: it is refreshed before it is used, though nobody
    // has said yet where.
    let file = folder.path().join("h.json");
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    kept["credentials"]["token_received_at"] = json!(1);
    std::fs::write(&file, kept.to_string()).unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    let expected = ["client_credentials", "authorization_code", "refresh_token"];
    assert_eq!(grants(&server).await, expected);
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_server_may_refuse_later_than_at_the_first_request() {
    let open = ["server/discover", "initialize", "notifications/initialized", "tools/list"];
    let server = server(json!({"hidden": true, "open": open}));
    let folder = tempfile::tempdir().unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    assert!(matches!(state(&set, "h"), ServerState::Connected { .. }), "{:?}", state(&set, "h"));
    let error = begin(&server, &person(), folder.path()).await.err().expect("nothing is known");
    assert!(error.to_string().ends_with("cannot be used: there is none"), "{error}");

    assert_eq!(echo(&set).await.unwrap_err().to_string(), format!("MCP server 'h' {NEEDS_LOGIN}"));
    log_in(&server, &person(), folder.path()).await.unwrap();
    assert_eq!(echo(&set).await.unwrap(), "here");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn clients_are_preset_or_documents_or_registered() {
    let check = async |behaviour: Value, auth: Value, expected: &str| {
        let (server, folder) = (server(behaviour), tempfile::tempdir().unwrap());
        log_in(&server, &auth, folder.path()).await.unwrap();
        let log = server.log().await;
        let asked = log.iter().find(|request| request["path"] == "/authorize").expect("a request");
        let id = asked["query"]["client_id"].as_str().expect("an id");
        assert!(id.starts_with(expected), "{id}");
        let registered = log.iter().any(|request| request["path"] == "/register");
        assert_eq!(registered, expected == "client-");
        let set = start_keeping(&server, &auth, folder.path()).await;
        assert_eq!(echo(&set).await.unwrap(), "here");
        set.close(PATIENCE).await;
    };
    let document = "https://toolbus.example/client.json";
    let with_document = json!({"type": "authorization_code", "clientMetadataUrl": document});
    let preset = json!({"type": "authorization_code", "clientId": "preset",
        "clientMetadataUrl": document});
    tokio::join!(
        check(json!({"documents": true}), preset, "preset"),
        check(json!({"documents": true}), with_document.clone(), document),
        check(json!({}), with_document, "client-"),
        check(json!({}), person(), "client-"),
    );
}

#[tokio::test]
async fn nobody_is_asked_who_should_not_be() {
    let check = async |behaviour: Value, expected: &str| {
        let server = server(behaviour.clone());
        let set = start(entry(&server, &service(&server.url("")))).await;
        assert!(reason(&set).starts_with(expected), "{behaviour}: {}", reason(&set));
        let sent = server.log().await;
        assert!(sent.iter().all(|request| request["path"] != "/token"), "{behaviour}: {sent:?}");
        set.close(PATIENCE).await;
    };
    let unusable = "its authorization metadata cannot be used: ";
    let none = &format!("{unusable}there is none");
    let other_issuer = &format!("{unusable}its issuer is not the one that was asked");
    let of_another = &format!("{unusable}it is not about this server");
    let insecure = "its authorization server gives no token";
    tokio::join!(
        check(json!({"metadata": false}), none),
        check(json!({"metadata": false, "challenge": false}), none),
        check(json!({"issuer": "https://login.example.org"}), other_issuer),
        check(json!({"resource": "https://other.example.org/mcp"}), of_another),
        check(json!({"servers": ["http://169.254.169.254"]}), "names the authorization server"),
        check(json!({"servers": ["http://login.example.org"]}), "names the authorization server"),
        check(json!({"token_endpoint": "http://login.example.org/token"}), insecure),
    );
}

/// The address of the server, as errors show it.
fn shown(server: &Script) -> String {
    format!("127.0.0.1:{}", server.port)
}

/// Whether anything was asked of the token endpoint.
async fn saw_no_grant(server: &Script) {
    assert_eq!(grants(server).await, [""; 0]);
}

#[tokio::test]
async fn a_secret_goes_to_the_configured_issuer_alone() {
    let odd_path = "/x/.well-known/odd";
    let honest = server(json!({}));
    let evil = server(json!({}));
    // It says that it is the honest one, at an address that no standard has.
    let impostor = server(json!({"at": odd_path, "issuer": honest.url("")}));
    let confidential = json!({"type": "authorization_code", "issuer": honest.url(""),
        "clientId": "confidential", "clientSecret": "s3cret-of-a-client"});

    let taken_over = [
        (server(json!({"servers": [evil.url("")]})), shown(&evil)),
        (server(json!({"servers": [evil.url("/tenant")]})), format!("{}/tenant", shown(&evil))),
        (
            server(json!({"servers": [impostor.url(odd_path)]})),
            format!("{}{odd_path}", shown(&impostor)),
        ),
    ];
    for (taken, named) in &taken_over {
        let expected = format!(
            "names the authorization server {named}, and auth.issuer in mcp.json is {}",
            shown(&honest)
        );
        let set = start(entry(taken, &service(&honest.url("")))).await;
        assert_eq!(reason(&set), expected);
        let error = echo(&set).await.unwrap_err().to_string();
        assert!(error.contains(&expected), "{error}");
        set.close(PATIENCE).await;

        let folder = tempfile::tempdir().unwrap();
        let error = begin(taken, &confidential, folder.path()).await.err().expect("no login");
        assert!(error.to_string().contains(&expected), "{error}");
        saw_no_grant(taken).await;
    }

    assert_eq!(evil.log().await, [] as [Value; 0], "nothing was asked of it");
    assert_eq!(impostor.log().await, [] as [Value; 0], "nothing was asked of it");
    saw_no_grant(&honest).await;
}

#[tokio::test]
async fn a_server_that_became_its_own_issuer_gets_no_secret() {
    let (honest, taken) = (server(json!({})), server(json!({})));
    let set = start(entry(&taken, &service(&honest.url("")))).await;
    let expected = format!("names the authorization server {}, and auth.issuer", shown(&taken));
    assert!(reason(&set).starts_with(&expected), "{}", reason(&set));
    saw_no_grant(&taken).await;
    saw_no_grant(&honest).await;
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn the_configured_issuer_may_be_named_among_others_or_not_at_all() {
    let check = async |behaviour: Value| {
        let server = server(behaviour);
        let servers = json!(["https://login.example.org", server.url("")]);
        server.ask("/control", Some(json!({"set": {"servers": servers}}))).await;
        let set = start(entry(&server, &service(&server.url("")))).await;
        assert_eq!(echo(&set).await.unwrap(), "here");
        set.close(PATIENCE).await;
    };
    tokio::join!(check(json!({})), check(json!({"unlisted": true, "challenge": false})));

    let (server, folder) = (server(json!({})), tempfile::tempdir().unwrap());
    let confidential = json!({"type": "authorization_code", "issuer": server.url(""),
        "clientId": "confidential", "clientSecret": "s3cret-of-a-client"});
    log_in(&server, &confidential, folder.path()).await.unwrap();
    let set = start_keeping(&server, &confidential, folder.path()).await;
    server.ask("/control", Some(json!({"expire": true}))).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    assert_eq!(grants(&server).await, ["authorization_code", "refresh_token"]);
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_refresh_token_goes_to_the_issuer_that_gave_it() {
    let odd_path = "/x/.well-known/odd";
    let (server, folder) = (server(json!({"secret": true})), tempfile::tempdir().unwrap());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;

    // Taken over, it names somebody who says to be the issuer of before.
    let evil = self::server(json!({"at": odd_path, "issuer": server.url("")}));
    let servers = json!({"servers": [evil.url(odd_path)]});
    server.ask("/control", Some(json!({"expire": true, "set": servers}))).await;
    assert_eq!(echo(&set).await.unwrap(), "here");
    saw_no_grant(&evil).await;
    assert_eq!(grants(&server).await, ["authorization_code", "refresh_token"]);
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_login_that_does_not_fit_brings_no_token() {
    let check = async |behaviour: Value, expected: &str| {
        let (server, folder) = (server(behaviour.clone()), tempfile::tempdir().unwrap());
        let error = log_in(&server, &person(), folder.path()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{behaviour}: {error}");
        assert!(!error.to_string().contains("s3cret"), "{behaviour}: {error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{behaviour}");
    };
    tokio::join!(
        check(
            json!({"iss": "https://evil.example.org"}),
            "its issuer is not the one that was asked"
        ),
        check(json!({"registration": false}), "Dynamic client registration not supported"),
        check(json!({"token_status": 500}), "gives no token"),
        check(json!({"issuer": "https://login.example.org"}), "its issuer is not the one"),
        check(
            json!({"servers": ["http://169.254.169.254"]}),
            "none of its authorization servers has any"
        ),
        check(
            json!({"servers": ["http://login.example.org"]}),
            "it was not given: its address begins with http://"
        ),
    );
    let (server, folder) = (server(json!({})), tempfile::tempdir().unwrap());
    let login = begin(&server, &person(), folder.path()).await.unwrap();
    let error = login.finish(Duration::from_millis(20), tokio::io::empty()).await.unwrap_err();
    assert_eq!(error.to_string(), "nobody logged in within 0 s");
    let error = begin(&server, &service(&server.url("")), folder.path())
        .await
        .err()
        .expect("nothing to log in to");
    assert!(matches!(error, login::Error::NotNeeded(_)), "{error}");
}

#[tokio::test]
async fn a_token_for_somebody_else_is_refused_and_not_asked_for_without_end() {
    let server = server(json!({"audience": "https://other.example.org/mcp"}));
    let set = start(entry(&server, &service(&server.url("")))).await;
    assert_eq!(reason(&set), "it does not take the token that was given for it");
    assert_eq!(grants(&server).await.len(), 2, "one, and one more when that was refused");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn an_authorization_server_that_is_away_for_a_while() {
    let server = server(json!({"token_status": 503}));
    let set = start(entry(&server, &service(&server.url("")))).await;
    assert!(
        reason(&set).starts_with("its authorization server gives no token"),
        "{}",
        reason(&set)
    );
    let error = echo(&set).await.unwrap_err();
    assert!(matches!(error, CallError::NotConnected { .. }), "{error}");
    server.ask("/control", Some(json!({"set": {"token_status": null}}))).await;
    eventually(PATIENCE, async || echo(&set).await).await;
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_refresh_ends_well_though_its_caller_has_gone() {
    let (server, folder) = (server(json!({})), tempfile::tempdir().unwrap());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    server.ask("/control", Some(json!({"expire": true, "set": {"pause": 0.5}}))).await;
    let call = tokio::time::timeout(Duration::from_millis(200), echo(&set)).await;
    assert!(call.is_err(), "{call:?}");
    // The only refresh token that is good now is in the answer that nobody waited for.
    set.close(Duration::ZERO).await;
    let kept = std::fs::read_to_string(folder.path().join("h.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let good = server.ask("/control", Some(json!({}))).await;
    assert_eq!(json!([kept["credentials"]["token_response"]["refresh_token"]]), good["refresh"]);
}

/// An authorization server that takes longer than anybody waits for it.
#[tokio::test]
async fn a_refresh_token_is_sent_once_however_late_the_answer_is() {
    let (server, folder) = (server(json!({})), tempfile::tempdir().unwrap());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    server.ask("/control", Some(json!({"expire": true, "set": {"pause": 21}}))).await;

    let hurried = call_of("h", "echo", json!({}));
    let hurried = hurried.with_deadline(Deadline::after(Duration::from_millis(200)));
    assert_eq!(set.call(hurried).await.unwrap_err().code(), ErrorCode::Timeout);

    // Whoever calls meanwhile waits for that answer, and some give up too.
    eventually(2 * PATIENCE, async || echo(&set).await).await;
    assert_eq!(grants(&server).await, ["authorization_code", "refresh_token"]);
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn no_token_is_in_any_text() {
    let (server, folder) = (server(json!({"repeat": true})), tempfile::tempdir().unwrap());
    log_in(&server, &person(), folder.path()).await.unwrap();
    let set = start_keeping(&server, &person(), folder.path()).await;
    let error = call(&set, "h", "repeat", json!({})).await.unwrap_err();
    let expected = "Tool 'repeat' of MCP server 'h' failed: MCP error -32000: the server says \
                    \"you sent Bearer ***\"";
    assert_eq!(error.to_string(), expected);
    server.ask("/control", Some(json!({"expire": true, "revoke": true}))).await;
    let error = echo(&set).await.unwrap_err();
    assert!(!format!("{error} {error:?} {:?}", set.list()).contains("s3cret"), "{error:?}");
    set.close(PATIENCE).await;
}
