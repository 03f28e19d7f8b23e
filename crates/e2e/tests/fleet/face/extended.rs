//! Calls of clients that take longer than their server is granted, and report progress meanwhile.

use super::faithful::RawClient;
use super::*;

/// How long the server is granted, in seconds.
const GRANTED: u32 = 3;

/// What comes of a call that takes three times as long, with this `_meta`.
async fn call_for_long(client: &mut RawClient, meta: Value) -> Value {
    let arguments = json!({"duration": 3 * GRANTED, "steps": 3 * GRANTED});
    let name = "trigger-long-running-operation";
    let params = json!({"name": name, "arguments": arguments, "_meta": meta});
    client.value("tools/call", &params).await
}

#[tokio::test]
async fn a_client_that_asks_for_progress_waits_for_as_long_as_there_is_some() {
    let (Some(kit), Some(everything)) = (servers::time(), servers::everything_stdio()) else {
        return;
    };
    let mut entry = everything.to_json();
    entry["timeoutMs"] = json!(GRANTED * 1_000);
    let servers = Servers::with(&[("everything", entry)]);
    let launch = Launch::new("agent-host").arg("--mcp-config").arg(servers.file());
    let host = Host::serve(launch, kit.command, None).await;
    host.wait_for(&["everything"]).await;

    let mut with = RawClient::connect(format!("{}/everything", host.url)).await;
    let mut without = RawClient::connect(format!("{}/everything", host.url)).await;
    let (extended, fixed) = tokio::join!(
        call_for_long(&mut with, json!({"progressToken": "p"})),
        call_for_long(&mut without, json!({})),
    );
    assert_eq!(extended.get("isError"), None, "{extended}");
    assert_eq!(fixed["isError"], true, "{fixed}");
    assert!(fixed["content"][0]["text"].as_str().unwrap().starts_with("timeout: "), "{fixed}");
}
