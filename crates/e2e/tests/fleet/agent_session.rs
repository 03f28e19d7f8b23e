//! A long session of the agent: 30 turns on RabbitMQ, which use every tool that there is, with the
//! four programs as processes that are killed in the middle.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_testkit::process::Service;
use toolbus_testkit::scripted_server::{Asked, Part, Reply, Server};
use toolbus_testkit::{eventually, mcp, rabbit};

use super::agent::{answer, script, settings};
use super::telemetry::servers::instrumented;
use crate::support::*;

type Calls = Vec<(&'static str, Value)>;

/// Turns of which the process is killed once the results of their calls are there.
const KILLED: [usize; 3] = [3, 14, 26];
/// Turns before which another service is.
const BRIDGE_KILLED: usize = 27;
const MANAGER_KILLED: usize = 21;

/// What the model calls in each turn, as far as it does not depend on what it was told.
fn turns(clock: &mcp::StdioServer) -> Vec<Calls> {
    let key = |key: &str| json!({"key": key});
    let saved =
        |key: &str, data: &str| ("save_to_working_memory", json!({"key": key, "data": data}));
    let rows =
        "import json\nfor n in range(20000): print(json.dumps({'n': n, 'even': n % 2 == 0}))";
    let chain = "one = tools.save_to_working_memory(key='from-chain', data='made by a chain')\n\
                 print(tools.get_from_working_memory(key='from-chain'))";
    let theirs = json!({"server_name": "clock", "command": clock.command,
                        "arguments": clock.args.join(" ")});
    let later = json!({"name": "new-year", "cron": "0 0 1 1 *", "description": "Wish luck."});
    let marks = |tool: &str| json!({"server_name": "marks", "tool_name": tool, "arguments": {}});
    vec![
        vec![("list_tool_guides", json!({}))],
        vec![("get_tool_guide", json!({"name": "chains"}))],
        vec![("tool_search", json!({"query": "remember something"}))],
        vec![script("import uuid\nprint(uuid.uuid4())")],
        vec![saved("notes/plan", "buy milk"), saved("gone", "soon")],
        vec![("get_from_working_memory", key("notes/plan"))],
        vec![("search_working_memory", json!({"query": "milk"}))],
        vec![("delete_from_working_memory", key("gone"))],
        vec![("list_working_memory", json!({}))],
        vec![("save_memory", json!({"content": "The user likes tea.", "category": "drinks"}))],
        vec![("search_memory", json!({"query": "tea"}))],
        vec![("list_categories", json!({}))],
        vec![],
        vec![("add_rule", json!({"rule": "Be brief."})), ("add_rule", json!({"rule": "Shout."}))],
        vec![
            ("remove_rule", json!({"rule": "Shout."})),
            script("import uuid\nprint(uuid.uuid4())"),
        ],
        vec![("list_rules", json!({}))],
        vec![("set_timezone", json!({"timezoneId": "Europe/Berlin"}))],
        vec![("save_skill", json!({"name": "tea", "content": "# Tea\n\nBoil water."}))],
        vec![("get_skill", json!({"name": "tea"})), ("list_skills", json!({}))],
        vec![("delete_skill", json!({"name": "tea"})), ("schedule_task", later)],
        vec![script(rows)],
        vec![],
        vec![],
        vec![("tool_chain", json!({"code": chain}))],
        calls_of_agents(),
        vec![
            ("mcp_list_services", json!({})),
            ("mcp_get_service_details", json!({"server_name": "marks"})),
        ],
        vec![
            ("mcp_invoke_tool", marks("mark")),
            (
                "mcp_invoke_tool",
                json!({"server_name": "openrouter", "tool_name": "get_credits",
                                        "arguments": {}}),
            ),
        ],
        vec![("mcp_register_server", theirs)],
        vec![
            ("mcp_unregister_server", json!({"server_name": "clock"})),
            ("cancel_scheduled_task", json!({"name": "new-year"})),
        ],
        vec![
            ("list_working_memory", json!({})),
            ("list_rules", json!({})),
            ("list_skills", json!({})),
            ("list_categories", json!({})),
            ("spawn_subagent", json!({"description": "Wait."})),
        ],
    ]
}

/// Calls that find others, and have them work.
fn calls_of_agents() -> Calls {
    let step = json!({"id": "sum", "mode": "Direct", "gateway": "Script",
                      "params": {"script": "print(6 * 7)"}});
    let wisp = json!({"description": "Count.", "steps": [step]});
    let nobody = json!({"agent_name": "nobody", "skill": "sums", "message": "Add."});
    vec![
        ("search_known_services", json!({"query": "leave a mark"})),
        ("list_scheduled_tasks", json!({})),
        ("list_known_agents", json!({})),
        ("get_agent_details", json!({"agent_name": "nobody"})),
        ("invoke_agent", nobody),
        ("list_subagents", json!({})),
        ("cancel_subagent", json!({"task_id": "0123456789ab"})),
        ("whiteboard_write", json!({"key": "sum", "value": "42"})),
        ("whiteboard_read", json!({"key": "sum"})),
        ("whiteboard_list", json!({})),
        ("whiteboard_delete", json!({"key": "sum"})),
        ("spawn_wisps", json!({"definitions": [wisp]})),
    ]
}

/// What the model calls where it depends on what it was told.
fn calls_of(turn: usize, turns: &[Calls], messages: &[Value]) -> Calls {
    let told = |wanted: &str| -> String {
        let texts = messages.iter().filter(|message| message["role"] == "tool");
        let texts = texts.filter_map(|message| message["content"].as_str());
        let found = texts.filter_map(|text| text.split(wanted).nth(1)).next_back();
        let rest = found.unwrap_or_else(|| panic!("nothing was told of {wanted}")).to_owned();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-');
        rest[..end.unwrap_or(rest.len())].to_owned()
    };
    match turn {
        12 => {
            let id = told("saved with id '");
            vec![("delete_memory", json!({"id": id}))]
        }
        21 => {
            let artifact = format!("art_{}", told("art_"));
            vec![
                ("artifact_head", json!({"artifact": artifact, "lines": 2})),
                ("artifact_slice", json!({"artifact": artifact, "from_line": 3, "lines": 1})),
                ("artifact_grep", json!({"artifact": artifact, "pattern": "19999"})),
            ]
        }
        22 => {
            let artifact = format!("art_{}", told("art_"));
            let statement = "SELECT count(*) AS count FROM data WHERE even";
            vec![
                ("artifact_jq", json!({"artifact": artifact, "filter": "select(.n == 7)"})),
                ("artifact_sql", json!({"artifact": artifact, "statement": statement})),
            ]
        }
        _ => turns[turn].clone(),
    }
}

/// The model: it knows the turn by what the user says, and what was called by the results.
struct Script {
    turns: Vec<Calls>,
    /// Turns whose answer is held back until the process is killed that waits for it.
    held_back: Arc<Mutex<BTreeSet<usize>>>,
}

impl Script {
    fn reply(&self, asked: &Asked) -> Reply {
        let asked = &as_told(asked);
        let messages = asked.body["messages"].as_array().unwrap();
        let is_said = |message: &Value| {
            message["role"] == "user" && message["content"].as_str().unwrap().starts_with("turn ")
        };
        if messages.iter().any(is_of_subagent) {
            return Reply::events([": nothing yet\n\n"]).then(Part::Hang);
        }
        // A skill was saved, and is to be summed up.
        let Some(at) = messages.iter().rposition(is_said) else {
            return answer("How tea is made.", &[]);
        };
        let turn: usize = messages[at]["content"].as_str().unwrap()[5..].parse().unwrap();
        if !messages[at..].iter().any(|message| message["role"] == "tool") {
            return answer("", &calls_of(turn, &self.turns, messages));
        }
        if self.held_back.lock().remove(&turn) {
            return Reply::events([": nothing yet\n\n"]).then(Part::Hang);
        }
        answer(&format!("turn {turn} is done"), &[])
    }
}

fn is_of_subagent(message: &Value) -> bool {
    message["content"].as_str().is_some_and(|text| text.starts_with("[You are a subagent"))
}

/// What the model was asked last in the session.
fn last_of_session(server: &Server) -> Asked {
    let is_of_session =
        |asked: &Asked| !asked.body["messages"].as_array().unwrap().iter().any(is_of_subagent);
    server.asked().iter().map(as_told).rfind(is_of_session).unwrap()
}

/// The results of the calls of a turn, as the model was told them last.
fn results(server: &Server, turn: usize) -> Vec<String> {
    results_in(&last_of_session(server), turn)
}

/// The same, as it was told them in this request.
fn results_in(asked: &Asked, turn: usize) -> Vec<String> {
    let said = format!("turn {turn}");
    let messages = asked.body["messages"].as_array().unwrap();
    let Some(at) = messages.iter().position(|message| message["content"] == said.as_str()) else {
        return Vec::new();
    };
    let results = messages[at + 1..].iter().take_while(|message| !is_turn(message));
    let results = results.filter(|message| message["role"] == "tool");
    results.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

fn is_turn(message: &Value) -> bool {
    message["role"] == "user" && message["content"].as_str().unwrap().starts_with("turn ")
}

async fn start_agent(bus: &str, folder: &Path) -> Service {
    let config = folder.join("toolbus.toml");
    let launch = launch("agent-host", bus).arg("--config").arg(config).arg("serve");
    start(launch.env("TOOLBUS_ARTIFACTS__ENABLED", "true")).await
}

#[tokio::test]
async fn thirty_turns_use_every_tool_and_outlive_their_processes() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let Some(clock) = mcp::time() else { return };
    let bus = vhost.amqp_url();
    let credits = include_str!("../../../openrouter-mcp/tests/openrouter/answers/credits.json");
    let credits: Value = serde_json::from_str(credits).unwrap();
    let account = Server::answering_any(move |_| Reply::json(200, &credits)).await;
    let upstream = account.url.trim_end_matches("/v1").to_owned();
    let (_openrouter, openrouter) =
        instrumented(|launch| launch.env("TOOLBUS_OPENROUTER__BASE_URL", upstream)).await;
    let servers = Servers::with(&[("openrouter", json!({"type": "http", "url": openrouter}))]);
    let start_bridge = async || {
        let launch = launch("mcp-bridge", &bus)
            .env("TOOLBUS_MCP__CONNECT_TIMEOUT", "2m")
            .arg("--mcp-config")
            .arg(servers.file());
        let launch = launch.env("TOOLBUS_MCP__ALLOW_STDIO_REGISTRATION", "true");
        start(launch.env("TOOLBUS_MCP__SANDBOX_REGISTERED", "false")).await
    };

    let held_back = Arc::new(Mutex::new(KILLED.into_iter().collect::<BTreeSet<_>>()));
    let all = turns(&clock);
    let model = Script { turns: all.clone(), held_back: Arc::clone(&held_back) };
    let model = Server::answering(move |asked| model.reply(asked)).await;
    let folder = settings(&model);

    let mut manager = scripts(&bus).await;
    let mut bridge = start_bridge().await;
    let mut agent = start_agent(&bus, folder.path()).await;
    // An agent that takes tasks and does none.
    let user = Stranger::new(&vhost, &["agent.task.nobody"]).await;

    let mut answers = Vec::new();
    for turn in 0..all.len() {
        if turn == MANAGER_KILLED {
            manager.process().kill();
            manager = scripts(&bus).await;
        }
        if turn == BRIDGE_KILLED {
            bridge.process().kill();
            bridge = start_bridge().await;
        }

        let said = json!({"content": format!("turn {turn}"), "sessionId": "long", "userId": "u1"});
        let kind = "RockBot.UserProxy.UserMessage";
        user.send(&Frame::new("user.message", kind, said.to_string())).await;
        if KILLED.contains(&turn) {
            eventually(LIMIT, async || match held_back.lock().contains(&turn) {
                false => Ok(()),
                true => Err("its results are not there yet"),
            })
            .await;
            agent.process().kill();
            agent = start_agent(&bus, folder.path()).await;
        }
        let reply = user.take(ANSWERS, 1).await.remove(0);
        let reply: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!(reply["content"], format!("turn {turn} is done"), "{reply}");
        answers.push(reply);
    }

    check_tools(&model);
    check_state(&model, &servers);
    let history = json!({"sessionId": "long"}).to_string();
    let kind = "RockBot.UserProxy.ConversationHistoryRequest";
    user.send(&Frame::new("user.history.request", kind, history)).await;
    let history = user.take(ANSWERS, 1).await.remove(0);
    let history: Value = serde_json::from_slice(&history.body).unwrap();
    assert_eq!(history["turns"].as_array().unwrap().len(), 2 * all.len());
    assert_eq!(history["turns"][59]["content"], "turn 29 is done");
    drop((manager, bridge, agent));
}

/// Every tool that was offered was called, and no result is a failure.
fn check_tools(model: &Server) {
    let last = &last_of_session(model).body;
    let name = |tool: &Value| tool["function"]["name"].as_str().unwrap().to_owned();
    let offered: BTreeSet<_> = last["tools"].as_array().unwrap().iter().map(name).collect();
    let messages = last["messages"].as_array().unwrap();
    let calls = messages.iter().filter_map(|message| message["tool_calls"].as_array()).flatten();
    let called: BTreeSet<_> = calls.map(name).collect();
    assert_eq!(called, offered);
    for result in messages.iter().filter(|message| message["role"] == "tool") {
        let text = result["content"].as_str().unwrap();
        assert!(!text.starts_with("Error"), "{text}");
    }
}

fn check_state(model: &Server, servers: &Servers) {
    let told = |turn: usize, at: usize, expected: &str| {
        let results = results(model, turn);
        assert!(results[at].contains(expected), "turn {turn}: {results:?}");
    };
    told(6, 0, "buy milk");
    told(10, 0, "The user likes tea.");
    told(20, 0, "art_");
    told(21, 0, "{\"n\": 1, \"even\": false}");
    told(21, 1, "{\"n\": 2, \"even\": true}");
    told(21, 2, "{\"n\": 19999, \"even\": false}");
    told(22, 0, "{\"n\":7,\"even\":false}");
    told(22, 1, "10000");
    told(23, 0, "made by a chain");
    told(24, 0, "marks");
    told(24, 1, "new-year");
    told(26, 0, "mark: done");
    told(26, 1, "credits");
    told(29, 0, "notes/plan");
    told(29, 0, "from-chain");
    told(29, 1, "Be brief.");
    told(29, 2, "No skills");

    // What was done before a process was killed was not done again.
    assert_eq!(servers.marks(), ["mark"]);
    let state = results(model, 29);
    assert!(!state[0].contains("gone") && !state[1].contains("Shout."), "{state:?}");
    for turn in KILLED {
        let asked = told_of(model, turn);
        assert!(asked.len() > 2 && asked.iter().all(|results| *results == asked[0]), "{asked:?}");
    }
}

/// What the model was told of a turn, each time that it was told something.
fn told_of(model: &Server, turn: usize) -> Vec<Vec<String>> {
    let told =
        model.asked().iter().map(|asked| results_in(&as_told(asked), turn)).collect::<Vec<_>>();
    told.into_iter().filter(|results| !results.is_empty()).collect()
}
