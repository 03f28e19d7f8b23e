//! The parsers of this crate as targets of a fuzzer.

use std::borrow::Cow;

use toolbus_tools::hidden_text::{self, HiddenCounts};

use crate::config::{self, Issuer, Variables, find_credentials};
use crate::transport::environment_file;
use crate::transport::fuzzing::{
    check_batch, check_edges, check_json, check_listing, check_message, check_stream,
};

pub use crate::auth::fuzzing::logins;

/// Most pieces that a stream is cut into.
const PIECES_MAX: usize = 512;

/// The value of every variable.
const VALUE: &str = "s3cret-0f9A7b3C5d1E";

/// Takes what a server writes apart into lines and events, of which the long ones are cut. Asserts
/// that they do not depend on the pieces that it comes in, and that they are bounded.
pub fn streams(bytes: &[u8]) {
    check_stream(bytes, bytes.len().div_ceil(PIECES_MAX).max(1));
    check_edges(bytes);
}

/// Reads a message of a server, or a batch of them, while a call is under way. Asserts that no
/// credential comes through, and that results are bounded.
pub fn messages(bytes: &[u8]) {
    check_message(bytes);
    check_batch(bytes);
    check_json(bytes);
}

/// Reads a message that lists tools. Asserts that each name is there once, that nothing is hidden
/// in names, and that definitions are canonical.
pub fn listings(bytes: &[u8]) {
    check_listing(bytes);
}

/// Takes hidden characters out of a text. Asserts that none is left.
pub fn hidden_text(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let cleaned = hidden_text::clean_text(text, &mut HiddenCounts::default());

    let mut found = HiddenCounts::default();
    let again = hidden_text::clean_text(&cleaned, &mut found);
    assert!(found.is_empty() && matches!(again, Cow::Borrowed(_)), "{found} in {cleaned:?}");
}

/// Reads a file of variables. Asserts that a program can be started with them.
pub fn environment_files(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    for (name, value) in environment_file::parse(text).unwrap_or_default() {
        assert!(!name.is_empty() && !name.contains(['=', '\0']), "{name:?}");
        assert!(!value.expose().contains('\0'), "{name:?}");
    }
}

/// Reads an `mcp.json`, with variables and without. Asserts that no value of a variable is told.
pub fn configurations(bytes: &[u8]) {
    let text = &*String::from_utf8_lossy(bytes);
    let _ = config::parse(text, Variables::Refused);
    let value = |_: &str| Some(VALUE.to_owned());
    if let Ok(config) = config::parse(text, Variables::From(&value))
        && !text.contains(VALUE)
    {
        assert!(config.servers.len() <= config::SERVERS_MAX);
        for mistake in config.mistakes.iter().chain(&config.warnings) {
            assert!(!mistake.to_string().contains(VALUE), "{mistake}");
        }
    }

    let (name, value) = text.split_once('=').unwrap_or(("", text));
    for credential in find_credentials(name, value) {
        assert!(value.contains(credential.expose()));
    }
    let _ = Issuer::parse(text).map(|issuer| issuer.metadata_urls());
}
