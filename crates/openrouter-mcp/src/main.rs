//! The `openrouter-mcp` binary.

use toolbus_runtime::service::Exit;

fn main() -> Exit {
    openrouter_mcp::main(&clap::Parser::parse())
}
