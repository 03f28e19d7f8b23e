//! The section `discovery` of the settings.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::Mistakes;
use toolbus_discovery::{Category, DiscoveryConfig, KnownServer};
use toolbus_embeddings::EmbeddingSettings;

/// Most patterns of each kind, and most servers that are recommended.
const ENTRIES_MAX: usize = 1_000;

/// How tools are found by what they are for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DiscoverySettings {
    /// Whether the agent's tools, and each tool of an MCP server by itself, can be found by what
    /// they are for while it serves, and are ranked by what is learned from their calls, which is
    /// kept in the store. The commands `search`, `discover` and `exec` do so either way.
    pub enabled: bool,
    /// The time zone whose hours are those of the day, such as `Europe/Berlin`. When not set, that
    /// of `schedules.zone`.
    pub zone: Option<String>,
    /// Tools that are certified, by patterns of their ids, such as `mcp:bank/*`: they rank higher.
    pub certified: Vec<String>,
    /// Tools that take their time, by patterns of their ids, beside those that are measured so:
    /// they rank higher from 17:00.
    pub asynchronous: Vec<String>,
    /// What tools are about, by patterns of their ids, where it is not to be guessed:
    /// `version-control`, `infrastructure`, `monitoring`, `messaging`, `databases`, `ci-cd`,
    /// `development`, `communication` or `custom`.
    pub categories: BTreeMap<String, String>,
    /// Servers that may be installed, each by its name with what it is for: they are recommended
    /// where no tool fits.
    pub known_servers: BTreeMap<String, String>,
    /// The model that tools are found by, beside their words. Without one they are found by words
    /// alone.
    pub embeddings: EmbeddingSettings,
    /// Whether a task that looks like several steps is split by a model before tools are searched
    /// for: the one of the lowest tier in `models`, which is given the query. Where it does not
    /// answer in time, and without this, tasks are split by their sentences and verbs.
    pub split_with_model: bool,
    /// Whether a tool is left out whose schema does not say which of its properties are required.
    /// By default that means that none is, as JSON Schema has it.
    pub strict_schemas: bool,
}

impl DiscoverySettings {
    /// Adds what is wrong with them, under the key that they have.
    pub(crate) fn check(&self, key: &str, mistakes: &mut Mistakes<'_>) {
        self.embeddings.check(&format!("{key}.embeddings"), mistakes);
        if let Some(zone) = &self.zone
            && TimeZone::get(zone).is_err()
        {
            mistakes.add(&format!("{key}.zone"), format!("there is no zone '{zone}'"));
        }
        for (pattern, category) in &self.categories {
            if Category::parse(category).is_none() {
                let known = Category::ALL.map(Category::as_str).join(", ");
                mistakes.add(&format!("{key}.categories.{pattern}"), format!("one of {known}"));
            }
        }

        let lists = [
            ("certified", self.certified.len()),
            ("asynchronous", self.asynchronous.len()),
            ("categories", self.categories.len()),
            ("known_servers", self.known_servers.len()),
        ];
        for (name, _) in lists.into_iter().filter(|(_, length)| *length > ENTRIES_MAX) {
            mistakes.add(&format!("{key}.{name}"), format!("{ENTRIES_MAX} at most"));
        }
    }

    /// The same, as discovery takes them. `zone` holds where none is set.
    pub(crate) fn config(&self, zone: &str) -> DiscoveryConfig {
        let zone = self.zone.as_deref().unwrap_or(zone);
        let categories = self
            .categories
            .iter()
            .filter_map(|(pattern, category)| Some((pattern.clone(), Category::parse(category)?)));
        let known_servers = self
            .known_servers
            .iter()
            .map(|(name, summary)| KnownServer { name: name.clone(), summary: summary.clone() });
        DiscoveryConfig {
            time_zone: TimeZone::get(zone).unwrap_or(TimeZone::UTC),
            certified: self.certified.clone(),
            asynchronous: self.asynchronous.clone(),
            categories: categories.collect(),
            known_servers: known_servers.collect(),
            may_omit_required: !self.strict_schemas,
            ..DiscoveryConfig::default()
        }
    }
}
