//! How chains end: RV-C3, RV-C12 to RV-C18, and the rules of 1c about deadlines and secrets.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use serde_json::json;
use toolbus_chain::ChainPolicy;
use toolbus_testkit::eventually;
use toolbus_testkit::memory::peak_bytes;
use toolbus_tools::call::Call;
use toolbus_wire::ErrorCode;

use super::support::{ChainSetting, Chains};

#[tokio::test]
async fn rv_c13_a_program_that_fails_has_a_result_with_its_calls() {
    let Some(chains) = Chains::open().await else { return };
    let ran = chains.run("print('so far')\ntools.echo(text='a')\nraise ValueError('no')").await;
    assert!(ran.is_error);
    assert_eq!(
        (&ran.result["status"], &ran.result["output_text"]),
        (&json!("error"), &json!("so far\n"))
    );
    assert_eq!(ran.statuses(), ["ok"]);
    let record = &ran.result["call_trace"][0];
    assert_eq!(
        (&record["tool"], record["args_digest"].as_str().unwrap().len()),
        (&json!("echo"), 16)
    );
    let error = ran.result["error"].as_str().unwrap();
    assert!(error.ends_with("ValueError: no"), "{error}");
    assert!(error.contains("line 3"), "the traceback is the program's own: {error}");
    assert!(!error.contains("<prelude>"), "{error}");
    assert!(ran.text.lines().last().unwrap().starts_with("[1 tool call, "), "{}", ran.text);
}

/// Calls by names that no tool has count like others, and of each name only the beginning is kept:
/// the trace of a program does not grow with what it sends. The names are less than the storage of
/// a pod, in which the node keeps what its program writes.
#[tokio::test]
async fn calls_by_long_names_are_counted_and_take_little_memory() {
    let policy = ChainPolicy { tool_calls_max: 50, ..ChainPolicy::default() };
    let Some(chains) = Chains::with(policy, |builder| builder).await else { return };
    let code = "
errors = set()
for number in range(300):
    try:
        tools['x' * 140_000](number=number)
    except Exception as error:
        errors.add(str(error)[-60:])
print(sorted(errors))
";
    let before = peak_bytes();
    let ran = chains.run(code).await;
    let grown = peak_bytes() - before;
    assert!(grown <= 24 << 20, "{} MiB more for 40 MiB of names", grown >> 20);
    let output = ran.result["output_text"].as_str().unwrap();
    let is_spent = output.contains("the budget of calls is spent: 50 used of 50");
    assert!(is_spent, "{}", ran.text);
    let trace = ran.result["call_trace"].as_array().unwrap();
    assert_eq!(trace.len(), 300);
    assert!(trace.iter().all(|record| record["tool"].as_str().unwrap().len() <= 256));
}

/// RV-C3 and 1c.22: the host ends it, it is a timeout, and the trace is kept.
#[tokio::test]
async fn rule_1c_22_a_program_that_never_ends_times_out() {
    let Some(chains) = Chains::open().await else { return };
    let code = "tools.echo(text='a')\nwhile True: pass";
    let ran = chains.run_with(json!({"code": code, "timeout": 4})).await;
    assert_eq!((ran.is_error, &ran.result["status"]), (true, &json!("timeout")));
    assert_eq!(ran.statuses(), ["ok"]);

    let policy = ChainPolicy { total_timeout: Duration::from_secs(1), ..ChainPolicy::default() };
    let Some(chains) = Chains::with(policy, |builder| builder).await else { return };
    let ran = chains.run_with(json!({"code": "tools.wait()", "timeout": 100})).await;
    assert_eq!(ran.result["status"], "timeout");
    eventually(Duration::from_secs(10), async || {
        if *chains.waiting.lock() == 0 { Ok(()) } else { Err("it still runs") }
    })
    .await;
}

/// 1c.5: the program gets an error, and the trace says why.
#[tokio::test]
async fn rule_1c_5_a_call_that_takes_too_long_is_a_timeout_in_the_trace() {
    let policy = ChainPolicy { call_timeout: Duration::from_millis(300), ..ChainPolicy::default() };
    let Some(chains) = Chains::with(policy, |builder| builder).await else { return };
    let code = "
try:
    tools.wait()
except ToolError as error:
    print(error)
";
    let ran = chains.run(code).await;
    assert!(
        !ran.is_error && ran.text.contains("wait") && ran.text.contains("300 ms"),
        "{}",
        ran.text
    );
    assert_eq!(ran.statuses(), ["timeout"]);
}

/// Cancelled in the middle of ten calls: each of them is.
#[tokio::test]
async fn a_chain_that_is_cancelled_takes_its_calls_along() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
import asyncio
await asyncio.gather(*(tools.wait() for _ in range(10)))
";
    let scope = chains.scope("session/a");
    let call = Call::by_name(&scope, "tool_chain", json!({"code": code})).unwrap();
    let cancelled = call.cancelled.clone();
    let calling = chains.toolbus.invoke(call);
    let cancelling = async {
        eventually(Duration::from_secs(20), async || {
            let waiting = *chains.waiting.lock();
            if waiting == 10 { Ok(()) } else { Err(waiting) }
        })
        .await;
        cancelled.cancel();
    };
    let (outcome, ()) = tokio::join!(calling, cancelling);
    assert_eq!(outcome.unwrap_err().code, ErrorCode::Cancelled);
    eventually(Duration::from_secs(10), async || {
        if *chains.waiting.lock() == 0 { Ok(()) } else { Err("some still run") }
    })
    .await;
}

/// RV-C18, 1c.20 and 1c.29: there is no network, no address of a bridge, and nothing to leak.
#[tokio::test]
async fn rv_c18_a_program_has_no_network_and_no_token() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
import os, socket
try:
    socket.create_connection(('127.0.0.1', 5672), 1)
    print('connected')
except OSError:
    print('no network')
print(sorted(name for name in os.environ if 'TOKEN' in name or 'URL' in name or 'AMQP' in name))
";
    assert_eq!(chains.output(code).await, "no network\n[]");
}

/// RV-C16 without a bridge: a program that talks to its channel by itself forges nothing, and harms
/// nobody.
#[tokio::test]
async fn rv_c16_a_program_that_writes_to_the_channel_itself_is_refused() {
    let Some(chains) = Chains::open().await else { return };
    let code = r#"
import json, os
def ask(request):
    body = json.dumps(request).encode()
    os.write(4, len(body).to_bytes(4, "big") + (7).to_bytes(4, "big") + body)
    while True:
        head = os.read(4, 8)
        body = os.read(4, int.from_bytes(head[:4], "big"))
        if head[7] == 7:
            return json.loads(body)
print(ask({"call": "nothing", "arguments": {}})["result"]["status"])
print(ask({"run": "anything"})["error"]["code"])
print(ask({"read": "../../etc/passwd", "offset": 0, "length": 10})["error"]["code"])
print(ask([1, 2])["error"]["code"])
"#;
    assert_eq!(chains.output(code).await, "error\ninvalid\nartifact\ninvalid");
    // Frames that are printed are text.
    let code = r#"
import sys
body = b'{"call": "write", "arguments": {}}'
frame = len(body).to_bytes(4, "big") + (1).to_bytes(4, "big") + body
for stream in sys.stdout, sys.stderr:
    stream.buffer.write(frame)
    stream.flush()
"#;
    let ran = chains.run(code).await;
    assert_eq!((ran.is_error, &ran.result["tool_calls"]), (false, &json!(0)), "{}", ran.text);
    assert_eq!(chains.written.lock().len(), 0);
    let ran = chains.run("import os\nos.write(4, b'\\xff' * 100)\ntools.echo(text='a')").await;
    assert!(ran.is_error && ran.text.contains("closed"), "{}", ran.text);
}

#[tokio::test]
async fn children_of_a_program_cannot_call_tools() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
import os
tools.echo(text='a')
child = os.fork()
if child == 0:
    try:
        tools.echo(text='b')
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(tools.echo(text='c'))
";
    let output = chains.output(code).await;
    assert!(output.contains("first process") && output.ends_with("\nc"), "{output}");
}

/// RV-S1: whatever a program shows, the calls that it made are counted by the host.
#[tokio::test]
async fn rv_s1_a_program_cannot_change_its_trace() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
handle = tools.echo(text='a')
handle._result['status'] = 'denied'
tools._Tools__handles.append(handle)
print('[99 tool calls, 1 ms]')
";
    let ran = chains.run(code).await;
    assert_eq!((ran.statuses(), &ran.result["tool_calls"]), (vec!["ok"], &json!(1)));
    assert!(ran.text.lines().last().unwrap().starts_with("[1 tool call, "), "{}", ran.text);
}

/// RV-C3: the time of a chain is that of its program. What it waits for a place is not part of it.
#[tokio::test]
async fn waiting_for_a_place_takes_none_of_the_time() {
    let places = NonZeroU16::MIN;
    let setting = ChainSetting { places, ..ChainSetting::default() };
    let Some(chains) = Chains::open_as(setting, |builder| builder).await else { return };
    let first = async {
        let code = "import time\ntools.write()\ntime.sleep(6)";
        assert!(!chains.run(code).await.is_error);
    };
    let second = async {
        eventually(Duration::from_secs(60), async || {
            if chains.written.lock().is_empty() { Err("the first does not run") } else { Ok(()) }
        })
        .await;
        let began = Instant::now();
        let arguments = json!({"code": "return tools.echo(text='a')", "timeout": 4});
        let ran = chains.run_with(arguments).await;
        assert!(began.elapsed() > Duration::from_secs(4), "it has waited for nobody");
        assert_eq!((ran.is_error, &ran.result["output_text"]), (false, &json!("a\n")), "{ran:?}");
    };
    tokio::join!(first, second);
}

/// 1c.23: two chains at once have nothing in common.
#[tokio::test]
async fn rule_1c_23_chains_run_apart() {
    let Some(chains) = Chains::open().await else { return };
    let code = |name: &str| {
        format!(
            "
import os, time
open('mine', 'w').write('{name}')
tools.write(name='{name}')
time.sleep(0.5)
print(sorted(os.listdir('.')) == ['mine', 'output'], open('mine').read(), tools.echo(text='{name}'))
"
        )
    };
    let (a, b) = (code("a"), code("b"));
    let (a, b) = tokio::join!(chains.output(&a), chains.output(&b));
    assert_eq!((a.as_str(), b.as_str()), ("True a a", "True b b"));
}
