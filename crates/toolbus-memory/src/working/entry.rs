//! Entries of working memory.

use std::time::Duration;

use toolbus_store::sqlx::Row as _;
use toolbus_store::sqlx::any::AnyRow;

use crate::namespace::Path;
use crate::{Error, texts};

/// An entry that is to be kept.
#[derive(Debug, Clone)]
pub struct NewEntry {
    pub(super) path: Path,
    pub(super) value: String,
    pub(super) ttl: Option<Duration>,
    pub(super) category: Option<String>,
    pub(super) tags: Vec<String>,
    pub(super) is_result: bool,
}

/// What is known of an entry beside its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryInfo {
    /// Its path, as it was written.
    pub path: String,
    /// Its category, if it has one.
    pub category: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// How many bytes its value has.
    pub bytes: u64,
    /// When it was saved, in milliseconds of Unix time.
    pub stored_ms: i64,
    /// Until when it is kept, in milliseconds of Unix time.
    pub expires_ms: i64,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is known of it.
    pub info: EntryInfo,
    /// Its value.
    pub value: String,
}

impl NewEntry {
    /// A value at a path, which is kept for as long as entries are.
    #[must_use]
    pub fn new(path: Path, value: impl Into<String>) -> Self {
        Self {
            path,
            value: value.into(),
            ttl: None,
            category: None,
            tags: Vec::new(),
            is_result: false,
        }
    }

    /// The same, kept for so long.
    #[must_use]
    pub fn with_ttl(self, ttl: Duration) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// The same in a category.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn with_category(self, category: Option<&str>) -> Result<Self, Error> {
        Ok(Self { category: texts::parse_category(category)?, ..self })
    }

    /// The same with these tags, which are written with commas between them.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn with_tags(self, tags: Option<&str>) -> Result<Self, Error> {
        Ok(Self { tags: texts::parse_tags(tags)?, ..self })
    }

    /// The same as a part of a result, which is counted apart from what is saved by hand.
    #[must_use]
    pub fn of_result(self) -> Self {
        Self { is_result: true, ..self }
    }
}

impl EntryInfo {
    pub(super) fn read(row: &AnyRow) -> Result<Self, Error> {
        let category: String = row.try_get("category")?;
        let tags: String = row.try_get("tags")?;
        Ok(Self {
            path: row.try_get("written_path")?,
            category: (!category.is_empty()).then_some(category),
            tags: tags.split(',').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
            bytes: row.try_get::<i64, _>("bytes")?.unsigned_abs(),
            stored_ms: row.try_get("stored_ms")?,
            expires_ms: row.try_get("expires_ms")?,
        })
    }

    /// The entry in a line of a list.
    pub(crate) fn describe(&self, now_ms: i64) -> String {
        let mut known =
            vec![format!("expires in {}", texts::format_time_left(self.expires_ms - now_ms))];
        known.extend(self.category.as_ref().map(|category| format!("category: {category}")));
        if !self.tags.is_empty() {
            known.push(format!("tags: {}", self.tags.join(", ")));
        }
        format!("- {} ({})", self.path, known.join(", "))
    }
}

impl Entry {
    pub(super) fn read(row: &AnyRow) -> Result<Self, Error> {
        let value: Vec<u8> = row.try_get("value")?;
        let value = String::from_utf8(value)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        Ok(Self { info: EntryInfo::read(row)?, value })
    }
}
