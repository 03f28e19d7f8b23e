//! The settings of files.

use std::env;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::{ByteSize, Mistakes};
use toolbus_tools::Audience;

use crate::audience::{self, anybody, audience_of, is_personal, local_alone};

/// Folders that show more than files.
const SYSTEM_FOLDERS: [&str; 3] = ["/dev", "/proc", "/sys"];
/// The least and the most that a file may have which is read as a whole, in bytes.
const FILE_BYTES_MIN: u64 = 1 << 10;
const FILE_BYTES_MAX: u64 = 256 << 20;

/// Which files models may read and write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FilesSettings {
    /// The working directory: the folder that relative paths are in. No file outside of it is
    /// touched, by whatever links it is reached, but for the paths below. When not set, there are
    /// no tools for files and no commands.
    pub working_directory: Option<PathBuf>,
    /// Who has the tools for files and commands, as globs over `PROOF:NAME` as policy rules have
    /// them, such as `claimed:mcp` or `token:http/NAME`; `*` is everybody. For others they are not
    /// there, whatever the policy allows. When there are none: `local:*`, which is whoever runs the
    /// program, where one of the folders is in a home folder or has one in it, and else `*`.
    #[schemars(length(max = 64))]
    pub principals: Vec<String>,
    /// What may be done in the working directory. Where it is `read-only`, tools that write are not
    /// offered.
    pub access: Access,
    /// Further folders that may be read, by absolute paths.
    pub readable_paths: Vec<PathBuf>,
    /// Further folders that may be read and written, by absolute paths.
    pub writable_paths: Vec<PathBuf>,
    /// The largest file that is read or edited, from 1 KiB to 256 MiB. Larger ones can be searched.
    pub file_max: ByteSize,
}

/// What may be done in a folder.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Files may be read, written and made.
    #[default]
    ReadWrite,
    /// Files may be read.
    ReadOnly,
}

impl Default for FilesSettings {
    fn default() -> Self {
        Self {
            working_directory: None,
            principals: Vec::new(),
            access: Access::ReadWrite,
            readable_paths: Vec::new(),
            writable_paths: Vec::new(),
            file_max: ByteSize::mebibytes(16),
        }
    }
}

impl FilesSettings {
    /// Adds what is wrong with them to the mistakes of a program that has them as `files`.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        let folders = [
            ("files.working_directory", self.working_directory.as_slice()),
            ("files.readable_paths", &self.readable_paths),
            ("files.writable_paths", &self.writable_paths),
        ];
        for (key, paths) in folders {
            if let Some(Err(reason)) =
                paths.iter().map(|path| check_folder(path)).find(Result::is_err)
            {
                mistakes.add(key, reason);
            }
        }

        if !self.principals.is_empty() {
            audience::check("files.principals", &self.principals, mistakes);
        }
        if !(FILE_BYTES_MIN..=FILE_BYTES_MAX).contains(&self.file_max.bytes()) {
            mistakes.add("files.file_max", "between 1 KiB and 256 MiB");
        }
    }

    /// For whom the tools are there. `beside` are further folders that they reach.
    #[must_use]
    pub fn audience(&self, beside: &[PathBuf]) -> Audience {
        audience_of(&self.principals_or_default(beside))
    }

    /// The same as globs over principals.
    #[must_use]
    pub fn principals_or_default(&self, beside: &[PathBuf]) -> Vec<String> {
        if !self.principals.is_empty() {
            return self.principals.clone();
        }

        let real = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let home = env::var_os("HOME").map(PathBuf::from).map(real);
        let folders = self.working_directory.iter().chain(&self.readable_paths);
        let mut folders = folders.chain(&self.writable_paths).chain(beside);
        match folders.any(|folder| is_personal(&real(folder.clone()), home.as_deref())) {
            true => local_alone(),
            false => anybody(),
        }
    }

    /// The real path of the working directory.
    ///
    /// # Errors
    /// When it is not there.
    pub fn real_working_directory(&self) -> io::Result<PathBuf> {
        match &self.working_directory {
            Some(path) => path.canonicalize(),
            None => env::current_dir()?.canonicalize(),
        }
    }
}

/// Checks that a folder may be named, whose files models are to reach.
pub(super) fn check_folder(path: &Path) -> Result<(), String> {
    let shown = path.display();
    if !path.is_absolute() {
        return Err(format!("{shown} is not an absolute path"));
    }
    if path.parent().is_none() || SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder)) {
        return Err(format!("{shown} shows more than files: name a folder below it"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
