//! MCP servers behind the bus: what the hop costs, and what it leaves behind.
//!
//! `cargo bench --profile measured -p e2e --bench mcp`, or with `-- --only hop` only the part named, and with
//! `-- --quick` two rounds of each. Prints a table, writes it as `target/bench/mcp.md` and
//! `mcp.json`, and exits 1 when a goal is missed.

mod cancelled;
mod direct;
mod hop;
mod hostile;
mod large;
mod many;
mod misbehaving;
mod overhead;
mod restarts;
mod server;
mod sustained;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::Context as _;
use e2e::bench::peer::{self, Confirms, PeerSettings};
use e2e::bench::{Benchmark, runtime};
use tikv_jemallocator::Jemalloc;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// What makes this program the servers.
const SERVE: &str = "serve";
/// What makes it a server over stdio; its kind follows.
pub(crate) const MISBEHAVE: &str = "misbehave";
/// What makes it the answering side of the peer's ping-pong; the broker's URL follows.
const PONG: &str = "pong";

/// How many calls are under way where it is about many.
pub(crate) const IN_FLIGHT: u16 = 32;

/// The ping-pong of the AMQP library alone, with bodies as long as a call's.
pub(crate) const TERMS: PeerSettings =
    PeerSettings { confirms: Confirms::On, in_flight: IN_FLIGHT, body_bytes: hop::TEXT_BYTES };

fn main() -> anyhow::Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [SERVE] => return serve(),
        [PONG, broker] => return pong(broker),
        [MISBEHAVE, kind] => return misbehaving::serve(kind).map(|()| ExitCode::SUCCESS),
        _ => {}
    }

    let parts = ["many", "hostile", "large", "restarts", "hop", "cancelled", "sustained"];
    let mut benchmark = Benchmark::begin("mcp", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    let runtime = runtime()?;
    let servers = Helper::start(&[SERVE])?;
    benchmark.part("many", |report| many::measure(report, &runtime, &servers.told));
    benchmark.part("hostile", |report| hostile::measure(report, &runtime, &servers.told));
    benchmark.part("large", |report| large::measure(report, &runtime, &servers.told));
    benchmark.part("restarts", |report| restarts::measure(report, &runtime));

    if benchmark.wants(&["hop", "cancelled", "sustained"])
        && let Some(vhost) = runtime.block_on(toolbus_testkit::rabbit::vhost())
    {
        let broker = vhost.amqp_url();
        let folder = tempfile::tempdir()?;
        let server = format!("{}/mcp", servers.told);
        let start = hop::Fleet::start(&broker, &server, folder.path());
        let mut fleet = runtime.block_on(start)?;
        benchmark.part("hop", |report| {
            let _pong = Helper::start(&[PONG, &broker])?;
            overhead::measure(report, &runtime, &fleet, (&server, &broker))
        });
        benchmark.part("cancelled", |report| cancelled::measure(report, &runtime, &mut fleet));
        benchmark.part("sustained", |report| sustained::measure(report, &runtime, &mut fleet));
        runtime.block_on(fleet.toolbus.close());
    }
    Ok(benchmark.finish())
}

/// How many rounds to measure, where so many are usual.
pub(crate) fn rounds(usual: usize) -> usize {
    if std::env::args().any(|argument| argument == "--quick") { usual.min(2) } else { usual }
}

fn serve() -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let _serving = runtime.spawn(server::serve(listener));
    told(&format!("http://{address}"))
}

fn pong(broker: &str) -> anyhow::Result<ExitCode> {
    let runtime = runtime()?;
    let worker = runtime.block_on(peer::Worker::start(broker, TERMS))?;
    let _answering = runtime.spawn(worker.run());
    told("listening")
}

/// Tells the process that started this one, and goes on until that ends.
fn told(what: &str) -> anyhow::Result<ExitCode> {
    writeln!(std::io::stdout(), "{what}")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(ExitCode::SUCCESS)
}

/// This program once more, for another part. Killed when dropped.
struct Helper {
    child: Child,
    /// The line that it has told.
    told: String,
}

impl Helper {
    fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut helper = Self { child, told: String::new() };
        let output = helper.child.stdout.take().context("its output is a pipe")?;
        BufReader::new(output).read_line(&mut helper.told)?;
        helper.told.truncate(helper.told.trim_end().len());
        anyhow::ensure!(!helper.told.is_empty(), "{arguments:?} did not start");
        Ok(helper)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // It may have ended by itself, with an error that it has told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
