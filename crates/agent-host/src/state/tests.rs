//! State of an earlier program: an upgrade keeps it, and the earlier program can use it after a
//! rollback.

use std::path::Path;

use toolbus_schedule::{ScheduleConfig, ScheduleOwner};
use toolbus_store::sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use toolbus_store::sqlx::{self, AssertSqlSafe, ConnectOptions as _, Connection as _};
use toolbus_tools::Principal;
use toolbus_tools::scope::Proof;

use super::*;

/// Tables and rows as commit 34f5574 writes them.
const EARLIER: &str = include_str!("of_34f5574.sql");
/// The line before the rows.
const ROWS_HEADING: &str = "\n-- Rows.\n";

async fn connect(path: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new().filename(path).create_if_missing(true);
    options.connect().await.unwrap()
}

async fn execute(path: &Path, sql: &str) {
    let mut connection = connect(path).await;
    sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn read(path: &Path, query: &str) -> Vec<String> {
    let mut connection = connect(path).await;
    let query = AssertSqlSafe(query.to_owned());
    let rows = sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    rows
}

/// The tables that have rows of an earlier program, each with a query that returns every row as one
/// text of the columns that exist before the upgrade.
struct EarlierTables(Vec<(String, String)>);

impl EarlierTables {
    async fn of(path: &Path) -> Self {
        let tables = "SELECT name FROM sqlite_master
                      WHERE type = 'table' AND name <> 'migrations' ORDER BY name";
        let mut all = Vec::new();
        for table in read(path, tables).await {
            let columns = format!(
                "SELECT group_concat('quote(' || name || ')', ' || '','' || ')
                 FROM pragma_table_info('{table}')"
            );
            let columns = read(path, &columns).await.concat();
            let query = format!("SELECT {columns} AS written FROM {table} ORDER BY written");
            all.push((table, query));
        }
        Self(all)
    }

    async fn rows(&self, path: &Path) -> Vec<(&str, Vec<String>)> {
        let mut all = Vec::new();
        for (table, query) in &self.0 {
            all.push((&**table, read(path, query).await));
        }
        all
    }
}

/// Returns the values that a program of the earlier commit compares with its own migrations.
async fn compared_migrations(path: &Path) -> Vec<String> {
    let known = "SELECT owner || ' ' || version || ' ' || digest FROM migrations
                 WHERE owner NOT LIKE '%+%' ORDER BY owner, version";
    read(path, known).await
}

fn store_at(path: &Path) -> LazyStore {
    LazyStore::new(Location::Sqlite(path.to_owned()), &MIGRATIONS)
}

async fn upgrade(path: &Path) {
    let store = store_at(path);
    store.open().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn an_upgrade_keeps_every_row_and_can_be_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    execute(&path, EARLIER).await;
    let tables = EarlierTables::of(&path).await;
    let (rows, known) = (tables.rows(&path).await, compared_migrations(&path).await);
    assert!(rows.iter().all(|(_, rows)| !rows.is_empty()), "{rows:#?}");

    upgrade(&path).await;
    assert_eq!(tables.rows(&path).await, rows);
    assert_eq!(compared_migrations(&path).await, known, "the earlier program refuses the state");

    // The earlier program inserts the same rows again with its own statements.
    let delete = tables.0.iter().map(|(table, _)| format!("DELETE FROM {table};"));
    execute(&path, &delete.collect::<String>()).await;
    let (_, statements) = EARLIER.split_once(ROWS_HEADING).unwrap();
    execute(&path, statements).await;

    upgrade(&path).await;
    assert_eq!(tables.rows(&path).await, rows);
}

/// The text of owners does not change, so owners keep their rows.
#[tokio::test]
async fn owners_find_what_they_had() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.db");
    execute(&path, EARLIER).await;
    let store = store_at(&path);
    let zones = Arc::new(KeptZones::new(store.clone()));
    let schedules = Schedules::new(store.clone(), ScheduleConfig::default(), zones);

    let token = Proof::Token { issuer: "http".into(), id: None };
    let owners = [("ann", Proof::Local, "report"), ("ci", token, "nightly")];
    for (name, proof, task) in owners {
        let principal = Principal { name: name.into(), proof };
        let owner = ScheduleOwner { agent: AgentName::standard(), principal };
        let tasks = schedules.list(&owner).await.unwrap();
        let names: Vec<_> = tasks.iter().map(|task| &*task.name).collect();
        assert_eq!(names, [task], "of {name}");
    }
    store.close().await;
}
