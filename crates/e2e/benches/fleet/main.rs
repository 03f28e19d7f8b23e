//! What a fleet costs before anybody calls it: how soon each service is ready, what they hold while
//! they wait, how large their images are, and how long a cluster takes to the first answered call.
//!
//! `cargo bench -p e2e --bench fleet`, or with `-- services` only the parts named. The images are
//! those of the engine that `TOOLBUS_TEST_DOCKER` names, and the cluster that of
//! `TOOLBUS_TEST_KUBECONFIG`; where either is not named, its rows are left out.

mod images;
mod install;
mod services;

use std::path::Path;
use std::process::ExitCode;

use e2e::bench::Report;

fn main() -> anyhow::Result<ExitCode> {
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let mut report = Report::new("fleet");
    if is_wanted("services") {
        services::measure(&mut report)?;
    }
    if is_wanted("images") {
        images::measure(&mut report)?;
    }
    if is_wanted("install") {
        install::measure(&mut report)?;
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
}
