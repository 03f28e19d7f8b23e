//! JSON that is kept as it was written.

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;
use toolbus_json::{Limits, OverLimit, count_values, from_checked, from_trusted};

use super::reader::RAW_VALUE;

/// A JSON value as it was written: every digit of a number, every member, in its order. It takes
/// its text and no more, however many values are in it. Clones share it, and so does a part that is
/// most of it.
#[derive(Clone)]
pub struct RawJson {
    whole: Arc<String>,
    /// Where in it the text is.
    range: Range<usize>,
}

/// Why a text cannot be looked into. Nothing of the text is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// There are more values in it than somebody who looks into it takes.
    #[error("it has more than {max} values")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// It is JSON that no value here can hold: nested more than 127 deep, with half of a surrogate
    /// pair in a text, or with a number that is too large.
    #[error("it is nested too deeply, or has a text or a number that cannot be read")]
    Unreadable,
}

impl RawJson {
    /// Takes a text that is one JSON value.
    ///
    /// # Errors
    /// When it is not. The error quotes nothing of the text.
    pub fn parse(text: String) -> Result<Self, serde_json::Error> {
        let value: &RawValue = from_checked(&text)?;
        let place = place_in(text.as_bytes(), value.get().as_bytes());
        let range = place.unwrap_or(0..text.len());
        Ok(Self::within(text, range))
    }

    /// Takes bytes that are one JSON value. They are not copied where nobody else has them.
    ///
    /// # Errors
    /// When they are not. The error quotes nothing of them.
    pub fn parse_bytes(bytes: Bytes) -> Result<Self, serde_json::Error> {
        let text = String::from_utf8(Vec::from(bytes));
        text.map_err(serde_json::Error::custom).and_then(Self::parse)
    }

    /// Takes a value out of the bytes where it is found, without copying it, and what else is found
    /// there.
    ///
    /// # Errors
    /// The bytes, when nothing is found in them.
    pub fn take_out<R>(
        bytes: Vec<u8>,
        find: impl FnOnce(&[u8]) -> Option<(R, &RawValue)>,
    ) -> Result<(R, Self), Vec<u8>> {
        let found = find(&bytes).map(|(rest, value)| {
            let range = place_in(&bytes, value.get().as_bytes());
            (rest, range)
        });
        let Some((rest, Some(range))) = found else { return Err(bytes) };
        let text = String::from_utf8(bytes).map_err(|error| error.into_bytes())?;
        Ok((rest, Self::within(text, range)))
    }

    fn within(whole: String, range: Range<usize>) -> Self {
        Self { whole: Arc::new(whole), range }
    }

    /// The value as the text that it would be written as.
    ///
    /// # Panics
    /// When it cannot be written as JSON: it has a map whose keys are no strings.
    #[must_use]
    pub fn of(value: &impl Serialize) -> Self {
        let raw = serde_json::value::to_raw_value(value);
        Self::from(raw.expect("only string keys are written"))
    }

    /// The member of this name of an object that is a text, the first of several. Nothing else of
    /// the text is kept.
    #[must_use]
    pub fn member_of(object: &[u8], name: &str) -> Option<Self> {
        let object = std::str::from_utf8(object).ok()?;
        let members = from_checked::<Members<'_>>(object).ok()?.0.into_iter();
        let mut named = members.filter(|(member, _)| member == name);
        named.next().map(|(_, value)| Self::from(value.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.whole[self.range.clone()]
    }

    /// The text as a value of the library's, which is read through for it.
    #[must_use]
    pub fn as_raw(&self) -> &RawValue {
        from_checked(self.text()).expect("it was read as JSON")
    }

    /// A value that was found in this text. Where it is most of it, the text is shared; else it is
    /// copied, so that what is small keeps nothing large.
    #[must_use]
    pub fn part(&self, value: &RawValue) -> Self {
        let place = place_in(self.whole.as_bytes(), value.get().as_bytes());
        match place.filter(|place| place.len() > self.whole.len() / 2) {
            Some(range) => Self { whole: Arc::clone(&self.whole), range },
            None => Self::from(value.to_owned()),
        }
    }

    /// The value itself, for who looks into it. A value in memory may take thirty times its text.
    ///
    /// # Errors
    /// When there are more than `max` values in it, or one that cannot be read.
    pub fn to_value(&self, max: usize) -> Result<Value, ValueError> {
        let limits = Limits::of_bytes(self.len()).with_values(max);
        toolbus_json::from_str(self.text(), &limits).map_err(|error| match error {
            toolbus_json::Error::OverLimit(OverLimit::Values { max }) => {
                ValueError::TooMany { max }
            }
            _ => ValueError::Unreadable,
        })
    }

    /// The members of an object, in their order; `None` where this is no object. Of a name that
    /// stands twice, both are there.
    #[must_use]
    pub fn members(&self) -> Option<Vec<(Cow<'_, str>, &RawValue)>> {
        from_checked::<Members<'_>>(self.text()).ok().map(|members| members.0)
    }

    /// The member of this name of an object, the first of several.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<Self> {
        let members = self.members()?.into_iter();
        let mut named = members.filter(|(member, _)| member == name);
        named.next().map(|(_, value)| self.part(value))
    }

    /// Whether the text means this value to every reader. Of a member that stands twice one reader
    /// takes the first and another the last, so such a text means no value.
    #[must_use]
    pub fn means(&self, value: &Value) -> bool {
        let count = |text: &str| count_values(text.as_bytes());
        count(self.text()) == count(&value.to_string())
            && from_trusted::<Value>(self.text()).is_ok_and(|read| read == *value)
    }

    /// An object of these members, in this order.
    #[must_use]
    pub fn of_members<'a, N: AsRef<str>>(
        members: impl IntoIterator<Item = (N, &'a RawValue)>,
    ) -> Self {
        let mut text = String::new();
        for (name, value) in members {
            push_member(&mut text, name.as_ref(), value.get());
        }
        Self::of_object(text)
    }

    /// The same object with this member in the place of those of its name, or without it; anything
    /// else as it is.
    #[must_use]
    pub fn with_member(&self, name: &str, value: Option<&Self>) -> Self {
        self.with_members(&[(name, value)])
    }

    /// The same object with each of these members in the place of those of its name, or without it;
    /// anything else as it is. No name may be there twice.
    #[must_use]
    pub fn with_members(&self, changes: &[(&str, Option<&Self>)]) -> Self {
        let Some(members) = self.members() else { return self.clone() };
        let added = changes.iter().map(|(name, value)| name.len() + value.map_or(0, Self::len));
        let mut text = String::with_capacity(self.len() + added.sum::<usize>() + 16);
        let mut is_placed = vec![false; changes.len()];

        for (member, kept) in &members {
            match changes.iter().position(|(name, _)| member == name) {
                None => push_member(&mut text, member, kept.get()),
                Some(at) if is_placed[at] => {}
                Some(at) => {
                    is_placed[at] = true;
                    if let (name, Some(value)) = changes[at] {
                        push_member(&mut text, name, value.text());
                    }
                }
            }
        }

        let new = changes.iter().zip(&is_placed).filter(|(_, is_placed)| !**is_placed);
        for ((name, value), _) in new {
            if let Some(value) = value {
                push_member(&mut text, name, value.text());
            }
        }
        Self::of_object(text)
    }

    /// The length of the text, in bytes.
    fn len(&self) -> usize {
        self.text().len()
    }

    /// The object of which this is the text, but for its end.
    fn of_object(mut text: String) -> Self {
        text.push_str(if text.is_empty() { "{}" } else { "}" });
        Self::parse(text).expect("members that are JSON make an object")
    }
}

/// Adds a member to the text of an object that has no end yet.
fn push_member(text: &mut String, name: &str, value: &str) {
    text.push(if text.is_empty() { '{' } else { ',' });
    text.push_str(&Value::from(name).to_string());
    text.push(':');
    text.push_str(value);
}

/// Where bytes are that are part of others.
fn place_in(whole: &[u8], part: &[u8]) -> Option<Range<usize>> {
    let from = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
    Some(from..from + part.len()).filter(|range| range.end <= whole.len())
}

impl From<Box<RawValue>> for RawJson {
    fn from(raw: Box<RawValue>) -> Self {
        let whole = String::from(Box::<str>::from(raw));
        let range = 0..whole.len();
        Self::within(whole, range)
    }
}

impl PartialEq for RawJson {
    /// By their texts: whoever wrote one otherwise may have meant something by it.
    fn eq(&self, other: &Self) -> bool {
        self.text() == other.text()
    }
}

impl Eq for RawJson {}

impl Hash for RawJson {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text().hash(state);
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawJson({} bytes)", self.text().len())
    }
}

impl Serialize for RawJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // As `RawValue` is written, which none can be made of without looking through the text.
        let mut raw = serializer.serialize_struct(RAW_VALUE, 1)?;
        raw.serialize_field(RAW_VALUE, self.text())?;
        raw.end()
    }
}

impl<'de> Deserialize<'de> for RawJson {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Self::from)
    }
}

/// The members of an object, in their order.
struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject;

        impl<'de> Visitor<'de> for OfObject {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some(Name(name)) = map.next_key()? {
                    // Members are few; a text with more of them is not looked into.
                    if members.len() >= MEMBERS_MAX {
                        map.next_value::<IgnoredAny>()?;
                        return Err(A::Error::custom("too many members"));
                    }
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(OfObject)
    }
}

/// Most members of an object that is looked into.
const MEMBERS_MAX: usize = 1 << 16;

#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests;
