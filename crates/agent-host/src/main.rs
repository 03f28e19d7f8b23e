//! The `agent-host` binary.

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
    // This may be a process that answers a question about an artifact, and nothing else.
    if std::env::args_os().nth(1).is_some_and(|mode| mode == toolbus_query::WORKER_MODE) {
        toolbus_query::run_worker();
    }
    // First of all: this may be the supervisor of an MCP server, and nothing else.
    match supervisor::enter() {
        ControlFlow::Continue(supervisor) => {
            command_line::run(|arguments| agent_host::main(arguments, supervisor)).into()
        }
        ControlFlow::Break(exit) => exit,
    }
}
