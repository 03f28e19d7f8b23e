//! The parsers of this crate as targets of a fuzzer.

use std::collections::HashSet;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::tz::TimeZone;
use reqwest::Url;
use serde_json::{Map, Value, json};
use toolbus_json::Limits;

use crate::files::{docx, search, text, write};
use crate::google::{compose, mime, times};
use crate::html::{Page, inline_text, to_markdown, to_text};
use crate::linkedin::pages;
use crate::rest::openapi::import;
use crate::rest::{OpenApiDocument, documents, template};

/// Values of an input.
const LIMITS: Limits = Limits::of_bytes(64 << 10);
/// How much is written in markdown for each byte of a page, and at least, in bytes.
const MARKDOWN_GROWTH_MAX: usize = 4;
const MARKDOWN_BYTES_MIN: usize = 64 << 10;
/// Longest line of a mail, in bytes (RFC 5322).
const MAIL_LINE_BYTES_MAX: usize = 998;
/// How many headers a mail has that is sent.
const MAIL_HEADERS: usize = 5;

/// Where pages come from.
static BASE: LazyLock<Url> =
    LazyLock::new(|| Url::parse("https://example.com/a/b?q").expect("a URL"));
/// Zones with and without changes of the clock.
static ZONES: LazyLock<[TimeZone; 2]> = LazyLock::new(|| {
    ["UTC", "Europe/Berlin"].map(|name| TimeZone::get(name).expect("a zone that is known"))
});

/// Writes a page as text and in markdown, which is bounded.
pub fn html_page(bytes: &[u8]) {
    let html = String::from_utf8_lossy(bytes);
    let page = Page::parse(&html);
    let _ = to_text(&page);
    assert!(!inline_text(&html).contains('\n'));

    let (markdown, _) = to_markdown(&page, &BASE, html.len());
    let max = (html.len() * MARKDOWN_GROWTH_MAX).max(MARKDOWN_BYTES_MIN);
    assert!(markdown.len() <= max, "{} bytes of {}", markdown.len(), html.len());
}

/// Finds jobs in a page of LinkedIn, and the description of one.
pub fn linkedin_page(bytes: &[u8]) {
    let html = String::from_utf8_lossy(bytes);
    let _ = pages::list_jobs(&html, &BASE, 10);
    let _ = pages::describe_job(&html);
}

/// Reads a `.docx` document, and the same bytes as the XML in one.
pub fn docx_document(bytes: &[u8]) {
    let _ = docx::extract_text(bytes);
    let _ = docx::extract_xml_text(bytes);
}

/// Reads a mail in JSON, as Gmail has it. Its subject has no control characters.
pub fn mail(bytes: &[u8]) {
    let Ok(mail) = toolbus_json::from_slice::<Value>(bytes, &LIMITS) else { return };
    let _ = mime::text_of_mail(&mail);
    let subject = mime::header(&mail, "Subject");
    assert!(!subject.contains(char::is_control), "{subject:?}");
}

/// Reads the text of a mail, whose `Content-Type` is the first line, as plain text and as a page.
pub fn mail_text(bytes: &[u8]) {
    let (content_type, text) = split_line(bytes);
    let content_type = String::from_utf8_lossy(content_type);
    let data = URL_SAFE_NO_PAD.encode(text);
    for media_type in ["text/plain", "text/html"] {
        let mail = json!({
            "mimeType": media_type,
            "headers": [{"name": "Content-Type", "value": content_type}],
            "body": {"data": data}
        });
        let _ = mime::text_of_mail(&mail);
    }
}

/// Writes a mail to the addresses of the first line, with the second line as its subject. Its lines
/// are short and of ASCII, and none of the parts becomes a header of its own.
pub fn sent_mail(bytes: &[u8]) {
    let (to, rest) = split_line(bytes);
    let (subject, body) = split_line(rest);
    let [to, subject, body] = [to, subject, body].map(String::from_utf8_lossy);
    let Ok(mail) = compose::message(&to, &subject, &body) else { return };

    let is_line = |line: &str| line.len() <= MAIL_LINE_BYTES_MAX && !line.contains(['\r', '\n']);
    assert!(mail.is_ascii() && mail.split("\r\n").all(is_line), "{mail:?}");
    let (head, _) = mail.split_once("\r\n\r\n").expect("a head");
    let headers = head.split("\r\n").filter(|line| !line.starts_with(' '));
    assert_eq!(headers.count(), MAIL_HEADERS, "{head:?}");
}

/// Reads when an event starts, in the first line, and when it ends, in what follows.
pub fn event_times(bytes: &[u8]) {
    let (start, end) = split_line(bytes);
    let [start, end] = [start, end].map(String::from_utf8_lossy);
    for zone in ZONES.iter() {
        times::fuzz(&start, &end, zone);
    }
}

/// Reads an OpenAPI document, in JSON or YAML. No two of its endpoints have one name.
pub fn openapi_document(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(document) = documents::parse(text) else { return };
    let Ok(endpoints) = import(&document, &OpenApiDocument::default()) else { return };
    let names: HashSet<_> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names.len(), endpoints.len());
}

/// Reads the template of an address, in the first line, and fills in arguments, which are JSON in
/// what follows. They change neither the host nor how many segments the path has.
pub fn url_template(bytes: &[u8]) {
    let (written, arguments) = split_line(bytes);
    let arguments = toolbus_json::from_slice::<Map<String, Value>>(arguments, &LIMITS);
    template::fuzz(&String::from_utf8_lossy(written), &arguments.unwrap_or_default());
}

/// Decodes a file of a workspace. A text in UTF-8 is as it was, without its mark.
pub fn file_text(bytes: &[u8]) {
    text::fuzz(bytes);
}

/// Reads a glob, in the first line, and compares it with the path in what follows.
pub fn file_glob(bytes: &[u8]) {
    let (pattern, path) = split_line(bytes);
    search::fuzz(&String::from_utf8_lossy(pattern), &String::from_utf8_lossy(path));
}

/// Replaces a text by another one in a third; zero bytes are between them. The result is as long as
/// it was known to become.
pub fn file_edit(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    if let (Some(old), Some(new), Some(text)) = (parts.next(), parts.next(), parts.next()) {
        write::fuzz(old, new, text);
    }
}

/// The first line, and what follows it.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
