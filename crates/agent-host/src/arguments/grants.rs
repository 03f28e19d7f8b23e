//! Arguments of `grants`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Arguments of `grants`.
#[derive(Debug, Args)]
pub struct GrantsOptions {
    /// The subcommand.
    #[command(subcommand)]
    pub command: GrantsCommand,
}

/// Subcommands of `grants`.
#[derive(Debug, Subcommand)]
pub enum GrantsCommand {
    /// Make a signing key for an agent, and print the public key for its workers
    ///
    /// Writes the signing key to a new file that only its owner can read. Set
    /// grants.signing_key_file of the agent to this file, and add the printed line to the file that
    /// grants.public_keys_file of the workers names.
    NewKey {
        /// File to create; an existing file is never overwritten
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Print the public key of a signing key
    PublicKey {
        /// File with the signing key
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}
