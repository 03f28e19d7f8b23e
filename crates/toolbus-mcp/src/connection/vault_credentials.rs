//! The credentials of the vault that a server is connected with: they are read for each connection,
//! so that one which was changed is used from the next one on.

use std::borrow::Cow;

use toolbus_tools::id::SERVER_PROVIDER_PREFIX;
use toolbus_wire::message::Secret;

use super::{ServerAccess, SharedDeps};
use crate::config::{CredentialValues, Entry, Target};
use crate::failure::Failure;

/// How a server is reached for one connection. Whatever it says is looked through for its
/// credentials from now on.
pub(crate) async fn resolve_target<'a>(
    entry: &'a Entry,
    access: &ServerAccess,
    deps: &SharedDeps,
) -> Result<Cow<'a, Target>, Failure> {
    let names = entry.vault_credentials();
    if names.is_empty() {
        return Ok(Cow::Borrowed(&entry.target));
    }

    let mut values = CredentialValues::new();
    for name in names {
        values.insert(name.to_owned(), find_credential(entry, name, deps).await?);
    }
    access.eraser.set_vault_credentials(values.values());
    entry.target_with(&values).map(Cow::Owned).map_err(Failure::of_credential)
}

/// A failure is for operators and models: it has neither a path nor anything of a key.
async fn find_credential(entry: &Entry, name: &str, deps: &SharedDeps) -> Result<Secret, Failure> {
    let provider = format!("{SERVER_PROVIDER_PREFIX}{}", entry.name);
    let command = format!("`agent-host vault set {provider} {name}`");
    let Some(credentials) = &deps.credentials else {
        return Err(Failure::of_credential(format!(
            "its credential '{name}' is to come from a vault, and there is none here: it takes \
             vault.key_file in the settings, and {command}"
        )));
    };

    match credentials.0.find(&provider, name).await {
        Ok(Some(value)) => Ok(Secret::from(value.as_str().to_owned())),
        Ok(None) => Err(Failure::of_credential(format!(
            "its credential '{name}' is not in the vault: {command} puts it there"
        ))),
        Err(unreadable) => Err(Failure::of_credential(format!(
            "its credential '{name}', of {command}, cannot be read: {unreadable}"
        ))),
    }
}
