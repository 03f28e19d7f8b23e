//! Search in working memory.

use futures_util::TryStreamExt as _;
use toolbus_store::sqlx::{self, AssertSqlSafe, Row as _};

use super::{Entry, EntryInfo, WorkingMemory, bind_below, select_below};
use crate::namespace::Path;
use crate::ranking::rank;
use crate::{Error, MemoryOwner, texts};

/// Most results of a search.
const RESULTS_MAX: usize = 20;

/// What is searched for. Nothing finds everything.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Words.
    pub query: Option<String>,
    /// The beginning of a category.
    pub category: Option<String>,
    /// Tags that an entry has all of.
    pub tags: Vec<String>,
}

/// What a search has found.
#[derive(Debug, Clone)]
pub struct Found {
    /// The entries, best first, or newest first without a query.
    pub entries: Vec<Entry>,
    /// How many entries were not read, because there were too many.
    pub unread: usize,
    /// The time where they are kept, in milliseconds of Unix time.
    pub now_ms: i64,
}

impl Filter {
    /// How it is told.
    pub(crate) fn describe(&self) -> String {
        let shown = |what: &str, text: &str| format!("{what}='{}'", texts::make_preview(text));
        let mut parts = Vec::new();
        parts.extend(self.query.as_ref().map(|query| shown("query", query)));
        parts.extend(self.category.as_ref().map(|category| shown("category", category)));
        if !self.tags.is_empty() {
            parts.push(shown("tags", &self.tags.join(", ")));
        }
        if parts.is_empty() { "no filters".to_owned() } else { parts.join(", ") }
    }

    fn takes(&self, entry: &EntryInfo) -> bool {
        let is_of_category = self.category.as_ref().is_none_or(|wanted| {
            let has = entry.category.as_deref().unwrap_or_default();
            texts::to_lower(has).starts_with(&texts::to_lower(wanted))
        });
        let has = |wanted: &String| entry.tags.iter().any(|tag| texts::eq_ignore_case(tag, wanted));
        is_of_category && self.tags.iter().all(has)
    }
}

impl WorkingMemory {
    /// Searches the entries at a path and below it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn search(
        &self,
        owner: &MemoryOwner,
        below: &Path,
        filter: &Filter,
    ) -> Result<Found, Error> {
        let select = select_below(self.store().location(), below, ", value");
        let text = format!("{select} ORDER BY stored_ms DESC, path");
        let store = self.store().open().await?;
        let query = bind_below(sqlx::query(AssertSqlSafe(text)), owner, below);
        let mut rows = query.fetch(store.readers());

        let mut found = Found { entries: Vec::new(), unread: 0, now_ms: 0 };
        let mut bytes = 0;
        while let Some(row) = rows.try_next().await? {
            found.now_ms = row.try_get("now_ms")?;
            let info = EntryInfo::read(&row)?;
            if !filter.takes(&info) {
                continue;
            }
            bytes += info.bytes;
            if bytes > self.config().searched_bytes_max {
                found.unread += 1;
                continue;
            }
            found.entries.push(Entry::read(&row)?);
        }
        drop(rows);

        if let Some(query) = filter.query.as_deref().filter(|query| !query.trim().is_empty()) {
            let ranked = rank(found.entries.iter().map(document).collect(), query).await;
            let mut entries: Vec<_> = found.entries.into_iter().map(Some).collect();
            found.entries = ranked.into_iter().filter_map(|at| entries[at].take()).collect();
        }
        found.entries.truncate(RESULTS_MAX);
        Ok(found)
    }
}

/// What an entry is found by.
fn document(entry: &Entry) -> String {
    let Entry { info, value } = entry;
    let key = info.path.replace(['_', '-', '/'], " ");
    let category = info.category.as_deref().unwrap_or_default();
    format!("{key} {value} {} {category}", info.tags.join(" "))
}
