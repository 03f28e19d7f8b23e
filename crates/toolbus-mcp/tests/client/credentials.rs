//! Credentials that a server repeats: in nothing that it says, wherever it says it.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_bus::{Asker, CallContext, Deadline, Question};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{Caller, Lookup, Naming};
use toolbus_wire::message::toolbus::AskError;

use crate::support::*;

/// Not written in JSON as it is.
const TOKEN: &str = "tok-\"quoted\\\"-é1";
const KEY: &str = "key-of-the-server";
/// What is left of what the server says.
const SAID: &str = "*** and *** in information";

fn leaking(token: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/leaking.py");
    json!({"command": "python3", "args": ["-I", script, "--key", KEY],
        "env": {"API_TOKEN": token, "LOG_LEVEL": "information"}})
}

async fn leaking_set() -> ServerPool {
    start(json!({"l": leaking(TOKEN)})).await
}

/// The same in errors and notes, which hold no configured value at all.
const TOLD: &str = "*** and *** in ***";

/// Fails when there is a credential in what somebody sees, in Rust's or in JSON's writing of it.
#[track_caller]
fn holds_none(what: &impl std::fmt::Debug) {
    let seen = format!("{what:?}");
    for credential in [TOKEN, KEY] {
        for written in [format!("{credential:?}"), Value::from(credential).to_string()] {
            let written = written.trim_matches('"');
            assert!(!seen.contains(written), "{written} is in {seen}");
        }
    }
    assert!(!seen.contains("quoted"), "{seen}");
}

#[tokio::test]
async fn results_and_errors_hold_none() {
    let set = leaking_set().await;
    let said = call(&set, "l", "say", json!({})).await.unwrap();
    holds_none(&said);
    assert!(said.text.as_deref().is_some_and(|text| text.starts_with(SAID)), "{said:?}");
    assert_eq!(said.blocks[1].text.as_deref(), Some(SAID));
    assert_eq!(said.blocks[1].uri.as_deref(), Some("a://x?***"));
    assert_eq!(said.blocks[2].data.as_deref(), Some("Ynl0ZXM="));
    assert_eq!(said.blocks[3].uri.as_deref(), Some("a://***"));
    let expected = json!({
        "plain": 1,
        "***-1": {"deep": [SAID, {"again ***-2": "***"}]},
        "***": 2,
    });
    let value = said.structured.unwrap();
    holds_none(&value.text());
    assert_eq!(value.to_value(100), Ok(expected));

    let error = call(&set, "l", "fail", json!({})).await.unwrap_err();
    holds_none(&error);
    let expected = format!(
        "Tool 'fail' of MCP server 'l' failed: MCP error -32000: the server says \"{TOLD}\""
    );
    assert_eq!(error.to_string(), expected);
    let error = call(&set, "l", "die", json!({})).await.unwrap_err();
    holds_none(&error);
    holds_none(&set.list());
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn what_it_lists_holds_none() {
    let set = leaking_set().await;
    let details = set.details("l").expect("details");
    holds_none(&details);
    assert_eq!(details.instructions.as_deref(), Some(SAID));
    assert_eq!((details.title.as_deref(), details.version.as_deref()), (Some("***"), Some("***")));
    assert_eq!(details.tools[0].description, SAID);
    let schema = details.tools[0].parameters_schema.as_deref().unwrap().replace(' ', "");
    assert!(schema.contains(r#""default":"***""#), "{schema}");
    let prompts = serde_json::to_value(details.prompts.expect("prompts")).unwrap();
    assert_eq!(prompts[0]["description"], SAID);

    let lookup = || Lookup {
        server: "l".to_owned(),
        naming: Naming::Exact,
        caller: Caller::default(),
        context: CallContext::until(Deadline::after(PATIENCE)),
    };
    let prompt = set.prompt(lookup(), "p", arguments(json!({}))).await.unwrap();
    holds_none(&prompt);
    assert_eq!(prompt.messages[0].content.as_deref(), Some(SAID));
    let page = set.resources(lookup(), None).await.unwrap();
    holds_none(&page);
    assert_eq!((&*page.resources[0].name, &*page.templates[0].name), (SAID, "***"));
    let read = set.resource(lookup(), "a://x").await.unwrap();
    holds_none(&read);
    assert_eq!(read.contents[0].text.as_deref(), Some(SAID));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn what_it_tells_and_asks_meanwhile_holds_none() {
    let set = leaking_set().await;
    let (sink, heard) = progress();
    let told = call_of("l", "progress", json!({}));
    set.call(told.with_progress(sink)).await.unwrap();
    let heard = heard.lock().clone();
    assert_eq!(heard.len(), 2, "{heard:?}");
    holds_none(&heard);
    assert_eq!(heard[1].message.as_deref(), Some(TOLD));

    let asked = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&asked);
    let asker = Asker::to(move |question: Question| {
        sink.lock().push(question.params);
        async { Ok::<Value, AskError>(json!({"action": "decline"})) }
    });
    let result = set.call(call_of("l", "ask", json!({})).with_asker(asker)).await.unwrap();
    assert_eq!(result.text.as_deref(), Some("decline"), "it belongs to its call all the same");
    let asked = asked.lock().clone();
    holds_none(&asked);
    assert_eq!(asked[0]["message"], TOLD);
    assert_eq!(asked[0]["requestedSchema"]["properties"]["***"]["title"], "***");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_large_result_is_whole_but_for_them() {
    let set = leaking_set().await;
    let large = call(&set, "l", "large", json!({})).await.unwrap();
    let text = large.text.expect("a text");
    assert_eq!(text.len(), (1 << 20) - TOKEN.chars().count() + 3);
    assert!(text.ends_with("xx***"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn an_answer_that_is_none_without_them_is_an_error() {
    let set = start(json!({"l": leaking("message")})).await;
    let error = call(&set, "l", "fail", json!({})).await.unwrap_err();
    let expected = "MCP server 'l' gave an answer that holds a credential where there may be none";
    assert_eq!(error.to_string(), expected);
    let done = call(&set, "l", "progress", json!({})).await.unwrap();
    assert_eq!(done.text.as_deref(), Some("done"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn tokens_that_were_given_are_erased_from_results_too() {
    let server = Script::start("oauth.py", "{}");
    let auth = json!({"type": "client_credentials", "issuer": server.url(""),
        "clientId": "service", "clientSecret": "s3cret-of-the-service"});
    let set = start(json!({"h": {"url": server.url("/mcp"), "auth": auth}})).await;
    let said = call(&set, "h", "mirror", json!({})).await.unwrap();
    assert_eq!(said.text.as_deref(), Some("Bearer ***"));
    let expected = json!({"Bearer ***-1": ["Bearer ***"]});
    assert_eq!(said.structured.unwrap().to_value(100), Ok(expected));
    set.close(PATIENCE).await;
}
