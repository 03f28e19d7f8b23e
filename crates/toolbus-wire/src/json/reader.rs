//! A `Deserializer` over the text of a JSON value: finds the members of structs without regard to
//! case, and quotes nothing of the text in an error.
//!
//! Otherwise it reads as `serde_json` does, with which it parses. A struct is an object and never
//! an array; enumerations and tuples have no place in a message and are not read. Each level of our
//! own types is scanned once more than the one around it, free JSON is read in one go.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::vec;

use serde::Deserialize;
use serde::de::value::CowStrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde_json::Number;
use serde_json::value::RawValue;
use toolbus_json::{Limits, OverLimit, checked_parser, from_checked};

use super::mistake::Mistake;

/// What `serde_json` calls the newtype that holds the text of a value.
pub(super) const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// How many values may still be built of a body. Free JSON that is kept as it was written takes its
/// text and no more, so what is in it is not counted.
pub(super) struct ValueBudget {
    left: Cell<usize>,
    max: usize,
}

impl ValueBudget {
    pub(super) const fn of(max: usize) -> Self {
        Self { left: Cell::new(max), max }
    }

    fn take(&self, count: usize) -> Result<(), Mistake> {
        let Some(left) = self.left.get().checked_sub(count) else {
            return Err(Mistake::custom(OverLimit::Values { max: self.max }));
        };
        self.left.set(left);
        Ok(())
    }

    /// Takes what is built of free JSON that is looked into. The parser limits its depth.
    fn take_free_json(&self, text: &str) -> Result<(), Mistake> {
        let limits = Limits::of_bytes(text.len()).with_values(self.left.get());
        match limits.with_depth(usize::MAX).count(text.as_bytes()) {
            Ok(count) => self.take(count),
            Err(OverLimit::Values { .. }) => {
                Err(Mistake::custom(OverLimit::Values { max: self.max }))
            }
            Err(over) => Err(Mistake::custom(over)),
        }
    }
}

/// The text of one JSON value, without blanks around it. Its syntax was checked with the whole
/// body.
#[derive(Clone, Copy)]
pub(super) struct JsonText<'de, 'b> {
    pub(super) text: &'de str,
    pub(super) budget: &'b ValueBudget,
}

/// A string, borrowed from the text where it holds no escapes.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de> JsonText<'de, '_> {
    /// Reads what is one value, or a list of texts that are not looked into.
    fn parse<T: Deserialize<'de>>(self) -> Result<T, Mistake> {
        from_checked(self.text).map_err(|error| Mistake::of_syntax(&error))
    }

    /// The members of an object; for a struct, those that it has, under the names that it has.
    fn read_members(
        self,
        fields: Option<&'static [&'static str]>,
    ) -> Result<Members<'de>, Mistake> {
        let mut parser = checked_parser(self.text);
        let members =
            parser.deserialize_map(MembersVisitor { fields, left: self.budget.left.get() });
        let members = members.map_err(|error| Mistake::of_syntax(&error))?;

        self.budget.take(members.len())?;
        Ok(members)
    }

    fn read_items(self) -> Result<Vec<&'de RawValue>, Mistake> {
        let mut parser = checked_parser(self.text);
        let items = parser.deserialize_seq(ItemsVisitor { left: self.budget.left.get() });
        let items = items.map_err(|error| Mistake::of_syntax(&error))?;

        self.budget.take(items.len())?;
        Ok(items)
    }

    fn read_free_json<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        self.budget.take_free_json(self.text)?;
        let is_object = self.text.starts_with('{');
        let unexpected = if is_object { Unexpected::Map } else { Unexpected::Seq };
        // The parser's own mistake of data could quote a value, so it is replaced by this one.
        let mismatch = Mistake::invalid_type(unexpected, &visitor);

        let read = checked_parser(self.text).deserialize_any(visitor);
        read.map_err(|error| if error.is_data() { mismatch } else { Mistake::of_syntax(&error) })
    }
}

impl<'de> Deserializer<'de> for JsonText<'de, '_> {
    type Error = Mistake;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        match self.text.as_bytes() {
            [b'{' | b'[', ..] => self.read_free_json(visitor),
            [b'"', ..] => match self.parse::<Text<'_>>()?.0 {
                Cow::Borrowed(text) => visitor.visit_borrowed_str(text),
                Cow::Owned(text) => visitor.visit_string(text),
            },
            [b'n', ..] => visitor.visit_unit(),
            [first @ (b't' | b'f'), ..] => visitor.visit_bool(*first == b't'),
            _ => {
                let number: Number = self.parse()?;
                match (number.as_u64(), number.as_i64()) {
                    (Some(number), _) => visitor.visit_u64(number),
                    (None, Some(number)) => visitor.visit_i64(number),
                    (None, None) => visitor.visit_f64(number.as_f64().unwrap_or(f64::NAN)),
                }
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        match self.text.as_bytes() {
            [b'{', ..] => {
                let members = self.read_members(Some(fields))?.into_iter();
                let budget = self.budget;
                visitor.visit_map(MemberAccess { members, current: None, is_struct: true, budget })
            }
            [b'[', ..] => Err(Mistake::invalid_type(Unexpected::Seq, &visitor)),
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        if !self.text.starts_with('{') {
            return self.deserialize_any(visitor);
        }

        let (members, budget) = (self.read_members(None)?.into_iter(), self.budget);
        visitor.visit_map(MemberAccess { members, current: None, is_struct: false, budget })
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        if !self.text.starts_with('[') {
            return self.deserialize_any(visitor);
        }

        let (items, budget) = (self.read_items()?.into_iter(), self.budget);
        visitor.visit_seq(ItemAccess { items, index: 0, budget })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Mistake> {
        if self.text == "null" { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Mistake> {
        if name != RAW_VALUE {
            return visitor.visit_newtype_struct(self);
        }

        let mut parser = checked_parser(self.text);
        parser.deserialize_newtype_struct(name, visitor).map_err(|error| Mistake::of_syntax(&error))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// Names and values of an object's members.
type Members<'de> = Vec<(Cow<'de, str>, &'de RawValue)>;

struct MembersVisitor {
    fields: Option<&'static [&'static str]>,
    /// How many members may be kept: with one more the budget is spent.
    left: usize,
}

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
        let mut members = Members::new();
        while let Some((Text(name), value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
            let name = match self.fields.map(|fields| find_field(fields, &name)) {
                None => name,
                // Of a member that stands twice the first one counts.
                Some(Some(field)) if members.iter().all(|(known, _)| known != field) => {
                    field.into()
                }
                Some(_) => continue,
            };

            members.push((name, value));
            if members.len() > self.left {
                // The rest is skipped: who asked finds that these are too many.
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            }
        }

        Ok(members)
    }
}

struct ItemsVisitor {
    /// How many items may be kept: with one more the budget is spent.
    left: usize,
}

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Vec<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut kept = Vec::new();
        while let Some(item) = items.next_element()? {
            kept.push(item);
            if kept.len() > self.left {
                // The rest is skipped: who asked finds that these are too many.
                while items.next_element::<IgnoredAny>()?.is_some() {}
            }
        }

        Ok(kept)
    }
}

/// The field that a member's name means: as it is written, or else without regard to case.
fn find_field(fields: &[&'static str], name: &str) -> Option<&'static str> {
    let exact = fields.iter().find(|field| **field == name);
    exact.or_else(|| fields.iter().find(|field| field.eq_ignore_ascii_case(name))).copied()
}

/// Gives members to a visitor. The names of a map's are data, and in no error.
struct MemberAccess<'de, 'b> {
    members: vec::IntoIter<(Cow<'de, str>, &'de RawValue)>,
    /// The member whose value is next.
    current: Option<(Cow<'de, str>, &'de RawValue)>,
    is_struct: bool,
    budget: &'b ValueBudget,
}

impl<'de> MapAccess<'de> for MemberAccess<'de, '_> {
    type Error = Mistake;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Mistake> {
        self.current = self.members.next();
        let Some((name, _)) = &self.current else { return Ok(None) };

        seed.deserialize(CowStrDeserializer::new(name.clone())).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Mistake> {
        let (name, value) = self.current.take().expect("a value is asked for after its key");
        let (text, budget) = (value.get(), self.budget);

        seed.deserialize(JsonText { text, budget }).map_err(|mistake| {
            let mistake = mistake.at_end_of(text);
            if self.is_struct { mistake.within_segment(&name) } else { mistake }
        })
    }
}

/// Gives the items of an array to a visitor, and counts them for errors.
struct ItemAccess<'de, 'b> {
    items: vec::IntoIter<&'de RawValue>,
    index: usize,
    budget: &'b ValueBudget,
}

impl<'de> SeqAccess<'de> for ItemAccess<'de, '_> {
    type Error = Mistake;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Mistake> {
        let Some(item) = self.items.next() else { return Ok(None) };
        let (text, budget) = (item.get(), self.budget);
        let index = self.index;
        self.index += 1;

        let read = seed.deserialize(JsonText { text, budget }).map(Some);
        read.map_err(|mistake| mistake.at_end_of(text).within_segment(format_args!("[{index}]")))
    }
}
