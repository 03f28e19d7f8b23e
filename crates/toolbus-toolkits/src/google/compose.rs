//! A mail as it is sent: plain text, with headers that only ASCII is in.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// Most addresses of one mail.
const ADDRESSES_MAX: usize = 100;
/// Longest list of addresses, in bytes.
const TO_BYTES_MAX: usize = 16 << 10;
/// Longest subject, in bytes.
const SUBJECT_BYTES_MAX: usize = 4 << 10;
/// Longest body, in bytes.
const BODY_BYTES_MAX: usize = 5 << 20;
/// Longest address, in bytes (RFC 5321).
const ADDRESS_BYTES_MAX: usize = 254;
/// Most bytes in one encoded word, so that it has no more than 75 characters (RFC 2047).
const WORD_BYTES_MAX: usize = 45;
/// Longest line of a header that is written as it is, in bytes.
const PLAIN_BYTES_MAX: usize = 200;
/// Longest line of a body that is written as it is, in bytes (RFC 5322).
const BODY_LINE_BYTES_MAX: usize = 900;
/// Characters of base64 on one line (RFC 2045).
const BASE64_LINE_BYTES: usize = 76;

/// An address, with the name that it is shown by.
#[derive(Debug, PartialEq, Eq)]
struct Mailbox {
    name: String,
    address: String,
}

/// A mail in base64url without padding, as Gmail takes it. The error says what is wrong.
pub(super) fn raw_message(to: &str, subject: &str, body: &str) -> Result<String, String> {
    Ok(URL_SAFE_NO_PAD.encode(message(to, subject, body)?))
}

pub(crate) fn message(to: &str, subject: &str, body: &str) -> Result<String, String> {
    for (name, text, max) in [("to", to, TO_BYTES_MAX), ("subject", subject, SUBJECT_BYTES_MAX)] {
        // What follows a line break would be a header of its own.
        if text.contains(char::is_control) {
            return Err(format!("{name} must not contain line breaks or other control characters"));
        }
        if text.len() > max {
            return Err(format!("{name} has more than {max} bytes"));
        }
    }
    if body.len() > BODY_BYTES_MAX {
        return Err(format!("body has more than {BODY_BYTES_MAX} bytes"));
    }

    let mailboxes = parse_mailboxes(to)?;
    let mailboxes: Vec<_> = mailboxes.iter().map(Mailbox::header).collect();
    let (encoding, body) = encode_body(body);
    Ok(format!(
        "To: {}\r\nSubject: {}\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=\"UTF-8\"\
         \r\nContent-Transfer-Encoding: {encoding}\r\n\r\n{body}",
        mailboxes.join(",\r\n "),
        encode_text(subject.trim())
    ))
}

impl Mailbox {
    fn parse(text: &str) -> Result<Self, String> {
        let (name, address) = match text.rsplit_once('<') {
            Some((name, rest)) => {
                let address = rest.strip_suffix('>').ok_or_else(|| bad_address(text))?;
                (unquote(name.trim()), address.trim())
            }
            None => (String::new(), text),
        };

        let is_address = address.len() <= ADDRESS_BYTES_MAX
            && address.split_once('@').is_some_and(|(local, domain)| {
                !local.is_empty() && !domain.is_empty() && !domain.contains('@')
            })
            && address
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"<>()[],;:\\\"".contains(&byte));
        if !is_address {
            return Err(bad_address(text));
        }
        Ok(Self { name, address: address.to_owned() })
    }

    fn header(&self) -> String {
        let Self { name, address } = self;
        if name.is_empty() {
            return address.clone();
        }
        if needs_encoding(name) {
            return format!("{} <{address}>", encode_words(name));
        }
        let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{quoted}\" <{address}>")
    }
}

fn bad_address(text: &str) -> String {
    let shown: String = text.chars().take(100).collect();
    format!(
        "to: '{shown}' is not an address such as ana@example.com or Ana <ana@example.com> (in the \
         address itself only ASCII)"
    )
}

/// Splits a list at its commas, as far as they stand neither in quotes nor in an address.
fn parse_mailboxes(list: &str) -> Result<Vec<Mailbox>, String> {
    let mut parts = vec![String::new()];
    let (mut is_quoted, mut is_escaped, mut is_angled) = (false, false, false);
    for c in list.chars() {
        if c == ',' && !is_quoted && !is_angled {
            parts.push(String::new());
            continue;
        }
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '<' if !is_quoted => is_angled = true,
            '>' if !is_quoted => is_angled = false,
            _ => {}
        }
        parts.last_mut().expect("there is one").push(c);
    }

    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty());
    let mailboxes = parts.map(Mailbox::parse).collect::<Result<Vec<_>, _>>()?;
    match mailboxes.len() {
        0 => Err("to must have an address".to_owned()),
        1..=ADDRESSES_MAX => Ok(mailboxes),
        _ => Err(format!("to has more than {ADDRESSES_MAX} addresses")),
    }
}

fn unquote(name: &str) -> String {
    let inner = name.strip_prefix('"').and_then(|name| name.strip_suffix('"'));
    let Some(inner) = inner else { return name.to_owned() };
    let mut text = String::new();
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        text.push(if c == '\\' { chars.next().unwrap_or(c) } else { c });
    }
    text
}

/// A text of a header, as it is where that can be read only as it is meant.
fn encode_text(text: &str) -> String {
    if needs_encoding(text) { encode_words(text) } else { text.to_owned() }
}

fn needs_encoding(text: &str) -> bool {
    !text.is_ascii() || text.contains("=?") || text.len() > PLAIN_BYTES_MAX
}

/// Encoded words (RFC 2047), each on a line of its own.
fn encode_words(text: &str) -> String {
    let mut chunks = vec![String::new()];
    for c in text.chars() {
        if chunks.last().is_some_and(|chunk| chunk.len() + c.len_utf8() > WORD_BYTES_MAX) {
            chunks.push(String::new());
        }
        chunks.last_mut().expect("there is one").push(c);
    }
    let words: Vec<_> =
        chunks.iter().map(|chunk| format!("=?UTF-8?B?{}?=", STANDARD.encode(chunk))).collect();
    words.join("\r\n ")
}

/// A body with the name of its encoding.
fn encode_body(body: &str) -> (&'static str, String) {
    let lines = body.replace("\r\n", "\n").replace('\r', "\n");
    let is_plain = lines.is_ascii()
        && !lines.contains('\0')
        && lines.split('\n').all(|line| line.len() <= BODY_LINE_BYTES_MAX);
    let lines = lines.replace('\n', "\r\n");
    if is_plain {
        return ("7bit", lines);
    }

    let encoded = STANDARD.encode(lines);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / 30);
    for line in encoded.as_bytes().chunks(BASE64_LINE_BYTES) {
        let _ = write!(text, "{}\r\n", std::str::from_utf8(line).unwrap_or_default());
    }
    ("base64", text)
}

#[cfg(test)]
mod tests;
