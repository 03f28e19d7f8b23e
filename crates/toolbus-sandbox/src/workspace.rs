//! Which folders of the host may be shared with scripts.

use std::path::Path;

use crate::config::Config;
use crate::interpreter::Interpreter;
use crate::probe::Unavailable;
use crate::recipe;

/// Trees that a sandbox is made of, and folders of the host that show more than files.
const SYSTEM_TREES: [&str; 14] = [
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/packages",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
];

/// Checks that the workspace is a folder of its own: nothing that the sandbox is made of is in it,
/// where scripts could replace it, nor is it in a tree of the system.
pub(crate) fn check_workspace(
    config: &Config,
    interpreter: &Interpreter,
) -> Result<(), Unavailable> {
    let Some(workspace) = &config.workspace else { return Ok(()) };
    let path = &workspace.path;
    let wrong = |reason: &str| {
        let reason = format!("{} {reason}", path.display());
        Err(Unavailable::Setting { name: "workspace", reason })
    };

    match path.canonicalize() {
        Ok(real) if real == *path && real.is_dir() => {}
        Ok(_) => return wrong("is not the real path of a folder"),
        Err(error) => return wrong(&format!("cannot be used: {error}")),
    }

    let within = |tree: &Path| path.starts_with(tree);
    let mut of_system = SYSTEM_TREES.iter().map(Path::new).chain([Path::new(recipe::WORK)]);
    if of_system.any(within) {
        return wrong("is a folder of the system");
    }

    let mounts = SYSTEM_TREES.iter().chain(&recipe::WRITABLE).map(Path::new);
    let mut parts = mounts.chain(interpreter.trees.iter().map(AsRef::as_ref));
    if parts.any(|part| part.starts_with(path)) {
        return wrong("contains what the sandbox is made of, such as its Python");
    }
    if config.read_only_paths.iter().any(|tree| tree.starts_with(path)) {
        return wrong("contains a path that is shown read-only");
    }

    let cache = config.packages.directory.as_ref();
    if cache.is_some_and(|cache| cache.starts_with(path)) {
        return wrong("contains the installed packages");
    }

    Ok(())
}

#[cfg(test)]
mod tests;
