//! `demo`: the embedded fleet at work, each line explained.
//!
//! Nothing here is staged: every line is a call through the same invoker, bus, bridge and sandbox
//! as any other, and what is printed is what came back.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures_util::future::join;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use toolbus_approvals::{Answer, ApprovalState, Approve};
use toolbus_policy::Preset;
use toolbus_runtime::service::{BoxError, Context, Exit};
use toolbus_tools::call::{Call, Outcome};
use toolbus_tools::scope::Principal;
use toolbus_wire::ErrorCode;
use toolbus_wire::envelope::new_id;

use super::one_shot::{NeededServers, OneShot};
use crate::settings::Settings;
use crate::terminal_text;

/// How long the demo's MCP server may take to come up.
const SERVER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a call may take to wait for its approval, and how often it is looked whether it does.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Most characters of a result that are shown.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// A program over tools.
const PROGRAM: &str = "\
large = tools.execute_python_script(script=\"print('x' * 200_000)\")
count = \"import os; print(len(os.environ['ROCKBOT_INPUT']))\"
length = tools.execute_python_script(script=count, input_data=large)
return f'{length.text.strip()} characters went by reference: {large.ref is not None}'";

pub(super) async fn run(mut settings: Settings, context: &Context) -> Result<Exit, BoxError> {
    // The demo shows what this machine does by itself, whatever is configured beside it.
    settings.bus.url = None;
    let preset = settings.policy.preset;
    let folder = demo_server(&mut settings)?;
    ask_for_letters(&mut settings, &folder);
    let one_shot = OneShot::start(&settings, context, NeededServers::None).await?;
    let stage = Stage { one_shot: &one_shot, stop: context.shutdown.requested().clone() };
    let went_well = run_steps(&stage).await;
    write_line(&describe_preset(preset));
    one_shot.stop().await;
    // The system cleans its folder for temporary files; nothing depends on this one being gone.
    let _ = std::fs::remove_dir_all(folder);
    Ok(if went_well { Exit::SUCCESS } else { Exit::FAILURE })
}

async fn run_steps(stage: &Stage<'_>) -> bool {
    write_line(
        "This is the whole fleet in one process: an agent's tools, a message bus, an MCP bridge \
         and a Python sandbox. Each line below is a real call that crosses the bus.\n",
    );
    stage.one_shot.toolbus().wait_for_servers(SERVER_TIMEOUT).await;
    stage.one_shot.wait_for_tool("mcp_invoke_tool").await;

    let tools = stage.one_shot.toolbus().tools();
    let names: Vec<_> = tools.tools().iter().map(|entry| entry.tool.name.as_str()).collect();
    write_line(&format!("{} tools are there: {}.\n", names.len(), names.join(", ")));

    let mut went_well = true;
    for step in demo_steps().into_iter().chain(letter_steps()) {
        went_well &= stage.show_step(step).await;
    }

    write_line(
        "Try it yourself:\n  agent-host invoke execute_python_script '{\"script\": \"print(6 * 7)\"}'\n  \
         agent-host tools\nMCP servers go into mcp.json, a broker into --bus. See --help.",
    );

    went_well
}

/// Describes the preset that is active for agents outside this demo.
fn describe_preset(preset: Option<Preset>) -> String {
    match preset {
        Some(preset) => format!(
            "In turns of an agent, the preset {preset} of the policy says which calls run and \
             which need an approval: `agent-host policy show` prints it."
        ),
        None => "In turns of an agent, the rules of the settings say which calls run: `agent-host \
                 policy show` prints them."
            .to_owned(),
    }
}

/// One call of the demo, and what is expected of it.
struct DemoStep {
    why: &'static str,
    tool: &'static str,
    arguments: Value,
    /// What a person says who is asked about it meanwhile.
    answer: Option<Approve>,
    expect: fn(&Outcome) -> bool,
}

fn demo_steps() -> Vec<DemoStep> {
    let script = |source: &str| json!({"script": source});

    vec![
        DemoStep {
            why: "Python in a sandbox of its own: input goes in, what is printed comes back.",
            tool: "execute_python_script",
            arguments: json!({
                "script": "import os, statistics\n\
                           numbers = [float(n) for n in os.environ['ROCKBOT_INPUT'].split()]\n\
                           print('mean', statistics.mean(numbers))",
                "input_data": "40 41.5 44.5",
            }),
            answer: None,
            expect: |outcome| has_text(outcome, "mean 42.0"),
        },
        DemoStep {
            why: "The sandbox has no network: a script that calls home gets nowhere.",
            tool: "execute_python_script",
            arguments: script(
                "import socket\ntry:\n    socket.create_connection(('1.1.1.1', 53), 2)\n    \
                 print('REACHED')\nexcept OSError as error:\n    print('refused:', error)",
            ),
            answer: None,
            expect: |outcome| has_text(outcome, "refused:"),
        },
        DemoStep {
            why: "Nor does it see this process's environment, where an agent keeps its keys.",
            tool: "execute_python_script",
            arguments: script("import os\nprint(sorted(os.environ))"),
            answer: None,
            expect: |outcome| has_text(outcome, "'ROCKBOT_INPUT'"),
        },
        DemoStep {
            why: "A script that never ends is killed at its own timeout, with all it started.",
            tool: "execute_python_script",
            arguments: json!({"script": "while True: pass", "timeout_seconds": 1}),
            answer: None,
            expect: |outcome| has_text(outcome, "timed out after 1s"),
        },
        DemoStep {
            why: "Arguments are checked before anything runs, and every mistake is told at once.",
            tool: "execute_python_script",
            arguments: json!({"timeout_seconds": "soon", "pip_packages": [1]}),
            answer: None,
            expect: |outcome| fails_with(outcome, ErrorCode::InvalidArguments),
        },
        DemoStep {
            why: "MCP servers are programs of their own behind the bridge; this one tells the date.",
            tool: "mcp_invoke_tool",
            arguments: json!({"server_name": "demo", "tool_name": "today", "arguments": {}}),
            answer: None,
            expect: |outcome| has_text(outcome, "Today is"),
        },
        DemoStep {
            why: "A server that nobody knows is an error with a code, at once, never silence.",
            tool: "mcp_invoke_tool",
            arguments: json!({"server_name": "nobody", "tool_name": "x"}),
            answer: None,
            expect: |outcome| fails_with(outcome, ErrorCode::ToolNotFound),
        },
        DemoStep {
            why: "A program over tools: 200 kB go from one tool to another by reference, each call \
                  passes the same gates, and what the program returns is all that a model reads.",
            tool: "tool_chain",
            arguments: json!({"code": PROGRAM}),
            answer: None,
            expect: |outcome| has_text(outcome, "200001 characters"),
        },
    ]
}

/// Calls that a person is asked about.
fn letter_steps() -> [DemoStep; 2] {
    let letter_to = |name: &str| {
        let arguments = json!({"to": name});
        json!({"server_name": "demo", "tool_name": "send_letter", "arguments": arguments})
    };

    [
        DemoStep {
            why: "A rule wants letters to be approved: the call waits, and a person says yes to just \
                  this one, with `agent-host approvals approve`.",
            tool: "mcp_invoke_tool",
            arguments: letter_to("Ann"),
            answer: Some(Approve::ONCE),
            expect: |outcome| has_text(outcome, "The letter to Ann is on its way."),
        },
        DemoStep {
            why: "The next one is another call: it is asked for again, and this time denied.",
            tool: "mcp_invoke_tool",
            arguments: letter_to("everybody"),
            answer: Some(Approve::No),
            expect: |outcome| fails_with(outcome, ErrorCode::Denied),
        },
    ]
}

struct Stage<'a> {
    one_shot: &'a OneShot,
    stop: CancellationToken,
}

impl Stage<'_> {
    async fn show_step(&self, step: DemoStep) -> bool {
        let started = Instant::now();
        let scope = self.one_shot.scope();
        let call = Call::by_name(&scope, step.tool, step.arguments);
        let call = call.expect("a name of ours is short").with_cancelled(self.stop.clone());

        let calling = self.one_shot.toolbus().invoke(call);
        let outcome = match step.answer {
            Some(verdict) => join(calling, self.answer(verdict)).await.0,
            None => calling.await,
        };
        let took = started.elapsed().as_millis();
        let as_expected = (step.expect)(&outcome);
        let mark = if as_expected { "ok" } else { "NOT AS EXPECTED" };
        write_line(&format!(
            "{}\n  {} -> {} ({took} ms, {mark})\n",
            step.why,
            step.tool,
            outcome_text(&outcome)
        ));

        as_expected
    }

    /// Answers the call that waits for an approval, as another process would.
    async fn answer(&self, verdict: Approve) {
        let Some(store) = self.one_shot.approvals() else { return };
        let answering = async {
            loop {
                let waiting = store.list(Some(ApprovalState::Pending), 1).await;
                if let Some(asked) = waiting.iter().flatten().next() {
                    let answer = Answer::new(verdict, &Principal::local());
                    return store.answer(&asked.id, answer).await.is_ok();
                }
                sleep(LOOK_INTERVAL).await;
            }
        };
        // The outcome of the call says whether somebody was asked.
        let _ = timeout(ANSWER_TIMEOUT, answering).await;
    }
}

fn outcome_text(outcome: &Outcome) -> String {
    let text = match outcome {
        Ok(output) => output.content.clone().unwrap_or_default(),
        Err(error) => format!("{}: {}", error.code, error.message),
    };
    let text = terminal_text::for_stream(&text, &std::io::stdout());
    let line: String = text.trim().replace('\n', " / ");
    match line.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn has_text(outcome: &Outcome, text: &str) -> bool {
    matches!(outcome, Ok(output) if output.content.as_deref().is_some_and(|c| c.contains(text)))
}

fn fails_with(outcome: &Outcome, code: ErrorCode) -> bool {
    matches!(outcome, Err(error) if error.code == code)
}

fn write_line(text: &str) {
    // Whoever closed our standard output wants no more of it.
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Has a rule of the demo's own want approvals for letters, kept in this folder.
fn ask_for_letters(settings: &mut Settings, folder: &Path) {
    let rule = json!({
        "name": "letters", "effect": "ask", "reason": "letters cannot be called back",
        "tools": ["mcp:demo/send_letter"],
    });
    let rules = json!({"rules": [rule]});
    settings.policy = serde_json::from_value(rules).expect("a policy");
    settings.store = Some(format!("sqlite:{}", folder.join("state.db").display()).into());
    settings.artifacts.place = Some(folder.join("artifacts").display().to_string());
    settings.approvals.wait_for_operator = true;
}

/// Writes a small MCP server and an `mcp.json` that names it into a folder of their own, and adds
/// them to the settings.
fn demo_server(settings: &mut Settings) -> Result<PathBuf, BoxError> {
    let folder = std::env::temp_dir().join(format!("toolbus-demo-{}", new_id()));
    std::fs::create_dir(&folder)?;
    let server = folder.join("server.py");
    std::fs::write(&server, include_str!("demo_server.py"))?;
    let config = folder.join("mcp.json");
    let python = settings.scripts.python.clone().unwrap_or_else(|| "python3".into());
    let entry = json!({"command": python, "args": ["-I", server]});
    std::fs::write(&config, json!({"mcpServers": {"demo": entry}}).to_string())?;
    settings.mcp.config = Some(config);
    Ok(folder)
}
