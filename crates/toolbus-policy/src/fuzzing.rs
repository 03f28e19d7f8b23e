//! The parsers of this crate as targets of a fuzzer.

use toolbus_tools::id::ID_BYTES_MAX;
use toolbus_tools::view::matches_pattern;

use crate::glob::Glob;
use crate::principal::PrincipalPattern;
use crate::{owner_text, parse_owner};

/// Compares a glob, which is the first line, with the text that follows. It matches what the same
/// pattern of a view matches, and covers itself.
pub fn glob_pattern(bytes: &[u8]) {
    let input = String::from_utf8_lossy(bytes);
    let (pattern, text) = input.split_once('\n').unwrap_or((&*input, ""));
    let Ok(glob) = Glob::parse(pattern) else { return };
    assert_eq!(glob.matches(text), matches_pattern(pattern, text), "{pattern:?} {text:?}");
    assert!(glob.covers(&glob.symbols()), "{pattern:?}");
    assert!(glob.matches(&glob.sample("x")), "{pattern:?}");
}

/// Reads a pattern over principals, which covers itself, and the owner of a row. The text of an
/// owner is read as the same one.
pub fn principal_text(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(pattern) = PrincipalPattern::parse(text) {
        assert!(pattern.covers(&pattern.symbols()), "{text:?}");
        let _ = pattern.sample("x");
    }

    // A longer name may have no text that is read.
    if text.len() <= ID_BYTES_MAX
        && let Ok(owner) = parse_owner(text)
    {
        assert_eq!(parse_owner(&owner_text(&owner)), Ok(owner));
    }
}
