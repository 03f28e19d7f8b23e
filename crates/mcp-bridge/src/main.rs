//! The `mcp-bridge` binary.

use toolbus_runtime::service::Exit;

fn main() -> Exit {
    mcp_bridge::main(clap::Parser::parse())
}
