//! Bytes to text, by the charset that they have.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

use crate::content_type::ContentType;

/// How much of a page is searched for a charset that it names itself, in bytes.
const PRESCAN_BYTES: usize = 1024;
/// How much of a body is looked at to tell whether it is text, in bytes.
const SNIFFED_BYTES: usize = 8 << 10;

/// The text of a body: by its mark (BOM), else by the charset of its type, else by the one that a
/// page names itself, else as UTF-8. What does not fit is replaced. `None`: it is binary.
#[must_use]
pub fn decode_text(bytes: &[u8], content_type: &ContentType) -> Option<String> {
    let encoding = match Encoding::for_bom(bytes) {
        Some((encoding, _)) => encoding,
        None => {
            let declared = content_type.charset.as_deref().and_then(find_encoding);
            let named = || content_type.is_html().then(|| find_meta_charset(bytes)).flatten();
            declared.or_else(named).unwrap_or(UTF_8)
        }
    };

    let is_wide = encoding == UTF_16BE || encoding == UTF_16LE;
    let sniffed = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    if bytes.starts_with(b"%PDF-") || (!is_wide && sniffed.contains(&0)) {
        return None;
    }
    let (text, _, _) = encoding.decode(bytes);
    Some(text.into_owned())
}

/// The encoding of a label. Those that decode to nothing but a replacement are as good as unknown.
fn find_encoding(label: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(label.as_bytes())
}

/// The charset in the `<meta>` of a page.
fn find_meta_charset(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = bytes[..bytes.len().min(PRESCAN_BYTES)].to_ascii_lowercase();
    let head = String::from_utf8_lossy(&head);
    let mut metas = head.split("<meta").skip(1);
    metas.find_map(|meta| {
        let tag = meta.split('>').next()?;
        let (_, after) = tag.split_once("charset")?;
        let value =
            after.trim_start().strip_prefix('=')?.trim_start().trim_start_matches(['"', '\'']);
        let end = value.find(['"', '\'', ';', ' ', '/', '\n', '\t']).unwrap_or(value.len());
        // Who can read this has not read UTF-16.
        match find_encoding(&value[..end])? {
            encoding if encoding == UTF_16BE || encoding == UTF_16LE => Some(UTF_8),
            encoding => Some(encoding),
        }
    })
}

#[cfg(test)]
mod tests;
