//! CX-C4 and CX-C5: what an MCP client is told, line by line.

use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::BufReader;
use toolbus_discovery::DiscoveryDeps;
use toolbus_search::ToolIndex;
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::policy::AllowAll;
use toolbus_tools::{Door, Principal, Registry, Tool};
use toolbus_wire::name::AgentName;

use super::*;

/// A tool that needs an argument, and one that needs none and reads only.
fn tools() -> [Tool; 2] {
    let object = |required: &[&str]| json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": required});
    let weather = Tool::new("get_weather", "Tells the weather of a city – heute", "mcp:weather");
    let weather = weather.with_parameters(object(&["city"]));
    let clock = Tool::new("current_time", "Tells the current time of day", "mcp:clock");
    let clock = clock.with_parameters(object(&[])).read_only();
    [weather, clock]
}

fn gateway() -> SearchGateway {
    gateway_of(Arc::new(Registry::new()))
}

/// With these tools as well.
fn gateway_of(registry: Arc<Registry>) -> SearchGateway {
    for tool in tools() {
        let run = |_: Invocation| std::future::ready(Ok(Output::text("it is noon ".repeat(100))));
        registry.register(tool, run).expect("the names are free");
    }

    let discovery = Discovery::start(DiscoveryDeps {
        registry: Arc::clone(&registry),
        policy: Arc::new(AllowAll),
        index: ToolIndex::new(),
        store: None,
        splitter: None,
    });
    let scope = Scope::new(Door::CommandLine, Principal::local(), AgentName::standard());
    let invoker = Invoker::builder(registry).build();
    let scope = Arc::new(invoker.begin_run(scope));
    SearchGateway { discovery, invoker, scope }
}

/// What is answered to these lines.
async fn answers(input: &str) -> Vec<Value> {
    let (gateway, mut output) = (gateway(), Vec::new());
    let input = BufReader::new(input.as_bytes());
    let served = gateway.serve(input, &mut output, CancellationToken::new());
    served.await.expect("nothing fails");
    let text = String::from_utf8(output).expect("UTF-8");
    assert!(text.is_ascii(), "{text}");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn answer(request: Value) -> Value {
    let answered = answers(&format!("{request}\n")).await;
    let [answer] = answered.as_slice() else { panic!("{answered:?}") };
    assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &request["id"]));
    answer.clone()
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})
}

async fn call(tool: &str, arguments: Value) -> (String, bool) {
    let params = json!({"name": tool, "arguments": arguments});
    let result = answer(request("tools/call", params)).await["result"].clone();
    let text = result["content"][0]["text"].as_str().expect("a text").to_owned();
    (text, result["isError"].as_bool().expect("it says whether it is an error"))
}

#[tokio::test]
async fn cx_c4_a_client_learns_what_there_is() {
    let told = answer(request("initialize", json!({"protocolVersion": "2025-11-25"}))).await;
    assert_eq!(told["result"]["protocolVersion"], "2024-11-05");
    assert_eq!(answer(request("ping", json!({}))).await["result"], json!({}));

    let listed = answer(request("tools/list", json!({}))).await;
    let tools = listed["result"]["tools"].as_array().expect("tools").clone();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["execute_query", "discover_capabilities", "search_tools"]);
    assert_eq!(tools[2]["inputSchema"]["properties"]["top_k"]["default"], 5);
    let listed = answer(request("prompts/list", json!({}))).await;
    assert_eq!(listed["result"]["prompts"].as_array().map(Vec::len), Some(1));
    let listed = answer(request("resources/list", json!({}))).await;
    let uri = &listed["result"]["resources"][0]["uri"];
    let read = answer(request("resources/read", json!({"uri": uri}))).await;
    let text = read["result"]["contents"][0]["text"].as_str().expect("a text");
    assert!(text.contains("get_weather: Tells the weather of a city – heute"), "{text}");

    let params = json!({"name": "find_tools", "arguments": {"task": "the weather"}});
    let prompt = answer(request("prompts/get", params)).await;
    let text = prompt["result"]["messages"][0]["content"]["text"].as_str().expect("a text");
    assert!(text.ends_with(": the weather"), "{text}");
}

#[tokio::test]
async fn cx_c4_each_mistake_has_its_code() {
    for (line, code) in [
        ("{\"jsonrpc\": ".to_owned(), -32700),
        ("[]".to_owned(), -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":7}".to_owned(), -32600),
        (json!({"jsonrpc": "2.0", "id": {}, "method": "ping"}).to_string(), -32600),
        (request("tools/none", json!({})).to_string(), -32601),
        (request("tools/call", json!({"name": "none"})).to_string(), -32601),
        (request("tools/call", json!([1])).to_string(), -32602),
        (request("prompts/get", json!({"name": "none"})).to_string(), -32602),
        (request("prompts/get", json!({"name": "find_tools"})).to_string(), -32602),
        (request("resources/read", json!({"uri": "toolbus://none"})).to_string(), -32602),
        ("x".repeat(LINE_BYTES_MAX + 2), -32600),
    ] {
        // What follows is answered all the same.
        let answered = answers(&format!("{line}\n{}\n", request("ping", json!({})))).await;
        let shown: String = line.chars().take(100).collect();
        assert_eq!(answered[0]["error"]["code"], code, "{shown}");
        assert_eq!(answered[1]["result"], json!({}), "{shown}");
    }
}

#[tokio::test]
async fn cx_c4_notifications_and_empty_lines_get_no_answer() {
    let lines = [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        json!({"jsonrpc": "2.0", "method": "none"}).to_string(),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}).to_string(),
        String::new(),
        "  ".to_owned(),
    ];
    assert_eq!(answers(&lines.join("\n")).await, Vec::<Value>::new());
}

#[tokio::test]
async fn cx_c5_an_empty_query_is_an_error_of_the_tool() {
    for tool in ["search_tools", "execute_query"] {
        for arguments in [json!({}), json!({"query": "  "}), json!({"query": 1})] {
            let (text, is_error) = call(tool, arguments).await;
            assert!(is_error && text.starts_with("query "), "{tool}: {text}");
        }
    }
    let (text, is_error) = call("discover_capabilities", json!({})).await;
    assert!(!is_error && text.lines().count() == 2, "{text}");
    let (text, is_error) = call("search_tools", json!({"query": "a", "top_k": 51})).await;
    assert!(is_error && text.starts_with("limit "), "{text}");
}

/// Rule 23 of 3c.
#[tokio::test]
async fn rule_3c_23_a_plan_stops_where_input_is_needed() {
    let (text, is_error) = call("search_tools", json!({"query": "weather of a city"})).await;
    assert!(!is_error && text.starts_with("1. get_weather (weather, "), "{text}");

    let query = "tell the current time of day, then get the weather of a city, then tell the \
                 current time of day";
    let (text, is_error) = call("execute_query", json!({"query": query})).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(!is_error && lines.len() == 3, "{text}");
    assert!(lines[0].contains("current_time: it is noon") && lines[0].ends_with("..."), "{text}");
    assert!(lines[0].chars().count() < 400, "{text}");
    assert!(lines[1].ends_with("get_weather needs city"), "{text}");
    assert!(lines[2].ends_with("skipped, since step 2 is not done"), "{text}");
}

/// The words of a task are no wish that it is done.
#[tokio::test]
async fn a_tool_that_is_not_read_only_is_named_and_not_run() {
    let ran = Arc::new(AtomicUsize::new(0));
    let registry = Arc::new(Registry::new());
    let wipe = Tool::new("wipe_database", "Deletes the customer database", "mcp:warehouse");
    let count = Arc::clone(&ran);
    let run = move |_: Invocation| {
        count.fetch_add(1, Ordering::Relaxed);
        std::future::ready(Ok(Output::text("wiped")))
    };
    registry.register(wipe, run).expect("the name is free");

    let gateway = gateway_of(registry);
    let execute = async |query: &str| {
        let params = json!({"name": "execute_query", "arguments": {"query": query}});
        let line = request("tools/call", params).to_string();
        let reply = gateway.answer(line.as_bytes()).await.expect("an answer").into_line();
        let reply: Value = serde_json::from_str(&reply).expect("JSON");
        reply["result"]["content"][0]["text"].as_str().expect("a text").to_owned()
    };
    let text = execute("do not delete the customer database").await;
    let expected = "1. do not delete the customer database: wipe_database fits and was not run, \
                    since it is not declared read-only. Call it by its name: agent-host exec \
                    warehouse/wipe_database";
    assert_eq!(text, expected);
    let query = "tell the current time of day, then delete the customer database, then tell the \
                 current time of day";
    let text = execute(query).await;
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].contains("current_time: it is noon"), "{text}");
    assert!(lines[1].contains("wipe_database fits and was not run"), "{text}");
    assert!(lines[2].ends_with("skipped, since step 2 is not done"), "{text}");
    assert_eq!(ran.load(Ordering::Relaxed), 0);
}
