//! Finding tools: how long a search takes with as many tools as there may be, how long they take to
//! be indexed and changed, and how often the right tool is found among those of real MCP servers.
//!
//! `cargo bench -p e2e --bench search`. Prints a table, writes it as `target/bench/search.md` and
//! `search.json`, and exits 1 when a goal is missed.

mod catalogue;
mod quality;
mod speed;

use std::path::Path;
use std::process::ExitCode;

use e2e::bench::{Report, runtime};
use tikv_jemallocator::Jemalloc;
use toolbus_testkit::search;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> anyhow::Result<ExitCode> {
    let mut report = Report::new("search");
    let runtime = runtime()?;
    if let (Some((weights, tokenizer)), Some(catalogue)) =
        (search::wordllama(), search::tool_catalogue())
    {
        let model = catalogue::open_model(&weights, &tokenizer)?;
        runtime.block_on(speed::measure(&mut report, &model))?;
        runtime.block_on(quality::measure(&mut report, &model, &catalogue))?;
    }

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
}
