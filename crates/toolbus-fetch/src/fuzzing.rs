//! The parsers of this crate as targets of a fuzzer.

use url::Url;

use crate::address::literal_of;
use crate::encoding::Unpacker;
use crate::{AllowedHost, ContentType, check_literal, decode_text, is_public};

/// Most bytes that are unpacked of an input.
const UNPACKED_BYTES_MAX: usize = 1 << 20;
/// Bytes of a piece of a body.
const PIECE_BYTES: usize = 7;

/// Unpacks a body by gzip and by brotli, whole and in pieces, to no more bytes than are allowed.
pub fn packed_body(bytes: &[u8]) {
    for encoding in ["gzip", "br"] {
        for piece_bytes in [PIECE_BYTES, bytes.len().max(1)] {
            let mut unpacker = Unpacker::of(encoding, UNPACKED_BYTES_MAX).expect("it is known");
            let pushed = bytes.chunks(piece_bytes).try_for_each(|piece| unpacker.push(piece));
            let _ = pushed.and_then(|()| unpacker.finish());
            assert!(unpacker.take().len() <= UNPACKED_BYTES_MAX);
        }
    }
}

/// Decodes a body whose `Content-Type` is the first line, by that and as a page.
pub fn text_body(bytes: &[u8]) {
    let (content_type, body) = split_line(bytes);
    let content_type = ContentType::parse(&String::from_utf8_lossy(content_type));
    let _ = (content_type.is_json(), content_type.may_be_text());
    let _ = decode_text(body, &content_type);
    let page = ContentType { media_type: "text/html".to_owned(), charset: None };
    let _ = decode_text(body, &page);
}

/// Reads a host that is allowed, in the first line, and compares it with the URL that follows. An
/// address in that is as public as the same one in the other family.
pub fn allowed_host(bytes: &[u8]) {
    let (entry, url) = split_line(bytes);
    let url = Url::parse(&String::from_utf8_lossy(url)).ok();
    let literal = url.as_ref().and_then(literal_of);
    if let Ok(host) = String::from_utf8_lossy(entry).parse::<AllowedHost>() {
        assert_eq!(host.to_string().parse::<AllowedHost>(), Ok(host.clone()));
        let _ = url.as_ref().map(|url| host.matches(url));
        let _ = literal.map(|literal| host.allows_address(literal));
    }

    if let (Some(url), Some(literal)) = (&url, literal) {
        assert_eq!(check_literal(url).is_ok(), is_public(literal), "{literal}");
        assert_eq!(is_public(literal), is_public(literal.to_canonical()), "{literal}");
    }
}

/// The first line, and what follows it.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
}
