//! A `Deserializer` around another one that finds the members of structs without regard to case.
//!
//! Every visitor, seed and access that passes is wrapped, so that the rule holds at any depth. Three
//! things change on the way and nothing else: a struct is an object and never an array, its members
//! are found by name as described in [`StructAccess`], and mistakes are told by [`Quiet`].

use std::cell::RefCell;
use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IgnoredAny, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, VariantAccess, Visitor,
};

use super::quiet::Quiet;

/// Where in the body a mistake is. Filled from the inside out while the error travels up; of the
/// body itself it holds nothing, only names of our types and places in arrays.
#[derive(Default)]
pub(super) struct Path(RefCell<String>);

impl Path {
    pub(super) fn into_text(self) -> Box<str> {
        self.0.into_inner().into()
    }

    fn prepend(&self, segment: impl Display) {
        let mut path = self.0.borrow_mut();
        let dot = if path.is_empty() || path.starts_with('[') { "" } else { "." };
        *path = format!("{segment}{dot}{path}");
    }
}

/// Something of `serde`, with the place where mistakes are noted.
#[derive(Clone, Copy)]
pub(super) struct Tolerant<'p, T> {
    inner: T,
    path: &'p Path,
}

impl<'p, T> Tolerant<'p, T> {
    pub(super) const fn new(inner: T, path: &'p Path) -> Self {
        Self { inner, path }
    }
}

macro_rules! as_any {
    ($($method:ident($($argument:ident: $type:ty),*);)+) => {
        $(
            fn $method<V: Visitor<'de>>(
                self,
                $($argument: $type,)*
                visitor: V,
            ) -> Result<V::Value, Self::Error> {
                self.inner.deserialize_any(Tolerant::new(visitor, self.path))
            }
        )+
    };
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Tolerant<'_, D> {
    type Error = D::Error;

    // What the type asks for is only a hint in a format that describes itself, and a parser that
    // takes the hint tells a mistake itself, with the value. Asked for anything, it never does.
    as_any! {
        deserialize_any();
        deserialize_bool();
        deserialize_i8();
        deserialize_i16();
        deserialize_i32();
        deserialize_i64();
        deserialize_i128();
        deserialize_u8();
        deserialize_u16();
        deserialize_u32();
        deserialize_u64();
        deserialize_u128();
        deserialize_f32();
        deserialize_f64();
        deserialize_char();
        deserialize_str();
        deserialize_string();
        deserialize_bytes();
        deserialize_byte_buf();
        deserialize_unit();
        deserialize_unit_struct(_name: &'static str);
        deserialize_seq();
        deserialize_tuple(_length: usize);
        deserialize_tuple_struct(_name: &'static str, _length: usize);
        deserialize_map();
        deserialize_identifier();
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_any(StructVisitor { visitor, fields, path: self.path })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_option(Tolerant::new(visitor, self.path))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        // The parser knows some newtypes by name: a raw value is one.
        self.inner.deserialize_newtype_struct(name, Tolerant::new(visitor, self.path))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_any(EnumVisitor { visitor, path: self.path })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Self::Error> {
        self.inner.deserialize_ignored_any(visitor)
    }
}

macro_rules! quiet_scalars {
    ($($method:ident($type:ty);)+) => {
        $(
            fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
                self.inner.$method::<Quiet>(value).map_err(E::custom)
            }
        )+
    };
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Tolerant<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    quiet_scalars! {
        visit_bool(bool);
        visit_i64(i64);
        visit_i128(i128);
        visit_u64(u64);
        visit_u128(u128);
        visit_f64(f64);
        visit_str(&str);
        visit_borrowed_str(&'de str);
        visit_string(String);
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit::<Quiet>().map_err(E::custom)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none::<Quiet>().map_err(E::custom)
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(Tolerant::new(inner, self.path))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(Tolerant::new(inner, self.path))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_seq(Items { inner, index: 0, path: self.path })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        self.inner.visit_map(Tolerant::new(inner, self.path))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Tolerant<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(Tolerant::new(inner, self.path))
    }
}

/// Free JSON and maps: their keys are data, so they stay as they are and are not in the path.
impl<'de, A: MapAccess<'de>> MapAccess<'de> for Tolerant<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        self.inner.next_key_seed(Tolerant::new(seed, self.path))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(Tolerant::new(seed, self.path))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

/// The items of an array, counted for the path.
struct Items<'p, A> {
    inner: A,
    index: usize,
    path: &'p Path,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, A::Error> {
        let index = self.index;
        self.index += 1;
        self.inner
            .next_element_seed(Tolerant::new(seed, self.path))
            .inspect_err(|_| self.path.prepend(format_args!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

macro_rules! reject_scalars {
    ($($method:ident($type:ty) as $kind:ident;)+) => {
        $(
            fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
                Err(E::custom(Quiet::invalid_type(Unexpected::$kind(value), &self)))
            }
        )+
    };
}

/// Reads a struct from an object, and from nothing else: `serde` would also take an array.
struct StructVisitor<'p, V> {
    visitor: V,
    fields: &'static [&'static str],
    path: &'p Path,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for StructVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    reject_scalars! {
        visit_bool(bool) as Bool;
        visit_i64(i64) as Signed;
        visit_u64(u64) as Unsigned;
        visit_f64(f64) as Float;
        visit_str(&str) as Str;
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let Self { visitor, fields, path } = self;
        visitor.visit_map(StructAccess { inner, fields, seen: 0, current: "", path })
    }
}

/// The members of a struct: each is given to the struct once, under the name that the struct calls
/// it; the others are skipped.
struct StructAccess<'p, A> {
    inner: A,
    fields: &'static [&'static str],
    /// A bit for each field that was given.
    seen: u64,
    /// The field whose value is next.
    current: &'static str,
    path: &'p Path,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for StructAccess<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(found) = self.inner.next_key_seed(FieldName { fields: self.fields })? {
            // A struct with more than 64 fields would lose the tolerance for duplicates beyond
            // them, and nothing else.
            let bit = found.and_then(|index| 1_u64.checked_shl(u32::try_from(index).ok()?));
            match found {
                Some(index) if self.seen & bit.unwrap_or(0) == 0 => {
                    self.seen |= bit.unwrap_or(0);
                    self.current = self.fields[index];
                    let name: StrDeserializer<'_, A::Error> = self.current.into_deserializer();
                    return seed.deserialize(name).map(Some);
                }
                _ => self.inner.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner
            .next_value_seed(Tolerant::new(seed, self.path))
            .inspect_err(|_| self.path.prepend(self.current))
    }
}

/// Finds the index of the field that a key names: as it is written, or else without regard to case.
struct FieldName {
    fields: &'static [&'static str],
}

impl<'de> DeserializeSeed<'de> for FieldName {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, key: D) -> Result<Self::Value, D::Error> {
        key.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldName {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: serde::de::Error>(self, key: &str) -> Result<Self::Value, E> {
        let exact = self.fields.iter().position(|field| *field == key);
        Ok(exact.or_else(|| self.fields.iter().position(|field| field.eq_ignore_ascii_case(key))))
    }
}

/// Reads an enumeration: a variant without content from its name, one with content from an object
/// whose only member it is.
struct EnumVisitor<'p, V> {
    visitor: V,
    path: &'p Path,
}

impl<'de, V: Visitor<'de>> Visitor<'de> for EnumVisitor<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    reject_scalars! {
        visit_bool(bool) as Bool;
        visit_i64(i64) as Signed;
        visit_u64(u64) as Unsigned;
        visit_f64(f64) as Float;
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<V::Value, E> {
        let name: StrDeserializer<'_, Quiet> = name.into_deserializer();
        self.visitor.visit_enum(name).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(Tolerant::new(map, self.path))
    }
}

impl<'de, A: MapAccess<'de>> EnumAccess<'de> for Tolerant<'_, A> {
    type Error = A::Error;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<(S::Value, Self), A::Error> {
        match self.next_key_seed(seed)? {
            Some(variant) => Ok((variant, self)),
            None => Err(A::Error::custom("no variant is named")),
        }
    }
}

impl<'de, A: MapAccess<'de>> VariantAccess<'de> for Tolerant<'_, A> {
    type Error = A::Error;

    fn unit_variant(mut self) -> Result<(), A::Error> {
        self.next_value()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(
        mut self,
        seed: S,
    ) -> Result<S::Value, A::Error> {
        self.next_value_seed(seed)
    }

    fn tuple_variant<V: Visitor<'de>>(
        mut self,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.next_value_seed(Content(Tolerant::new(visitor, self.path)))
    }

    fn struct_variant<V: Visitor<'de>>(
        mut self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.next_value_seed(Content(StructVisitor { visitor, fields, path: self.path }))
    }
}

/// The content of a variant, for a visitor that is wrapped already.
struct Content<V>(V);

impl<'de, V: Visitor<'de>> DeserializeSeed<'de> for Content<V> {
    type Value = V::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        inner.deserialize_any(self.0)
    }
}
