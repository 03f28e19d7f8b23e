//! Keys as settings name them.

use crate::values::Secret;

/// Longest name of a variable or a credential, in bytes.
const NAME_BYTES_MAX: usize = 128;

/// A key, or where it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyReference {
    /// `${vault:NAME}`: a credential of the vault.
    Vault(String),
    /// `${NAME}`: a variable of the environment.
    Variable(String),
    /// The key itself.
    Key(Secret),
}

impl KeyReference {
    /// Reads what is set.
    ///
    /// # Errors
    /// What is wrong with it, without a word of it: it may be a key.
    pub fn parse(text: &Secret) -> Result<Self, &'static str> {
        let exposed = text.expose().trim();
        let Some(rest) = exposed.strip_prefix("${") else {
            return match exposed.is_empty() {
                true => Err("it is empty"),
                false => Ok(Self::Key(text.clone())),
            };
        };

        let Some(name) = rest.strip_suffix('}') else {
            return Err("a reference is ${NAME} or ${vault:NAME}, and nothing around it");
        };
        let (name, is_credential) = match name.strip_prefix("vault:") {
            Some(name) => (name, true),
            None => (name, false),
        };
        let is_plain = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || byte == b'_'
                || (is_credential && matches!(byte, b'.' | b'-'))
        };
        if !(1..=NAME_BYTES_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Err("the name in the reference is none");
        }
        Ok(if is_credential {
            Self::Vault(name.to_owned())
        } else {
            Self::Variable(name.to_owned())
        })
    }
}
