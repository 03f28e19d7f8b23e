//! The text of a mail, out of the parts that Gmail splits it into.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde_json::Value;
use toolbus_fetch::{ContentType, decode_text};

use super::text::{LINE_CHARS_MAX, one_line};
use crate::html::{Page, to_text};

/// How deep parts are looked into.
const DEPTH_MAX: usize = 32;
/// Most parts of a mail that are looked at.
const PARTS_MAX: usize = 1_000;
/// Largest text, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// What stands for a mail without a text.
const NO_TEXT: &str = "(no text content)";
const CUT: &str = "\n\n(the rest of this mail is not shown)";

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const URL_SAFE_ENGINE: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);
const STANDARD_ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);

/// Reads parts, of which it counts how many there are.
struct Reader {
    parts_left: usize,
    /// Whether something of the mail is left out that may have a text.
    is_cut: bool,
}

/// The text of a mail, which is bounded.
pub(crate) fn text_of_mail(payload: &Value) -> String {
    let mut reader = Reader { parts_left: PARTS_MAX, is_cut: false };
    let text = reader.read(payload, 0).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() {
        return NO_TEXT.to_owned();
    }
    if text.len() <= TEXT_BYTES_MAX && !reader.is_cut {
        return text.to_owned();
    }
    format!("{}{CUT}", &text[..text.floor_char_boundary(TEXT_BYTES_MAX)])
}

/// The value of a header, whatever the case of its name is; empty where there is none.
pub(crate) fn header(payload: &Value, name: &str) -> String {
    one_line(raw_header(payload, name).unwrap_or_default(), LINE_CHARS_MAX)
}

fn raw_header<'a>(part: &'a Value, name: &str) -> Option<&'a str> {
    let headers = part.get("headers").and_then(Value::as_array)?;
    let text = |header: &'a Value, name: &str| header.get(name).and_then(Value::as_str);
    let found = headers
        .iter()
        .find(|header| text(header, "name").is_some_and(|found| found.eq_ignore_ascii_case(name)));
    text(found?, "value")
}

impl Reader {
    fn read(&mut self, part: &Value, depth: usize) -> Option<String> {
        if self.parts_left == 0 || depth > DEPTH_MAX {
            self.is_cut = true;
            return None;
        }
        self.parts_left -= 1;
        let media_type = media_type(part);
        if !media_type.starts_with("multipart/") {
            return self.read_text(part, &media_type);
        }

        let parts = part.get("parts").and_then(Value::as_array);
        let parts = parts.map(Vec::as_slice).unwrap_or_default();
        if media_type == "multipart/alternative" {
            return self.read_alternative(parts, depth);
        }
        let mut texts = Vec::new();
        for part in parts.iter().take(PARTS_MAX) {
            texts.extend(self.read(part, depth + 1));
        }
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// The last page with data, else the text of a nested part, the last one first, else the first
    /// plain text.
    fn read_alternative(&mut self, parts: &[Value], depth: usize) -> Option<String> {
        let parts = &parts[..parts.len().min(PARTS_MAX)];
        let of_type = |wanted: &'static str| {
            move |part: &&Value| media_type(part) == wanted && data_of(part).is_some()
        };
        if let Some(page) = parts.iter().rfind(of_type("text/html")) {
            return self.read(page, depth + 1);
        }
        for nested in parts.iter().rev() {
            if media_type(nested).starts_with("multipart/")
                && let Some(text) = self.read(nested, depth + 1)
            {
                return Some(text);
            }
        }
        let plain = parts.iter().find(of_type("text/plain"))?;
        self.read(plain, depth + 1)
    }

    /// The text of a part that is one, unless it is an attachment.
    fn read_text(&mut self, part: &Value, media_type: &str) -> Option<String> {
        let name = part.get("filename").and_then(Value::as_str);
        let is_file = name.is_some_and(|name| !name.is_empty());
        if is_file || !matches!(media_type, "text/html" | "text/plain") {
            return None;
        }

        let data: String = data_of(part)?.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let bytes =
            URL_SAFE_ENGINE.decode(&data).or_else(|_| STANDARD_ENGINE.decode(&data)).ok()?;
        let mut text = decode(&bytes, part, media_type)?;
        if media_type == "text/html" {
            let page = Page::parse(&text);
            self.is_cut |= page.is_cut;
            text = to_text(&page);
        }
        (!text.trim().is_empty()).then(|| text.replace("\r\n", "\n").trim_end().to_owned())
    }
}

/// Gmail hands on some texts in UTF-8 whose headers still say what they were: what is UTF-8 beyond
/// ASCII is taken for it.
fn decode(bytes: &[u8], part: &Value, media_type: &str) -> Option<String> {
    let declared = ContentType::parse(raw_header(part, "Content-Type").unwrap_or_default());
    let is_utf8 = !bytes.is_ascii() && std::str::from_utf8(bytes).is_ok();
    let charset = if is_utf8 { Some("utf-8".to_owned()) } else { declared.charset };
    decode_text(bytes, &ContentType { media_type: media_type.to_owned(), charset })
}

fn data_of(part: &Value) -> Option<&str> {
    part.pointer("/body/data").and_then(Value::as_str).filter(|data| !data.is_empty())
}

fn media_type(part: &Value) -> String {
    let written = part.get("mimeType").and_then(Value::as_str).unwrap_or_default();
    written.trim().to_ascii_lowercase()
}

#[cfg(test)]
mod tests;
