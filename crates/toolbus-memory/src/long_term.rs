//! Long-term memory: what an agent remembers of a person across sessions.

use toolbus_store::LazyStore;
use toolbus_wire::envelope::new_id;

use crate::items::{Item, ItemKind, Items};
use crate::ranking::rank;
use crate::{Error, MemoryOwner, texts};

/// Largest memory, in bytes.
pub const MEMORY_BYTES_MAX: usize = 8 << 10;
/// Most results of a search.
const RESULTS_MAX: usize = 20;
/// Characters of an id.
const ID_CHARS: usize = 12;

const KIND: ItemKind = ItemKind {
    name: "memory",
    plural: "memories",
    max: 5_000,
    bytes_max: 8 << 20,
    way_out: "Delete those that do not matter any more (delete_memory)",
};

/// The long-term memory of one store. Clones are the same.
#[derive(Clone)]
pub struct LongTermMemory {
    items: Items,
}

/// Something that is remembered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// What it is deleted by.
    pub id: String,
    /// What is remembered.
    pub content: String,
    /// Its category, if it has one.
    pub category: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// How long ago it was saved, in milliseconds.
    pub age_ms: i64,
}

impl LongTermMemory {
    /// Long-term memory in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore) -> Self {
        Self { items: Items::new(store, KIND) }
    }

    /// Remembers something, and gives its id.
    ///
    /// # Errors
    /// When it is too large, there is too much already, or it cannot be written.
    pub async fn save(
        &self,
        owner: &MemoryOwner,
        content: &str,
        category: Option<&str>,
        tags: Option<&str>,
    ) -> Result<String, Error> {
        let id = new_id()[..ID_CHARS].to_owned();
        let item = Item {
            id: id.clone(),
            content: texts::check_content("content", content, MEMORY_BYTES_MAX)?,
            category: texts::parse_category(category)?.unwrap_or_default(),
            tags: texts::parse_tags(tags)?,
            ..Item::default()
        };
        self.items.put(owner, item).await?;
        Ok(id)
    }

    /// What is remembered by these words, best first, or the newest without words; of a category
    /// that begins like this.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn search(
        &self,
        owner: &MemoryOwner,
        query: Option<&str>,
        category: Option<&str>,
    ) -> Result<Vec<Memory>, Error> {
        let mut list = self.items.list(owner).await?;
        if let Some(category) = category.map(|category| texts::to_lower(category.trim())) {
            list.items.retain(|item| texts::to_lower(&item.category).starts_with(&category));
        }

        list.items.reverse();
        let found: Vec<_> = match query.filter(|query| !query.trim().is_empty()) {
            Some(query) => {
                let ranked = rank(list.items.iter().map(document).collect(), query).await;
                ranked.into_iter().map(|at| &list.items[at]).take(RESULTS_MAX).collect()
            }
            None => list.items.iter().take(RESULTS_MAX).collect(),
        };
        Ok(found.into_iter().map(|item| Memory::new(item.clone(), list.now_ms)).collect())
    }

    /// Forgets a memory, and gives it back.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn delete(&self, owner: &MemoryOwner, id: &str) -> Result<Option<Memory>, Error> {
        let id = texts::to_lower(id.trim());
        if id.len() != ID_CHARS || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let removed = self.items.remove(owner, &id).await?;
        Ok(removed.map(|item| Memory::new(item, 0)))
    }

    /// The categories there are, in alphabetical order, and how many memories each has.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn categories(&self, owner: &MemoryOwner) -> Result<Vec<(String, usize)>, Error> {
        let mut counts = std::collections::BTreeMap::<String, usize>::new();
        for item in self.items.list_without_contents(owner).await?.items {
            if !item.category.is_empty() {
                *counts.entry(item.category).or_default() += 1;
            }
        }
        Ok(counts.into_iter().collect())
    }
}

impl Memory {
    fn new(item: Item, now_ms: i64) -> Self {
        Self {
            id: item.id,
            content: item.content,
            category: (!item.category.is_empty()).then_some(item.category),
            tags: item.tags,
            age_ms: now_ms - item.stored_ms,
        }
    }
}

/// What a memory is found by.
fn document(item: &Item) -> String {
    let category = item.category.replace(['/', '-'], " ");
    format!("{} {} {category}", item.content, item.tags.join(" "))
}
