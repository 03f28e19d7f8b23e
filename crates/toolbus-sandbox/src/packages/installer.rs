//! The command that installs, and what it is allowed to see.
//!
//! Installers get the network and the operator's own settings of indexes, proxies and certificates,
//! and nothing else of the service: a short list of variables and files, named here.

use std::env;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toolbus_scripts::packages::RUN_PIP;

use crate::interpreter::Interpreter;
use crate::recipe::{HostTree, NETWORK_SETTINGS, WORK};

/// Where the staging folder is mounted.
pub(super) const TARGET: &str = "/target";
/// The folder in it that becomes the set.
pub(super) const TREE: &str = "tree";
/// The folder in it for what the installer unpacks.
pub(super) const SCRATCH: &str = "scratch";

/// Variables that are passed on. Those that name a file or a folder have it mounted, too.
const VARIABLES: [&str; 36] = [
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_PROXY",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_RETRIES",
    "PIP_CONFIG_FILE",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX_STRATEGY",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
    "UV_INSECURE_HOST",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "UV_HTTP_TIMEOUT",
    "UV_EXCLUDE_NEWER",
    "UV_CONFIG_FILE",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];
/// Files of the system that installers read, beside those for the network.
const SYSTEM_FILES: [&str; 2] = ["/etc/pip.conf", "/etc/uv/uv.toml"];
/// Files below the home folder.
const HOME_FILES: [&str; 3] = [".config/pip/pip.conf", ".pip/pip.conf", ".config/uv/uv.toml"];

/// The program that installs packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InstallerProgram {
    /// uv, by its path.
    Uv(PathBuf),
    /// The interpreter's own pip.
    Pip,
}

/// The installer program, and what it sees of the host's configuration.
#[derive(Debug, Clone)]
pub(crate) struct InstallerSettings {
    pub(super) program: InstallerProgram,
    /// Variables as they are here.
    pub(super) variables: Vec<(&'static str, String)>,
    /// Files and folders to mount: where they are, and where an installer looks for them.
    pub(crate) files: Vec<HostTree>,
}

impl InstallerSettings {
    /// Detects the program, variables and files on this host, leaving out what `interpreter` mounts
    /// anyway.
    pub(crate) fn detect_installer(interpreter: &Interpreter) -> Self {
        let variables: Vec<(&'static str, String)> =
            VARIABLES.iter().filter_map(|name| Some((*name, env::var(name).ok()?))).collect();
        let program = find_uv().map_or(InstallerProgram::Pip, InstallerProgram::Uv);
        let system = NETWORK_SETTINGS.iter().chain(&SYSTEM_FILES);
        let mut files: Vec<HostTree> = system.map(|path| same_path(Path::new(path))).collect();

        files.extend(variables.iter().flat_map(|(_, value)| paths_in_variable(value)));

        if let InstallerProgram::Uv(path) = &program {
            files.push(same_path(path));
        }

        let seen = |path: &Path| {
            path.starts_with("/usr") || interpreter.trees.iter().any(|tree| path.starts_with(tree))
        };
        files.retain(|file| file.source.exists() && !seen(&file.path));
        files.sort_by(|one, other| one.path.cmp(&other.path));
        files.dedup();
        if let Some(home) = env::home_dir() {
            let at_home = HOME_FILES
                .iter()
                .map(|file| HostTree { path: Path::new(WORK).join(file), source: home.join(file) });
            files.extend(at_home.filter(|file| file.source.exists()));
        }
        Self { program, variables, files }
    }

    /// The program and its arguments; packages go into [`TREE`] below `target`.
    pub(super) fn install_command<'a>(
        &self,
        interpreter: &Interpreter,
        target: &Path,
        requirements: impl Iterator<Item = &'a str>,
    ) -> Vec<String> {
        let python = interpreter.executable.to_string_lossy().into_owned();
        let target = target.join(TREE).to_string_lossy().into_owned();
        let mut command: Vec<String> = match &self.program {
            InstallerProgram::Uv(uv) => {
                let uv = uv.to_string_lossy();
                let fixed = ["pip", "install", "--python", &python, "--target", &target];
                let flags =
                    ["--only-binary", ":all:", "--no-cache", "--compile-bytecode", "--quiet"];
                [uv.as_ref()].into_iter().chain(fixed).chain(flags).map(str::to_owned).collect()
            }

            InstallerProgram::Pip => {
                let fixed = [&python, "-I", "-c", RUN_PIP, "install", "--target", &target];
                let flags = ["--only-binary", ":all:", "--no-cache-dir", "--no-input", "--quiet"];
                let silent = ["--disable-pip-version-check", "--no-warn-script-location"];
                fixed.into_iter().chain(flags).chain(silent).map(str::to_owned).collect()
            }
        };

        command.push("--".to_owned());
        command.extend(requirements.map(str::to_owned));

        command
    }
}

fn same_path(path: &Path) -> HostTree {
    HostTree { path: path.to_path_buf(), source: path.to_path_buf() }
}

/// The absolute paths in a variable: one, or several with blanks or colons between them.
fn paths_in_variable(value: &str) -> Vec<HostTree> {
    let words = value.split_whitespace().map(|word| word.strip_prefix("file://").unwrap_or(word));
    let paths = words.filter(|word| word.starts_with('/')).flat_map(|word| word.split(':'));
    paths
        .filter(|path| path.starts_with('/') && !path.trim_matches('/').is_empty())
        .map(|path| same_path(Path::new(path)))
        .collect()
}

/// The uv that `PATH` finds. A script under that name (a shim) may need what is not mounted.
fn find_uv() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join("uv")).find_map(|candidate| {
        let candidate = candidate.canonicalize().ok()?;
        let mut magic = [0; 4];
        File::open(&candidate).ok()?.read_exact(&mut magic).ok()?;
        (&magic == b"\x7fELF").then_some(candidate)
    })
}

#[cfg(test)]
mod tests;
