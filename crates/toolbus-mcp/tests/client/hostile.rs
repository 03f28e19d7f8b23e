//! Servers that do something wrong. Whatever it is, the call ends in a typed error within its
//! bound, no process is left, and the next call and the other servers work.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Deadline;
use toolbus_mcp::server_pool::{AddError, Change, PoolConfig, ServerPool};
use toolbus_mcp::{CallError, ServerState, TOOLS_MAX};
use toolbus_testkit::eventually;
use toolbus_wire::{ErrorCode, Execution};

use crate::support::*;

struct Fixture {
    folder: tempfile::TempDir,
    kind: &'static str,
    set: ServerPool,
}

/// Starts one hostile server and waits for its first attempt.
async fn fixture(kind: &'static str) -> Fixture {
    fixture_with(kind, options()).await
}

/// Until a request that is made now is with its server.
const LONG_ENOUGH: Duration = Duration::from_millis(500);

async fn fixture_with(kind: &'static str, options: PoolConfig) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let set = start_with(json!({"h": hostile(folder.path(), kind)}), options).await;
    Fixture { folder, kind, set }
}

fn impatient() -> PoolConfig {
    let mut options = options();
    options.connect_timeout = Duration::from_millis(1_500);
    options
}

impl Fixture {
    async fn call(&self, tool: &str) -> Result<String, CallError> {
        let result = call(&self.set, "h", tool, json!({})).await?;
        assert!(!result.is_error);
        Ok(result.text.expect("text"))
    }

    async fn works(&self) {
        let echo = call(&self.set, "h", "echo", json!({"message": "still here"})).await;
        assert_eq!(echo.expect("an answer").text.as_deref(), Some("still here"));
    }

    fn pids(&self) -> Vec<u32> {
        pids(self.folder.path(), self.kind)
    }

    async fn end(self) {
        self.set.close(Duration::ZERO).await;
        gone(&self.pids()).await;
    }
}

fn failure(set: &ServerPool) -> toolbus_mcp::Failure {
    match state(set, "h") {
        ServerState::Failed { failure, .. } => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn one_that_never_answers_is_given_up_and_ended() {
    let check = async |kind| {
        let began = Instant::now();
        let h = fixture_with(kind, impatient()).await;
        assert!(began.elapsed() < PATIENCE, "{kind}: {:?}", began.elapsed());
        assert_eq!(failure(&h.set).to_string(), "it did not finish connecting within 1500 ms");
        // On a busy machine it may be ended before it runs; the next one comes by itself.
        let first = eventually(PATIENCE, async || h.pids().first().copied().ok_or("none")).await;
        gone(&[first]).await;
        let error = h.call("echo").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ToolNotFound, "{kind}: {error}");
        h.end().await;
    };
    tokio::join!(check("silent"), check("silent-stubborn"), check("silent-list"));
}

#[tokio::test]
async fn one_that_ends_at_once_says_how_and_keeps_its_secret() {
    let folder = tempfile::tempdir().unwrap();
    let mut entry = hostile(folder.path(), "exits");
    entry["env"] = json!({"SECRET": "s3cret-key"});
    let set = start(json!({"h": entry})).await;
    let failure = failure(&set);
    assert_eq!(failure.to_string(), "it ended before it answered (exit status: 3)");
    assert_eq!(failure.last_words(), Some("hostile: cannot start, the key is ***"));
    set.close(Duration::ZERO).await;
    gone(&pids(folder.path(), "exits")).await;
}

#[tokio::test]
async fn one_that_dies_during_a_call_ends_the_call_and_comes_back() {
    for kind in ["dies", "orphan"] {
        let h = fixture(kind).await;
        let began = Instant::now();
        let error = h.call("die").await.unwrap_err();
        assert!(began.elapsed() < PATIENCE, "{kind}: {:?}", began.elapsed());
        assert_eq!(error.code(), ErrorCode::OutcomeUnknown);
        let expected = "MCP server 'h' was lost during the call, which may have taken effect: the \
                        connection was closed (exit status: 7)";
        assert_eq!(error.to_string(), expected, "{kind}");
        assert_eq!(h.pids().len(), 1, "a call that may have taken effect is not sent again");
        h.works().await;
        assert_eq!(h.pids().len(), 2, "the next call has it connected again");
        h.end().await;
    }
}

/// MX-M6.
#[tokio::test]
async fn a_harmless_call_is_sent_once_more() {
    // It changes nothing, or nothing more the second time.
    for kind in ["dies", "idempotent"] {
        let h = fixture(kind).await;
        let error = h.call("die-harmless").await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{kind}: {error}");
        assert_eq!(h.pids().len(), 2, "{kind}: one more, and not again and again");
        h.end().await;
    }
}

#[tokio::test]
async fn what_a_server_starts_ends_with_it() {
    let h = fixture("family").await;
    h.works().await;
    assert_eq!(h.pids().len(), 2);
    h.end().await;

    let h = fixture("family").await;
    let all = h.pids();
    assert!(h.set.remove("H"));
    gone(&all).await;

    // Without a word, too.
    let h = fixture("family").await;
    let all = h.pids();
    drop(h.set);
    gone(&all).await;
}

#[test]
fn nothing_outlives_the_runtime() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let h = runtime.block_on(fixture("family"));
    let all = h.pids();
    runtime.shutdown_timeout(Duration::from_secs(5));
    tokio::runtime::Runtime::new().unwrap().block_on(gone(&all));
}

#[tokio::test]
async fn garbage_is_passed_over() {
    for kind in ["garbage", "noise"] {
        let h = fixture(kind).await;
        for _ in 0..5 {
            h.works().await;
        }
        h.end().await;
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_ends_its_own_call_only() {
    let h = fixture("huge").await;
    for tool in ["huge-id-first", "huge-id-last"] {
        let error = h.call(tool).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ExecutionFailed, "{error}");
        assert!(error.to_string().contains("more than 16777216"), "{error}");
        h.works().await;
    }
    assert_eq!(h.call("huge-endless").await.unwrap(), "after a line of 64 MiB");
    assert_eq!(h.pids().len(), 1, "the connection was kept");
    h.end().await;
}

#[tokio::test]
async fn each_message_of_a_batch_is_taken_as_if_it_were_alone() {
    let server = fixture("batches").await;
    let held = async {
        let held = call(&server.set, "h", "hold", json!({})).await;
        assert_eq!(held.expect("an answer").text.as_deref(), Some("held"));
    };
    // Calls are written in the order in which they are made.
    tokio::join!(held, server.works());
    assert_eq!(server.call("many").await.unwrap(), "after the batch");
    server.works().await;
    server.end().await;
}

#[tokio::test]
async fn answers_to_nobody_are_passed_over() {
    let h = fixture("ids").await;
    let deadline = Deadline::after(Duration::from_millis(300));
    let error = h.set.call(call_of("h", "wrong-id", json!({})).with_deadline(deadline)).await;
    assert_eq!(error.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(h.call("string-id").await.unwrap(), "with the id as a string");
    assert_eq!(h.call("twice").await.unwrap(), "first");
    let error = h.call("bad-shape").await.unwrap_err();
    let expected = "MCP server 'h' gave an answer that is not a valid MCP message";
    let message = expected.to_owned();
    assert_eq!(error, CallError::Failed { message, server_error: None, retry_after: None });
    h.works().await;
    h.end().await;
}

#[tokio::test]
async fn changed_tools_are_listed_again() {
    let h = fixture("changes").await;
    let mut changes = h.set.changes();
    assert!(matches!(next(&mut changes).await, Some(Change::Listed(s)) if s.tool_count == 4));
    assert_eq!(h.call("change").await.unwrap(), "changed");
    assert!(matches!(next(&mut changes).await, Some(Change::Listed(s)) if s.tool_count == 5));
    h.set.refresh(Some("H")).await;
    assert_eq!(tool_names(&h.set, "h").last().map(String::as_str), Some("extra0"));
    assert_eq!(h.pids().len(), 1, "nothing of this makes a new connection");
    h.end().await;
}

#[tokio::test]
async fn listings_without_end_have_one() {
    let many = fixture("many").await;
    assert_eq!(tool_names(&many.set, "h").len(), TOOLS_MAX);
    let pages = fixture("pages").await;
    assert_eq!(tool_names(&pages.set, "h").len(), toolbus_mcp::PAGES_MAX);
    pages.works().await;
    many.end().await;
    pages.end().await;
}

#[tokio::test]
async fn one_that_asks_and_tells_without_end_is_answered_within_limits() {
    let h = fixture("talks").await;
    assert_eq!(h.call("pings").await.unwrap(), "asked");
    let (sink, heard) = progress();
    let told = h.set.call(call_of("h", "progress", json!({})).with_progress(sink)).await;
    assert_eq!(told.unwrap().text.as_deref(), Some("told"));
    let heard = heard.lock().clone();
    assert!((1..1_000).contains(&heard.len()), "{}", heard.len());
    assert!(heard.iter().all(|p| p.message.as_ref().is_some_and(|m| m.len() < 3_000)));
    assert!(heard.windows(2).all(|two| two[0].progress < two[1].progress), "in order");
    h.works().await;
    h.end().await;
}

#[tokio::test]
async fn one_that_does_not_read_is_given_up() {
    let h = fixture("deaf").await;
    let big = json!({"message": "x".repeat(1 << 20)});
    let (first, second) =
        tokio::join!(call(&h.set, "h", "echo", big.clone()), call(&h.set, "h", "echo", big));
    for error in [first.unwrap_err(), second.unwrap_err()] {
        assert_eq!(error.code(), ErrorCode::OutcomeUnknown, "{error}");
    }
    h.end().await;
}

#[tokio::test]
async fn the_server_is_told_of_every_call_that_nobody_waits_for() {
    let h = fixture("waits").await;
    let wait = || call_of("h", "wait", json!({}));
    let deadline = Deadline::after(LONG_ENOUGH);
    let error = h.set.call(wait().with_deadline(deadline)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    let cancelled = CancellationToken::new();
    let (error, ()) = tokio::join!(h.set.call(wait().with_cancelled(cancelled.clone())), async {
        cancelled.cancel()
    });
    assert_eq!(error.unwrap_err().code(), ErrorCode::Cancelled);
    assert!(tokio::time::timeout(LONG_ENOUGH, h.set.call(wait())).await.is_err());
    // Too late or cancelled before it began, a call is not made at all.
    let past = Deadline::after(Duration::ZERO);
    let error = h.set.call(wait().with_deadline(past)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Timeout);
    let error = h.set.call(wait().with_cancelled(cancelled)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Cancelled);
    eventually(PATIENCE, async || match h.call("cancelled").await.as_deref() {
        Ok(ids) if ids.split(' ').count() == 3 => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    h.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_call_is_cancelled_before_the_server_has_it() {
    let h = fixture("waits").await;
    for _ in 0..50 {
        let calls = (0..20).map(async |_| {
            let cancelled = CancellationToken::new();
            let call =
                h.set.call(call_of("h", "wait", json!({})).with_cancelled(cancelled.clone()));
            tokio::join!(call, async { cancelled.cancel() })
        });
        futures_util::future::join_all(calls).await;
    }
    eventually(PATIENCE, async || match h.call("early").await.as_deref() {
        Ok("0 early, 0 not cancelled") => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await;
    h.end().await;
}

#[tokio::test]
async fn calls_may_end_before_everything_is_closed_and_none_begins() {
    let h = fixture("waits").await;
    let (progress, heard) = progress();
    let told = h.set.call(call_of("h", "progress", json!({})).with_progress(progress));
    let (told, late) = tokio::join!(told, async {
        eventually(PATIENCE, async || if heard.lock().is_empty() { Err("quiet") } else { Ok(()) })
            .await;
        let late = async {
            tokio::task::yield_now().await;
            h.call("echo").await
        };
        tokio::join!(h.set.close(PATIENCE), late).1
    });
    assert_eq!(told.unwrap().text.as_deref(), Some("told"));
    let late = late.unwrap_err();
    assert_eq!(late.to_string(), "MCP server 'h' is not connected: it was closed");
    gone(&h.pids()).await;

    // Without the time for it, a call is cut off.
    let h = fixture("waits").await;
    let wait = h.set.call(call_of("h", "wait", json!({})));
    let (error, ()) = tokio::join!(wait, h.set.close(LONG_ENOUGH));
    assert_eq!(error.unwrap_err().code(), ErrorCode::OutcomeUnknown);
    gone(&h.pids()).await;
}

#[tokio::test]
async fn one_that_breaks_at_a_new_question_is_asked_the_old_way() {
    let h = fixture("brittle").await;
    h.works().await;
    assert_eq!(h.pids().len(), 2, "once for each way to ask");
    h.end().await;
}

#[tokio::test]
async fn one_that_does_not_answer_a_new_question_is_asked_the_old_way_in_the_end() {
    let h = fixture("ignorant").await;
    h.works().await;
    assert_eq!(h.pids().len(), 1, "its late answer to the first question does no harm");
    h.end().await;
}

#[tokio::test]
async fn a_secret_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let mut entry = hostile(folder.path(), "leaks");
    entry["env"] = json!({"SECRET": "s3cret-key"});
    let set = start(json!({"h": entry})).await;
    let error = call(&set, "h", "leak", json!({})).await.unwrap_err();
    let expected = "Tool 'leak' of MCP server 'h' failed: MCP error -32000: the server \
                    says \"cannot use ***\"";
    assert_eq!(error.to_string(), expected);
    set.close(Duration::ZERO).await;
    gone(&pids(folder.path(), "leaks")).await;
}

#[tokio::test]
async fn too_many_calls_at_a_time_are_refused() {
    let mut options = options();
    options.calls_per_server_max = 2;
    let h = fixture_with("slow", options).await;
    let slow = || {
        let deadline = Deadline::after(Duration::from_secs(2));
        h.set.call(call_of("h", "slow", json!({})).with_deadline(deadline))
    };
    let (first, second, third) = tokio::join!(slow(), slow(), async {
        tokio::task::yield_now().await;
        h.call("echo").await
    });
    assert_eq!(first.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(second.unwrap_err().code(), ErrorCode::Timeout);
    assert_eq!(third.unwrap_err(), CallError::Busy { server: "h".to_owned(), running: 2 });
    h.end().await;
}

#[tokio::test]
async fn the_configuration_may_grant_less_time_than_a_call_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut entry = hostile(folder.path(), "slow");
    entry["toolTimeoutMs"] = json!({"slow": 200});
    let set = start(json!({"h": entry})).await;
    assert_eq!(set.call_timeout(Some("h"), "slow"), Duration::from_millis(200));
    assert_eq!(set.call_timeout(Some("h"), "echo"), Duration::from_secs(60));
    let error = call(&set, "h", "slow", json!({})).await.unwrap_err();
    assert!(error.to_string().starts_with("MCP server 'h' timed out after 200ms. "), "{error}");
    // It was sent, and nothing says that it may run twice.
    assert_eq!(error.execution(), Execution::Started);
    assert!(error.to_string().ends_with("check that before you call the tool again."), "{error}");
    set.close(Duration::ZERO).await;
}

/// MX-M5.
#[tokio::test]
async fn bad_servers_do_not_hold_up_a_good_one() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = ["silent", "exits", "dies", "noise", "deaf", "huge"];
    let mut servers = serde_json::Map::new();
    for kind in kinds {
        servers.insert(kind.to_owned(), hostile(folder.path(), kind));
    }
    servers.insert("good".to_owned(), hostile(folder.path(), "good"));
    let set = ServerPool::start(entries(servers.into()), options()).unwrap();
    let began = Instant::now();
    let good = async || {
        let echo = call(&set, "good", "echo", json!({"message": "x"})).await;
        assert_eq!(echo.unwrap().text.as_deref(), Some("x"));
    };
    good().await;
    assert!(began.elapsed() < PATIENCE, "connected beside the silent one");
    let bad = ["die", "huge-endless", "huge-id-last"].map(|tool| {
        let server = if tool == "die" { "dies" } else { "huge" };
        set.call(call_of(server, tool, json!({})))
    });
    let (_, mut worst) = tokio::join!(futures_util::future::join_all(bad), async {
        let mut worst = Duration::ZERO;
        for _ in 0..50 {
            let one = Instant::now();
            good().await;
            worst = worst.max(one.elapsed());
        }
        worst
    });
    worst = worst.max(Duration::from_nanos(1));
    assert!(worst < PATIENCE / 2, "{worst:?}");
    set.close(Duration::ZERO).await;
    for kind in kinds {
        gone(&pids(folder.path(), kind)).await;
    }
}

#[tokio::test]
async fn a_server_that_fails_is_not_added() {
    let folder = tempfile::tempdir().unwrap();
    let set = start_with(json!({}), options()).await;
    let add = |kind| {
        let entry = entries(json!({"h": hostile(folder.path(), kind)})).remove(0);
        set.add(entry)
    };
    let failed = add("exits").await;
    assert!(matches!(failed, Err(AddError::Failed(_))), "{failed:?}");
    // Given up half-way, it is as if it had never been asked for.
    tokio::select! {
        added = add("silent") => panic!("{added:?}"),
        () = eventually(PATIENCE, async || match pids(folder.path(), "silent").len() {
            0 => Err("not started yet"),
            _ => Ok(()),
        }) => {}
    }
    assert!(set.list().is_empty());
    gone(&pids(folder.path(), "exits")).await;
    gone(&pids(folder.path(), "silent")).await;
    assert_eq!(add("good").await.expect("added").tool_count, 3);
    set.close(Duration::ZERO).await;
    gone(&pids(folder.path(), "good")).await;
    assert_eq!(add("late").await, Err(AddError::Closed));
}
