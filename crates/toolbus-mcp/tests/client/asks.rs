//! Servers that ask their client during a call: of both eras, over stdio and HTTP, and with nobody
//! there who answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::join;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, CallContext, Deadline, Question};
use toolbus_mcp::server_pool::ServerPool;
use toolbus_mcp::{Call, CallError};
use toolbus_testkit::{eventually, mcp};
use toolbus_wire::ErrorCode;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

use crate::support::*;

/// The entry of a server that asks, of this era.
pub(crate) fn asking(era: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers/asking.py");
    json!({"command": "python3", "args": ["-I", script, era]})
}

/// Somebody who answers so, and what they were asked.
fn answering(
    answer: impl Fn(&Question) -> Result<Value, AskError> + Send + Sync + 'static,
) -> (Asker, Arc<Mutex<Vec<Question>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let asker = Asker::to(move |question| {
        let answer = answer(&question);
        seen.lock().push(question);
        async move { answer }
    });
    (asker, asked)
}

async fn asked(
    set: &ServerPool,
    tool: &str,
    args: Value,
    asker: Asker,
) -> Result<String, CallError> {
    let result = set
        .call(Call {
            context: CallContext::until(Deadline::after(PATIENCE)).with_asker(asker),
            ..call_of("a", tool, args)
        })
        .await?;
    assert!(!result.is_error, "{result:?}");
    Ok(result.text.expect("text"))
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn accepts() -> Value {
    json!({"action": "accept", "content": {"name": "Ada", "age": 36}})
}

fn completion() -> Value {
    json!({"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"})
}

#[tokio::test]
async fn a_server_of_the_older_era_asks_and_is_answered() {
    let set = start(json!({"a": asking("older")})).await;
    let said = set.details("a").expect("connected").instructions.expect("instructions");
    let expected = json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}});
    assert_eq!(json_of(&said), expected, "what the server was told that we can do");

    let (asker, questions) = answering(|question| {
        Ok(if question.kind == AskKind::Sampling { completion() } else { accepts() })
    });
    let form = asked(&set, "form", json!({}), asker.clone()).await.unwrap();
    assert_eq!(json_of(&form), accepts());
    let sample = asked(&set, "sample", json!({}), asker.clone()).await.unwrap();
    assert_eq!(json_of(&sample)["content"]["text"], "hi");
    let questions = std::mem::take(&mut *questions.lock());
    assert_eq!(questions[0].from.as_deref(), Some("MCP server 'a'"));
    assert_eq!(questions[0].params["message"], "Who are you?");
    assert_eq!(questions[0].params["requestedSchema"]["properties"]["age"]["default"], 42);
    assert_eq!(questions[1].params["messages"][0]["content"]["text"], "say hi");

    let roots = asked(&set, "roots", json!({}), asker).await.unwrap();
    assert_eq!(json_of(&roots)["code"], -32601);
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn with_nobody_there_the_server_is_told_at_once() {
    let set = start(json!({"a": asking("older"), "b": asking("newer")})).await;
    let began = Instant::now();
    let form = asked(&set, "form", json!({}), Asker::none()).await.unwrap();
    assert_eq!(json_of(&form), json!({"action": "cancel"}));
    let sample = asked(&set, "sample", json!({}), Asker::none()).await.unwrap();
    assert_eq!(json_of(&sample)["code"], -1);
    assert_eq!(json_of(&sample)["data"]["code"], "unsupported");
    // A person's no is another thing, and so is a host without a model.
    let (no, _) = answering(|question| match question.kind {
        AskKind::Sampling => Err(AskError::new(AskErrorCode::Unsupported, "no model here")),
        _ => Ok(json!({"action": "decline"})),
    });
    let form = asked(&set, "form", json!({}), no.clone()).await.unwrap();
    assert_eq!(json_of(&form), json!({"action": "decline"}));
    let sample = asked(&set, "sample", json!({}), no).await.unwrap();
    assert_eq!(json_of(&sample)["message"], "no model here");

    // A server of the newer era knows before it asks.
    let newer = |tool| call_of("b", tool, json!({}));
    let told = set.call(newer("capabilities")).await.unwrap().text.unwrap();
    assert_eq!(json_of(&told), json!({}));
    let form = set.call(newer("form")).await.unwrap().text.unwrap();
    assert_eq!(json_of(&form)["responses"]["what"], json!({"action": "cancel"}));
    for tool in ["sample", "roots"] {
        let error = set.call(newer(tool)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ExecutionFailed, "{error}");
        assert!(error.to_string().starts_with("MCP server 'b' asks for "), "{error}");
    }
    assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_server_of_the_newer_era_asks_in_rounds() {
    let set = start(json!({"a": asking("newer")})).await;
    let (asker, questions) = answering(|question| {
        Ok(if question.kind == AskKind::Sampling { completion() } else { accepts() })
    });
    let told = asked(&set, "capabilities", json!({}), asker.clone()).await.unwrap();
    assert_eq!(json_of(&told), json!({"sampling": {}, "elicitation": {"form": {}, "url": {}}}));
    let check = async |tool, response: Value| {
        let answer = asked(&set, tool, json!({"kept": 1}), asker.clone()).await.unwrap();
        let expected = json!({"responses": {"what": response}, "state": "opaque"});
        assert_eq!(json_of(&answer), expected);
    };
    check("form", accepts()).await;
    check("url", json!({"action": "accept"})).await;
    check("sample", completion()).await;
    let kinds: Vec<_> = questions.lock().iter().map(|question| question.kind.clone()).collect();
    assert_eq!(kinds, [AskKind::Elicitation, AskKind::Elicitation, AskKind::Sampling]);
    assert_eq!(questions.lock()[1].params["url"], "https://login.example/");

    let again = asked(&set, "again", json!({}), asker.clone()).await.unwrap();
    assert_eq!(again, "state s2");
    let error = asked(&set, "greedy", json!({}), asker.clone()).await.unwrap_err();
    assert_eq!(error.to_string(), "MCP server 'a' asks for too much at a time");
    // Without end: the limit of rounds or the deadline, whichever is first.
    let soon = Deadline::after(Duration::from_secs(1));
    let endless = Call {
        context: CallContext::until(soon).with_asker(asker),
        ..call_of("a", "endless", json!({}))
    };
    assert_eq!(set.call(endless).await.unwrap_err().code(), ErrorCode::Timeout);
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_question_that_could_be_of_several_calls_reaches_nobody() {
    let set = start(json!({"a": asking("older")})).await;
    let (asker, questions) = answering(|_| Ok(accepts()));
    let waits = set.call(call_of("a", "wait", json!({})));
    let others = async {
        eventually(PATIENCE, async || {
            let form =
                asked(&set, "form", json!({}), asker.clone()).await.map_err(|e| e.to_string())?;
            // Until the first call is there, this one is the only one.
            if json_of(&form) == json!({"action": "cancel"}) { Ok(()) } else { Err(form) }
        })
        .await;
        let before = questions.lock().len();
        let sample = asked(&set, "sample", json!({}), asker.clone()).await.unwrap();
        assert_eq!(json_of(&sample)["data"]["code"], "unknown_call");
        assert_eq!(questions.lock().len(), before);
        asked(&set, "release", json!({}), Asker::none()).await.unwrap();
    };
    let (waited, ()) = join(waits, others).await;
    assert_eq!(waited.unwrap().text.as_deref(), Some("waited"));
    let form = asked(&set, "form", json!({}), asker).await.unwrap();
    assert_eq!(json_of(&form), accepts());
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_question_of_a_call_that_was_given_up_reaches_nobody_else() {
    let set = start(json!({"a": asking("older")})).await;
    let deadline = Deadline::after(Duration::from_millis(300));
    let late = set.call(call_of("a", "late", json!({})).with_deadline(deadline)).await;
    assert_eq!(late.unwrap_err().code(), ErrorCode::Timeout);

    // The server goes on with it, and asks, while another call is the only one.
    let (asker, questions) = answering(|_| Ok(accepts()));
    let (sink, heard) = progress();
    let provokes = Call {
        context: CallContext::until(Deadline::after(PATIENCE))
            .with_asker(asker.clone())
            .with_progress(sink),
        ..call_of("a", "provoke", json!({}))
    };
    let answer = set.call(provokes).await.unwrap().text.unwrap();
    assert_eq!(json_of(&answer), json!({"action": "cancel"}));
    assert!(questions.lock().is_empty());
    assert!(heard.lock().is_empty(), "{:?}", heard.lock());

    // It has answered the call by now, so that there is nothing else that it could be asking for.
    let form = asked(&set, "form", json!({}), asker).await.unwrap();
    assert_eq!(json_of(&form), accepts());
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_question_ends_with_its_call() {
    let set = start(json!({"a": asking("older")})).await;
    for how in ["cancelled", "late"] {
        let open = Arc::new(());
        let held = Arc::clone(&open);
        let asker = Asker::to(move |_| {
            let held = Arc::clone(&held);
            async move {
                let _held = held;
                std::future::pending().await
            }
        });
        let cancelled = CancellationToken::new();
        let deadline =
            Deadline::after(Duration::from_millis(if how == "late" { 800 } else { 60_000 }));
        let call = Call {
            context: CallContext::until(deadline)
                .with_cancelled(cancelled.clone())
                .with_asker(asker),
            ..call_of("a", "form", json!({}))
        };
        let cancel = async {
            // Ours, the asker's, and the one in the question.
            eventually(PATIENCE, async || match Arc::strong_count(&open) {
                3 => Ok(()),
                other => Err(format!("{other} hold it")),
            })
            .await;
            if how == "cancelled" {
                cancelled.cancel();
            }
        };
        let (error, ()) = join(set.call(call), cancel).await;
        let expected = if how == "late" { ErrorCode::Timeout } else { ErrorCode::Cancelled };
        assert_eq!(error.unwrap_err().code(), expected);
        eventually(PATIENCE, async || match Arc::strong_count(&open) {
            1 => Ok(()),
            other => Err(format!("{other} hold it")),
        })
        .await;

        // Until the server has answered it, no question could be told from one of it.
        eventually(PATIENCE, async || {
            let (asker, _) = answering(|_| Ok(accepts()));
            let form = asked(&set, "form", json!({}), asker).await.map_err(|e| e.to_string())?;
            if json_of(&form) == accepts() { Ok(()) } else { Err(form) }
        })
        .await;
    }
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn a_server_that_asks_without_end_harms_nobody() {
    let set = start(json!({"a": asking("older"), "b": asking("older")})).await;
    let (asker, questions) = answering(|_| Ok(accepts()));
    let flooded = asked(&set, "flood", json!({}), asker.clone()).await.unwrap();
    assert_eq!(flooded, "flooded");
    assert!(questions.lock().len() <= 10_000);
    let form = asked(&set, "form", json!({}), asker.clone()).await.unwrap();
    assert_eq!(json_of(&form), accepts());
    let echo = call(&set, "b", "echo", json!({})).await.unwrap();
    assert_eq!(echo.text.as_deref(), Some("echo"));
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn log_lines_of_a_server_reach_the_only_caller_without_secrets() {
    let mut entry = asking("older");
    entry["env"] = json!({"KEY": "hunter2-hunter2"});
    let set = start(json!({"a": entry})).await;
    let (sink, heard) = progress();
    let call = Call {
        context: CallContext::until(Deadline::after(PATIENCE)).with_progress(sink),
        ..call_of("a", "log", json!({}))
    };
    assert_eq!(set.call(call).await.unwrap().text.as_deref(), Some("logged"));
    let heard: Vec<_> = heard.lock().iter().map(|p| (p.level.clone(), p.message.clone())).collect();
    let line = |level: &str, text: &str| (Some(level.to_owned()), Some(text.to_owned()));
    assert_eq!(heard, [line("info", "db: started"), line("error", "db: {\"key\":\"***\"}")]);
    set.close(Duration::ZERO).await;
}

/// `server-everything`, whatever the transport.
async fn everything_asks(entry: Value) {
    let set = start(json!({"a": entry})).await;
    let (asker, questions) = answering(|question| {
        Ok(match (&question.kind, question.params["mode"].as_str()) {
            (AskKind::Sampling, _) => completion(),
            (_, Some("url")) => json!({"action": "accept"}),
            _ => json!({"action": "accept", "content": {"name": "Ada", "integer": 7}}),
        })
    });
    let form = asked(&set, "trigger-elicitation-request", json!({}), asker.clone()).await.unwrap();
    assert!(form.contains("- Name: Ada") && form.contains("- Favorite Integer: 7"), "{form}");
    let prompt = json!({"prompt": "hello", "maxTokens": 5});
    let sample = asked(&set, "trigger-sampling-request", prompt, asker.clone()).await.unwrap();
    assert!(sample.contains("\"text\": \"hi\""), "{sample}");
    let page = json!({"url": "https://pages.example/", "elicitationId": "e1"});
    let url = asked(&set, "trigger-url-elicitation", page, asker.clone()).await.unwrap();
    assert!(url.contains("User completed the URL elicitation flow"), "{url}");
    // By an error that names an address to visit, after which the call is made again.
    let page = json!({"url": "https://pages.example/", "elicitationId": "e2", "errorPath": true});
    let url = asked(&set, "trigger-url-elicitation", page.clone(), asker).await.unwrap();
    assert!(url.contains("User completed the URL elicitation flow"), "{url}");
    let urls: Vec<_> = questions.lock().iter().skip(2).map(|q| q.params["url"].clone()).collect();
    let expected =
        ["https://pages.example/", "https://modelcontextprotocol.io", "https://pages.example/"];
    assert_eq!(urls, expected);

    let form = asked(&set, "trigger-elicitation-request", json!({}), Asker::none()).await.unwrap();
    assert!(form.contains("User cancelled the elicitation dialog"), "{form}");
    let error = set.call(call_of("a", "trigger-url-elicitation", page)).await.unwrap_err();
    assert!(error.to_string().contains("-32042"), "{error}");
    set.close(Duration::ZERO).await;
}

#[tokio::test]
async fn everything_asks_over_stdio() {
    let Some(server) = mcp::everything_stdio() else { return };
    everything_asks(server.to_json()).await;
}

#[tokio::test]
async fn everything_asks_over_http() {
    let Some(server) = mcp::everything_http().await else { return };
    everything_asks(server.to_json()).await;
}

#[tokio::test]
async fn over_http_each_of_several_calls_gets_its_own_questions() {
    let Some(server) = mcp::everything_http().await else { return };
    let set = start(json!({"a": server.to_json()})).await;
    let calls = (0..4).map(async |number| {
        let name = format!("caller {number}");
        let answer = json!({"action": "accept", "content": {"name": name}});
        let (asker, questions) = answering(move |_| Ok(answer.clone()));
        let tool = "trigger-elicitation-request";
        let form = asked(&set, tool, json!({}), asker).await.unwrap();
        assert!(form.contains(&format!("- Name: {name}")), "{form}");
        assert_eq!(questions.lock().len(), 1);
    });
    futures_util::future::join_all(calls).await;
    set.close(Duration::ZERO).await;
}
