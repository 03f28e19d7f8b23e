//! Where the parts that others wrote have been put by `dev/parts/fetch`.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail};

use crate::declared;

/// The exit code of `dev/parts/fetch --offline` for a part that has not been fetched.
const NOT_FETCHED: i32 = 3;

/// Returns the part's folder, or `None` if it has not been fetched and skipping is allowed.
///
/// `cargo xtask test` names the folders of declared parts in the environment. Otherwise the script
/// is asked, which takes a tenth of a second.
///
/// # Panics
/// If the script fails, if the part is missing and `TOOLBUS_REQUIRE_REAL` is `1`, or if the package
/// does not declare it.
pub(crate) fn folder(part: &str) -> Option<PathBuf> {
    declared::check("parts", part);
    folder_beside_cluster(part)
}

/// Like [`folder`], for parts that come with the cluster or the container engine: packages do not
/// declare them.
pub(crate) fn folder_beside_cluster(part: &str) -> Option<PathBuf> {
    let variable = format!("TOOLBUS_TEST_PART_{}", part.to_ascii_uppercase().replace('-', "_"));
    if let Some(folder) = env::var_os(variable) {
        return Some(folder.into());
    }
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
