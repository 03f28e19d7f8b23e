//! Where the key of a tool is, and what is missing there.

use std::env;

use toolbus_config::{KeyReference, Secret};
use toolbus_tools::CredentialSource;
use toolbus_vault::LazyVault;

/// Where a key is looked for, as toolkits do it.
pub(super) struct KeyPlace {
    /// The setting that has it or says where it is.
    pub(super) setting: String,
    /// What stands there.
    pub(super) written: Option<Secret>,
    /// The variable of the environment that has it where nothing stands there.
    pub(super) variable: Option<String>,
    /// Its provider in the vault.
    pub(super) provider: String,
    /// The command that puts it into the vault, where that is not `vault set`.
    pub(super) put_by: Option<&'static str>,
}

impl KeyPlace {
    /// Finds the key, or its name in the vault, which is not looked into. The error names what is
    /// missing, and holds no key.
    pub(super) fn find(&self, has_vault: bool) -> Result<Option<String>, String> {
        let setting = &self.setting;
        let written = self.written.as_ref().filter(|text| !text.expose().trim().is_empty());
        let Some(written) = written else {
            return match &self.variable {
                Some(variable) if has_variable(variable) => Ok(None),
                Some(variable) => Err(format!("no key: set {setting} or the variable {variable}")),
                None => Err(format!("no key: set {setting}")),
            };
        };

        match KeyReference::parse(written) {
            Ok(KeyReference::Key(_)) => Ok(None),
            Ok(KeyReference::Variable(name)) if has_variable(&name) => Ok(None),
            Ok(KeyReference::Variable(name)) => {
                Err(format!("no key: {setting} names the variable {name}, which is not set"))
            }
            Ok(KeyReference::Vault(name)) if has_vault => Ok(Some(name)),
            Ok(KeyReference::Vault(_)) => Err(format!(
                "no key: {setting} names the vault, and there is none: set vault.key_file"
            )),
            Err(problem) => Err(format!("no key: {setting}: {problem}")),
        }
    }

    /// Says what is missing, also in the vault. `None`: there is a key.
    pub(super) async fn describe_missing(&self, vault: Option<&LazyVault>) -> Option<String> {
        let name = match self.find(vault.is_some()) {
            Ok(name) => name?,
            Err(reason) => return Some(reason),
        };

        let provider = &self.provider;
        let source: &dyn CredentialSource = vault?;
        match source.find(provider, &name).await {
            Ok(Some(_)) => None,
            Ok(None) if let Some(command) = self.put_by => {
                Some(format!("nobody has logged in: run `{command}`"))
            }
            Ok(None) => Some(format!(
                "no key: the vault has no {name} of {provider}; `agent-host vault set {provider} \
                 {name}` puts it there"
            )),
            Err(error) => Some(format!("no key: {error}")),
        }
    }
}

fn has_variable(name: &str) -> bool {
    env::var(name).is_ok_and(|value| !value.trim().is_empty())
}

#[cfg(test)]
mod tests;
