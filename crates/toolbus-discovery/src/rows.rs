//! Rows: how totals and events are written and read.

use std::hash::Hash;

use toolbus_store::sqlx::any::AnyRow;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};
use toolbus_store::{Error, Store, Transaction};
use toolbus_tools::id::ToolId;

use crate::learned::{PairKey, ToolKey, UseKey, Uses};
use crate::ledger::Totals;
use crate::statistics::{BUCKETS, Statistics};

/// The key of totals that have a table: texts, and a period.
pub(crate) trait RowKey: Clone + Eq + Hash + Ord + Send + Sync + 'static {
    const TABLE: &'static str;
    /// The columns of the texts.
    const COLUMNS: &'static [&'static str];

    fn texts(&self) -> Vec<&str>;
    fn period(&self) -> i64;
    /// The key of these texts. `None`: it is none that this program would have written.
    fn read(texts: &[String], period: i64) -> Option<Self>;
}

/// Totals as columns: counts, which add up, and when it was last.
pub(crate) trait RowTotals: Totals + Send + Sync + 'static {
    /// The columns of the counts. The first is how much was used.
    const COLUMNS: &'static [&'static str];

    fn counts(&self) -> Vec<u64>;
    fn last_used_ms(&self) -> i64;
    fn read(counts: &[u64], last_used_ms: i64) -> Self;
}

impl RowKey for ToolKey {
    const TABLE: &'static str = "discovery_tools";
    const COLUMNS: &'static [&'static str] = &["tool"];

    fn texts(&self) -> Vec<&str> {
        vec![self.tool.as_str()]
    }

    fn period(&self) -> i64 {
        self.period
    }

    fn read(texts: &[String], period: i64) -> Option<Self> {
        Some(Self { tool: ToolId::parse(&texts[0]).ok()?, period })
    }
}

impl RowKey for UseKey {
    const TABLE: &'static str = "discovery_uses";
    // The column holds the text of the owner. Its name is older than the ids of owners.
    const COLUMNS: &'static [&'static str] = &["principal", "tool"];

    fn texts(&self) -> Vec<&str> {
        vec![&self.owner, self.tool.as_str()]
    }

    fn period(&self) -> i64 {
        self.period
    }

    fn read(texts: &[String], period: i64) -> Option<Self> {
        let tool = ToolId::parse(&texts[1]).ok()?;
        Some(Self { owner: texts[0].as_str().into(), tool, period })
    }
}

impl RowKey for PairKey {
    const TABLE: &'static str = "discovery_pairs";
    const COLUMNS: &'static [&'static str] = &["tool_before", "tool_after"];

    fn texts(&self) -> Vec<&str> {
        vec![self.before.as_str(), self.after.as_str()]
    }

    fn period(&self) -> i64 {
        self.period
    }

    fn read(texts: &[String], period: i64) -> Option<Self> {
        let before = ToolId::parse(&texts[0]).ok()?;
        Some(Self { before, after: ToolId::parse(&texts[1]).ok()?, period })
    }
}

impl RowTotals for Statistics {
    const COLUMNS: &'static [&'static str] = &[
        "successes",
        "failures",
        "timeouts",
        "unavailable",
        "weight",
        "b00",
        "b01",
        "b02",
        "b03",
        "b04",
        "b05",
        "b06",
        "b07",
        "b08",
        "b09",
        "b10",
        "b11",
        "b12",
        "b13",
        "b14",
        "b15",
        "b16",
        "b17",
        "b18",
        "b19",
        "b20",
        "b21",
        "b22",
        "b23",
    ];

    fn counts(&self) -> Vec<u64> {
        let Self { successes, failures, timeouts, unavailable, weight, durations, .. } = self;
        let mut counts = vec![*successes, *failures, *timeouts, *unavailable, *weight];
        counts.extend(durations);
        counts
    }

    fn last_used_ms(&self) -> i64 {
        self.last_used_ms
    }

    fn read(counts: &[u64], last_used_ms: i64) -> Self {
        let mut durations = [0; BUCKETS];
        durations.copy_from_slice(&counts[5..]);
        let [successes, failures, timeouts, unavailable, weight] =
            [counts[0], counts[1], counts[2], counts[3], counts[4]];
        Self { successes, failures, timeouts, unavailable, weight, durations, last_used_ms }
    }
}

impl RowTotals for Uses {
    const COLUMNS: &'static [&'static str] = &["successes", "failures"];

    fn counts(&self) -> Vec<u64> {
        vec![self.successes, self.failures]
    }

    fn last_used_ms(&self) -> i64 {
        self.last_used_ms
    }

    fn read(counts: &[u64], last_used_ms: i64) -> Self {
        Self { successes: counts[0], failures: counts[1], last_used_ms }
    }
}

/// Adds to the totals of these keys, and gives what each total is then. The keys are in order, so
/// that no two processes wait for each other.
pub(crate) async fn add<K: RowKey, V: RowTotals>(
    transaction: &mut Transaction,
    added: Vec<(K, V)>,
) -> Result<Vec<(K, V)>, Error> {
    let now_ms = transaction.now_ms().await?;
    let text = add_text::<K, V>();
    let mut totals = Vec::with_capacity(added.len());
    for (key, more) in added {
        let mut query = sqlx::query(AssertSqlSafe(text.clone()));
        for part in key.texts() {
            query = query.bind(part.to_owned());
        }
        query = query.bind(key.period());
        for count in more.counts() {
            query = query.bind(to_signed(count));
        }
        let query = query.bind(more.last_used_ms()).bind(now_ms);
        let row = query.fetch_one(transaction.connection()).await?;
        let total = read_totals(&row, 0)?;
        totals.push((key, total));
    }
    Ok(totals)
}

/// The statement that adds to the totals of a key and gives them.
fn add_text<K: RowKey, V: RowTotals>() -> String {
    let table = K::TABLE;
    let keys = [K::COLUMNS, &["period"]].concat();
    let columns = [&keys, V::COLUMNS, &["last_used_ms", "updated_ms"]].concat();
    let values: Vec<_> = (1..=columns.len()).map(|number| format!("${number}")).collect();
    let sums = V::COLUMNS.iter().map(|name| format!("{name} = {table}.{name} + excluded.{name}"));
    let sums: Vec<_> = sums.collect();

    format!(
        "INSERT INTO {table} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {}, \
         last_used_ms = CASE WHEN {table}.last_used_ms > excluded.last_used_ms \
         THEN {table}.last_used_ms ELSE excluded.last_used_ms END, \
         updated_ms = excluded.updated_ms RETURNING {}, last_used_ms",
        columns.join(", "),
        values.join(", "),
        keys.join(", "),
        sums.join(", "),
        V::COLUMNS.join(", "),
    )
}

/// What a table has that was written since, of periods from this one on: the last that were used
/// first, and at most so many.
pub(crate) async fn read_since<K: RowKey, V: RowTotals>(
    store: &Store,
    since_ms: i64,
    oldest_period: i64,
    rows_max: usize,
) -> Result<(Vec<(K, V)>, i64), Error> {
    let text = format!(
        "SELECT {}, period, {}, last_used_ms, updated_ms FROM {} \
         WHERE updated_ms >= $1 AND period >= $2 ORDER BY last_used_ms DESC LIMIT $3",
        K::COLUMNS.join(", "),
        V::COLUMNS.join(", "),
        K::TABLE,
    );
    let rows_max = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let query = sqlx::query(AssertSqlSafe(text)).bind(since_ms).bind(oldest_period).bind(rows_max);
    let rows = query.fetch_all(store.readers()).await?;

    let mut newest = since_ms;
    let mut totals = Vec::with_capacity(rows.len());
    for row in rows {
        let texts = (0..K::COLUMNS.len()).map(|at| row.try_get::<String, _>(at));
        let texts = texts.collect::<Result<Vec<_>, _>>()?;
        let period = row.try_get(K::COLUMNS.len())?;
        newest = newest.max(row.try_get("updated_ms")?);
        if let Some(key) = K::read(&texts, period) {
            totals.push((key, read_totals(&row, K::COLUMNS.len() + 1)?));
        }
    }
    Ok((totals, newest))
}

/// Takes away what is too old, and the least used where there is too much.
pub(crate) async fn tidy<K: RowKey>(
    transaction: &mut Transaction,
    oldest_period: i64,
    rows_max: i64,
) -> Result<u64, Error> {
    let table = K::TABLE;
    let old = format!("DELETE FROM {table} WHERE period < $1");
    let old = sqlx::query(AssertSqlSafe(old)).bind(oldest_period);
    let old = old.execute(transaction.connection()).await?.rows_affected();

    let count = format!("SELECT COUNT(*) FROM {table}");
    let count = sqlx::query_scalar::<_, i64>(AssertSqlSafe(count));
    let excess = count.fetch_one(transaction.connection()).await? - rows_max;
    if excess <= 0 {
        return Ok(old);
    }
    let keys = [K::COLUMNS, &["period"]].concat().join(", ");
    let least = format!(
        "DELETE FROM {table} WHERE ({keys}) IN \
         (SELECT {keys} FROM {table} ORDER BY successes, last_used_ms LIMIT $1)"
    );
    let least = sqlx::query(AssertSqlSafe(least)).bind(excess);
    Ok(old + least.execute(transaction.connection()).await?.rows_affected())
}

/// Writes events as JSON.
pub(crate) async fn add_events(
    transaction: &mut Transaction,
    table: &'static str,
    events: Vec<(i64, String)>,
) -> Result<(), Error> {
    let text = format!("INSERT INTO {table} (at_ms, event) VALUES ($1, $2)");
    for (at_ms, event) in events {
        let query = sqlx::query(AssertSqlSafe(text.clone())).bind(at_ms).bind(event);
        query.execute(transaction.connection()).await?;
    }
    Ok(())
}

/// Takes events away that are too old or too many.
pub(crate) async fn tidy_events(
    transaction: &mut Transaction,
    table: &'static str,
    oldest_ms: i64,
    rows_max: i64,
) -> Result<u64, Error> {
    let last = format!("SELECT at_ms FROM {table} ORDER BY at_ms DESC LIMIT 1 OFFSET $1");
    let last = sqlx::query_scalar::<_, i64>(AssertSqlSafe(last)).bind(rows_max);
    let last = last.fetch_optional(transaction.connection()).await?;
    let oldest_ms = last.map_or(i64::MIN, |ms| ms.saturating_add(1)).max(oldest_ms);
    let old = format!("DELETE FROM {table} WHERE at_ms < $1");
    let old = sqlx::query(AssertSqlSafe(old)).bind(oldest_ms);
    Ok(old.execute(transaction.connection()).await?.rows_affected())
}

/// The last events of a table as JSON, the newest first.
pub(crate) async fn last_events(
    store: &Store,
    table: &'static str,
    limit: usize,
) -> Result<Vec<String>, Error> {
    let text = format!("SELECT event FROM {table} ORDER BY at_ms DESC LIMIT $1");
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let query = sqlx::query_scalar(AssertSqlSafe(text)).bind(limit);
    Ok(query.fetch_all(store.readers()).await?)
}

/// The totals of a row, whose counts begin at this column.
fn read_totals<V: RowTotals>(row: &AnyRow, first: usize) -> Result<V, Error> {
    let counts = (0..V::COLUMNS.len()).map(|at| row.try_get::<i64, _>(first + at));
    let counts = counts.collect::<Result<Vec<_>, _>>()?;
    let counts: Vec<_> = counts.into_iter().map(|count| count.max(0).cast_unsigned()).collect();
    let last_used_ms = row.try_get(first + V::COLUMNS.len())?;
    Ok(V::read(&counts, last_used_ms))
}

fn to_signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
