//! How a broker introduces itself: the AMQP library reads its properties and keeps them to itself.

use std::sync::Arc;

use parking_lot::Mutex;

use super::repair::{Cursor, pass_value};

/// Longest name or version that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 64;

/// Name and version of a broker, once it has said them. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Greeting(Arc<Mutex<Option<String>>>);

impl Greeting {
    /// Reads the payload of the first frame.
    pub(super) fn read(&self, payload: &mut [u8]) {
        let Some(Properties { product, version }) = Properties::read(payload) else { return };
        let product = product.unwrap_or_else(|| "AMQP".to_owned());
        *self.0.lock() = Some(match version {
            Some(version) => format!("{product} {version}"),
            None => product,
        });
    }

    pub(crate) fn broker(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

/// The properties of a broker that are kept.
#[derive(Default)]
struct Properties {
    product: Option<String>,
    version: Option<String>,
}

impl Properties {
    /// Reads the method `connection.start`: the version of the protocol, then the properties. The
    /// library's own parser knows every method, and takes long to compile.
    fn read(payload: &mut [u8]) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        if (cursor.u16()?, cursor.u16()?) != (10, 10) {
            return None;
        }
        cursor.skip(2)?;

        let length = cursor.length()?;
        let end = cursor.end_of(length)?;
        let mut properties = Self::default();
        while cursor.at() < end {
            let name_at = cursor.at() + 1;
            cursor.short_text()?;
            let value_at = cursor.at();
            pass_value(&mut cursor)?;

            let (name, value) =
                (cursor.read(name_at..value_at)?, cursor.read(value_at..cursor.at())?);
            match name {
                b"product" => properties.product = text_of(value),
                b"version" => properties.version = text_of(value),
                _ => {}
            }
        }
        Some(properties)
    }
}

/// Returns a value that is a long string, after its type and its length.
fn text_of(value: &[u8]) -> Option<String> {
    let text = value.strip_prefix(b"S")?.get(4..)?;
    let text = String::from_utf8_lossy(text);
    let is_plain = text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control);
    is_plain.then(|| text.into_owned())
}

#[cfg(test)]
mod tests;
