//! `store-writer LOCATION FIRST`: writes rows numbered from FIRST into a store, some at a time, and
//! prints `kept NUMBER` once a row is kept and `failed NUMBER: WHY` where it is not. After a few
//! failures it prints `there COUNT`, how many rows it finds, and ends. For tests, which kill it and
//! take its disk away.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use anyhow::Context as _;
use toolbus_store::{Migration, Migrations, Store, sqlx};

/// Writers at a time.
const WRITERS: usize = 8;
/// Failures after which no more is tried.
const FAILURES_MAX: usize = 20;
const ROWS: Migrations = Migrations {
    owner: "rows",
    steps: &[Migration {
        version: 1,
        sql: "CREATE TABLE rows (id BIGINT PRIMARY KEY, text TEXT NOT NULL)",
    }],
    additions: &[],
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [location, first] = arguments.as_slice() else {
        anyhow::bail!("usage: store-writer LOCATION FIRST");
    };
    let next = Arc::new(AtomicI64::new(first.parse().context("FIRST is no number")?));
    let failures = Arc::new(AtomicUsize::new(0));
    let store = match Store::open(location.parse()?, &[ROWS]).await {
        Ok(store) => store,
        Err(error) => return say(&format!("failed to open: {error}")),
    };

    let mut writing = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let (store, next, failures) = (store.clone(), Arc::clone(&next), Arc::clone(&failures));
        writing.spawn(async move {
            while failures.load(Ordering::Relaxed) < FAILURES_MAX {
                let id = next.fetch_add(1, Ordering::Relaxed);
                match write(&store, id).await {
                    Ok(()) => say(&format!("kept {id}"))?,
                    Err(error) => {
                        failures.fetch_add(1, Ordering::Relaxed);
                        say(&format!("failed {id}: {error}"))?;
                    }
                }
            }
            anyhow::Ok(())
        });
    }
    while let Some(written) = writing.join_next().await {
        written??;
    }

    let count: i64 =
        sqlx::query_scalar("SELECT count(*) FROM rows").fetch_one(store.readers()).await?;
    say(&format!("there {count}"))
}

async fn write(store: &Store, id: i64) -> Result<(), toolbus_store::Error> {
    store
        .write(move |transaction| {
            Box::pin(async move {
                sqlx::query("INSERT INTO rows (id, text) VALUES ($1, $2)")
                    .bind(id)
                    .bind("x".repeat(500))
                    .execute(transaction.connection())
                    .await?;
                Ok(())
            })
        })
        .await
}

/// Prints a line at once.
fn say(line: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
