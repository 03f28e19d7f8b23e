//! Values that a person writes as text: durations, sizes, addresses, URLs, log filters, secrets.
//!
//! Each is checked by one parser, which the schema, the reader and the printer share, so a text
//! that passes validation always reads, and what is printed reads back to the same value. Secrets
//! have no printer: `Debug`, `Display` and `Serialize` show `***`, and only `expose` tells the
//! truth. Of addresses they show what cannot be a secret.

mod address;
mod configured_address;
mod filter;
mod quantity;
mod secret;
mod url;

#[cfg(test)]
mod tests;

use std::fmt;

pub use address::ListenAddress;
pub use configured_address::ConfiguredAddress;
pub use filter::LogFilter;
pub use quantity::{ByteSize, TimeSpan};
pub use secret::Secret;
pub use url::{BROKER_NODES_MAX, BusUrls, HttpUrl, split_bus_urls};

/// What stands for a secret wherever a value is shown.
pub const MASK: &str = "***";

/// A value whose form in settings is a string with rules of its own.
pub(crate) trait TextValue: Sized + fmt::Display {
    /// The `format` of its JSON Schema, unique among the text values.
    const FORMAT: &'static str;
    /// What it is, with its article, for messages and the reference page.
    const WHAT: &'static str;
    /// Texts that are right, for messages.
    const EXAMPLES: &'static [&'static str];
    /// Whether the text may hold a password, so that it must not be shown as it was given.
    const SENSITIVE: bool;

    /// Reads the text; the error says what is wrong without repeating the text.
    fn read(text: &str) -> Result<Self, String>;
}

/// How the texts of one `format` are checked and described.
pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) what: &'static str,
    pub(super) examples: &'static [&'static str],
    pub(super) check: fn(&str) -> Result<(), String>,
}

impl Format {
    const fn of<T: TextValue>() -> Self {
        Self {
            name: T::FORMAT,
            what: T::WHAT,
            examples: T::EXAMPLES,
            check: |text| T::read(text).map(drop),
        }
    }
}

/// Every text value there is; the validator checks these formats.
pub(super) const FORMATS: [Format; 7] = [
    Format::of::<TimeSpan>(),
    Format::of::<ByteSize>(),
    Format::of::<BusUrls>(),
    Format::of::<HttpUrl>(),
    Format::of::<ConfiguredAddress>(),
    Format::of::<ListenAddress>(),
    Format::of::<LogFilter>(),
];

/// Makes a [`TextValue`] readable from and printable as its text, with a schema that says so.
macro_rules! text_value {
    ($type:ident) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::read(&text).map_err(serde::de::Error::custom)
            }
        }

        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let mut schema = schemars::json_schema!({ "type": "string", "format": Self::FORMAT });
                if Self::SENSITIVE {
                    schema.insert("writeOnly".to_owned(), true.into());
                }
                schema
            }
        }

        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::read(text)
            }
        }
    };
}

use text_value;
