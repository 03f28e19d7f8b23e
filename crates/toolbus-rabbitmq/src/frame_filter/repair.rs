//! Repairs the payload of one AMQP frame in place: texts that are not UTF-8, and tables that are
//! nested too deep. A payload that does not have the form of its kind is left as it is.

use std::ops::Range;
use std::str;

/// How deep tables and arrays may lie in each other. Nobody needs any depth: our contract has none,
/// and the broker's own account of dead letters has two.
const DEPTH_MAX: usize = 8;
/// What stands for an octet that belongs to no character.
const REPLACEMENT: u8 = b'?';

/// The content encoding of a message whose properties were left out. Nobody else has one.
pub(crate) const OVERSIZED: &str = "oversized";
/// What is left of such a frame: its head, class, weight and size of the body; the flag and the
/// text of the content encoding; its end.
const REST_BYTES: usize = 7 + 12 + 2 + 1 + OVERSIZED.len() + 1;

/// The frames that hold texts of strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A method, such as a delivery with its topic.
    Method,
    /// The properties of a message.
    Header,
}

impl Kind {
    /// What the first octet of a frame says.
    pub(super) fn of(octet: u8) -> Option<Self> {
        match octet {
            1 => Some(Self::Method),
            2 => Some(Self::Header),
            _ => None,
        }
    }
}

/// Whether a frame begins with this octet: a method, a header, a body or a heartbeat.
pub(super) fn is_frame(octet: u8) -> bool {
    matches!(octet, 1 | 2 | 3 | 8)
}

/// A frame of properties that begins like this, with no property but the mark.
pub(super) fn without_properties(mut frame: [u8; REST_BYTES]) -> [u8; REST_BYTES] {
    let size = u32::try_from(REST_BYTES - 8).expect("a few octets");
    frame[3..7].copy_from_slice(&size.to_be_bytes());
    frame[19..21].copy_from_slice(&[0x40, 0]);
    frame[21] = u8::try_from(OVERSIZED.len()).expect("a short text");
    frame[22..REST_BYTES - 1].copy_from_slice(OVERSIZED.as_bytes());
    frame[REST_BYTES - 1] = 0xce;
    frame
}

/// Repairs the payload of a frame.
pub(super) fn repair_frame(kind: Kind, payload: &mut [u8]) {
    let mut cursor = Cursor::new(payload);
    // `None` says that the payload is not of its form, and then the library is the one to say so.
    let _ = match kind {
        Kind::Method => repair_method(&mut cursor),
        Kind::Header => repair_header(&mut cursor),
    };
}

/// The methods that repeat a stranger's text, or the broker's words about it, which it cuts off in
/// the middle of a character.
fn repair_method(cursor: &mut Cursor<'_>) -> Option<()> {
    match (cursor.u16()?, cursor.u16()?) {
        // connection.close and channel.close: code, text.
        (10, 50) | (20, 40) => {
            cursor.skip(2)?;
            cursor.short_text()
        }
        // connection.blocked and basic.cancel: text.
        (10, 60) | (60, 30) => cursor.short_text(),

        // basic.return: code, text, exchange, routing key.
        (60, 50) => {
            cursor.skip(2)?;
            cursor.short_text()?;
            cursor.short_text()?;
            cursor.short_text()
        }
        // basic.deliver: consumer tag, delivery tag, redelivered, exchange, routing key.
        (60, 60) => {
            cursor.short_text()?;
            cursor.skip(9)?;
            cursor.short_text()?;
            cursor.short_text()
        }
        _ => Some(()),
    }
}

/// What a property is made of.
#[derive(Clone, Copy)]
enum Property {
    Text,
    Table,
    Octets(usize),
}

/// The properties in the order of their flags, from the highest bit down.
const PROPERTIES: [Property; 14] = {
    use Property::{Octets, Table, Text};
    // Content type and encoding; headers; delivery mode, priority; correlation id, reply-to,
    // expiration, message id; timestamp; type, user id, app id, cluster id.
    [
        Text,
        Text,
        Table,
        Octets(1),
        Octets(1),
        Text,
        Text,
        Text,
        Text,
        Octets(8),
        Text,
        Text,
        Text,
        Text,
    ]
};

fn repair_header(cursor: &mut Cursor<'_>) -> Option<()> {
    // Class, weight and size of the body.
    cursor.skip(12)?;
    let flags = cursor.u16()?;

    for (number, property) in PROPERTIES.into_iter().enumerate() {
        if flags & (0x8000 >> number) == 0 {
            continue;
        }

        match property {
            Property::Text => cursor.short_text()?,
            Property::Table => {
                let length = cursor.length()?;
                repair_table(cursor, length, 0)?;
            }
            Property::Octets(count) => cursor.skip(count)?,
        }
    }

    Some(())
}

fn repair_table(cursor: &mut Cursor<'_>, length: usize, depth: usize) -> Option<()> {
    let end = cursor.end_of(length)?;
    while cursor.at < end {
        cursor.short_text()?;
        repair_value(cursor, depth)?;
    }
    Some(())
}

fn repair_array(cursor: &mut Cursor<'_>, length: usize, depth: usize) -> Option<()> {
    let end = cursor.end_of(length)?;
    while cursor.at < end {
        repair_value(cursor, depth)?;
    }
    Some(())
}

fn repair_value(cursor: &mut Cursor<'_>, depth: usize) -> Option<()> {
    let kind_at = cursor.at;
    let kind = cursor.u8()?;

    match kind {
        b't' | b'b' | b'B' => cursor.skip(1),
        b's' | b'u' | b'U' => cursor.skip(2),
        b'I' | b'i' | b'f' => cursor.skip(4),
        b'D' => cursor.skip(5),
        b'L' | b'l' | b'd' | b'T' => cursor.skip(8),
        b'V' => Some(()),
        b'S' | b'x' => {
            let length = cursor.length()?;
            cursor.skip(length)
        }
        b'F' | b'A' => {
            let length = cursor.length()?;
            if depth >= DEPTH_MAX {
                // The same octets as an array of bytes, which nobody looks into.
                cursor.bytes[kind_at] = b'x';
                return cursor.skip(length);
            }
            let inside = if kind == b'F' { repair_table } else { repair_array };
            inside(cursor, length, depth + 1)
        }
        _ => None,
    }
}

/// Passes a value of a table.
pub(super) fn pass_value(cursor: &mut Cursor<'_>) -> Option<()> {
    repair_value(cursor, 0)
}

/// Reads a payload from its start to its end.
pub(super) struct Cursor<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The place of what comes next.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns what lies at a range of places.
    pub(super) fn read(&self, range: Range<usize>) -> Option<&[u8]> {
        self.bytes.get(range)
    }

    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        self.at = self.end_of(count)?;
        Some(())
    }

    pub(super) fn end_of(&self, length: usize) -> Option<usize> {
        self.at.checked_add(length).filter(|end| *end <= self.bytes.len())
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let octets = *self.bytes.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(octets)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(u32::from_be_bytes(self.take()?)).ok()
    }

    /// Passes a text of up to 255 octets and makes UTF-8 of it.
    pub(super) fn short_text(&mut self) -> Option<()> {
        let length = usize::from(self.u8()?);
        let end = self.end_of(length)?;
        let mut text = &mut self.bytes[self.at..end];

        while let Err(error) = str::from_utf8(text) {
            let begin = error.valid_up_to();
            let length = error.error_len().unwrap_or(text.len() - begin);
            text[begin..begin + length].fill(REPLACEMENT);
            text = &mut text[begin + length..];
        }

        self.at = end;
        Some(())
    }
}

#[cfg(test)]
mod tests;
