//! Reads the outermost object by hand, because a map would drop a server that is named twice
//! without a word, and a typed error would quote the value that it did not expect.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The outermost members of the file.
#[derive(Default)]
pub(super) struct Document {
    pub(super) servers: Servers,
    /// Members that no file has.
    pub(super) strangers: Vec<String>,
}

/// What stands under `mcpServers`.
#[derive(Default)]
pub(super) enum Servers {
    #[default]
    Missing,
    NotAnObject,
    /// In the order of the file, duplicates included.
    Listed(Vec<(String, Value)>),
}

pub(super) fn read(text: &str) -> Result<Document, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let document = deserializer.deserialize_any(DocumentVisitor)?;
    deserializer.end()?;
    Ok(document)
}

struct DocumentVisitor;

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with mcpServers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut document = Document::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "mcpServers" => document.servers = map.next_value()?,
                "$schema" => drop(map.next_value::<IgnoredAny>()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    document.strangers.push(name);
                }
            }
        }
        Ok(document)
    }
}

impl<'de> Deserialize<'de> for Servers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ServersVisitor)
    }
}

struct ServersVisitor;

impl<'de> Visitor<'de> for ServersVisitor {
    type Value = Servers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Servers, A::Error> {
        let mut servers = Vec::new();
        while let Some(server) = map.next_entry()? {
            servers.push(server);
        }
        Ok(Servers::Listed(servers))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Servers, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Servers::NotAnObject)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Servers, E> {
        Ok(Servers::NotAnObject)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Servers, E> {
        Ok(Servers::NotAnObject)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Servers, E> {
        Ok(Servers::NotAnObject)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Servers, E> {
        Ok(Servers::NotAnObject)
    }

    fn visit_str<E>(self, _: &str) -> Result<Servers, E> {
        Ok(Servers::NotAnObject)
    }

    fn visit_unit<E>(self) -> Result<Servers, E> {
        Ok(Servers::NotAnObject)
    }
}
