//! `config`: shows and changes the settings.
//!
//! Invariants: a settings file is whole at any time; one that is made here only its owner may read;
//! what would make sound settings wrong is never written; no value is printed.

use std::fs::{DirBuilder, File, Permissions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;
use toolbus_config::error_chain::in_lines;
use toolbus_config::{Environment, Errors, Origin, SettingsFile, set_value};
use toolbus_runtime::report;
use toolbus_runtime::service::{self, Exit};

use super::{misuse, print, print_error};
use crate::arguments::ConfigSet;
use crate::policy_reload::SettingsSource;
use crate::settings::Settings;

/// Longest value that is read from standard input, in bytes.
const VALUE_BYTES_MAX: u64 = 64 << 10;
/// Who else may read a file that is made here: nobody.
const FILE_MODE: u32 = 0o600;
const FOLDER_MODE: u32 = 0o700;

/// `config path`.
pub(crate) fn print_path(source: &SettingsSource) -> Exit {
    let file = source.common.file(&Environment::of_process());
    let Some(path) = file.path() else { return Exit::FAILURE };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    print(&format!("{}\n", path.display()));
    if !path.exists() && !source.common.quiet {
        report::print_warning("there is no such file yet: `agent-host config set` makes it");
    }
    Exit::SUCCESS
}

/// `config set`.
pub(crate) fn set(options: ConfigSet, source: &SettingsSource) -> Exit {
    let value = match options.value.as_str() {
        "-" => match read_value() {
            Ok(value) => value,
            Err(error) => return misuse(format_args!("standard input cannot be read: {error}")),
        },
        _ => options.value,
    };

    let file = source.common.file(&Environment::of_process());
    let Some(path) = file.path().map(Path::to_owned) else { return Exit::FAILURE };
    // A link stays one: what it leads to is replaced.
    let path = std::fs::canonicalize(&path).or_else(|_| std::path::absolute(&path)).unwrap_or(path);
    let lock = match lock_folder(&path) {
        Ok(lock) => lock,
        Err(error) => return fail(&path, "written", &error),
    };
    let text = match file.read_text() {
        Ok(text) => text,
        Err(error) => return fail(&path, "read", &error),
    };
    let edited = match set_value::<Settings>(&text, &options.key, &value) {
        Ok(edited) => edited,
        Err(error) => return misuse(error),
    };

    let changed = SettingsFile::Changed { path: path.clone(), text: edited.text.clone() };
    match check(source, &changed, &file, &edited.key) {
        Ok(notes) if source.common.quiet => drop(notes),
        Ok(notes) => notes.iter().for_each(report::print_warning),
        Err(errors) => return misuse(in_lines(&errors).trim_end()),
    }
    if let Err(error) = replace(&path, edited.text.as_bytes()) {
        return fail(&path, "written", &error);
    }
    // The file is in its place; that it stays there over a power cut is all that may be missing.
    let _ = lock.sync_all();
    print(&format!("set {} in {}\n", edited.key, path.display()));
    Exit::SUCCESS
}

fn fail(path: &Path, what: &str, error: &io::Error) -> Exit {
    print_error(format_args!("{} cannot be {what}: {error}", path.display()));
    Exit::FAILURE
}

/// Checks the settings with the changed file, as the programs would read them here. Settings that
/// were wrong before may stay wrong elsewhere, so that they can be mended one by one.
///
/// # Errors
/// When the change makes sound settings wrong, or leaves a mistake at the key itself.
fn check(
    source: &SettingsSource,
    changed: &SettingsFile,
    before: &SettingsFile,
    key: &str,
) -> Result<Vec<String>, Errors> {
    let load = |file: &SettingsFile| {
        let (program, common) = (&source.program, &source.common);
        service::configure_file::<Settings>(program, common, source.own.clone(), file.clone())
    };
    // A file that is to be made is not there yet.
    let before = match before {
        SettingsFile::Required { path, .. } => SettingsFile::IfPresent(path.clone()),
        file => file.clone(),
    };

    let errors = match load(changed) {
        Ok(loaded) => {
            let mut notes = loaded.warnings.clone();
            if let Origin::Named(name) = loaded.origin(key) {
                notes.push(format!("{name} is set, and holds instead of the file"));
            }
            return Ok(notes);
        }
        Err(errors) => errors,
    };
    match (errors.at(key), load(&before)) {
        (Some(at_key), _) => Err(at_key),
        (None, Ok(_)) => Err(errors),
        (None, Err(_)) => Ok(vec![errors.to_string()]),
    }
}

fn read_value() -> io::Result<String> {
    let mut value = String::new();
    io::stdin().lock().take(VALUE_BYTES_MAX + 1).read_to_string(&mut value)?;
    if value.len() as u64 > VALUE_BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {VALUE_BYTES_MAX} bytes")));
    }
    Ok(value.trim_end_matches(['\r', '\n']).to_owned())
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => ".".into(),
    }
}

/// Opens the folder of a file, which is made where it is missing, and locks it against others that
/// change the file, until it is dropped. A file system without locks does without.
fn lock_folder(file: &Path) -> io::Result<File> {
    let folder = folder_of(file);
    DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(&folder)?;
    let folder = File::open(folder)?;
    match folder.try_lock() {
        Err(std::fs::TryLockError::WouldBlock) => {
            Err(io::Error::new(io::ErrorKind::WouldBlock, "another process changes it just now"))
        }
        _ => Ok(folder),
    }
}

/// Replaces a file as a whole. Who may read it stays; a new one only its owner may.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mode = std::fs::metadata(path).map_or(FILE_MODE, |file| file.permissions().mode());
    let mut temporary = NamedTempFile::with_prefix_in(".toolbus.", folder_of(path))?;
    temporary.write_all(bytes)?;
    temporary.as_file().set_permissions(Permissions::from_mode(mode))?;
    temporary.as_file().sync_all()?;
    temporary.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests;
