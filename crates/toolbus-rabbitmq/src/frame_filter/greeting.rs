//! How a broker introduces itself: the AMQP library reads its properties and keeps them to itself.

use std::sync::Arc;

use lapin::protocol::connection::AMQPMethod;
use lapin::protocol::{AMQPClass, parse_class};
use lapin::types::{AMQPValue, FieldTable};
use parking_lot::Mutex;

/// Longest name or version that is kept, in bytes.
const TEXT_BYTES_MAX: usize = 64;

/// Name and version of a broker, once it has said them. Clones are the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct Greeting(Arc<Mutex<Option<String>>>);

impl Greeting {
    /// Reads the payload of the first frame.
    pub(super) fn read(&self, payload: &[u8]) {
        let Ok((_, AMQPClass::Connection(AMQPMethod::Start(start)))) = parse_class(payload) else {
            return;
        };
        let properties = &start.server_properties;
        let product = text_of(properties, "product").unwrap_or_else(|| "AMQP".to_owned());
        let version = text_of(properties, "version");
        *self.0.lock() = Some(match version {
            Some(version) => format!("{product} {version}"),
            None => product,
        });
    }

    pub(crate) fn broker(&self) -> Option<String> {
        self.0.lock().clone()
    }
}

fn text_of(properties: &FieldTable, name: &str) -> Option<String> {
    let value = properties.inner().get(name)?;
    let AMQPValue::LongString(text) = value else { return None };
    let text = String::from_utf8_lossy(text.as_bytes());
    let is_plain = text.len() <= TEXT_BYTES_MAX && !text.chars().any(char::is_control);
    is_plain.then(|| text.into_owned())
}
