//! The worker alone, for programs that embed the crate and cannot begin with `run_worker`
//! themselves.

use std::io::Write as _;
use std::process::ExitCode;

/// The exit code of a program that was started in a wrong way.
const MISUSE: u8 = 2;

fn main() -> ExitCode {
    let mode = std::env::args_os().nth(1);
    if mode.is_some_and(|mode| mode == toolbus_query::WORKER_MODE) {
        toolbus_query::run_worker();
    }

    // Without a standard error there is no one to report to.
    let _ = writeln!(std::io::stderr(), "error: Toolbus starts this program itself");
    ExitCode::from(MISUSE)
}
