//! The supervisor alone, for programs that embed the crate and cannot begin with
//! `supervisor::enter` themselves.

use std::io::Write;
use std::ops::ControlFlow;
use std::process::ExitCode;

/// The exit code of a program that was started in a wrong way.
const MISUSE: u8 = 2;

fn main() -> ExitCode {
    match toolbus_mcp::supervisor::enter() {
        ControlFlow::Break(exit) => exit,
        ControlFlow::Continue(_) => {
            // Without a standard error there is no one to report to.
            let _ = writeln!(std::io::stderr(), "not to be started by hand");
            ExitCode::from(MISUSE)
        }
    }
}
