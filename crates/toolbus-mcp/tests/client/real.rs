//! Servers that nobody here wrote, of both eras of the protocol, over stdio and HTTP.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Deadline;
use toolbus_mcp::server_pool::{AddError, Change};
use toolbus_mcp::{Call, CallError, ServerState};
use toolbus_testkit::{eventually, mcp};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::tool::ContentKind;

use crate::support::*;

pub(crate) const DENIED: &str = "gzip-file-as-resource";

fn text(result: toolbus_mcp::CallResult) -> String {
    result.text.expect("text")
}

/// What the recorded answers of `server-everything` say, whatever the transport.
pub(crate) async fn answers_as_recorded(set: &toolbus_mcp::server_pool::ServerPool) {
    let hello = "héllo <b>\"q\"</b> & 日本 🦀 + 'x'";
    let echo = call(set, "everything", "echo", json!({"message": hello})).await.unwrap();
    assert_eq!(text(echo), format!("Echo: {hello}"));
    let sum = call(set, "EVERYTHING", "get-sum", json!({"a": 2, "b": 3.5})).await.unwrap();
    assert_eq!(text(sum), "The sum of 2 and 3.5 is 5.5.");

    let image = call(set, "everything", "get-tiny-image", json!({})).await.unwrap();
    let kinds: Vec<&ContentKind> = image.blocks.iter().map(|block| &block.kind).collect();
    assert_eq!(kinds, [&ContentKind::Text, &ContentKind::Image, &ContentKind::Text]);
    assert_eq!(image.blocks[1].mime_type.as_deref(), Some("image/png"));
    assert_eq!(text(image), "Here's the image you requested:\nThe image above is the MCP logo.");

    let weather = json!({"location": "New York"});
    let weather = call(set, "everything", "get-structured-content", weather).await.unwrap();
    let structured = weather.structured.clone().expect("a structured value");
    let structured = structured.to_value(100).unwrap();
    assert_eq!(structured["conditions"], "Cloudy");
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text(weather)).unwrap(), structured);

    let wrong = call(set, "everything", "get-sum", json!({"a": "two"})).await.unwrap();
    assert!(wrong.is_error);
    assert!(text(wrong).starts_with("MCP error -32602: Input validation error: Invalid argum"));
    let unknown = call(set, "everything", "no-such-tool", json!({})).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ToolNotFound);
    let expected = "Tool 'no-such-tool' not found on MCP server 'everything': it lists no such \
                    tool. Tools: ";
    assert!(unknown.to_string().starts_with(expected), "{unknown}");

    let denied = call(set, "everything", DENIED, json!({})).await.unwrap_err();
    assert_eq!(denied.code(), ErrorCode::Denied);
    assert!(!tool_names(set, "everything").contains(&DENIED.to_owned()));
}

pub(crate) async fn progress_timeout_and_cancellation(set: &toolbus_mcp::server_pool::ServerPool) {
    let slow = |seconds: f64, steps: u32| {
        let args = json!({"duration": seconds, "steps": steps});
        call_of("everything", "trigger-long-running-operation", args)
    };
    let (sink, heard) = progress();
    // Asking for the tools again in the meantime leaves the call alone.
    let call = set.call(slow(0.4, 4).with_progress(sink));
    let (done, ()) = tokio::join!(call, set.refresh(Some("everything")));
    assert!(text(done.unwrap()).starts_with("Long running operation completed."));
    let steps: Vec<_> = heard.lock().iter().map(|p| (p.progress, p.total)).collect();
    let expected: Vec<_> = (1..=4).map(|step| (Some(f64::from(step)), Some(4.0))).collect();
    assert_eq!(steps, expected);

    let short = Deadline::after(Duration::from_millis(300));
    let error = set.call(slow(20.0, 2).with_deadline(short)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "MCP server 'everything' timed out after 300ms. This is a transient error — retry the \
         same tool call to continue."
    );
    assert_eq!(error.code(), ErrorCode::Timeout);

    let cancelled = CancellationToken::new();
    let slow_call = set.call(slow(20.0, 2).with_cancelled(cancelled.clone()));
    let (error, ()) = tokio::join!(slow_call, async {
        // sleeps: the server says nothing before its first step.
        tokio::time::sleep(Duration::from_millis(100)).await;
        cancelled.cancel();
    });
    assert_eq!(error.unwrap_err().code(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn everything_over_stdio() {
    let Some(server) = mcp::everything_stdio() else { return };
    let mut entry = server.to_json();
    entry["deniedTools"] = json!([DENIED]);
    entry["env"] = json!({"OF_THE_ENTRY": "from-the-entry"});
    let set = start(json!({"everything": entry})).await;
    assert!(matches!(state(&set, "everything"), ServerState::Connected { ref protocol, .. }
        if protocol == "2025-11-25"));
    answers_as_recorded(&set).await;
    progress_timeout_and_cancellation(&set).await;

    // The child has what its entry gives it, and nothing that was not meant for it.
    let environment = text(call(&set, "everything", "get-env", json!({})).await.unwrap());
    assert!(environment.contains("from-the-entry") && environment.contains("PATH"));
    assert!(!environment.contains("CARGO_"), "{environment}");

    let details = set.details("Everything").expect("details");
    assert_eq!(details.implementation_name.as_deref(), Some("mcp-servers/everything"));
    assert!(details.instructions.is_some() && details.error.is_none());
    let echo = details.tools.iter().find(|tool| tool.name == "echo").expect("echo");
    assert_eq!(echo.description, "Echoes back the input string");
    assert_eq!(
        echo.parameters_schema.as_deref(),
        Some(
            "{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"type\":\"object\",\
             \"properties\":{\"message\":{\"type\":\"string\",\"description\":\"Message to echo\"}},\
             \"required\":[\"message\"]}"
        )
    );
    set.close(Duration::ZERO).await;
    let error = call(&set, "everything", "echo", json!({"message": "x"})).await.unwrap_err();
    assert!(matches!(error, CallError::NotConnected { .. } | CallError::Busy { .. }), "{error}");
}

#[tokio::test]
async fn everything_over_http() {
    let Some(server) = mcp::everything_http().await else { return };
    let mut entry = server.to_json();
    entry["type"] = json!("sse");
    entry["deniedTools"] = json!([DENIED]);
    let set = start(json!({"everything": entry})).await;
    answers_as_recorded(&set).await;
    progress_timeout_and_cancellation(&set).await;
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn everything_comes_back_with_a_new_session() {
    let Some(mut server) = mcp::everything_http().await else { return };
    let set = start(json!({"everything": server.to_json()})).await;
    let echo = async || call(&set, "everything", "echo", json!({"message": "x"})).await;
    assert_eq!(text(echo().await.unwrap()), "Echo: x");

    server.crash();
    // A request that meets the crash itself may have been read; one after it was not.
    let error = eventually(PATIENCE, async || match echo().await {
        Err(error @ CallError::NotConnected { .. }) => Ok(error),
        other => Err(other),
    })
    .await;
    assert_eq!(error.code(), ErrorCode::ToolNotFound);
    assert!(error.to_string().contains("nothing answers at its address"), "{error}");

    // Its old session is forgotten, which the next call has to find out.
    server.start_again().await.unwrap();
    eventually(PATIENCE, echo).await;

    server.crash();
    server.start_again().await.unwrap();
    assert_eq!(text(echo().await.unwrap()), "Echo: x", "without an error in between");
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn a_server_lost_during_a_call_ends_the_call_at_once() {
    let Some(mut server) = mcp::everything_http().await else { return };
    let set = start(json!({"everything": server.to_json()})).await;
    let (sink, heard) = progress();
    let args = json!({"duration": 60, "steps": 600});
    let slow = call_of("everything", "trigger-long-running-operation", args);
    let began = Instant::now();
    let (error, ()) = tokio::join!(set.call(slow.with_progress(sink)), async {
        eventually(PATIENCE, async || if heard.lock().is_empty() { Err("quiet") } else { Ok(()) })
            .await;
        server.crash();
    });
    let error = error.unwrap_err();
    assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn time_speaks_the_newer_protocol() {
    let Some(server) = mcp::time() else { return };
    let set = start(json!({"Time": server.to_json()})).await;
    assert!(
        matches!(state(&set, "time"), ServerState::Connected { ref protocol, .. }
        if protocol == "2026-07-28"),
        "{:?}",
        state(&set, "time")
    );
    let zone = json!({"timezone": "Europe/Berlin"});
    let now = text(call(&set, "time", "get_current_time", zone).await.unwrap());
    assert!(now.contains("\"timezone\": \"Europe/Berlin\""), "{now}");

    let unknown = call(&set, "time", "no_such_tool", json!({})).await.unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::ToolNotFound, "{unknown}");
    let mars = json!({"timezone": "Mars/X"});
    let mars = call(&set, "time", "get_current_time", mars).await.unwrap();
    assert!(mars.is_error && text(mars).contains("Invalid timezone"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn calls_find_their_server() {
    let (Some(everything), Some(time)) = (mcp::everything_stdio(), mcp::time()) else { return };
    let set = start(json!({
        "away": {"command": "/does/not/exist"},
        "time": time.to_json(),
        "everything": everything.to_json(),
    }))
    .await;
    let without = |tool: &str, args| {
        set.call(Call::new(None, tool, arguments(args), Deadline::after(PATIENCE)))
    };
    let echo = without("echo", json!({"message": "by its tool"})).await.unwrap();
    assert_eq!(text(echo), "Echo: by its tool");
    let echo = without("ECHO", json!({"message": "in capitals"})).await.unwrap();
    assert_eq!(text(echo), "Echo: in capitals");
    let error = without("nobody-has-it", json!({})).await.unwrap_err();
    let expected = "Tool 'nobody-has-it' not found on any connected MCP server. Tools: ";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(error.code(), ErrorCode::ToolNotFound);
    let error = call(&set, "ghost", "x", json!({})).await.unwrap_err();
    let expected = "MCP server 'ghost' is not connected. Servers: ";
    assert!(error.to_string().starts_with(expected), "{error}");
    assert_eq!(error.code(), ErrorCode::ToolNotFound);

    // The one that is away is known, with its reason, and does not hold up the others.
    let ServerState::Failed { failure, attempts: 1.., .. } = state(&set, "away") else {
        panic!("{:?}", state(&set, "away"))
    };
    assert_eq!(
        failure.to_string(),
        "its command \"/does/not/exist\" cannot be started: No such file or directory (os error 2)"
    );
    let error = call(&set, "AWAY", "x", json!({})).await.unwrap_err();
    assert_eq!(error.to_string(), format!("MCP server 'AWAY' is not connected: {failure}"));
    set.close(PATIENCE).await;
}

#[tokio::test]
async fn servers_come_and_go_and_are_told() {
    let (Some(everything), Some(time)) = (mcp::everything_stdio(), mcp::time()) else { return };
    let set = start(json!({"time": time.to_json()})).await;
    let mut changes = set.changes();
    let Some(Change::Listed(summary)) = next(&mut changes).await else { panic!() };
    assert_eq!(
        summary.summary.as_deref(),
        Some("Provides 2 tool(s): get_current_time, convert_time.")
    );

    let entry = |servers| entries(servers).remove(0);
    let summary = set.add(entry(json!({"Everything": everything.to_json()}))).await.unwrap();
    assert_eq!(summary.server_name, "Everything");
    assert!(summary.tool_count >= 12);
    let Some(Change::Listed(told)) = next(&mut changes).await else { panic!() };
    assert_eq!(told.server_name, "Everything");

    let again = set.add(entry(json!({"TIME": time.to_json()}))).await;
    assert!(matches!(again, Err(AddError::Exists(_))), "{again:?}");
    let failed = set.add(entry(json!({"dead": {"url": "http://127.0.0.1:1/mcp"}}))).await;
    let Err(AddError::Failed(failure)) = failed else { panic!("{failed:?}") };
    assert_eq!(
        failure.to_string(),
        "nothing answers at its address: Connection refused (os error 111)"
    );
    assert!(set.find("dead").is_none(), "a server that cannot be reached is not kept");

    set.refresh(None).await;
    assert!(set.remove("everything") && !set.remove("everything"));
    // Whatever was listed again in between, the last news is that it is gone.
    loop {
        match next(&mut changes).await {
            Some(Change::Removed(name)) => break assert_eq!(name, "Everything"),
            Some(Change::Listed(_)) => {}
            None => panic!("closed"),
        }
    }
    set.close(PATIENCE).await;
    assert_eq!(next(&mut changes).await, None);
}
