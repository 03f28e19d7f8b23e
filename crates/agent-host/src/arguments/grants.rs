//! Arguments of `grants`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `grants`.
#[derive(Debug, Args)]
pub struct GrantsOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: GrantsCommand,
}

/// What to do with keys of grants.
#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// Make a signing key for an agent, and print the public key for its workers
    ///
    /// The signing key is written to a new file that only its owner may read: the setting
    /// grants.signing_key_file of the agent names it. The line that is printed goes into the file
    /// of the workers' setting grants.public_keys_file.
    NewKey {
        /// The file to write; one that is there is not changed
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the public key of a signing key
    PublicKey {
        /// The file of the signing key
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}
