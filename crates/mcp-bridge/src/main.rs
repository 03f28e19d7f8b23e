//! The `mcp-bridge` binary.

use std::ops::ControlFlow;
use std::process::ExitCode;

#[cfg(feature = "jemalloc")]
use tikv_jemallocator::Jemalloc;
use toolbus_mcp::supervisor;
use toolbus_runtime::command_line;

/// See docs/adr/0017-one-allocator-for-every-service.md.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> ExitCode {
    // First of all: this may be the supervisor of an MCP server, and nothing else.
    match supervisor::enter() {
        ControlFlow::Continue(supervisor) => {
            command_line::run(|arguments| mcp_bridge::main(arguments, supervisor)).into()
        }
        ControlFlow::Break(exit) => exit,
    }
}
