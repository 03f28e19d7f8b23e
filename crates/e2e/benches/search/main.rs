//! Finding tools: how long a search takes with as many tools as there may be, how long they take to
//! be indexed and changed, and how often the right tool is found among those of real MCP servers.
//!
//! `cargo bench -p e2e --bench search`. Prints a table, writes it as `target/bench/search.md` and
//! `search.json`, draws quality against latency as `search.svg` beside them, and exits 1 when a goal
//! is missed.

mod catalogue;
mod hostile;
mod plot;
mod quality;
mod retrieve_tools;
mod speed;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use e2e::bench::{Report, runtime};
use tikv_jemallocator::Jemalloc;
use toolbus_search::TransformerModel;
use toolbus_testkit::search;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> anyhow::Result<ExitCode> {
    let mut report = Report::new("search");
    let runtime = runtime()?;
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    let folder = target.join("bench");
    if let (Some((weights, tokenizer)), Some(catalogue)) =
        (search::wordllama(), search::tool_catalogue())
    {
        let model = catalogue::open_model(&weights, &tokenizer)?;
        runtime.block_on(speed::measure(&mut report, &model))?;
        runtime.block_on(retrieve_tools::measure(&mut report, &model))?;
        // The first is what goals are for.
        let mut models = vec![("static model", model)];
        if let Some(folder) = search::minilm() {
            models.push(("transformer", Arc::new(TransformerModel::open(&folder)?)));
        }
        let points = runtime.block_on(quality::measure(&mut report, &models, &catalogue))?;

        fs::create_dir_all(&folder)?;
        let title = "Search for tools: quality against latency";
        fs::write(folder.join("search.svg"), plot::draw(title, &points))?;
        report.note("![quality against latency](search.svg)");
    }
    Ok(report.finish(&folder)?)
}
