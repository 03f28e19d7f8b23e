//! What is asked and what is answered: the requests are those of OpenRouter's own client, and the
//! answers reach the official MCP client as they are, to the byte.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use toolbus_testkit::{mcp, openrouter, process};

use crate::support::*;
use crate::upstream::*;

const ERAS: [(&str, &str); 2] = [("legacy", "2025-11-25"), ("auto", "2026-07-28")];

/// Every tool, and the answer that it passes on.
fn calls() -> [(&'static str, Value, &'static str); 6] {
    [
        ("get_credits", json!({}), CREDITS),
        ("get_api_key_info", json!({}), CURRENT_KEY),
        ("list_models", json!({}), MODELS),
        ("list_api_keys", json!({}), KEYS),
        ("get_api_key", json!({ "keyHash": HASH }), ONE_KEY),
        ("get_generation", json!({ "generationId": GENERATION }), ONE_GENERATION),
    ]
}

async fn run(mut command: Command, input: String) -> Vec<Value> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let ended = tokio::time::timeout(LIMIT, ended).await.expect("it takes too long").unwrap();
    let log = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{log}");
    let told = String::from_utf8(ended.stdout).unwrap();
    told.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}")))
        .collect()
}

/// The official client of the Python kit. `None` where it has not been fetched and may be missing.
fn client(era: &str) -> Option<Command> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/openrouter/client.py");
    let mut command = Command::new(mcp::time()?.command);
    command.arg(script).arg(era);
    Some(command)
}

fn check_told(told: &[Value], protocol: &str) {
    assert_eq!(told[0]["protocol"], protocol);
    let names: Vec<_> =
        told[0]["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, calls().map(|(tool, ..)| tool));
    assert!(told[0]["tools"].as_array().unwrap().iter().all(|tool| {
        tool["annotations"]["readOnlyHint"] == true && tool["inputSchema"]["type"] == "object"
    }));
    assert_eq!(told.len(), 1 + calls().len() + 2);
    for ((tool, _, answer), told) in calls().iter().zip(&told[1..]) {
        assert_eq!(Ended::read(told), Ended::success(answer), "{tool}");
    }
    assert_eq!(told[7]["error"], -32602, "{}", told[7]);
    let refused = Ended::read(&told[8]);
    assert_eq!((refused.is_error, &refused.error["code"]), (true, &json!("invalid_arguments")));
}

fn steps() -> String {
    let mut steps: Vec<_> = calls()
        .iter()
        .map(|(tool, arguments, _)| json!({"tool": tool, "arguments": arguments}))
        .collect();
    steps.push(json!({"tool": "create_api_key", "arguments": {}}));
    steps.push(json!({"tool": "get_api_key", "arguments": {"keyHash": ".."}}));
    Value::from(steps).to_string()
}

#[tokio::test]
async fn the_official_client_gets_the_answers_as_they_are() {
    let upstream = Upstream::by_the_book().await;
    let program = Program::start(with_key(&upstream.url)).await;
    for (era, protocol) in ERAS {
        for path in ["/", "/mcp"] {
            let Some(mut client) = client(era) else { return };
            client.arg(format!("{}{path}", program.url));
            check_told(&run(client, steps()).await, protocol);
        }
    }
}

#[tokio::test]
async fn the_official_client_gets_them_over_stdio_too() {
    let upstream = Upstream::by_the_book().await;
    for (era, protocol) in ERAS {
        let Some(mut client) = client(era) else { return };
        client.arg(process::binary("openrouter-mcp").unwrap()).arg("--stdio");
        client.env("OPENROUTER_API_KEY", KEY).env("OpenRouter__BaseUrl", &upstream.url);
        client.env("NO_PROXY", "127.0.0.1").env("TOOLBUS_LOG", "trace");
        check_told(&run(client, steps()).await, protocol);
    }
}

/// What of a request its meaning is in.
fn meaning(asked: Vec<Asked>) -> Vec<Value> {
    let of = |asked: Asked| {
        let authorization = asked.header("authorization").to_owned();
        json!({
            "method": asked.method,
            "path": asked.path,
            "query": asked.query,
            "authorization": authorization,
            "accept": asked.header("accept"),
        })
    };
    asked.into_iter().map(of).collect()
}

#[tokio::test]
async fn requests_are_those_of_openrouters_own_client() {
    let Some(sdk) = openrouter::sdk() else { return };
    let upstream = Upstream::by_the_book().await;
    let program = Program::start(with_key(&upstream.url)).await;
    let mut command = sdk.command(include_str!("sdk.mjs"));
    command.args([&upstream.url, KEY, HASH, GENERATION]).env("NO_PROXY", "127.0.0.1");

    for told in run(command, String::new()).await {
        // It checks answers by the published schemas, so the server in OpenRouter's place is one.
        assert_eq!(
            told["problem"],
            Value::Null,
            "{}: {}",
            told["name"],
            told["problem"].as_str().unwrap()
        );
    }

    let of_sdk = meaning(upstream.asked());

    let some = json!({"q": "mini", "sort": "newest", "max_price": 0.5, "offset": 0, "limit": 1});
    let mut all = calls().map(|(tool, arguments, _)| (tool, arguments)).to_vec();
    all.insert(3, ("list_models", some));

    for (tool, arguments) in all {
        assert!(!program.call(tool, arguments).await.is_error, "{tool}");
    }

    assert_eq!(meaning(upstream.asked()), of_sdk);
}

#[tokio::test]
async fn a_part_of_the_models_is_asked_for_and_given() {
    let upstream = Upstream::by_the_book().await;
    let program = Program::start(with_key(&upstream.url)).await;
    let ids = |ended: Ended| {
        let list: Value = serde_json::from_str(&ended.text).unwrap();
        list["data"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect::<Vec<_>>()
    };

    let found = ids(program.call("list_models", json!({"q": "mini"})).await);
    assert_eq!(found, ["openai/gpt-9-mini", "anthropic/claude-mini"]);
    let found =
        ids(program.call("list_models", json!({"q": "mini", "limit": 1, "offset": 1})).await);
    assert_eq!(found, ["anthropic/claude-mini"]);
    assert_eq!(ids(program.call("list_models", json!({"limit": 2})).await).len(), 2);
    assert_eq!(upstream.asked().len(), 3, "each is one request");

    // A gateway that knows no pages sends them all.
    let gateway = Upstream::saying(|_| Say::Bytes(json_answer(200, MODELS))).await;
    let program = Program::start(with_key(&gateway.url)).await;
    let ended = program.call("list_models", json!({"limit": 1, "offset": 1})).await;
    let model = MODELS.lines().nth(2).unwrap().trim_end_matches(',');
    let expected = format!(r#"{{"data":[{model}],"total_count":3,"next_offset":2}}"#);
    assert_eq!(ended, Ended::success(&expected));
}

#[tokio::test]
async fn the_current_key_is_found_by_its_old_name_too() {
    let gateway = Upstream::saying(|asked| {
        Say::Bytes(match asked.path.as_str() {
            "/api/v1/auth/key" => json_answer(200, CURRENT_KEY),
            _ => answer(404, &[("content-type", "text/html")], "<html>"),
        })
    })
    .await;
    let program = Program::start(with_key(&gateway.url)).await;
    let ended = program.call("get_api_key_info", json!({})).await;
    assert_eq!(ended, Ended::success(CURRENT_KEY));
    let ended = program.call("get_credits", json!({})).await;
    assert_eq!(ended.error["httpStatus"], 404);
}

#[tokio::test]
async fn no_argument_leads_anywhere_else() {
    let upstream = Upstream::by_the_book().await;
    let program = Program::start(with_key(&upstream.url)).await;
    for hostile in ["../credits", "..%2fcredits", "a/b?c=d#e", "%2e%2e", "\\..\\", "//evil.example"]
    {
        let ended = program.call("get_api_key", json!({ "keyHash": hostile })).await;
        assert_eq!(ended.error["code"], "not_found", "{hostile}: {}", ended.text);
        let ended = program.call("get_generation", json!({ "generationId": hostile })).await;
        assert_eq!(ended.error["code"], "not_found", "{hostile}: {}", ended.text);
        let asked = upstream.asked();
        assert_eq!(asked.len(), 2, "{hostile}");
        let segment = asked[0].path.strip_prefix("/api/v1/keys/").unwrap();
        assert!(!segment.contains('/') && asked[0].query.is_empty(), "{asked:?}");
        assert_eq!(asked[1].query, [("id".to_owned(), hostile.to_owned())].into());
    }

    for refused in
        [json!({"keyHash": ".."}), json!({"keyHash": ""}), json!({}), json!({"keyHash": 1})]
    {
        let ended = program.call("get_api_key", refused).await;
        assert_eq!(ended.error["code"], "invalid_arguments", "{}", ended.text);
    }

    assert_eq!(upstream.asked(), []);
}
