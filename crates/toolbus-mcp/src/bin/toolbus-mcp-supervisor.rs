//! The supervisor alone, for programs that embed the crate and cannot begin with
//! `supervisor::enter` themselves.

use std::io::Write;
use std::ops::ControlFlow;

use toolbus_runtime::service::Exit;

fn main() -> Exit {
    match toolbus_mcp::supervisor::enter() {
        ControlFlow::Break(exit) => exit,
        ControlFlow::Continue(_) => {
            // Without a standard error there is no one to report to.
            let _ = writeln!(std::io::stderr(), "not to be started by hand");
            Exit::MISUSE
        }
    }
}
