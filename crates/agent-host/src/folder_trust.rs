//! Whether the `mcp.json` of the current folder may be used though nobody named it.
//!
//! The file starts programs and fills in variables of the environment, so a folder that came from
//! somewhere else, such as a cloned repository, must not bring it into effect just because a
//! command was run there. A person is asked once for each folder and content of its file; without
//! a terminal the file is left out. A file that is named explicitly is trusted.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use toolbus_json::Limits;
use toolbus_mcp::settings::DEFAULT_FILE;

use crate::settings::Settings;
use crate::terminal_text;

/// The file of answers, in the user's state folder.
const ANSWERS_FILE: &str = "trusted-folders.json";
/// Largest file of answers that is read, in bytes.
const ANSWERS_BYTES_MAX: u64 = 1 << 20;
/// What that file may have.
const ANSWERS_LIMITS: Limits = Limits::of_bytes(ANSWERS_BYTES_MAX as usize);
/// Most folders that are remembered.
const FOLDERS_MAX: usize = 1_000;
/// Largest `mcp.json` that a person is asked about, in bytes.
const LIST_BYTES_MAX: u64 = 16 << 20;
/// What that file may have. What starts its servers takes no more, so a file that cannot be shown
/// starts none.
const LIST_LIMITS: Limits = Limits::of_bytes(LIST_BYTES_MAX as usize);
/// What names a credential of the vault in an entry.
const VAULT_REFERENCE: &str = "${vault:";
/// Longest answer that is read, in bytes.
const LINE_BYTES_MAX: u64 = 1_024;
/// Most servers that a person is shown, and most characters of each.
const SERVERS_SHOWN_MAX: usize = 20;
const SERVER_CHARACTERS_MAX: usize = 200;

/// Folders whose `mcp.json` a person has trusted, each with the digest of the file.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct TrustedFolders {
    folders: BTreeMap<String, String>,
}

/// A list of servers that nobody named.
struct FoundList {
    folder: PathBuf,
    text: Vec<u8>,
    digest: String,
}

/// Leaves the `mcp.json` of the current folder out of the settings, unless it is trusted or nothing
/// would be started of it. Asks where somebody is there to answer. Blocks. Returns the file that
/// was left out.
pub(crate) fn drop_untrusted(settings: &mut Settings) -> Option<PathBuf> {
    let found = find_untrusted(settings)?;
    let answers = answers_path();
    let can_answer = io::stdin().is_terminal() && io::stderr().is_terminal();
    if can_answer && ask_person(&found, &mut io::stdin().lock(), &mut io::stderr()) {
        if let Some(path) = answers
            && let Err(error) = TrustedFolders::remember_list(&path, &found)
        {
            tracing::warn!(%error, path = %path.display(), "trust in a folder is not remembered");
        }
        return None;
    }

    settings.mcp.without_default_file = true;
    Some(found.folder.join(DEFAULT_FILE))
}

/// As [`drop_untrusted`], without asking anybody.
pub(crate) fn drop_untrusted_silently(settings: &mut Settings) -> Option<PathBuf> {
    let found = find_untrusted(settings)?;
    settings.mcp.without_default_file = true;
    Some(found.folder.join(DEFAULT_FILE))
}

/// The list of the current folder, where it would be used and is not trusted.
fn find_untrusted(settings: &Settings) -> Option<FoundList> {
    let uses_default_list = settings.bus.url.is_none() && settings.mcp.config.is_none();
    if !uses_default_list || settings.trust_folder {
        return None;
    }
    let found = FoundList::in_folder(Path::new("."))?;
    let answers = answers_path();
    let is_trusted = |path| TrustedFolders::read_file(path).trusts_list(&found);
    (!answers.as_deref().is_some_and(is_trusted)).then_some(found)
}

impl FoundList {
    /// The list of this folder, where there is one. One that cannot be read is not there: whoever
    /// needs it says why.
    fn in_folder(folder: &Path) -> Option<Self> {
        let file = std::fs::File::open(folder.join(DEFAULT_FILE)).ok()?;
        let mut text = Vec::new();
        file.take(LIST_BYTES_MAX).read_to_end(&mut text).ok()?;
        let folder = std::fs::canonicalize(folder).ok()?;

        let mut digest = String::new();
        for byte in Sha256::digest(&text) {
            let _ = write!(digest, "{byte:02x}");
        }
        Some(Self { folder, text, digest })
    }

    /// What the list starts or connects to, one line for each server.
    fn describe(&self) -> Vec<String> {
        let list = toolbus_json::from_slice(&self.text, &LIST_LIMITS);
        let list: serde_json::Value = list.unwrap_or_default();
        let servers = list["mcpServers"].as_object();
        let describe = |(name, entry): (&String, &serde_json::Value)| {
            let text = |member: &str| entry[member].as_str().unwrap_or_default().to_owned();
            let arguments = entry["args"].as_array().into_iter().flatten();
            let arguments = arguments.filter_map(|argument| argument.as_str());
            let mut what = text("command");
            arguments.for_each(|argument| what = format!("{what} {argument}"));
            if what.is_empty() {
                what = text("url");
            }

            // Before what it starts, which may be long.
            let asks_for_some = entry.to_string().contains(VAULT_REFERENCE);
            let credentials = if asks_for_some { " (with credentials of the vault)" } else { "" };
            let line = format!("{name}{credentials}: {what}");
            let line = terminal_text::clean(&line).replace('\n', " ");
            line.chars().take(SERVER_CHARACTERS_MAX).collect()
        };
        servers.into_iter().flatten().take(SERVERS_SHOWN_MAX).map(describe).collect()
    }
}

/// Asks whether the servers of a list may be started.
fn ask_person(
    found: &FoundList,
    input: &mut impl io::BufRead,
    output: &mut impl io::Write,
) -> bool {
    let folder = terminal_text::clean(&found.folder.display().to_string());
    let mut question =
        format!("{folder} has an {DEFAULT_FILE}, which starts or connects these MCP servers:\n");
    for server in found.describe() {
        let _ = writeln!(question, "  {server}");
    }
    question.push_str("They run with your rights. Trust this folder? [y/N] ");
    if output.write_all(question.as_bytes()).and_then(|()| output.flush()).is_err() {
        return false;
    }

    let mut line = String::new();
    let read = input.take(LINE_BYTES_MAX).read_line(&mut line);
    read.is_ok() && matches!(line.trim(), "y" | "Y" | "yes" | "Yes")
}

/// Where answers are kept; `None` where there is no place for them.
fn answers_path() -> Option<PathBuf> {
    Some(toolbus_store::state_folder()?.join(ANSWERS_FILE))
}

impl TrustedFolders {
    /// The answers of this file; none where it cannot be read.
    fn read_file(path: &Path) -> Self {
        let Ok(file) = std::fs::File::open(path) else { return Self::default() };
        let mut text = Vec::new();
        if file.take(ANSWERS_BYTES_MAX).read_to_end(&mut text).is_err() {
            return Self::default();
        }
        toolbus_json::from_slice(&text, &ANSWERS_LIMITS).unwrap_or_default()
    }

    fn trusts_list(&self, found: &FoundList) -> bool {
        let folder = found.folder.to_string_lossy();
        self.folders.get(folder.as_ref()).is_some_and(|digest| *digest == found.digest)
    }

    /// Writes down that a person trusts this list, for the user only.
    fn remember_list(path: &Path, found: &FoundList) -> io::Result<()> {
        let mut all = Self::read_file(path);
        let folder = found.folder.to_string_lossy().into_owned();
        if all.folders.len() >= FOLDERS_MAX && !all.folders.contains_key(&folder) {
            all.folders.pop_first();
        }
        all.folders.insert(folder, found.digest.clone());

        let parent = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        std::fs::create_dir_all(parent)?;
        // Whole or not at all, also beside another process that does the same.
        let draft = parent.join(format!(".{ANSWERS_FILE}.{}", std::process::id()));
        let _ = std::fs::remove_file(&draft);
        let mut file =
            std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(serde_json::to_string_pretty(&all)?.as_bytes())?;
        std::fs::rename(&draft, path)
    }
}

#[cfg(test)]
mod tests;
