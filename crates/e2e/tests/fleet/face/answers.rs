//! What clients of the face are asked and told while a call runs: over a broker, and from a server
//! that knows the older era only.

use super::*;

/// A client that answers everything.
fn answering(host: &Host, what: &str) -> Value {
    let answers = json!({"form": {"name": "Ada"}, "word": "ok", "roots": []});
    let step = json!({"do": what, "tool": "ask", "arguments": {}, "answers": answers});
    host.step("/asker", step)
}

/// The client comes back with this answer.
fn back(host: &Host, asked: &Value, state: &str) -> Value {
    let given = json!({"action": "accept", "content": {"name": "Ada"}});
    let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let mut step = answering(host, "back");
    step["responses"] = json!({key: given});
    step["state"] = json!(state);
    step
}

#[tokio::test]
async fn questions_logs_and_progress_reach_clients_of_both_eras() {
    let Some((host, servers)) = Host::with_asker(json!({})).await else { return };
    for (era, _) in ERAS {
        let [told] = host.does(era, [answering(&host, "call")]).await;
        assert_eq!(told["content"], json!([{"type": "text", "text": "Ada: ok"}]), "{told}");
        assert_eq!(told["asked"], json!(["Who are you?", "A word?"]), "{era}");
        assert_eq!(told["log"], json!([["warning", "about to ask"]]), "{era}");
        assert_eq!(told["progress"], json!([[1.0, 2.0]]), "{era}");

        // Nobody is asked who has not said that he answers.
        let [silent] = host.does(era, [host.call("/asker", "ask", json!({}))]).await;
        assert_eq!(silent["content"], json!([{"type": "text", "text": "None: None"}]), "{silent}");
    }
    // Each call was made once, however often its client came.
    let one = ["form accept", "word ok", "form cancel", "word none"];
    assert_eq!(servers.marks(), [one, one].concat());
}

#[tokio::test]
async fn a_client_comes_back_to_its_own_call_and_only_once() {
    let Some((host, servers)) = Host::with_asker(json!({})).await else { return };
    let [asked] = host.does("auto", [answering(&host, "leave")]).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let requests = asked["inputRequests"].as_object().unwrap();
    let methods: Vec<_> = requests.values().map(|request| &request["method"]).collect();
    assert_eq!(methods, ["elicitation/create"]);
    let state = asked["requestState"].as_str().unwrap();

    let mut of_another_tool = back(&host, &asked, state);
    of_another_tool["tool"] = json!("touch");
    let tampered = format!("{state}-TAMPERED");
    let steps = [of_another_tool, back(&host, &asked, &tampered), back(&host, &asked, state)];
    let [foreign, tampered, next] = host.does("auto", steps).await;
    let refused = |told: &Value, reason: &str| {
        let expected = json!({"error": -32602, "reason": reason});
        assert_eq!(*told, expected, "{told}");
    };

    refused(&foreign, "foreign_state");
    refused(&tampered, "unknown_state");
    assert_eq!(next["resultType"], "input_required", "{next}");
    assert_ne!(next["requestState"], state);
    let [used] = host.does("auto", [back(&host, &asked, state)]).await;
    refused(&used, "used_state");
    assert_eq!(servers.marks(), ["form accept"]);
}

/// Waits until the server was told that its call is given up: by a word about the call, and by what
/// its open question came to, in whatever order.
async fn given_up(servers: &Servers) {
    toolbus_testkit::eventually(LIMIT, async || {
        let mut marks = servers.marks();
        marks.sort();
        anyhow::ensure!(marks == ["cancelled", "form cancel", "word none"], "{marks:?}");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn a_call_ends_in_its_time_whether_its_client_comes_back_or_not() {
    // Longer than a busy machine takes to start a client, shorter than anybody waits.
    let short = json!({"timeoutMs": 8000});
    let Some((host, servers)) = Host::with_asker(short).await else { return };
    let [asked] = host.does("auto", [answering(&host, "leave")]).await;
    given_up(&servers).await;
    // What it came to is kept for the client, should it come after all.
    let state = asked["requestState"].as_str().unwrap();
    let [late] = host.does("auto", [back(&host, &asked, state)]).await;
    assert_eq!(late["isError"], true, "{late}");
    let text = late["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("timeout: MCP server 'asker' timed out after 8000ms"), "{text}");
}

#[tokio::test]
async fn a_face_that_closes_gives_up_the_calls_of_clients_that_are_away() {
    let Some((mut host, servers)) = Host::with_asker(json!({})).await else { return };
    let [asked] = host.does("auto", [answering(&host, "leave")]).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let began = std::time::Instant::now();
    assert!(host.service.process().terminate(LIMIT).await.unwrap().success());
    given_up(&servers).await;
    // Its own time is a minute.
    assert!(began.elapsed() < LIMIT / 2, "{:?}", began.elapsed());
}
