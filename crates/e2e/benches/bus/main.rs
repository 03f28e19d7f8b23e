//! The bus: how long a call takes from one agent to another and back.
//!
//! `cargo bench -p e2e --bench bus`, or with `-- memory` only the parts named. Prints a table,
//! writes it as `target/bench/bus.md` and `bus.json`, and exits 1 when a goal is missed.

mod calls;
mod memory;

use std::path::Path;
use std::process::ExitCode;

use e2e::bench::Report;

fn main() -> anyhow::Result<ExitCode> {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let mut report = Report::new("bus");
    if is_wanted("memory") {
        memory::measure(&mut report)?;
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
}
