//! A generator of clients in Python from OpenAPI documents, which others wrote: what it makes of a
//! document is a client that anybody would have.

use std::process::Command;

/// A Python that has `openapi_python_client` and what its clients need. `None` where it has not
/// been fetched and may be missing.
///
/// # Panics
/// When it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub fn python() -> Option<Command> {
    let folder = crate::parts::folder("openapi-client")?;
    Some(Command::new(folder.join("bin/python")))
}
