//! Ids of the clients that settings name.
//!
//! Settings know a client by its name alone. A name that is removed from them and given to somebody
//! else later gets another id, so that the new client owns nothing of the old one.

use std::collections::{BTreeMap, BTreeSet};

use toolbus_store::sqlx::{self, Row as _};
use toolbus_store::{Error, LazyStore};
use toolbus_wire::envelope::new_id;
use toolbus_wire::name::AgentName;

/// The ids of these clients of an agent, by their names. Clients that are not named any more are
/// gone for good.
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
                "SELECT id, name FROM http_clients WHERE agent = $1 AND removed_ms IS NULL",
            )
            .bind(&agent)
            .fetch_all(transaction.connection())
            .await?;

            let mut ids = BTreeMap::new();
            for row in rows {
                let (id, name): (String, String) = (row.try_get("id")?, row.try_get("name")?);
                if new.remove(&name) {
                    ids.insert(name, id);
                    continue;
                }
                sqlx::query("UPDATE http_clients SET removed_ms = $1 WHERE id = $2")
                    .bind(now)
                    .bind(id)
                    .execute(transaction.connection())
                    .await?;
            }

            for name in new {
                let id = new_id();
                // Another process may have written it in the same moment.
                let row = sqlx::query(
                    "INSERT INTO http_clients (id, agent, name, created_ms) VALUES ($1, $2, $3, $4)
                     ON CONFLICT (agent, name) WHERE removed_ms IS NULL
                         DO UPDATE SET created_ms = http_clients.created_ms
                     RETURNING id",
                )
                .bind(id)
                .bind(&agent)
                .bind(&name)
                .bind(now)
                .fetch_one(transaction.connection())
                .await?;
                ids.insert(name, row.try_get("id")?);
            }
            Ok(ids)
        })
    });
    known.await
}
