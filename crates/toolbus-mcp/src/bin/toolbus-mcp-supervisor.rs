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
        ControlFlow::Continue(_) => answer_person(std::env::args().nth(1).as_deref()),
    }
}

/// Answers somebody who starts it by hand.
fn answer_person(option: Option<&str>) -> ExitCode {
    // Without a stream there is no one to report to.
    if matches!(option, Some("--version" | "-V")) {
        let version = concat!("toolbus-mcp-supervisor ", env!("CARGO_PKG_VERSION"));
        let _ = writeln!(std::io::stdout(), "{version}");
        return ExitCode::SUCCESS;
    }

    let what = "Toolbus starts this program itself, beside each MCP server; it takes --version";
    let _ = writeln!(std::io::stderr(), "error: {what}");
    ExitCode::from(MISUSE)
}
