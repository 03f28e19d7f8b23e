//! Values from other formats.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::OverLimit;
use crate::scan::is_reserved_name;

/// A value that is read from another format than JSON, such as YAML. [`Value`] itself would parse
/// the text behind a name that `serde_json` reserves; here such a name is an error.
#[derive(Debug, Clone, PartialEq)]
pub struct PlainValue(pub Value);

struct PlainVisitor;

impl<'de> Deserialize<'de> for PlainValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlainVisitor)
    }
}

impl<'de> Visitor<'de> for PlainVisitor {
    type Value = PlainValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value that JSON has")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<PlainValue, E> {
        Ok(PlainValue(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<PlainValue, E> {
        Ok(PlainValue(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<PlainValue, E> {
        Ok(PlainValue(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<PlainValue, E> {
        Ok(PlainValue(value.into()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<PlainValue, E> {
        Ok(PlainValue(value.into()))
    }

    fn visit_string<E: Error>(self, value: String) -> Result<PlainValue, E> {
        Ok(PlainValue(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<PlainValue, E> {
        Ok(PlainValue(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<PlainValue, E> {
        Ok(PlainValue(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<PlainValue, D::Error> {
        PlainValue::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<PlainValue, A::Error> {
        let mut values = Vec::new();
        while let Some(PlainValue(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(PlainValue(values.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PlainValue, A::Error> {
        let mut members = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if is_reserved_name(&name) {
                return Err(A::Error::custom(OverLimit::ReservedName));
            }
            let PlainValue(value) = map.next_value()?;
            members.insert(name, value);
        }
        Ok(PlainValue(members.into()))
    }
}
