//! Sessions whose process ends in the middle, and those that are wanted twice.

use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolbus_agent::{Event, TurnContext, TurnEnd};
use toolbus_bus::Asker;
use toolbus_models::ToolResult;
use toolbus_store::sqlx;
use toolbus_testkit::eventually;

use crate::support::{Answer, Bench, at, scope};

fn answered(text: &str) -> TurnEnd {
    TurnEnd::Answered { text: text.to_owned(), limit: None }
}

/// What was finished is not made again; of what was under way, what changes nothing is, and of the
/// rest the model is told that nobody knows.
#[tokio::test]
async fn a_turn_goes_on_where_its_process_ended() {
    join_all(Bench::all().await.into_iter().map(interrupt)).await;
}

async fn interrupt(bench: Bench) {
    bench.script.add([
        Answer::Calls(vec![("0", "write", json!({"n": 1}))]),
        Answer::Calls(vec![
            ("1", "look", json!({})),
            ("2", "never", json!({})),
            ("3", "never_write", json!({})),
            ("4", "write", json!({"n": 2})),
        ]),
    ]);
    let context =
        || TurnContext { scope: scope("session/a"), asker: Asker::none(), on_event: &|_| {} };
    tokio::select! {
        report = bench.agent.say(context(), "hello".to_owned()) => panic!("{report:?}"),
        // Said, answered, called, answered, and two of four calls have ended. It is dropped here,
        // as in a process that is killed: it lets go of nothing.
        () = eventually_recorded(&bench, 6, 1) => {}
    }

    // The call that never ends is made again, for it changes nothing, and waits again.
    let next = bench.again();
    tokio::select! {
        report = next.agent.resume(context()) => panic!("{report:?}"),
        () = eventually_recorded(&next, 7, 2) => {}
    }
    let recorded = recorded(&next).await;
    let lost = recorded.iter().find(|event| event["result"]["call_id"] == "3").unwrap();
    assert_eq!(
        lost["result"]["text"],
        "Error: the agent was interrupted while this call was under way, and nobody knows whether \
         it was made. Look before you call it again."
    );
    let session = at("session/a");

    // What is made again has the id that it had, by which a worker knows it.
    let ids = bench.ids.lock().clone();
    assert_eq!((ids.len(), &ids[0]), (2, &ids[1]), "{ids:?}");

    // One whose calls have all ended goes on with the model.
    let last = next.again();
    last.script.add([Answer::Says("done")]);
    let mut open = last.agent.sessions().open(&session).await.unwrap();
    let result = ToolResult::success("2", "at last");
    open.record(Event::CallEnded { result, timed_out: false }).await.unwrap();
    open.close().await;
    let report = last.agent.resume(context()).await.unwrap().unwrap();
    assert_eq!(report.end, answered("done"));
    assert_eq!(last.agent.resume(context()).await.unwrap(), None);
    assert_eq!(*bench.written.lock(), [json!({"n": 1}), json!({"n": 2})]);
    assert_eq!(*bench.looked.lock(), 1);
}

#[tokio::test]
async fn a_session_is_open_once() {
    let bench = Bench::sqlite();
    let session = at("session/a");
    let open = bench.agent.sessions().open(&session).await.unwrap();
    let other = bench.again();
    let waiting = other.agent.sessions().open(&session);
    let busy = tokio::time::timeout(Duration::from_secs(1), waiting).await;
    assert!(busy.is_err(), "it is in use");
    assert!(other.agent.sessions().open(&at("session/b")).await.is_ok(), "another is not");
    open.close().await;
    other.agent.sessions().open(&session).await.unwrap().close().await;
}

/// Whoever was held up for longer than its lease writes nothing into a session that another has.
#[tokio::test]
async fn who_has_lost_a_session_writes_nothing_into_it() {
    let bench = Bench::sqlite();
    let session = at("session/a");
    let mut first = bench.agent.sessions().open(&session).await.unwrap();
    first.record(Event::said("mine")).await.unwrap();
    // Its time is over.
    let store = bench.store.open().await.unwrap();
    let expiring = store.write(|transaction| {
        Box::pin(async {
            let over = sqlx::query("UPDATE leases SET until_ms = 0");
            over.execute(transaction.connection()).await?;
            Ok(())
        })
    });
    expiring.await.unwrap();
    let other = bench.again();
    let mut second = other.agent.sessions().open(&session).await.unwrap();
    assert!(first.record(Event::Cancelled).await.is_err());
    second.record(Event::Cancelled).await.unwrap();
    second.close().await;
}

#[tokio::test]
async fn a_session_that_is_damaged_is_told_and_hurts_no_other() {
    let bench = Bench::sqlite();
    bench.say("session/a", "hello").await;
    bench.say("session/b", "hello").await;
    let store = bench.store.open().await.unwrap();
    let damaging = store.write(|transaction| {
        Box::pin(async {
            let damage = sqlx::query(
                "UPDATE agent_events SET event = '{' WHERE session = 'session/a' AND number = 2",
            );
            damage.execute(transaction.connection()).await?;
            Ok(())
        })
    });
    damaging.await.unwrap();
    let error = bench.agent.sessions().open(&at("session/a")).await.err().unwrap().to_string();
    assert!(error.contains("session/a") && error.contains("event 2"), "{error}");
    assert_eq!(bench.say("session/b", "still?").await.end, answered("the script is over"));
}

async fn recorded(bench: &Bench) -> Vec<Value> {
    let store = bench.store.open().await.unwrap();
    let rows: Vec<String> = sqlx::query_scalar("SELECT event FROM agent_events ORDER BY number")
        .fetch_all(store.readers())
        .await
        .unwrap();
    rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect()
}

/// Waits until so many events are written down, and the tool `never` was called so many times: an
/// event is written before the calls after it begin.
async fn eventually_recorded(bench: &Bench, events: usize, never_calls: usize) {
    eventually(Duration::from_secs(20), async || {
        let recorded = recorded(bench).await.len();
        let called = bench.ids.lock().len();
        let is_reached = recorded >= events && called >= never_calls;
        if is_reached { Ok(()) } else { Err((recorded, called)) }
    })
    .await;
}
