//! The name by which a model calls a tool of a server directly: `server__tool`.
//!
//! It is made of at most [`LENGTH_MAX`] characters of `[A-Za-z0-9_-]`, which every model API takes,
//! and depends on nothing but the two names, so that what other servers do cannot change it. It is
//! never taken apart: whoever gives out names remembers whose they are.

use sha2::{Digest as _, Sha256};

use crate::server_name::ServerName;

/// Longest name, in characters.
pub const LENGTH_MAX: usize = 64;
/// Hexadecimal digits of the digest that stands for what a name cannot say: 40 bits.
const DIGITS: usize = 10;

/// The name for a tool of a server.
///
/// Where both names can stand as they are, it is `server__tool`, and no other two names make the
/// same. Otherwise it is shortened, has `_` for what it may not have, and ends in a digest.
#[must_use]
pub fn direct_name(server: &ServerName, tool: &str) -> String {
    let server_name = server.as_str();
    let plain = format!("{server_name}__{tool}");
    // "a_" and "b" would make the same as "a" and "_b".
    let is_plain = plain.len() <= LENGTH_MAX
        && plain.chars().all(is_allowed)
        && !server_name.ends_with('_')
        && !tool.is_empty();
    if is_plain { plain } else { marked_name(server, tool, 0) }
}

/// Another name for the same tool, where something else has the first: `attempt` counts from 1.
#[must_use]
pub fn marked_name(server: &ServerName, tool: &str, attempt: usize) -> String {
    let folded = server.as_str().to_ascii_lowercase();
    let digest = Sha256::digest(format!("{folded}\0{tool}\0{attempt}"));
    let digits: String = digest[..DIGITS / 2].iter().map(|byte| format!("{byte:02x}")).collect();
    let allowed = |c| if is_allowed(c) { c } else { '_' };
    let mut name: String = format!("{server}__{tool}").chars().map(allowed).collect();
    name.truncate(LENGTH_MAX - DIGITS - 1);
    format!("{name}_{digits}")
}

fn is_allowed(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests;
