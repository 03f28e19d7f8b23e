use tempfile::TempDir;
use toolbus_store::{Location, Migrations};
use toolbus_tools::id::SessionId;
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Principal, View};
use toolbus_wire::name::AgentName;

use super::*;
use crate::MIGRATIONS;

const TOOL: &str = "send";
/// The tables that there were before lineages were kept.
const OF_BEFORE: Migrations = Migrations { additions: &[], ..MIGRATIONS };

fn store_in(folder: &TempDir, migrations: Migrations) -> LazyStore {
    LazyStore::new(Location::Sqlite(folder.path().join("state.db")), &[migrations])
}

fn turn() -> Scope {
    let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
    scope.with_session(Some(SessionId::parse("session/a").unwrap()))
}

fn turn_over_http() -> Scope {
    turn().through(DoorSet::of(&[Door::Http]))
}

fn arguments() -> Value {
    json!({"to": "a"})
}

/// Goes on with a journal: whose it is, and what it knows of the write.
async fn go_on(store: &LazyStore, scope: &Scope, name: &str) -> (JournalOwnership, Known) {
    let journal = Journal::new(store.clone(), scope, Some(name.to_owned()));
    let ownership = journal.ownership().await.unwrap();
    (ownership, journal.begin(TOOL, &arguments()).await.unwrap())
}

/// Rules may refuse the call of another lineage, which would read its result here.
#[tokio::test]
async fn a_result_is_for_the_doors_and_the_view_that_the_write_was_made_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder, MIGRATIONS);
    let first = Journal::new(store.clone(), &turn(), None);
    assert_eq!(first.ownership().await.unwrap(), JournalOwnership::Missing);
    let Known::New(entry) = first.begin(TOOL, &arguments()).await.unwrap() else {
        panic!("it was not made before")
    };
    first.end(entry, &json!({"status": "ok", "text": "secret"})).await.unwrap();

    let (ownership, known) = go_on(&store, &turn(), first.name()).await;
    assert_eq!(ownership, JournalOwnership::Own);
    assert!(matches!(&known, Known::Made(result) if result["text"] == "secret"), "{known:?}");

    let others = [
        turn_over_http(),
        turn().with_view(View::all().without(["test/send"])),
        turn().with_view(View::all().only(["script/*"])),
        turn().with_view(View::all().inside("subagent")),
    ];
    for other in others {
        let (ownership, known) = go_on(&store, &other, first.name()).await;
        assert_eq!(ownership, JournalOwnership::OtherLineage, "{other:?}");
        assert!(matches!(&known, Known::Unknown), "{known:?}");
    }
    let session = SessionId::parse("session/b").unwrap();
    let other = turn().with_session(Some(session));
    assert_eq!(go_on(&store, &other, first.name()).await.0, JournalOwnership::Missing);
    store.close().await;
}

/// No write is made again because a program was upgraded before its chain went on.
#[tokio::test]
async fn a_journal_of_before_is_of_the_first_lineage_that_writes_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = store_in(&folder, OF_BEFORE);
    let owner = ArtifactOwner::of(&turn()).as_str().to_owned();
    let digest = sha256_hex(&canonical_text(&json!([TOOL, arguments()])));
    let write = store.open().await.unwrap().write(move |transaction| {
        Box::pin(async move {
            let now = transaction.now_ms().await?;
            sqlx::query(
                "INSERT INTO chains_journals (journal, digest, repetition, owner, began_ms, result)
                 VALUES ('chain_1', $1, 1, $2, $3, '{\"status\":\"ok\"}')",
            )
            .bind(&digest)
            .bind(&owner)
            .bind(now)
            .execute(transaction.connection())
            .await?;
            Ok(())
        })
    });
    write.await.unwrap();
    store.close().await;

    let store = store_in(&folder, MIGRATIONS);
    for scope in [turn(), turn_over_http()] {
        let (ownership, known) = go_on(&store, &scope, "chain_1").await;
        assert_eq!(ownership, JournalOwnership::Own);
        assert!(matches!(&known, Known::Made(_)), "{known:?}");
    }

    let journal = Journal::new(store.clone(), &turn(), Some("chain_1".to_owned()));
    let known = journal.begin("another", &arguments()).await.unwrap();
    assert!(matches!(&known, Known::New(_)), "{known:?}");
    let other = go_on(&store, &turn_over_http(), "chain_1").await;
    assert_eq!(other.0, JournalOwnership::OtherLineage);
    assert_eq!(go_on(&store, &turn(), "chain_1").await.0, JournalOwnership::Own);
    store.close().await;
}
