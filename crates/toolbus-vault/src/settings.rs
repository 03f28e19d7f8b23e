//! The section `vault` of the settings.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::Mistakes;

use crate::KeySource;

/// The name of the section.
const SECTION: &str = "vault";

/// Where the key of the vault comes from. Without one there is no vault.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct VaultSettings {
    /// The file that holds the key of the vault: 64 hexadecimal digits, such as `openssl rand -hex
    /// 32` prints. Nobody but its owner may read it; the group may where it is root's, as in the
    /// volumes of Kubernetes. It is read when the vault is first needed.
    pub key_file: Option<PathBuf>,
    /// The command that prints the key instead, as a list of the program and its arguments: the way
    /// to a service that manages keys. It has ten seconds. `--print-config` shows it, so it must
    /// not hold a secret itself.
    pub key_command: Vec<String>,
}

impl VaultSettings {
    /// Adds what is wrong with them.
    pub fn check(&self, mistakes: &mut Mistakes<'_>) {
        if self.key_file.is_some() && !self.key_command.is_empty() {
            let what = format!("{SECTION}.key_file is set too, and only one of them can hold");
            mistakes.add(&format!("{SECTION}.key_command"), what);
        }
        if self.key_command.first().is_some_and(String::is_empty) {
            mistakes.add(&format!("{SECTION}.key_command"), "it names no program");
        }
    }

    /// Where the key comes from; `None` where there is no vault.
    #[must_use]
    pub fn key(&self) -> Option<KeySource> {
        let Self { key_file, key_command } = self;
        match key_file {
            Some(file) => Some(KeySource::File(file.clone())),
            None if key_command.is_empty() => None,
            None => Some(KeySource::Command(key_command.clone())),
        }
    }
}
