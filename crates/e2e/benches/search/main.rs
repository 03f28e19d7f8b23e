//! Finding tools: how long a search takes with as many tools as there may be, how long they take to
//! be indexed and changed, and how often the right tool is found among those of real MCP servers.
//!
//! `cargo bench --profile measured -p e2e --bench search`. Prints a table, writes it as `target/bench/search.md` and
//! `search.json`, draws quality against latency as `search.svg` beside them, and exits 1 when a goal
//! is missed.

mod catalogue;
mod hostile;
mod plot;
mod quality;
mod retrieve_tools;
mod speed;

use std::fs;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use e2e::bench::{Benchmark, runtime};
use tikv_jemallocator::Jemalloc;
use toolbus_embeddings::TransformerModel;
use toolbus_testkit::search;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["speed", "api", "quality"];
    let mut benchmark = Benchmark::begin("search", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let runtime = runtime()?;
    let (weights, tokenizer) = search::wordllama().context("the part `wordllama`")?;
    let catalogue = search::tool_catalogue().context("the part `tool-catalogue`")?;
    let model = catalogue::open_model(&weights, &tokenizer)?;
    benchmark.part("speed", |report| runtime.block_on(speed::measure(report, &model)));
    benchmark.part("api", |report| runtime.block_on(retrieve_tools::measure(report, &model)));
    benchmark.part("quality", |report| {
        let mut models = vec![("static model", model)];
        if let Some(folder) = search::minilm() {
            models.push(("transformer", Arc::new(TransformerModel::open(&folder)?)));
        }
        let points = runtime.block_on(quality::measure(report, &models, &catalogue))?;
        let title = "Search for tools: quality against latency";
        fs::write(report.folder().join("search.svg"), plot::draw(title, &points))?;
        report.note("![quality against latency](search.svg)");
        Ok(())
    });
    Ok(benchmark.finish())
}
