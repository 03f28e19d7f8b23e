//! Why the vault does not give or take a credential.

use std::path::PathBuf;

use toolbus_store::Error as StoreError;

/// Why the vault does not give or take a credential. None of these texts holds one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VaultError {
    /// The key is not the one that the credentials were sealed with.
    #[error("the vault was sealed with another key: {stored} and not {given}")]
    WrongKey {
        /// The name of the key that it was sealed with.
        stored: String,
        /// The name of the key that was given.
        given: String,
    },
    /// What is kept is not what was put there.
    #[error("the credential {place} was changed where it is kept, or moved there")]
    Damaged {
        /// Where it is.
        place: String,
    },
    /// The key cannot be had.
    #[error("the key of the vault: {0}")]
    NoKey(String),
    /// The file of the key may be read by others.
    #[error(
        "the key of the vault: others may read {}: it must be its owner's alone (chmod 600)",
        .0.display()
    )]
    OpenKeyFile(PathBuf),
    /// There is no such place for a credential.
    #[error("{0}")]
    Place(String),
    /// The value is longer than one may be, in bytes.
    #[error("a credential has at most {} bytes", crate::VALUE_BYTES_MAX)]
    TooLong,
    /// There are as many as there may be.
    #[error("there are {} credentials already", crate::CREDENTIALS_MAX)]
    TooMany,
    /// What keeps them says no.
    #[error("the vault's state: {0}")]
    Store(#[from] StoreError),
}

impl VaultError {
    /// The same for callers, models among them: no path, no command, and nothing of a key.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::WrongKey { .. } => "the vault was sealed with another key",
            Self::Damaged { .. } => "one was changed where it is kept",
            Self::NoKey(_) | Self::OpenKeyFile(_) => "the key of the vault cannot be had",
            Self::Place(_) | Self::TooLong | Self::TooMany => "it is none that can be kept",
            Self::Store(StoreError::Locked) => "the state is locked by somebody else",
            Self::Store(StoreError::Full) => "the disk that the state is on is full",
            Self::Store(_) => "the state cannot be read",
        }
    }
}
