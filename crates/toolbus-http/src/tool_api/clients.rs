//! Ids of the clients that settings name.
//!
//! Settings know a client by its name alone. A name that is removed from them and given to somebody
//! else later gets an id, so that the new client owns nothing of the old one. The clients of the
//! first start that knows ids own by name, without an id: they keep the rows of before, and an
//! earlier program finds their rows after a rollback. A client that the settings name later has an
//! id, because rows with its name may belong to a client that was removed before the first start.

use std::collections::{BTreeMap, BTreeSet};

use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error, LazyStore, Transaction};
use toolbus_tools::Principal;
use toolbus_tools::scope::Proof;
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;

/// Counts the clients that an agent has or had.
const COUNT_ROWS: &str = "SELECT COUNT(*) FROM http_clients WHERE agent = $1";

/// A client that the settings name for the first time, or again.
struct NewClient<'a> {
    agent: &'a str,
    name: &'a str,
    owns_by_name: bool,
    now: i64,
}

/// Returns the ids of these clients of an agent by their names, without clients that own by name.
/// Removes clients that the settings no longer name.
///
/// # Errors
/// When the state cannot be read or written.
pub async fn client_ids(
    store: &LazyStore,
    agent: &AgentName,
    names: impl IntoIterator<Item = String>,
) -> Result<BTreeMap<String, String>, Error> {
    let mut new: BTreeSet<String> = names.into_iter().collect();
    let agent = agent.to_string();
    let known = store.open().await?.write(move |transaction| {
        Box::pin(async move {
            let now = transaction.now_ms().await?;
            let rows = sqlx::query(
                "SELECT id, name, owns_by_name FROM http_clients
                 WHERE agent = $1 AND removed_ms IS NULL",
            )
            .bind(&agent)
            .fetch_all(transaction.connection())
            .await?;

            let mut ids = BTreeMap::new();
            for row in rows {
                let (id, name): (String, String) = (row.try_get("id")?, row.try_get("name")?);
                let owns_by_name: i64 = row.try_get("owns_by_name")?;
                if new.remove(&name) {
                    if owns_by_name == 0 {
                        ids.insert(name, id);
                    }
                    continue;
                }
                sqlx::query("UPDATE http_clients SET removed_ms = $1 WHERE id = $2")
                    .bind(now)
                    .bind(id)
                    .execute(transaction.connection())
                    .await?;
            }

            let owns_by_name = !has_started(transaction, &agent).await?;
            if owns_by_name && new.is_empty() {
                record_start(transaction, &agent, now).await?;
            }
            for name in new {
                let client = NewClient { agent: &agent, name: &name, owns_by_name, now };
                if let Some(id) = insert(transaction, client).await? {
                    ids.insert(name, id);
                }
            }
            Ok(ids)
        })
    });
    known.await
}

/// Returns the client of an agent that has the name of this principal now, with its id. Before the
/// first start of the agent every client owns by name. `None`: no client has the name.
pub(crate) async fn current_client(
    store: &LazyStore,
    agent: &AgentName,
    mut named: Principal,
) -> Result<Option<Principal>, Error> {
    let readers = store.open().await?.readers();
    let last = sqlx::query(
        "SELECT id, owns_by_name, removed_ms FROM http_clients WHERE agent = $1 AND name = $2
         ORDER BY CASE WHEN removed_ms IS NULL THEN 0 ELSE 1 END LIMIT 1",
    )
    .bind(agent.to_string())
    .bind(named.name.to_string())
    .fetch_optional(readers)
    .await?;

    let Some(row) = last else {
        let rows: i64 =
            sqlx::query_scalar(COUNT_ROWS).bind(agent.to_string()).fetch_one(readers).await?;
        return Ok(Some(named).filter(|_| rows == 0));
    };
    if row.try_get::<Option<i64>, _>("removed_ms")?.is_some() {
        return Ok(None);
    }
    if row.try_get::<i64, _>("owns_by_name")? == 0
        && let Proof::Token { id, .. } = &mut named.proof
    {
        *id = Some(row.try_get::<String, _>("id")?.into());
    }
    Ok(Some(named))
}

/// Returns true if the agent has started before with ids of clients.
async fn has_started(transaction: &mut Transaction, agent: &str) -> Result<bool, Error> {
    let rows: i64 =
        sqlx::query_scalar(COUNT_ROWS).bind(agent).fetch_one(transaction.connection()).await?;
    Ok(rows > 0)
}

/// Records the first start of an agent without clients, as a removed client without a name.
async fn record_start(transaction: &mut Transaction, agent: &str, now: i64) -> Result<(), Error> {
    sqlx::query(
        "INSERT INTO http_clients (id, agent, name, owns_by_name, created_ms, removed_ms)
         VALUES ($1, $2, '', 1, $3, $3)",
    )
    .bind(new_id())
    .bind(agent)
    .bind(now)
    .execute(transaction.connection())
    .await?;
    Ok(())
}

/// Inserts a client, unless another process does so at the same time, and returns its id. `None`:
/// the client owns by name.
async fn insert(
    transaction: &mut Transaction,
    client: NewClient<'_>,
) -> Result<Option<String>, Error> {
    let row = sqlx::query(
        "INSERT INTO http_clients (id, agent, name, owns_by_name, created_ms)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (agent, name) WHERE removed_ms IS NULL
             DO UPDATE SET created_ms = http_clients.created_ms
         RETURNING id, owns_by_name",
    )
    .bind(new_id())
    .bind(client.agent)
    .bind(client.name)
    .bind(i64::from(client.owns_by_name))
    .bind(client.now)
    .fetch_one(transaction.connection())
    .await?;

    let owns_by_name: i64 = row.try_get("owns_by_name")?;
    Ok(if owns_by_name == 0 { Some(row.try_get("id")?) } else { None })
}
