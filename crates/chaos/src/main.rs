//! The `chaos` binary.

use std::process::ExitCode;

use chaos::arguments::Arguments;

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    <Arguments as clap::Parser>::parse().run().await
}
