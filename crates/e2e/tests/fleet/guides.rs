//! Guides: a model that reads all of them and makes every call that they show gets results.
//!
//! The model is a script that follows what it reads; everything else is the fleet in one process,
//! with real MCP servers, the local sandbox and a store. What a model is told beside guides, the
//! definitions of all tools, is compared with a page of this folder.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_testkit::eventually;
use toolbus_testkit::mcp as servers;
use toolbus_testkit::process::Launch;
use toolbus_testkit::scripted_server::{Asked, Reply, Server};

use crate::agent::{answer, launch, settings};
use crate::support::{LIMIT, Servers, as_told, assert_single_types};

/// The guides of the fleet, as models are told of them.
const INDEX: &str = "\
Available tool guides (11):
- artifacts: Ask about a large result that you got by reference: head, grep, jq, SQL, slices
- chains: Call many tools in one Python program, with loops and without reading each result
- mcp: Reach external services through MCP servers: find, inspect and call their tools
- memory: Remember facts, rules and the time zone of a person across sessions
- scheduling: Do something later, or again and again, at the times of a cron expression
- scripts: Run Python in an isolated sandbox: calculation, parsing, data work
- service-search: Find the MCP server or agent for a task in one search
- skills: Write down how something is done, and find it again in later sessions
- subagent: Split your work among subagents, which work at the same time, and share a whiteboard with them
- wisp: Run pipelines of steps in one call: tools, scripts, the web, agents, a model
- working-memory: Keep results and notes of this session for a while, and read them in parts";

/// How long the turn may take: some sixty calls.
const TURN_TIMEOUT: Duration = LIMIT.saturating_mul(3);
/// Longest guide, in bytes: a model reads all of it before it does anything.
const GUIDE_BYTES_MAX: usize = 3_000;
/// What models find and read guides with: these explain themselves.
const WITHOUT_GUIDE: [&str; 3] = ["list_tool_guides", "get_tool_guide", "tool_search"];
/// The tool that subagents alone have.
const INSIDE_ALONE: &str = "report_progress";
/// The tool that is there last: it comes with the MCP server that is the last to start.
const LAST_TOOL: &str = "mcp_read_resource";
/// How often the model waits for it, for 200 ms each time.
const WAITS_MAX: usize = 40;

/// What stands in guides for what a model has: the name of its artifact, the ids of its memory and
/// its subagent, the address of its server.
const ARTIFACT: &str = "art_5f0c1e…";
const MEMORY: &str = "0123456789ab";
const SUBAGENT: &str = "3f9c01ab77de";
const ADDRESS: &str = "https://docs.example.com/mcp";

/// Results that say that there is nothing: an example should come to something.
const NOTHING: [&str; 7] = [
    "not found",
    "No memor",
    "No rule found",
    "No tool named",
    "No working memory entries",
    "No skills fit",
    "Unknown timezone",
];

/// Prints more than a model reads: lines of JSON about things that are open or closed.
const LONG: &str = "\
import json
for n in range(5000):
    print(json.dumps({'id': n, 'state': ['open', 'closed'][n % 2], 'error': 'connection refused'}))";

/// A call that the model is to make.
#[derive(Debug, Clone)]
struct Step {
    /// The guide that shows it; empty where the model makes it by itself.
    guide: String,
    tool: String,
    arguments: Value,
}

/// A model that reads every guide and does what they show, one call at a time.
#[derive(Default)]
struct Follower {
    planned: VecDeque<Step>,
    under_way: Option<Step>,
    waits: usize,
    index: String,
    /// The guides, by name.
    pages: Vec<(String, String)>,
    /// What was called for a guide, and its result.
    called: Vec<(Step, String)>,
    faults: Vec<String>,
    /// What stands for what, so far.
    samples: Vec<(&'static str, String)>,
    /// The definitions that the last request had.
    tools: Vec<Value>,
}

impl Step {
    fn new(guide: &str, tool: &str, arguments: Value) -> Self {
        Self { guide: guide.to_owned(), tool: tool.to_owned(), arguments }
    }

    fn script(source: &str) -> Self {
        Self::new("", "execute_python_script", json!({"script": source}))
    }
}

impl Follower {
    /// The next answer of the model.
    fn answer(&mut self, asked: &Asked) -> Reply {
        let asked = &as_told(asked);
        self.tools = asked.body["tools"].as_array().cloned().unwrap_or_default();
        let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
        // What subagents report may stand behind it.
        let last = messages.iter().rfind(|message| message["role"] == "tool");
        if let (Some(step), Some(result)) = (self.under_way.take(), last) {
            self.read(step, result["content"].as_str().unwrap_or_default());
        }

        let has_begun = !self.index.is_empty() || !self.planned.is_empty();
        if !has_begun && self.waits < WAITS_MAX && !self.offers(LAST_TOOL) {
            self.waits += 1;
            self.planned.push_back(Step::script("import time\ntime.sleep(0.2)"));
        } else if !has_begun {
            self.planned.push_back(Step::script(LONG));
            self.planned.push_back(Step::new("", "list_tool_guides", json!({})));
        }

        let Some(step) = self.planned.pop_front() else { return answer("Done.", &[]) };
        let mut written = step.arguments.to_string();
        for (sample, own) in &self.samples {
            written = written.replace(sample, own);
        }
        let arguments = serde_json::from_str(&written).expect("names are plain texts");
        let reply = answer("", &[(&step.tool, arguments)]);
        self.under_way = Some(step);
        reply
    }

    /// Takes the result of a call, and plans what follows from it.
    fn read(&mut self, step: Step, result: &str) {
        let mut learn = |sample, before: &str, end: char| {
            if let Some((_, rest)) = result.split_once(before) {
                let own = rest.split(end).next().unwrap_or_default();
                self.samples.push((sample, own.to_owned()));
            }
        };
        if step.guide.is_empty() {
            learn(ARTIFACT, "{\"$artifact\":\"", '"');
        }
        learn(MEMORY, "Memory saved with id '", '\'');
        learn(SUBAGENT, "Subagent spawned with task_id: ", '.');

        match &*step.tool {
            "list_tool_guides" => {
                result.clone_into(&mut self.index);
                for line in result.lines().filter_map(|line| line.strip_prefix("- ")) {
                    let name = line.split(": ").next().unwrap_or_default();
                    let read = Step::new("", "get_tool_guide", json!({"name": name}));
                    self.planned.push_back(read);
                }
            }
            "get_tool_guide" => {
                let guide = step.arguments["name"].as_str().unwrap_or_default();
                self.pages.push((guide.to_owned(), result.to_owned()));
                match examples(result) {
                    Ok(examples) if examples.is_empty() => {
                        self.faults.push(format!("{guide}: it shows no call"));
                    }
                    Ok(examples) => {
                        let is_called = |(tool, _): &(String, Value)| tool != INSIDE_ALONE;
                        let steps = examples.into_iter().filter(is_called);
                        let steps = steps.map(|(tool, call)| Step::new(guide, &tool, call));
                        self.planned.extend(steps);
                    }
                    Err(fault) => self.faults.push(format!("{guide}: {fault}")),
                }
            }
            _ if !step.guide.is_empty() => self.called.push((step, result.to_owned())),
            _ => {}
        }
    }

    fn offers(&self, tool: &str) -> bool {
        self.offered().any(|name| name == tool)
    }

    fn offered(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().filter_map(|tool| tool["function"]["name"].as_str())
    }

    /// What is wrong with the guides.
    fn faults(&self) -> Vec<String> {
        let mut faults = self.faults.clone();
        for (guide, page) in &self.pages {
            if page.len() > GUIDE_BYTES_MAX {
                faults.push(format!("{guide}: its {} bytes are too many", page.len()));
            }
        }

        for (Step { guide, tool, arguments }, result) in &self.called {
            let call = format!("{guide}: {tool} {arguments}: {result}");
            if !self.offers(tool) {
                faults.push(format!("there is no such tool: {call}"));
            } else if result.starts_with("Error: ") {
                faults.push(format!("it fails: {call}"));
            } else if result.trim().is_empty()
                || NOTHING.iter().any(|nothing| result.contains(nothing))
            {
                faults.push(format!("it comes to nothing: {call}"));
            }
        }

        let shown: BTreeSet<&str> = self.called.iter().map(|(step, _)| &*step.tool).collect();
        let unshown = self.offered().filter(|tool| !shown.contains(tool));
        let unshown = unshown.filter(|tool| !WITHOUT_GUIDE.contains(tool));
        faults.extend(unshown.map(|tool| format!("no guide shows {tool}")));
        faults
    }
}

/// The calls that a guide shows: each line of a fenced block is the name of a tool and its
/// arguments. There are no other blocks, and no calls elsewhere.
fn examples(page: &str) -> Result<Vec<(String, Value)>, String> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for line in page.lines() {
        if let Some(kind) = line.strip_prefix("```") {
            is_fenced = !is_fenced;
            if !kind.is_empty() {
                return Err(format!("a block of calls has no kind: {line}"));
            }
        } else if is_fenced {
            let call = line.split_once(' ').ok_or_else(|| format!("no call: {line}"))?;
            let arguments: Value =
                serde_json::from_str(call.1).map_err(|error| format!("{error}: {line}"))?;
            found.push((call.0.to_owned(), arguments));
        } else if line.contains(" {\"") {
            return Err(format!("a call outside of a block: {line}"));
        }
    }
    if is_fenced { Err("a block has no end".to_owned()) } else { Ok(found) }
}

#[test]
fn calls_in_guides_are_lines_of_blocks() {
    let check = |page: &str, expected: &str| {
        let found = examples(page);
        assert!(format!("{found:?}").contains(expected), "{found:?}");
    };
    check(
        "# A\ntext `{\"a\": 1}`\n```\na {}\nb {\"c\": \"{\"}\n```\n",
        "[(\"a\", Object {}), (\"b\"",
    );
    check("text", "Ok([])");
    check("```json\n{}\n```", "has no kind");
    check("```\na\n```", "no call: a");
    check("```\na {'b': 1}\n```", "key must be a string");
    check("```\na {}", "no end");
    check("use `a {\"b\": 1}`", "outside of a block");
}

#[tokio::test]
async fn every_call_that_a_guide_shows_gives_a_result() {
    let (Some(time), Some(everything)) = (servers::time(), servers::everything_stdio()) else {
        return;
    };
    let Some(docs) = servers::everything_http().await else { return };
    let servers = Servers::with(&[("time", time.to_json()), ("everything", everything.to_json())]);

    let follower = Follower { samples: vec![(ADDRESS, docs.url())], ..Follower::default() };
    let follower = Arc::new(Mutex::new(follower));
    let model = Arc::clone(&follower);
    let server = Server::answering(move |asked| match asked.body.get("tools") {
        Some(_) if !is_of_subagent(asked) => model.lock().answer(asked),
        // A subagent, a step of a wisp, or a skill that was saved and is to be summed up.
        _ => answer("A line.", &[]),
    })
    .await;
    let folder = settings(&server);
    let asked = launch(folder.path(), &["ask", "Read all guides and do what they show."])
        .arg("--mcp-config")
        .arg(servers.file())
        .env("TOOLBUS_AGENT__ROUNDS_MAX", "100")
        .env("TOOLBUS_MCP__REGISTRATION", "any")
        .env("TOOLBUS_MCP__ALLOW_PRIVATE_REGISTRATION", "true")
        .run(TURN_TIMEOUT)
        .await
        .unwrap();

    let follower = follower.lock();
    // Once more for each subagent that ended late.
    let is_done = asked.stdout.split_whitespace().all(|word| word == "Done.");
    assert!(is_done && !asked.stdout.is_empty(), "{asked:?} {:?}", follower.called.last());
    assert_eq!(follower.index, INDEX);
    let faults = follower.faults();
    assert!(faults.is_empty(), "{faults:#?}");
}

fn is_of_subagent(asked: &Asked) -> bool {
    let told = asked.body["messages"][1]["content"].as_str();
    told.is_some_and(|told| told.starts_with("[You are a subagent"))
}

/// What models are told of each tool: its description, and each of its arguments in a line.
#[tokio::test]
async fn every_definition_is_the_one_on_the_page() {
    let (Some(time), Some(everything)) = (servers::time(), servers::everything_stdio()) else {
        return;
    };
    let servers = Servers::with(&[("time", time.to_json()), ("everything", everything.to_json())]);
    let listed = eventually(LIMIT, async || {
        let tools = Launch::new("agent-host").args(["tools", "--json", "--mcp-config"]);
        let run = tools.arg(servers.file()).run(LIMIT).await?;
        let listed: Value = serde_json::from_str(&run.stdout)?;
        let tools = listed["tools"].as_array().cloned().unwrap_or_default();
        // Without it the command was not waiting for a server that is slow to start.
        ensure!(tools.iter().any(|tool| tool["name"] == LAST_TOOL), "{run:?}");
        anyhow::Ok(tools)
    })
    .await;
    assert_single_types(&Value::from(listed.clone()));
    let mut pages: Vec<String> = listed.iter().map(describe_tool).collect();
    pages.sort();
    insta::assert_snapshot!("definitions", pages.join("\n"));
}

fn describe_tool(tool: &Value) -> String {
    let text = |name: &str| tool[name].as_str().unwrap_or_default();
    let reads = tool["annotations"]["readOnly"] == true;
    let mut page = format!("# {} ({}", text("name"), text("source"));
    page.push_str(if reads { ", read-only)\n" } else { ")\n" });
    page.push_str(&format!("{}\n", text("description")));

    let mut schema = tool["parameters"].as_object().cloned().unwrap_or_default();
    for (name, property) in tool["parameters"]["properties"].as_object().into_iter().flatten() {
        page.push_str(&format!("- {name}: {property}\n"));
    }
    schema.retain(|name, _| name != "properties");
    let schema = Value::Object(schema);
    page.push_str(&format!("{schema}\n"));
    page
}
