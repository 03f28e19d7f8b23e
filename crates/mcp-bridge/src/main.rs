//! The `mcp-bridge` binary.

use std::ops::ControlFlow;
use std::process::ExitCode;

use tikv_jemallocator::Jemalloc;
use toolbus_mcp::supervisor;

/// See docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // First of all: this may be the supervisor of an MCP server, and nothing else.
    match supervisor::enter() {
        ControlFlow::Continue(supervisor) => {
            mcp_bridge::main(clap::Parser::parse(), supervisor).into()
        }
        ControlFlow::Break(exit) => exit,
    }
}
