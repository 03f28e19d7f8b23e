//! Media types: what is text, and how files of a type end.

/// The media type without its parameters, in lower case.
pub(crate) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// Whether bytes of this type are JSON: one value.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || essence.ends_with("+json")
}

/// Whether bytes of this type are text.
pub(crate) fn is_text(media_type: &str) -> bool {
    const TEXTS: [&str; 10] = [
        "application/x-ndjson",
        "application/jsonl",
        "application/xml",
        "application/yaml",
        "application/toml",
        "application/javascript",
        "application/x-sh",
        "application/sql",
        "application/csv",
        "image/svg+xml",
    ];
    let essence = essence(media_type);
    essence.starts_with("text/")
        || is_json(&essence)
        || essence.ends_with("+xml")
        || TEXTS.contains(&&*essence)
}

/// A media type as it is kept: lower case, of printable ASCII, and bounded; else that of any bytes.
pub(crate) fn checked(media_type: Option<&str>, or: &str) -> String {
    let media_type = media_type.unwrap_or_default().trim();
    let is_plain = media_type.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    let has_two_parts = essence(media_type).split_once('/').is_some_and(|(kind, name)| {
        let is_part = |part: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&byte);
            !part.is_empty() && part.bytes().all(plain)
        };
        is_part(kind) && is_part(name)
    });
    if media_type.len() > 255 || !is_plain || !has_two_parts {
        or.to_owned()
    } else {
        media_type.to_ascii_lowercase()
    }
}

/// Media types and what the names of their files end in, the usual one first.
const ENDINGS: [(&str, &str); 40] = [
    ("image/png", "png"),
    ("image/jpeg", "jpg"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("image/bmp", "bmp"),
    ("image/tiff", "tiff"),
    ("image/avif", "avif"),
    ("image/x-icon", "ico"),
    ("audio/mpeg", "mp3"),
    ("audio/wav", "wav"),
    ("audio/x-wav", "wav"),
    ("audio/ogg", "ogg"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
    ("audio/webm", "weba"),
    ("video/mp4", "mp4"),
    ("video/webm", "webm"),
    ("application/pdf", "pdf"),
    ("application/zip", "zip"),
    ("application/gzip", "gz"),
    ("application/x-tar", "tar"),
    ("application/json", "json"),
    ("application/x-ndjson", "jsonl"),
    ("application/xml", "xml"),
    ("application/yaml", "yaml"),
    ("application/vnd.apache.parquet", "parquet"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("text/xml", "xml"),
    ("text/css", "css"),
    ("text/javascript", "js"),
    ("text/plain", "log"),
    ("image/jpeg", "jpeg"),
    ("application/x-ndjson", "ndjson"),
    ("text/html", "htm"),
];

/// What a file is by the end of its name.
#[must_use]
pub fn media_type_of(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let known = ENDINGS.iter().find(|(_, known)| ending.as_deref() == Some(known));
    known.map_or("application/octet-stream", |(media_type, _)| media_type)
}

/// What the name of a file of this type ends in.
#[must_use]
pub fn file_ending(media_type: &str) -> &'static str {
    let essence = essence(media_type);
    match ENDINGS.iter().find(|(known, _)| *known == essence) {
        Some((_, ending)) => ending,
        None if is_json(&essence) => "json",
        None if is_text(&essence) => "txt",
        None => "bin",
    }
}

#[cfg(test)]
mod tests;
