//! Skills: procedures that an agent has written down for itself, found again by BM25.

use toolbus_store::LazyStore;

use crate::items::{Item, ItemKind, Items};
use crate::ranking::rank;
use crate::{Error, MemoryOwner, texts};

/// Largest skill, in bytes.
pub const SKILL_BYTES_MAX: usize = 64 << 10;
/// Longest name of a skill, in characters.
const NAME_CHARS_MAX: usize = 100;
/// Longest summary, in characters.
const SUMMARY_CHARS_MAX: usize = 150;

const KIND: ItemKind = ItemKind {
    name: "skill",
    plural: "skills",
    max: 500,
    bytes_max: 8 << 20,
    way_out: "Delete those that are of no use any more (delete_skill)",
};

/// The skills of one store. Clones are the same.
#[derive(Clone)]
pub struct Skills {
    items: Items,
}

/// What is known of a skill without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillSummary {
    /// What it is read by.
    pub name: String,
    /// What it is for.
    pub summary: String,
}

impl Skills {
    /// Skills in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore) -> Self {
        Self { items: Items::new(store, KIND) }
    }

    /// Keeps a skill, in place of the one of its name, and gives the name. Its summary is its first
    /// line of text until somebody sets one.
    ///
    /// # Errors
    /// When it is too large, there are too many already, or it cannot be written.
    pub async fn save(
        &self,
        owner: &MemoryOwner,
        name: &str,
        content: &str,
    ) -> Result<String, Error> {
        let name = texts::parse_line("name", name, NAME_CHARS_MAX)?;
        let item = Item {
            id: texts::to_lower(&name),
            name: name.clone(),
            summary: first_text(content),
            content: texts::check_content("content", content, SKILL_BYTES_MAX)?,
            ..Item::default()
        };
        self.items.put(owner, item).await?;
        Ok(name)
    }

    /// A skill, by its name. Upper and lower case are the same.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn find(&self, owner: &MemoryOwner, name: &str) -> Result<Option<String>, Error> {
        let Some(id) = id_of(name) else { return Ok(None) };
        Ok(self.items.find(owner, &id).await?.map(|item| item.content))
    }

    /// Every skill, by name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, owner: &MemoryOwner) -> Result<Vec<SkillSummary>, Error> {
        let mut items = self.items.list_without_contents(owner).await?.items;
        items.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(items.into_iter().map(SkillSummary::of).collect())
    }

    /// The skills that fit some words best, at most so many.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn recall(
        &self,
        owner: &MemoryOwner,
        words: &str,
        limit: usize,
    ) -> Result<Vec<SkillSummary>, Error> {
        let items = self.items.list(owner).await?.items;
        let ranked = rank(items.iter().map(document).collect(), words).await;
        let found = ranked.into_iter().take(limit).map(|at| items[at].clone());
        Ok(found.map(SkillSummary::of).collect())
    }

    /// Sets what a skill is summed up as, and says whether there is such a skill.
    ///
    /// # Errors
    /// When the summary cannot be used, or the store cannot be written.
    pub async fn set_summary(
        &self,
        owner: &MemoryOwner,
        name: &str,
        summary: &str,
    ) -> Result<bool, Error> {
        let summary = texts::truncate_chars(
            &texts::parse_line("summary", summary, usize::MAX)?,
            SUMMARY_CHARS_MAX,
        );
        let Some(id) = id_of(name) else { return Ok(false) };
        self.items.set_summary(owner, &id, summary).await
    }

    /// Forgets a skill, and gives its name.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn delete(&self, owner: &MemoryOwner, name: &str) -> Result<Option<String>, Error> {
        let Some(id) = id_of(name) else { return Ok(None) };
        Ok(self.items.remove(owner, &id).await?.map(|item| item.name))
    }
}

impl SkillSummary {
    fn of(item: Item) -> Self {
        Self { name: item.name, summary: item.summary }
    }
}

/// What a skill of this name is found by, if there can be one.
fn id_of(name: &str) -> Option<String> {
    let name = texts::parse_line("name", name, NAME_CHARS_MAX).ok()?;
    Some(texts::to_lower(&name))
}

/// What a skill is found by.
fn document(item: &Item) -> String {
    let name = item.name.replace(['_', '-', '/'], " ");
    format!("{name} {} {}", item.summary, item.content)
}

/// The first line that is no heading, or the first heading.
fn first_text(content: &str) -> String {
    let lines = content.lines().map(texts::single_line).filter(|line| !line.is_empty());
    let is_heading = |line: &String| line.starts_with('#');
    let (headings, texts): (Vec<_>, Vec<_>) = lines.take(10).partition(is_heading);
    let first = texts.into_iter().chain(headings).next().unwrap_or_default();
    let plain: String =
        first.trim_start_matches('#').trim().chars().filter(|c| !c.is_control()).collect();
    crate::texts::truncate_chars(&plain, SUMMARY_CHARS_MAX)
}
