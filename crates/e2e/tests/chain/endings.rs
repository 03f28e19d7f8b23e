//! How chains end: RV-C3, RV-C12 to RV-C18, and the rules of 1c about deadlines and secrets.

use std::time::Duration;

use serde_json::json;
use toolbus_chain::ChainPolicy;
use toolbus_testkit::eventually;
use toolbus_tools::call::Call;
use toolbus_wire::ErrorCode;

use crate::support::Chains;

#[tokio::test]
async fn rv_c13_a_program_that_fails_has_a_result_with_its_calls() {
    let chains = Chains::open().await;
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

/// RV-C3 and 1c.22: the host ends it, it is a timeout, and the trace is kept.
#[tokio::test]
async fn rule_1c_22_a_program_that_never_ends_times_out() {
    let chains = Chains::open().await;
    let code = "tools.echo(text='a')\nwhile True: pass";
    let ran = chains.run_with(json!({"code": code, "timeout": 1})).await;
    assert_eq!((ran.is_error, &ran.result["status"]), (true, &json!("timeout")));
    assert_eq!(ran.statuses(), ["ok"]);

    let policy = ChainPolicy { total_timeout: Duration::from_secs(1), ..ChainPolicy::default() };
    let chains = Chains::with(policy, |builder| builder).await;
    let ran = chains.run_with(json!({"code": "tools.wait()", "timeout": 100})).await;
    assert_eq!(ran.result["status"], "timeout");
    eventually(Duration::from_secs(10), async || {
        if *chains.waiting.lock() == 0 { Ok(()) } else { Err("it still runs") }
    })
    .await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_an_error_of_the_call() {
    let policy = ChainPolicy { call_timeout: Duration::from_millis(300), ..ChainPolicy::default() };
    let chains = Chains::with(policy, |builder| builder).await;
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
    let chains = Chains::open().await;
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

/// RV-C18 and 1c.29: there is no network, and nothing to leak.
#[tokio::test]
async fn rv_c18_a_program_has_no_network_and_no_token() {
    let chains = Chains::open().await;
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

/// A program that talks to its channel by itself forges nothing, and harms nobody.
#[tokio::test]
async fn a_program_that_writes_to_the_channel_itself_is_refused() {
    let chains = Chains::open().await;
    let code = r#"
import json, os
def ask(request):
    body = json.dumps(request).encode()
    os.write(4, len(body).to_bytes(4, "big") + (7).to_bytes(4, "big") + body)
    head = os.read(4, 8)
    return json.loads(os.read(4, int.from_bytes(head[:4], "big")))
print(ask({"call": "nothing", "arguments": {}})["result"]["status"])
print(ask({"run": "anything"})["error"]["code"])
print(ask({"read": "../../etc/passwd", "offset": 0, "length": 10})["error"]["code"])
print(ask([1, 2])["error"]["code"])
"#;
    assert_eq!(chains.output(code).await, "error\ninvalid\nartifact\ninvalid");
    let ran = chains.run("import os\nos.write(4, b'\\xff' * 100)\ntools.echo(text='a')").await;
    assert!(ran.is_error && ran.text.contains("closed"), "{}", ran.text);
}

#[tokio::test]
async fn children_of_a_program_cannot_call_tools() {
    let chains = Chains::open().await;
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
