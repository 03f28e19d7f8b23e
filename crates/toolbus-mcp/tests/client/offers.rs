//! What servers offer beside tools.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, CallContext, Deadline, Progress};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{CallError, Caller, Lookup, Naming, ServerState};
use toolbus_testkit::eventually;
use toolbus_wire::ErrorCode;

use crate::asks::asking;
use crate::support::*;

fn patient() -> CallContext {
    CallContext::until(Deadline::after(PATIENCE))
}

fn lookup(server: &str) -> Lookup {
    Lookup {
        server: server.to_owned(),
        naming: Naming::Forgiving,
        caller: Caller::default(),
        context: patient(),
    }
}

fn prompts(set: &ServerPool) -> Vec<String> {
    let summary = set.find("a").and_then(|status| status.summary).expect("a summary");
    assert_eq!(summary.prompt_count, summary.prompt_names.as_ref().map(|names| names.len() as u32));
    summary.prompt_names.unwrap_or_default()
}

#[tokio::test]
async fn prompts_and_resources_are_told_and_given() {
    let set = start(json!({"a": asking("older")})).await;
    assert_eq!(prompts(&set), ["greet"]);
    let details = set.details("a").expect("details");
    let expected = json!({"name": "greet", "arguments": [{"name": "who"}]});
    assert_eq!(serde_json::to_value(details.prompts).unwrap(), json!([expected]));
    // Three pages of two; a server that knows no templates has none.
    assert_eq!(details.resource_count, Some(6));

    let prompt = set.prompt(lookup("A"), "greet", arguments(json!({"who": "Ada"}))).await.unwrap();
    assert_eq!(prompt.messages[0].content.as_deref(), Some("greet Ada"));
    let first = set.resources(lookup("a"), None).await.unwrap();
    assert_eq!((first.resources.len(), first.next_cursor.as_deref()), (2, Some("1")));
    let second = set.resources(lookup("a"), first.next_cursor).await.unwrap();
    assert_eq!(second.resources[0].uri, "a://1-0");
    let read = set.resource(lookup("a"), "a://1").await.unwrap();
    assert_eq!(read.contents[0].text.as_deref(), Some("one"));

    let error = set.resource(lookup("a"), "a://none").await.unwrap_err();
    assert_eq!(error.to_string(), r#"MCP error -32002: the server says "no such resource""#);
    let error = set.resource(lookup("nobody"), "a://1").await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ToolNotFound, "{error}");
    let long = "x".repeat(100_000);
    let error = set.resource(lookup("a"), &long).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArguments);
    set.close(Duration::ZERO).await;
}

/// What a tool tells as JSON.
async fn told(set: &ServerPool, tool: &str) -> Value {
    let result = call(set, "a", tool, json!({})).await.unwrap();
    serde_json::from_str(&result.text.unwrap()).unwrap()
}

#[tokio::test]
async fn a_flood_of_changes_is_one_new_list() {
    let set = start(json!({"a": asking("older")})).await;
    let before = told(&set, "lists").await;
    let took_ms = told(&set, "change").await["took_ms"].as_u64().unwrap();
    eventually(PATIENCE, async || {
        let told = prompts(&set);
        if told == ["greet", "another"] { Ok(()) } else { Err(format!("{told:?}")) }
    })
    .await;
    let after = told(&set, "lists").await;
    // A hundred changes, each told on its own. One list is for those before it and one for those
    // that came meanwhile; where they took long, there may have been one every half second.
    let most = 2 + took_ms / 500;
    for method in ["tools/list", "prompts/list"] {
        let more = after[method].as_u64().unwrap() - before[method].as_u64().unwrap();
        assert!((1..=most).contains(&more), "{more} of {method} in {took_ms} ms");
    }
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_prompt_may_need_input_first() {
    let set = start(json!({"a": asking("newer")})).await;
    let answer = json!({"action": "accept", "content": {"name": "Ada"}});
    let asker = Asker::to(move |_| {
        let answer = answer.clone();
        async move { Ok(answer) }
    });
    let asked = Lookup { context: patient().with_asker(asker), ..lookup("a") };
    let prompt = set.prompt(asked, "greet", arguments(json!({"who": "x"}))).await.unwrap();
    let content: &str = prompt.messages[0].content.as_deref().expect("text");
    assert!(content.contains("'action': 'accept'") && content.contains("Ada"), "{content}");
    set.close(Duration::ZERO).await;
}

/// A server that does not tell what it offers beside tools.
async fn silent() -> ServerPool {
    let mut entry = asking("older");
    entry["args"].as_array_mut().expect("arguments").push(Value::from("silent"));
    let mut options = options();
    // It waits a third of this for the answer, and the rest is for the start.
    options.connect_timeout = Duration::from_secs(15);
    start_with(json!({"a": entry}), options).await
}

#[tokio::test]
async fn a_server_that_does_not_tell_what_it_offers_is_connected_all_the_same() {
    let set = silent().await;
    assert!(matches!(state(&set, "a"), ServerState::Connected { .. }), "{:?}", state(&set, "a"));
    assert_eq!(prompts(&set), Vec::<String>::new());
    let soon = Lookup {
        context: CallContext::until(Deadline::after(Duration::from_millis(300))),
        ..lookup("a")
    };
    let error = set.resources(soon, None).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    call(&set, "a", "echo", json!({})).await.unwrap();
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn one_server_has_only_so_many_places() {
    /// How many lookups and subscriptions of one server there may be at a time.
    const LOOKUPS: usize = 32;
    const SUBSCRIPTIONS: usize = 128;
    let set = silent().await;
    let cancelled = CancellationToken::new();
    let lookup = || Lookup { context: patient().with_cancelled(cancelled.clone()), ..lookup("a") };
    let (uris, progress) = (["a://1".to_owned()], Progress::none());
    let subscribe = || async { set.subscribe(lookup(), &uris, &progress).await.unwrap_err() };
    let list = || async { set.resources(lookup(), None).await.unwrap_err() };
    let subscribed = join_all((0..SUBSCRIPTIONS).map(|_| subscribe()));
    let listed = join_all((0..LOOKUPS).map(|_| list()));
    let busy = |running| CallError::Busy { server: "a".to_owned(), running };
    let (subscribed, listed, ()) = tokio::join!(subscribed, listed, async {
        assert_eq!(list().await, busy(LOOKUPS));
        assert_eq!(subscribe().await, busy(SUBSCRIPTIONS));
        // None of them has the place of a call.
        call(&set, "a", "echo", json!({})).await.unwrap();
        cancelled.cancel();
    });
    for error in subscribed.into_iter().chain(listed) {
        assert_eq!(error.code(), ErrorCode::Cancelled, "{error}");
    }
    set.close(Duration::ZERO).await;
}
