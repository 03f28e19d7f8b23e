//! The `agent-host` binary.

use std::ops::ControlFlow;

use toolbus_mcp::supervisor;
use toolbus_runtime::service::Exit;

fn main() -> Exit {
    // First of all: this may be the supervisor of an MCP server, and nothing else.
    match supervisor::enter() {
        ControlFlow::Continue(supervisor) => agent_host::main(clap::Parser::parse(), supervisor),
        ControlFlow::Break(exit) => exit,
    }
}
