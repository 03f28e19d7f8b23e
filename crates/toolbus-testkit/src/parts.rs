//! Where the parts that others wrote have been put by `dev/parts/fetch`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

/// The exit code of `dev/parts/fetch --offline` for a part that has not been fetched.
const NOT_FETCHED: i32 = 3;

/// The part's folder, or `None` where it has not been fetched and skipping is allowed.
///
/// # Panics
/// When the script fails, or the part is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
pub(crate) fn folder(part: &str) -> Option<PathBuf> {
    match find_folder(part) {
        Ok(Ok(folder)) => Some(folder),
        Ok(Err(reason)) => {
            crate::skip(&reason);
            None
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// The folder, or why there is none yet.
fn find_folder(part: &str) -> anyhow::Result<Result<PathBuf, String>> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/parts/fetch");
    let output = Command::new(&script)
        .args(["--offline", part])
        .output()
        .with_context(|| format!("running {}", script.display()))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();

    if output.status.code() == Some(NOT_FETCHED) {
        return Ok(Err(said));
    }

    let printed = String::from_utf8(output.stdout).context("output of dev/parts/fetch")?;
    match printed.trim_end().strip_prefix(part).and_then(|rest| rest.strip_prefix('=')) {
        Some(folder) if output.status.success() => Ok(Ok(PathBuf::from(folder))),
        _ => bail!("dev/parts/fetch --offline {part}: {}: {said}", output.status),
    }
}
