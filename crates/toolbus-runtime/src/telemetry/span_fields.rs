//! The fields of spans as JSON, for log lines.
//!
//! A call has several spans and mostly no log line, so their fields are written one after the other
//! as they come, without a map in between. A field that is recorded again is there twice: whoever
//! reads an object takes the last of a name, as the library's formatter of lines does.

use std::fmt::{self, Debug};
use std::io;

use serde::Serialize;
use tracing::field::{Field, Visit};
use tracing::span::Record;
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormattedFields;
use tracing_subscriber::fmt::format::{FormatFields, Writer};

/// Writes fields as the members of one JSON object.
pub(super) struct SpanFields;

impl<'w> FormatFields<'w> for SpanFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        writer.write_char('{')?;
        write_members(&mut writer, fields, true)?;
        writer.write_char('}')
    }

    fn add_fields(
        &self,
        current: &'w mut FormattedFields<Self>,
        fields: &Record<'_>,
    ) -> fmt::Result {
        let is_first = current.fields.len() <= "{}".len();
        // The end, which is written again.
        current.fields.pop();
        write_members(&mut current.as_writer(), fields, is_first)?;
        current.fields.push('}');
        Ok(())
    }
}

fn write_members(
    writer: &mut Writer<'_>,
    fields: impl RecordFields,
    is_first: bool,
) -> fmt::Result {
    let mut members = FieldMembers { writer, is_first, result: Ok(()) };
    fields.record(&mut members);
    members.result
}

struct FieldMembers<'a, 'w> {
    writer: &'a mut Writer<'w>,
    is_first: bool,
    result: fmt::Result,
}

impl FieldMembers<'_, '_> {
    fn write(&mut self, field: &Field, value: impl Serialize) {
        if self.result.is_ok() {
            self.result = self.try_write(field.name(), value);
        }
    }

    fn try_write(&mut self, name: &str, value: impl Serialize) -> fmt::Result {
        if !std::mem::replace(&mut self.is_first, false) {
            self.writer.write_char(',')?;
        }
        write_json(self.writer, name.strip_prefix("r#").unwrap_or(name))?;
        self.writer.write_char(':')?;
        write_json(self.writer, value)
    }
}

impl Visit for FieldMembers<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.write(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.write(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.write(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.write(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.write(field, format_args!("{value:?}"));
    }
}

fn write_json(writer: &mut Writer<'_>, value: impl Serialize) -> fmt::Result {
    serde_json::to_writer(Text(writer), &value).map_err(|_| fmt::Error)
}

/// Takes the bytes of JSON, which come in pieces that are text each.
struct Text<'a, 'w>(&'a mut Writer<'w>);

impl io::Write for Text<'_, '_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        self.0.write_str(text).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
