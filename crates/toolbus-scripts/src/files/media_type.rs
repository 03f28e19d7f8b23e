//! What a file is, by its first bytes and the ending of its name.
//!
//! Invariant: what is said to be a picture begins like one, because a model's interface refuses the
//! whole conversation over one that does not; what is said to be text is UTF-8.

const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";

/// Endings whose content is text, when it is UTF-8.
const TEXTS: [(&str, &str); 12] = [
    ("csv", "text/csv"),
    ("tsv", "text/tab-separated-values"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("md", "text/markdown"),
    ("css", "text/css"),
    ("json", "application/json"),
    ("geojson", "application/geo+json"),
    ("yaml", "application/yaml"),
    ("yml", "application/yaml"),
    ("xml", "application/xml"),
    ("svg", "image/svg+xml"),
];

/// Endings whose content is for programs.
const BINARIES: [(&str, &str); 9] = [
    ("pdf", "application/pdf"),
    ("zip", "application/zip"),
    ("gz", "application/gzip"),
    ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
    ("docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
    ("parquet", "application/vnd.apache.parquet"),
    ("sqlite", "application/vnd.sqlite3"),
    ("wav", "audio/wav"),
    ("mp3", "audio/mpeg"),
];

/// The media type of a file.
#[must_use]
pub fn mime_type(name: &str, content: &[u8]) -> &'static str {
    match content {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => return "image/png",
        [0xff, 0xd8, 0xff, ..] => return "image/jpeg",
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => return "image/gif",
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => return "image/webp",
        _ => {}
    }

    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    let of = |table: &[(&str, &'static str)]| {
        table.iter().find(|(known, _)| Some(*known) == ending.as_deref()).map(|(_, kind)| *kind)
    };
    match std::str::from_utf8(content) {
        Ok(text) if !text.contains('\0') => of(&TEXTS).or_else(|| of(&BINARIES)).unwrap_or(TEXT),
        _ => of(&BINARIES).unwrap_or(BYTES),
    }
}
