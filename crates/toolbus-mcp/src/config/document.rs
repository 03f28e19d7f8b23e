//! Reads the outermost object as pairs, because a map would drop a server that is named twice
//! without a word, and a typed error would quote the value that it did not expect.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::TEXT_LIMITS;

/// The outermost members of the file.
#[derive(Default)]
pub(super) struct ConfigDocument {
    pub(super) servers: ServersMember,
    /// Members that no file has.
    pub(super) strangers: Vec<String>,
}

/// What stands under `mcpServers`.
#[derive(Default)]
pub(super) enum ServersMember {
    #[default]
    Missing,
    NotAnObject,
    /// In the order of the file, duplicates included.
    Listed(Vec<(String, Value)>),
}

/// The value of an outermost member.
#[derive(serde::Deserialize)]
#[serde(untagged)]
enum OutermostValue {
    Object(Pairs<Value>),
    Other(IgnoredAny),
}

/// The members of an object in their order, duplicates included.
struct Pairs<T>(Vec<(String, T)>);

/// Parses the text of a file.
pub(super) fn parse(text: &str) -> Result<ConfigDocument, toolbus_json::Error> {
    let Pairs(members) = toolbus_json::from_str::<Pairs<OutermostValue>>(text, &TEXT_LIMITS)?;

    let mut document = ConfigDocument::default();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("mcpServers", OutermostValue::Object(Pairs(servers))) => {
                document.servers = ServersMember::Listed(servers);
            }
            ("mcpServers", OutermostValue::Other(_)) => {
                document.servers = ServersMember::NotAnObject
            }
            ("$schema", _) => {}
            _ => document.strangers.push(name),
        }
    }

    Ok(document)
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Pairs<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(PairsVisitor(PhantomData))
    }
}

struct PairsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for PairsVisitor<T> {
    type Value = Pairs<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<T>, A::Error> {
        let mut pairs = Vec::new();
        while let Some(pair) = map.next_entry()? {
            pairs.push(pair);
        }

        Ok(Pairs(pairs))
    }
}
