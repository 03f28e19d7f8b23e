//! Reading the log.

use toolbus_store::sqlx::{self, AssertSqlSafe};
use toolbus_store::{Error, LazyStore};
use toolbus_tools::id::ToolId;
use toolbus_tools::observe::CallStatus;

use crate::row::{AuditRow, COLUMNS};

/// Most rows of one answer.
pub const LIST_MAX: u32 = 10_000;

/// The audit log of a store, for who looks at it.
#[derive(Clone)]
pub struct AuditLog {
    store: LazyStore,
}

/// Which rows are wanted. By default all are.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Those of the run of this id.
    pub run: Option<String>,
    /// Those that ended so.
    pub status: Option<CallStatus>,
    /// Those that were about this tool.
    pub subject: Option<ToolId>,
}

impl AuditLog {
    /// The log of this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore) -> Self {
        Self { store }
    }

    /// The last rows of those that are wanted, at most `limit` and [`LIST_MAX`], the newest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, query: &Query, limit: u32) -> Result<Vec<AuditRow>, Error> {
        let wanted = [
            ("run", query.run.as_deref()),
            ("status", query.status.map(CallStatus::as_str)),
            ("subject", query.subject.as_ref().map(ToolId::as_str)),
        ];
        let wanted: Vec<_> =
            wanted.into_iter().filter_map(|(column, value)| Some((column, value?))).collect();

        let mut text = format!("SELECT {} FROM audit_calls", COLUMNS.join(", "));
        for (at, (column, _)) in wanted.iter().enumerate() {
            let keyword = if at == 0 { "WHERE" } else { "AND" };
            text.push_str(&format!(" {keyword} {column} = ${}", at + 1));
        }
        text.push_str(&format!(" ORDER BY began_ms DESC LIMIT ${}", wanted.len() + 1));

        let mut rows = sqlx::query_as(AssertSqlSafe(text));
        for (_, value) in wanted {
            rows = rows.bind(value.to_owned());
        }
        let rows = rows.bind(i64::from(limit.min(LIST_MAX)));
        Ok(rows.fetch_all(self.store.open().await?.readers()).await?)
    }
}
