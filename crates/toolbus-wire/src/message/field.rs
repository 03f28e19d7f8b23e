//! How single members are read where the plain way is too strict for what peers send.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

/// Reads `null` as the default value, like an absent member.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Whether a member that older peers do not know says nothing.
pub(super) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Reads JSON inside JSON: a string is taken as the text that it is, any other value as its own
/// JSON text.
pub(super) fn json_text<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    deserializer.deserialize_any(JsonText)
}

/// Reads a string; a value of any other kind, or none, is the empty string.
pub(super) fn text_or_empty<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<String, D::Error> {
    deserializer.deserialize_any(TextOrEmpty)
}

struct JsonText;

impl<'de> Visitor<'de> for JsonText {
    type Value = Option<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON as a string")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Some(text.to_owned()))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Self::Value, E> {
        Ok(Some(text))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Some(value.to_string()))
    }

    // The values inside are kept as the texts that they are, so that no number loses a digit.
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element::<Box<RawValue>>()? {
            kept.push(item);
        }
        serde_json::to_string(&kept).map(Some).map_err(A::Error::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut text = Vec::new();
        let mut writer = serde_json::Serializer::new(&mut text);
        let mut object = writer.serialize_map(None).map_err(A::Error::custom)?;
        while let Some((name, value)) = members.next_entry::<Cow<'de, str>, Box<RawValue>>()? {
            object.serialize_entry(&name, &value).map_err(A::Error::custom)?;
        }
        object.end().map_err(A::Error::custom)?;
        String::from_utf8(text).map(Some).map_err(A::Error::custom)
    }
}

struct TextOrEmpty;

impl<'de> Visitor<'de> for TextOrEmpty {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_unit<E: Error>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<String, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(String::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<String, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(String::new())
    }
}
