//! Unique names for folders and control groups.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::process;

/// A name for something of this process: `prefix`, the process's number, and a random part. The
/// number tells a later service whether the maker still lives, the random part keeps several
/// sandboxes of one process apart.
pub(crate) fn unique_name(prefix: &str) -> String {
    let random = RandomState::new().build_hasher().finish();
    format!("{prefix}-{}-{random:016x}", process::id())
}

/// The pid of the process that made a name with this prefix.
pub(crate) fn maker_pid<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    name.strip_prefix(prefix)?.strip_prefix('-')?.split('-').next()
}
