//! Credentials for tools: encrypted where they are kept, read behind the last gate, erased after.
//!
//! A [`Vault`] keeps them in a [`Store`](toolbus_store::Store), sealed with a [`VaultKey`] that is
//! not there. Each belongs to a provider of tools, such as `mcp:github`, and may be for one of its
//! tools or one owner alone. [`VaultGate`] finds those of a call when every other gate has let it
//! pass, and hands them to whoever runs it. Those of an MCP server are read when it is connected:
//! [`LazyVault`] is the [`CredentialSource`](toolbus_tools::CredentialSource) for that.
//!
//! Invariants: no value is written anywhere but sealed; a value that was moved to another place,
//! cut or changed does not open; with a wrong key nothing is read and nothing written.

mod error;
mod gate;
mod key;
mod lazy;
mod place;
mod providers;
mod seal;
pub mod settings;
mod vault;

pub use error::VaultError;
pub use gate::VaultGate;
pub use key::{KeySource, VaultKey};
pub use lazy::LazyVault;
pub use place::{CredentialPlace, PLACE_BYTES_MAX};
pub use vault::{CREDENTIALS_MAX, MIGRATIONS, StoredCredential, VALUE_BYTES_MAX, Vault};
