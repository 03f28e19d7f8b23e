//! Credentials of calls: behind every other gate, and in nothing that anybody reads.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use toolbus_bus::Progress;
use toolbus_policy::owner_text;
use toolbus_testkit::eventually;
use toolbus_tools::call::{Arguments, Invocation};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::scope::Proof;
use toolbus_tools::{
    Call, CallError, Door, Invoker, Outcome, Output, Principal, Registry, Scope, Tool,
};
use toolbus_vault::{CredentialPlace, KeySource, LazyVault, VaultGate};
use toolbus_wire::ErrorCode;
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::name::AgentName;

use crate::support::*;

/// How long another process's change may take to be heard of.
const LIMIT: Duration = Duration::from_secs(120);

/// Says all that it knows, everywhere.
async fn leak(call: Invocation) -> Outcome {
    let token = call.credentials.get("TOKEN").unwrap_or("none").to_owned();
    let debug = format!("{call:?}");
    assert!(!debug.contains(CANARY), "{debug}");
    call.context.progress.send(ToolProgress {
        message: Some(format!("with {token}")),
        text: Some(token.clone()),
        ..ToolProgress::default()
    });
    let said = json!({"token": token, (token.clone()): [1, {"deep": format!("x{token}y")}]});
    if call.arguments.contains_key("fail") {
        let error = CallError::new(ErrorCode::ExecutionFailed, format!("401 for {token}"));
        return Err(error.with_details(said));
    }
    let structured = Some(RawJson::of(&said));
    Ok(Output { structured: structured.clone(), mcp: structured, ..Output::text(token) })
}

fn invoker(vault: LazyVault) -> Invoker {
    let registry = Registry::new();
    let parameters = json!({
        "type": "object", "properties": {"fail": {"type": "boolean"}, "deny": {"type": "boolean"}},
    });
    for name in ["work", "other"] {
        let tool = Tool::new(name, "works", "test").with_parameters(parameters.clone());
        registry.register(tool, leak).expect("registered");
    }
    let policy = |request: &PolicyRequest<'_>| match request.scope.agent.as_str() {
        "denied" => Decision::Deny("not for you".into()),
        _ => Decision::Allow,
    };
    let builder = Invoker::builder(Arc::new(registry)).policy(policy);
    builder.credentials(VaultGate(vault)).build()
}

fn call(agent: &str, tool: &str, arguments: Value) -> Call {
    let agent = AgentName::parse(agent).expect("a name");
    let scope = Arc::new(Scope::new(Door::Embedded, Principal::local(), agent));
    let id = CallId::parse("call_1").expect("an id");
    let tool = ToolName::parse(tool).expect("a name");
    Call::new(&scope, id, tool, Arguments::Value(arguments))
}

/// All that a caller sees of a call: its outcome and its progress.
async fn everything(invoker: &Invoker, mut call: Call) -> (String, Outcome) {
    let heard: Arc<Mutex<String>> = Arc::default();
    let hearing = Arc::clone(&heard);
    call.progress = Progress::to(move |report| {
        hearing.lock().expect("not poisoned").push_str(&format!("{report:?}"));
    });
    let outcome = invoker.invoke(call).await;
    let heard = heard.lock().expect("not poisoned").clone();
    (format!("{heard}{outcome:?}"), outcome)
}

#[tokio::test]
async fn a_tool_has_its_credentials_and_nothing_that_comes_back_does() {
    for place in Place::all().await {
        let token = CredentialPlace::new("test", "TOKEN").for_tool("work");
        vault(&place).await.put(token, CANARY).await.unwrap();
        let invoker = invoker(place.lazy_vault(key('1')));

        for arguments in [json!({}), json!({"fail": true})] {
            let (seen, outcome) = everything(&invoker, call("me", "work", arguments)).await;
            assert!(!seen.contains(CANARY), "{seen}");
            // It is where it was erased, so the tool had it.
            match outcome {
                Ok(output) => {
                    assert_eq!(output.content.as_deref(), Some("***"));
                    let structured = output.structured.unwrap();
                    assert!(structured.text().contains("\"x***y\""), "{}", structured.text());
                }
                Err(error) => assert_eq!(error.message, "401 for ***"),
            }
            assert!(seen.contains("with ***"), "{seen}");
        }
        let (_, outcome) = everything(&invoker, call("me", "other", json!({}))).await;
        assert_eq!(outcome.unwrap().content.as_deref(), Some("none"));
    }
}

/// A later key with the same name gets neither the credentials of the previous key nor those that
/// were set for the name before owners had ids.
#[tokio::test]
async fn credentials_belong_to_an_owner_and_not_to_a_name() {
    let of_key = |id: Option<&str>| {
        let proof = Proof::Token { issuer: "toolbus-keys".into(), id: id.map(Into::into) };
        Principal { name: "ci".into(), proof }
    };
    for place in Place::all().await {
        let vault = vault(&place).await;
        let set = async |owner: &Principal| {
            let place = CredentialPlace::new("test", "TOKEN").for_user(owner_text(owner));
            vault.put(place, CANARY).await.unwrap();
        };
        set(&of_key(Some("1"))).await;
        let invoker = invoker(place.lazy_vault(key('1')));
        let has = async |owner: &Principal| {
            let scope = Scope::new(Door::Http, owner.clone(), AgentName::standard());
            let call = Call::by_name(&Arc::new(scope), "work", json!({})).unwrap();
            invoker.invoke(call).await.unwrap().content.as_deref() == Some("***")
        };
        assert!(has(&of_key(Some("1"))).await);
        assert!(!has(&of_key(Some("2"))).await && !has(&of_key(None)).await);

        set(&of_key(None)).await;
        set(&Principal::local()).await;
        assert!(has(&of_key(None)).await && has(&Principal::local()).await);
        assert!(!has(&of_key(Some("2"))).await);
    }
}

/// 3c.14: with a vault that cannot be read, only calls that may run notice.
#[tokio::test]
async fn a_call_that_is_refused_never_comes_to_the_vault() {
    let place = Place::sqlite();
    let store = place.lazy();
    let vault = LazyVault::new(store.clone(), KeySource::Given(key('1')));
    let opened = vault.open().await.unwrap();
    opened.put(CredentialPlace::new("test", "TOKEN"), CANARY).await.unwrap();
    let invoker = invoker(vault);
    store.close().await;

    let refused = [
        (call("denied", "work", json!({})), ErrorCode::Denied, "not for you"),
        (call("me", "work", json!({"fail": 1})), ErrorCode::InvalidArguments, "fail"),
        (call("me", "missing", json!({})), ErrorCode::ToolNotFound, "missing"),
    ];
    for (call, code, text) in refused {
        let error = invoker.invoke(call).await.unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.message.contains(text), "{error}");
    }
    let error = invoker.invoke(call("me", "work", json!({}))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Denied);
    let expected = "the credentials of 'test' cannot be read: the state cannot be read";
    assert_eq!(error.message, expected);
}

#[tokio::test]
async fn with_the_wrong_key_calls_that_have_credentials_are_denied_and_no_others() {
    for place in Place::all().await {
        let right = vault(&place).await;
        let token = CredentialPlace::new("test", "TOKEN").for_tool("other");
        right.put(token.clone(), CANARY).await.unwrap();
        let invoker = invoker(place.lazy_vault(key('2')));
        // Of one provider all, for nobody knows which tool it is for.
        for tool in ["work", "other"] {
            let error = invoker.invoke(call("me", tool, json!({}))).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::Denied);
            let why = "the vault was sealed with another key";
            assert_eq!(error.message, format!("the credentials of 'test' cannot be read: {why}"));
        }

        let other = CredentialPlace::new("other", "TOKEN");
        right.put(other, CANARY).await.unwrap();
        right.remove(token).await.unwrap();
        eventually(LIMIT, async || invoker.invoke(call("me", "work", json!({}))).await).await;
    }
}

#[tokio::test]
async fn while_the_state_is_locked_calls_are_denied() {
    let place = Place::sqlite();
    place.open().await.close().await;
    let lock = place.lock().await;
    let invoker = invoker(place.lazy_vault(key('1')));
    let error = invoker.invoke(call("me", "work", json!({}))).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Denied);
    let why = "the state is locked by somebody else";
    assert_eq!(error.message, format!("the credentials of 'test' cannot be read: {why}"));
    drop(lock);
    eventually(LIMIT, async || invoker.invoke(call("me", "work", json!({}))).await).await;
}

/// A place without a file is looked at by no call.
#[tokio::test]
async fn calls_make_no_store() {
    let place = Place::sqlite();
    let invoker = invoker(place.lazy_vault(key('1')));
    invoker.invoke(call("me", "work", json!({}))).await.unwrap();
    assert_eq!(place.bytes(), Vec::<u8>::new());
}
