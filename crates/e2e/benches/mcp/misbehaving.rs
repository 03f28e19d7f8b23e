//! The servers over stdio of the benchmark, one of them healthy, as this program started again.
//! Each speaks the protocol as far as it does not do what it is there for.

use std::io::{BufRead as _, StdoutLock, Write as _, stdin, stdout};
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::ECHO;

/// Repeats the argument `text`.
pub(crate) const GOOD: &str = "good";
/// Never answers a call.
pub(crate) const SILENT: &str = "silent";
/// Logs [`BURST`] lines of [`LINE_BYTES`] every [`BURST_EVERY`], [`BURSTS`] times, before it
/// answers.
pub(crate) const FLOOD: &str = "flood";
/// Ends in every call.
pub(crate) const DIES: &str = "dies";
/// The same, and its tool is another one whenever it is started.
pub(crate) const RESTARTS: &str = "restarts";
/// Answers every call with a line of [`HUGE_BYTES`].
pub(crate) const HUGE: &str = "huge";

const BURST: usize = 1_000;
const LINE_BYTES: usize = 1_024;
const BURST_EVERY: Duration = Duration::from_millis(100);
const BURSTS: usize = 10;
const HUGE_BYTES: usize = 50_000_000;

/// Serves until its input ends.
pub(crate) fn serve(kind: &str) -> anyhow::Result<()> {
    let mut output = stdout().lock();
    for line in stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        if request["id"].is_null() {
            continue;
        }
        let answer = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": request["params"]["protocolVersion"],
                "capabilities": {"tools": {}, "logging": {}},
                "serverInfo": {"name": kind, "version": "1"},
            }),
            Some("tools/list") => {
                let mut tool = json!({"name": ECHO, "inputSchema": {"type": "object"}});
                if kind == RESTARTS {
                    tool["description"] = format!("Of process {}.", std::process::id()).into();
                }
                json!({"tools": [tool]})
            }
            Some("tools/call") => match called(kind, &request, &mut output)? {
                Some(result) => result,
                None => continue,
            },
            _ => {
                let error = json!({"code": -32601, "message": "no such method"});
                send(&mut output, &json!({"id": request["id"], "error": error}))?;
                continue;
            }
        };
        send(&mut output, &json!({"id": request["id"], "result": answer}))?;
    }

    Ok(())
}

/// What becomes of a call; `None` is no answer.
fn called(
    kind: &str,
    request: &Value,
    output: &mut StdoutLock<'_>,
) -> anyhow::Result<Option<Value>> {
    let text = match kind {
        SILENT => return Ok(None),
        DIES | RESTARTS => anyhow::bail!("called"),
        HUGE => "x".repeat(HUGE_BYTES),
        FLOOD => {
            flood(output)?;
            "flooded".to_owned()
        }
        _ => request["params"]["arguments"]["text"].as_str().unwrap_or_default().to_owned(),
    };
    Ok(Some(json!({"content": [{"type": "text", "text": text}]})))
}

fn flood(output: &mut StdoutLock<'_>) -> anyhow::Result<()> {
    let params = json!({"level": "info", "data": "x".repeat(LINE_BYTES)});
    let line = json!({"method": "notifications/message", "params": params});
    for _ in 0..BURSTS {
        for _ in 0..BURST {
            send(output, &line)?;
        }
        std::thread::sleep(BURST_EVERY);
    }
    Ok(())
}

fn send(output: &mut StdoutLock<'_>, message: &Value) -> anyhow::Result<()> {
    let mut message = message.clone();
    message["jsonrpc"] = "2.0".into();
    serde_json::to_writer(&mut *output, &message)?;
    output.write_all(b"\n")?;
    Ok(output.flush()?)
}

/// What the note of the report says of them.
pub(crate) fn told() -> String {
    let flood = BURST as f64 / BURST_EVERY.as_secs_f64();
    format!(
        "one never answers, one logs {flood} lines a second, one ends in every call and is started \
         again, one answers with lines of {} MB",
        HUGE_BYTES / 1_000_000
    )
}
