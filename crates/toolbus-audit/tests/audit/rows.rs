//! What is kept of a call, and for how long.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolbus_audit::{AuditConfig, AuditRow, MIGRATIONS, Query};
use toolbus_store::{LazyStore, Migrations, sqlx};
use toolbus_testkit::state::StatePlace;
use toolbus_tools::id::CallId;
use toolbus_tools::observe::{ArgumentsDigest, CallStatus};
use toolbus_tools::scope::Proof;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::name::AgentName;

use crate::support::{Host, log};

#[tokio::test]
async fn every_call_leaves_one_row_with_who_what_and_how() {
    for place in StatePlace::all().await {
        let host = Host::new(&place.location, AuditConfig::default());
        let secret = json!({"password": "canary-4711"});
        assert!(host.call("work", secret.clone()).await.is_ok());
        assert!(host.call("work", json!({"fail": true})).await.is_err());
        assert!(host.call("secret", json!({})).await.is_err());
        assert!(host.call("missing", json!({})).await.is_err());
        let run = host.run().to_owned();
        host.close().await;

        let log = log(&place.location);
        let mut rows = log.list(&Query::default(), 100).await.unwrap();
        // Several may have begun in one millisecond.
        rows.sort_by_key(|row| (row.tool.clone(), row.status.clone()));
        let of = |row: &AuditRow| {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (error, gate) = (text(&row.error), text(&row.refused_by));
            format!("{} {} {error} {gate} {}", row.tool, row.status, row.execution)
        };
        let all: Vec<_> = rows.iter().map(of).collect();
        let expected = [
            "missing error tool_not_found look-up not_started",
            "secret denied denied permission not_started",
            "work error execution_failed  started",
            "work ok   started",
        ];
        assert_eq!(all, expected, "{}", place.location);

        let row = &rows[3];
        assert_eq!((&*row.principal, &*row.door), ("claimed:alice", "bus"));
        assert_eq!(row.subject.as_deref(), Some("test/work"));
        assert_eq!(row.arguments, Some(ArgumentsDigest::of(&secret).to_string()));
        assert!(rows.iter().all(|row| row.run == run && row.took_us >= 0));
        let text = serde_json::to_string(&rows).unwrap();
        assert!(!text.contains("canary") && !text.contains("the result"), "{text}");

        let denied = Query { status: Some(CallStatus::Denied), ..Query::default() };
        let denied = log.list(&denied, 100).await.unwrap();
        assert_eq!(denied.iter().map(of).collect::<Vec<_>>(), [expected[1]]);
        assert_eq!(log.list(&Query::default(), 2).await.unwrap().len(), 2);
    }
}

/// A row lists all doors in order, and the key that called. A later key with the same name is
/// another owner.
#[tokio::test]
async fn a_row_names_every_door_and_the_owner() {
    let of_key = |id: &str| {
        let proof = Proof::Token { issuer: "toolbus-keys".into(), id: Some(id.into()) };
        let ci = Principal { name: "ci".into(), proof };
        let scope = Scope::new(Door::Http, ci, AgentName::standard());
        let turn = scope.child(Door::Turn, &CallId::random()).unwrap();
        Arc::new(turn.child(Door::Chain, &CallId::random()).unwrap())
    };
    for place in StatePlace::all().await {
        let host = Host::new(&place.location, AuditConfig::default());
        for key in ["key_1", "key_2"] {
            assert!(host.call_in(&of_key(key), "work", json!({"key": key})).await.is_ok());
        }
        host.close().await;

        let rows = log(&place.location).list(&Query::default(), 100).await.unwrap();
        let mut owners = Vec::new();
        for row in rows {
            assert_eq!((&*row.door, &*row.principal), ("chain", "token:toolbus-keys/ci"));
            let json = serde_json::to_value(&row).unwrap();
            assert_eq!(json["lineage"]["doors"], json!(["http", "turn", "chain"]));
            assert_eq!(json["lineage"]["depth"], 2);
            owners.push(row.lineage.unwrap().owner);
        }
        owners.sort();
        let expected = ["key_1", "key_2"].map(|id| format!("token:toolbus-keys/ci#{id}"));
        assert_eq!(owners, expected, "{}", place.location);
    }
}

/// A program without the column writes rows into the same log.
#[tokio::test]
async fn rows_of_older_programs_have_no_lineage() {
    for place in StatePlace::all().await {
        let host = Host::new(&place.location, AuditConfig::default());
        host.work(1).await;
        host.close().await;

        let older = Migrations { additions: &[], ..MIGRATIONS };
        let store = LazyStore::new(place.location.parse().unwrap(), &[older]);
        let written = store.open().await.unwrap().write(|transaction| {
            Box::pin(async move {
                let insert = "INSERT INTO audit_calls (began_ms, took_us, call_id, run, agent,
                                  door, principal, tool, status, execution)
                              VALUES (1, 1, 'old', 'run', 'RockBot', 'bus', 'claimed:alice',
                                  'work', 'ok', 'started')";
                sqlx::query(insert).execute(transaction.connection()).await?;
                Ok(())
            })
        });
        written.await.unwrap();
        store.close().await;

        let rows = log(&place.location).list(&Query::default(), 100).await.unwrap();
        let known: Vec<_> =
            rows.iter().map(|row| (row.call_id == "old", row.lineage.is_some())).collect();
        assert_eq!(known, [(false, true), (true, false)], "{rows:?}");
    }
}

#[tokio::test]
async fn the_oldest_go_where_there_are_too_many() {
    for place in StatePlace::all().await {
        let host = Host::new(&place.location, AuditConfig::default());
        host.work(30).await;
        host.close().await;
        // sleeps: those to come are younger, by a clock of milliseconds.
        tokio::time::sleep(Duration::from_millis(5)).await;

        let config = AuditConfig { rows_max: 4, ..AuditConfig::default() };
        let host = Host::new(&place.location, config);
        host.work(3).await;
        let run = host.run().to_owned();
        host.close().await;
        let rows = log(&place.location).list(&Query::default(), 100).await.unwrap();
        assert!(rows.len() <= 4, "{rows:?}");
        let young = rows.iter().filter(|row| row.run == run).count();
        assert_eq!(young, 3, "{rows:?}");
    }
}

/// Makes all rows an hour older.
async fn pass_an_hour(location: &str) {
    let store = LazyStore::new(location.parse().expect("a location"), &[MIGRATIONS]);
    let passed = store.open().await.expect("a store").write(|transaction| {
        Box::pin(async move {
            let update = "UPDATE audit_calls SET began_ms = began_ms - 3600000";
            sqlx::query(update).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    passed.await.expect("an hour passes");
    store.close().await;
}

#[tokio::test]
async fn what_is_too_old_goes() {
    for place in StatePlace::all().await {
        let host = Host::new(&place.location, AuditConfig::default());
        host.work(3).await;
        host.close().await;
        pass_an_hour(&place.location).await;

        let config = AuditConfig { keep_for: Duration::from_secs(1_800), ..AuditConfig::default() };
        let host = Host::new(&place.location, config);
        host.work(2).await;
        let run = host.run().to_owned();
        host.close().await;
        let rows = log(&place.location).list(&Query::default(), 100).await.unwrap();
        assert!(rows.iter().all(|row| row.run == run), "{rows:?}");
    }
}

/// More rows than one statement has, and than one transaction takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_calls_is_written_as_a_whole() {
    for place in StatePlace::all().await {
        let host = Host::new(&place.location, AuditConfig::default());
        host.work(5_200).await;
        assert_eq!(host.audit.dropped(), 0);
        host.close().await;
        let rows = log(&place.location).list(&Query::default(), 10_000).await.unwrap();
        assert_eq!(rows.len(), 5_200, "{}", place.location);
    }
}
