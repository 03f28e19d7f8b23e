//! Between the wire contract's frames and the AMQP library's types.
//!
//! What a message says is read and written by [`toolbus_wire::frame`]; here it only changes its
//! types.

use std::borrow::Cow;

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, LongString, ShortString};
use toolbus_wire::frame::{Frame, HeaderValue, Properties};
use toolbus_wire::{Envelope, frame};

/// Headers in the library's form.
pub(crate) type Headers = std::collections::BTreeMap<ShortString, AMQPValue>;

/// The properties that an envelope travels under.
pub(crate) fn properties_of(envelope: &Envelope) -> Result<BasicProperties, frame::Error> {
    let Frame { properties, headers, body: _ } = envelope.to_frame()?;
    let mut table = FieldTable::default();

    for (name, value) in headers {
        if let HeaderValue::LongString(value) = value {
            table.insert(short_string(&name), AMQPValue::LongString(LongString::from(&*value)));
        }
    }

    let Properties {
        content_type,
        delivery_mode,
        correlation_id,
        reply_to,
        expiration,
        message_id,
        timestamp,
        message_type,
    } = properties;

    let mut all = BasicProperties::default().with_headers(table);
    if let Some(text) = content_type {
        all = all.with_content_type(short_string(&text));
    }

    if let Some(mode) = delivery_mode {
        all = all.with_delivery_mode(mode);
    }
    if let Some(text) = correlation_id {
        all = all.with_correlation_id(short_string(&text));
    }

    if let Some(text) = reply_to {
        all = all.with_reply_to(short_string(&text));
    }
    if let Some(text) = expiration {
        all = all.with_expiration(short_string(&text));
    }

    if let Some(text) = message_id {
        all = all.with_message_id(short_string(&text));
    }
    if let Some(seconds) = timestamp {
        all = all.with_timestamp(seconds);
    }

    if let Some(text) = message_type {
        all = all.with_type(short_string(&text));
    }

    Ok(all)
}

/// The envelope that arrived under these properties.
pub(crate) fn envelope_of(properties: &BasicProperties, body: Bytes) -> Envelope {
    let headers = properties.headers().iter().flatten().map(|(name, value)| {
        let value = match value {
            AMQPValue::LongString(text) => HeaderValue::LongString(Cow::Borrowed(text.as_bytes())),
            _ => HeaderValue::Other,
        };
        (Cow::Borrowed(name.as_str()), value)
    });

    Envelope::from_frame(Frame {
        properties: Properties {
            content_type: as_text(properties.content_type()),
            delivery_mode: *properties.delivery_mode(),
            correlation_id: as_text(properties.correlation_id()),
            reply_to: as_text(properties.reply_to()),
            expiration: as_text(properties.expiration()),
            message_id: as_text(properties.message_id()),
            timestamp: *properties.timestamp(),
            message_type: as_text(properties.kind()),
        },
        headers: headers.collect(),
        body,
    })
}

/// The same properties with other headers; without an expiry, so that the message stays in the
/// queue that it goes to for as long as that queue says; and without the sender's user, whom the
/// broker would compare with ours.
pub(crate) fn with_headers(
    properties: &BasicProperties,
    change: impl FnOnce(&mut Headers),
) -> BasicProperties {
    let mut headers = properties.headers().as_ref().map(|table| table.inner().clone());
    change(headers.get_or_insert_default());
    let mut all = BasicProperties::default()
        .with_headers(headers.unwrap_or_default().into())
        .with_delivery_mode(PERSISTENT);
    macro_rules! keep {
        ($($read:ident $write:ident),+) => {
            $(if let Some(value) = properties.$read() { all = all.$write(value.clone()); })+
        };
    }

    keep!(
        content_type with_content_type,
        content_encoding with_content_encoding,
        priority with_priority,
        correlation_id with_correlation_id,
        reply_to with_reply_to,
        message_id with_message_id,
        timestamp with_timestamp,
        kind with_type,
        app_id with_app_id
    );
    all
}

/// How many bytes the properties take on the wire, or a little more.
pub(crate) fn encoded_bytes(properties: &BasicProperties) -> usize {
    let texts = [
        properties.content_type(),
        properties.content_encoding(),
        properties.correlation_id(),
        properties.reply_to(),
        properties.expiration(),
        properties.message_id(),
        properties.kind(),
        properties.app_id(),
    ];
    let texts: usize = texts.into_iter().flatten().map(|text| text.as_str().len() + 1).sum();
    let headers = properties.headers().as_ref().map_or(0, table_bytes);

    // Class, weight, size of the body, flags, delivery mode, priority, time and the frame itself.
    texts + headers + 64
}

/// A header's value that is a whole number, not below zero.
pub(crate) fn whole_number(value: &AMQPValue) -> Option<u64> {
    match *value {
        AMQPValue::ShortShortUInt(number) => Some(number.into()),
        AMQPValue::ShortUInt(number) => Some(number.into()),
        AMQPValue::LongUInt(number) => Some(number.into()),
        AMQPValue::ShortShortInt(number) => number.try_into().ok(),
        AMQPValue::ShortInt(number) => number.try_into().ok(),
        AMQPValue::LongInt(number) => number.try_into().ok(),
        AMQPValue::LongLongInt(number) => number.try_into().ok(),
        _ => None,
    }
}

/// A header's value that is text.
pub(crate) fn long_string(text: &str) -> AMQPValue {
    AMQPValue::LongString(text.as_bytes().into())
}

/// A text that is known to be short enough: names and topics are checked where they come in.
pub(crate) fn short_string(text: &str) -> ShortString {
    debug_assert!(text.len() <= frame::SHORT_STRING_BYTES_MAX);
    // The library panics on a text that is too long, and a message must not be able to do that.
    ShortString::try_new(text).unwrap_or_default()
}

const PERSISTENT: u8 = 2;

fn as_text(value: &Option<ShortString>) -> Option<Cow<'_, str>> {
    value.as_ref().map(|text| Cow::Borrowed(text.as_str()))
}

fn table_bytes(table: &FieldTable) -> usize {
    table.inner().iter().map(|(name, value)| name.as_str().len() + 1 + value_bytes(value)).sum()
}

fn value_bytes(value: &AMQPValue) -> usize {
    let content = match value {
        AMQPValue::LongString(text) => text.len(),
        AMQPValue::ShortString(text) => text.as_str().len(),
        AMQPValue::ByteArray(bytes) => bytes.len(),
        AMQPValue::FieldTable(table) => table_bytes(table),
        AMQPValue::FieldArray(values) => values.as_slice().iter().map(value_bytes).sum(),
        _ => 8,
    };
    content + 5
}

#[cfg(test)]
mod tests;
