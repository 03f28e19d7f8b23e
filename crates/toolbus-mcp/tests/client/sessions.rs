//! HTTP servers that forget sessions, or whose event stream is lost: what is subscribed to is
//! subscribed to again, and what is reported arrives.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_bus::{CallContext, Deadline, Progress};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{Caller, Lookup, Naming};
use toolbus_testkit::eventually;
use toolbus_wire::message::toolbus::ToolProgress;

use crate::support::*;

const URI: &str = "a://1";

/// Holds a subscription, and makes it again when it ends, as agents do.
async fn hold_subscription(set: &ServerPool, progress: &Progress) -> Infallible {
    loop {
        let context = CallContext::until(Deadline::after(CONNECT_LIMIT));
        let lookup = Lookup {
            server: "h".to_owned(),
            naming: Naming::Exact,
            caller: Caller::default(),
            context,
        };
        let Err(error) = set.subscribe(lookup, &[URI.to_owned()], progress).await;
        assert!(!error.to_string().is_empty());
        tokio::task::yield_now().await;
    }
}

/// Waits until a change that the server reports now is heard.
async fn hears_changes(server: &Script, heard: &Mutex<Vec<ToolProgress>>) {
    let count = || heard.lock().iter().filter(|p| p.resource.as_deref() == Some(URI)).count();
    let before = count();
    eventually(PATIENCE, async || {
        server.ask("/control", Some(json!({"do": "update", "uri": URI}))).await;
        if count() > before { Ok(()) } else { Err(server.log().await) }
    })
    .await;
}

/// Changes are heard before something happens to the server, and after it.
async fn check_heard_after(happens: impl AsyncFnOnce(&ServerPool, &Script)) {
    let server = Script::start("streams.py", "200");
    let set = start(json!({"h": {"url": server.url("/mcp")}})).await;
    let (progress, heard): (_, Arc<Mutex<Vec<ToolProgress>>>) = progress();
    tokio::select! {
        never = hold_subscription(&set, &progress) => match never {},
        () = async {
            hears_changes(&server, &heard).await;
            happens(&set, &server).await;
            hears_changes(&server, &heard).await;
        } => {}
    }
    call(&set, "h", "echo", json!({})).await.unwrap();
    set.close(Duration::ZERO).await;
}

async fn order(server: &Script, order: Value) {
    server.ask("/control", Some(order)).await;
}

#[tokio::test]
async fn changes_are_heard_in_a_new_session() {
    check_heard_after(async |set, server| {
        order(server, json!({"do": "forget"})).await;
        call(set, "h", "echo", json!({})).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn changes_are_heard_after_an_event_stream_that_could_not_be_opened_again() {
    for status in [405, 500] {
        check_heard_after(async |_, server| {
            order(server, json!({"do": "break", "get": status})).await;
        })
        .await;
    }
}

#[tokio::test]
async fn changes_are_heard_after_an_event_that_is_too_long() {
    check_heard_after(async |_, server| order(server, json!({"do": "flood"})).await).await;
}

#[tokio::test]
async fn a_server_without_an_event_stream_stays_connected() {
    for (status, requests) in [(405, 1), (404, 1), (500, 5)] {
        let server = Script::start("streams.py", &status.to_string());
        let set = start(json!({"h": {"url": server.url("/mcp")}})).await;
        let get = format!("GET {status}");
        eventually(PATIENCE, async || {
            let log = server.log().await;
            let gets = log.iter().filter(|request| **request == *get).count();
            if gets == requests { Ok(()) } else { Err(log) }
        })
        .await;
        call(&set, "h", "echo", json!({})).await.unwrap();
        let log = server.log().await;
        let initialized = log.iter().filter(|request| *request == "initialize").count();
        assert_eq!(initialized, 1, "{status}: {log:?}");
        set.close(Duration::ZERO).await;
    }
}
