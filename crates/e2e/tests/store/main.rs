//! A process that keeps state is killed, and its disk is full or read-only: what it was told to be
//! kept is there, and what it was told not to be is not.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use toolbus_store::{Location, Store, sqlx};
use toolbus_testkit::process::{Process, binary};
use toolbus_testkit::{eventually, postgres};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(120);
/// Rows that are written at a time.
const WRITERS: usize = 8;
const KILLS: i64 = 6;

/// The numbers of the lines that begin with this word. The last line may be cut off.
fn numbers(output: &str, word: &str) -> Vec<i64> {
    let words = output.lines().filter_map(|line| line.split_once(' '));
    let numbers = words.filter(|(first, _)| *first == word).map(|(_, rest)| rest);
    numbers.filter_map(|rest| rest.split(':').next()?.parse().ok()).collect()
}

async fn kill_again_and_again(location: &str) -> anyhow::Result<()> {
    let writer = binary("store-writer")?;
    let mut kept = BTreeSet::new();
    for kill in 0..KILLS {
        let folder = tempfile::tempdir()?;
        let first = (kill * 1_000_000).to_string();
        let mut command = Command::new(&writer);
        let mut process =
            Process::spawn("writer", command.args([location, &first]), folder.path())?;
        // Later each time, so that the kill falls into another moment.
        let enough = 10 + usize::try_from(kill)? * 17;
        eventually(PATIENCE, async || {
            let count = numbers(&process.stdout(), "kept").len();
            if count >= enough { Ok(()) } else { Err(process.logs()) }
        })
        .await;
        process.kill();
        // The last line may be cut off.
        let output = process.stdout();
        let whole = output.rsplit_once('\n').map_or("", |(whole, _)| whole);
        assert!(numbers(whole, "failed").is_empty(), "{output}");
        kept.extend(numbers(whole, "kept"));
    }

    let location: Location = location.parse()?;
    let store = Store::open(location, &[]).await?;
    let ids = sqlx::query_scalar("SELECT id FROM rows").fetch_all(store.readers()).await?;
    let there: BTreeSet<i64> = ids.into_iter().collect();
    store.close().await;
    let lost: Vec<_> = kept.difference(&there).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    // Those that were being told of.
    let untold = there.difference(&kept).count();
    assert!(untold <= WRITERS * usize::try_from(KILLS)?, "{untold} nobody was told of");
    Ok(())
}

#[tokio::test]
async fn what_was_kept_outlives_kills_with_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    kill_again_and_again(&format!("sqlite:{}/state.db", folder.path().display())).await.unwrap();
}

#[tokio::test]
async fn what_was_kept_outlives_kills_with_postgres() {
    let Some(location) = postgres::database().await else { return };
    kill_again_and_again(&location).await.unwrap();
}

/// Runs the writer in a mount namespace of its own, after `mount` was done for the folder `$1`.
fn write_on(folder: &Path, mount: &str) -> String {
    let script = format!(r#"{mount} && exec "$2" "sqlite:$1/state.db" 0"#);
    // A writer that is told of no failure would go on.
    let output = Command::new("timeout")
        .args(["60", "unshare", "--map-root-user", "--mount", "sh", "-c", &script, "sh"])
        .arg(folder)
        .arg(binary("store-writer").expect("the writer"))
        .output()
        .expect("its output");
    let text = String::from_utf8(output.stdout).expect("its output");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn a_full_disk_is_told_and_what_was_kept_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let output = write_on(folder.path(), r#"mount -t tmpfs -o size=700k none "$1""#);
    let kept = numbers(&output, "kept");
    assert!(kept.len() > 100, "{output}");
    let failed: Vec<_> = output.lines().filter(|line| line.starts_with("failed")).collect();
    assert!(failed.len() >= 20, "{output}");
    for line in failed {
        assert!(line.ends_with(": the disk that the state is on is full"), "{line}");
    }
    assert_eq!(numbers(&output, "there"), [i64::try_from(kept.len()).unwrap()], "{output}");
}

#[tokio::test]
async fn a_disk_that_can_only_be_read_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let location = Location::Sqlite(folder.path().join("state.db"));
    Store::open(location, &[]).await.unwrap().close().await;
    let mount = r#"mount --bind "$1" "$1" && mount -o remount,ro,bind "$1""#;
    let output = write_on(folder.path(), mount);
    assert_eq!(output, "failed to open: the state can only be read\n");
}
