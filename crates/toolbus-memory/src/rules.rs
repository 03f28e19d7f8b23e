//! Rules that a person has given an agent, and the time zone that they live in.

use jiff::tz::TimeZone;
use toolbus_store::LazyStore;

use crate::items::{Item, ItemKind, Items};
use crate::{Error, MemoryOwner, texts};

/// Longest rule, in characters.
pub const RULE_CHARS_MAX: usize = 500;
/// Longest name of a time zone, in characters.
const TIMEZONE_CHARS_MAX: usize = 100;

const RULES: ItemKind = ItemKind {
    name: "rule",
    plural: "rules",
    max: 50,
    bytes_max: 1 << 20,
    way_out: "Remove those that do not hold any more (remove_rule)",
};
const SETTINGS: ItemKind = ItemKind {
    name: "setting",
    plural: "settings",
    max: 100,
    bytes_max: 1 << 20,
    way_out: "Remove some of them",
};
const TIMEZONE: &str = "timezone";

/// The rules of one store. Clones are the same.
#[derive(Clone)]
pub struct Rules {
    items: Items,
}

/// What a person has set of an agent, in one store. Clones are the same.
#[derive(Clone)]
pub struct Preferences {
    items: Items,
}

impl Rules {
    /// Rules in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore) -> Self {
        Self { items: Items::new(store, RULES) }
    }

    /// Every rule, in the order in which they were given.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn list(&self, owner: &MemoryOwner) -> Result<Vec<String>, Error> {
        let list = self.items.list(owner).await?;
        Ok(list.items.into_iter().map(|item| item.content).collect())
    }

    /// Adds a rule, and gives it as it is kept: in one line.
    ///
    /// # Errors
    /// When it is too long, there are too many already, or it cannot be written.
    pub async fn add(&self, owner: &MemoryOwner, rule: &str) -> Result<String, Error> {
        let rule = texts::parse_line("rule", rule, RULE_CHARS_MAX)?;
        let id = texts::to_lower(&rule);
        if self.items.find(owner, &id).await?.is_none() {
            let item = Item { id, content: rule.clone(), ..Item::default() };
            self.items.put(owner, item).await?;
        }
        Ok(rule)
    }

    /// Removes a rule, and gives it back. Upper and lower case are the same.
    ///
    /// # Errors
    /// When the text is none that a rule could have, or the store cannot be written.
    pub async fn remove(&self, owner: &MemoryOwner, rule: &str) -> Result<Option<String>, Error> {
        let rule = texts::parse_line("rule", rule, RULE_CHARS_MAX)?;
        let removed = self.items.remove(owner, &texts::to_lower(&rule)).await?;
        Ok(removed.map(|item| item.content))
    }
}

impl Preferences {
    /// Preferences in this store, which knows [`MIGRATIONS`](crate::MIGRATIONS).
    #[must_use]
    pub fn new(store: LazyStore) -> Self {
        Self { items: Items::new(store, SETTINGS) }
    }

    /// The time zone that was set, by its name.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn timezone(&self, owner: &MemoryOwner) -> Result<Option<String>, Error> {
        Ok(self.items.find(owner, TIMEZONE).await?.map(|item| item.content))
    }

    /// Sets the time zone, and gives its name as IANA writes it; `None` where there is no such
    /// zone.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn set_timezone(
        &self,
        owner: &MemoryOwner,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let Some(name) = timezone_of(name) else { return Ok(None) };
        let item = Item { id: TIMEZONE.to_owned(), content: name.clone(), ..Item::default() };
        self.items.put(owner, item).await?;
        Ok(Some(name))
    }
}

/// The name of a time zone as IANA writes it.
fn timezone_of(name: &str) -> Option<String> {
    let name = name.trim();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    if name.is_empty() || name.len() > TIMEZONE_CHARS_MAX || !name.chars().all(is_plain) {
        return None;
    }
    let zone = TimeZone::get(name).ok()?;
    zone.iana_name().map(str::to_owned)
}
