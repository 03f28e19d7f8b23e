//! Places of credentials: whose they are, and by which name a tool asks for them.

use std::fmt;

use crate::VaultError;

/// Longest part of a place, in bytes.
pub const PLACE_BYTES_MAX: usize = 512;

/// The place of one credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CredentialPlace {
    /// Who provides the tools that it is for, such as `mcp:github`.
    pub provider: String,
    /// The tool that it is for; `None` for all of the provider.
    pub tool: Option<String>,
    /// The caller's [owner](toolbus_policy::owner_text), as in rows of the store: with the id of a
    /// key, so that a later key with the same name does not match. `None` for all callers.
    pub user: Option<String>,
    /// The name that it is asked for by.
    pub name: String,
}

impl CredentialPlace {
    /// The place of a provider's credential.
    #[must_use]
    pub fn new(provider: impl Into<String>, name: impl Into<String>) -> Self {
        Self { provider: provider.into(), tool: None, user: None, name: name.into() }
    }

    /// The same, for one tool.
    #[must_use]
    pub fn for_tool(self, tool: impl Into<String>) -> Self {
        Self { tool: Some(tool.into()), ..self }
    }

    /// Limits the credential to the caller with this owner.
    #[must_use]
    pub fn for_user(self, user: impl Into<String>) -> Self {
        Self { user: Some(user.into()), ..self }
    }

    pub(crate) fn check(&self) -> Result<(), VaultError> {
        let parts = [
            ("provider", Some(&self.provider)),
            ("tool", self.tool.as_ref()),
            ("user", self.user.as_ref()),
            ("name", Some(&self.name)),
        ];

        for (what, part) in parts {
            let Some(part) = part else { continue };
            if part.is_empty() || part.len() > PLACE_BYTES_MAX || part.contains(char::is_control) {
                return Err(VaultError::Place(format!(
                    "the {what} of a credential has 1 to {PLACE_BYTES_MAX} bytes, and no control \
                     characters"
                )));
            }
        }
        Ok(())
    }

    /// All of it as bytes: two places never have the same.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let parts = [
            self.provider.as_str(),
            self.tool.as_deref().unwrap_or_default(),
            self.user.as_deref().unwrap_or_default(),
            &self.name,
        ];
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        bytes
    }
}

impl fmt::Display for CredentialPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' of {}", self.name, self.provider)?;
        if let Some(tool) = &self.tool {
            write!(f, "/{tool}")?;
        }
        if let Some(user) = &self.user {
            write!(f, " for {user}")?;
        }
        Ok(())
    }
}
