//! A client of the broker that others wrote, in Python: `pika`.

use std::path::PathBuf;

/// A Python that has `pika`. `None` where it has not been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn python() -> Option<PathBuf> {
    crate::parts::folder("pika").map(|folder| folder.join("bin/python"))
}
