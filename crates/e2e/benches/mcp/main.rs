//! MCP servers behind the bus: what the hop costs, and what it leaves behind.
//!
//! `cargo bench -p e2e --bench mcp`, or with `-- hop many` only the parts named, and with
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
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::Context as _;
use e2e::bench::peer::{self, Confirms, PeerSettings};
use e2e::bench::{Report, runtime};
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
    let named: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    match named.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [SERVE] => return serve(),
        [PONG, broker] => return pong(broker),
        [MISBEHAVE, kind] => return misbehaving::serve(kind).map(|()| ExitCode::SUCCESS),
        _ => {}
    }

    let is_wanted = |part: &str| named.is_empty() || named.iter().any(|name| name == part);
    let runtime = runtime()?;
    let mut report = Report::new("mcp");
    let servers = Helper::start(&[SERVE])?;

    if is_wanted("many") {
        many::measure(&mut report, &runtime, &servers.told)?;
    }

    if is_wanted("hostile") {
        hostile::measure(&mut report, &runtime, &servers.told)?;
    }

    if is_wanted("large") {
        large::measure(&mut report, &runtime, &servers.told)?;
    }

    if is_wanted("restarts") {
        restarts::measure(&mut report, &runtime)?;
    }

    let with_fleet = ["hop", "cancelled", "sustained"].into_iter().any(is_wanted);
    if with_fleet && let Some(vhost) = runtime.block_on(toolbus_testkit::rabbit::vhost()) {
        let broker = vhost.amqp_url();
        let folder = tempfile::tempdir()?;
        let server = format!("{}/mcp", servers.told);
        let start = hop::Fleet::start(&broker, &server, folder.path());
        let mut fleet = runtime.block_on(start)?;
        if is_wanted("hop") {
            let _pong = Helper::start(&[PONG, &broker])?;
            overhead::measure(&mut report, &runtime, &fleet, (&server, &broker))?;
        }
        if is_wanted("cancelled") {
            cancelled::measure(&mut report, &runtime, &mut fleet)?;
        }
        if is_wanted("sustained") {
            sustained::measure(&mut report, &runtime, &mut fleet)?;
        }
        runtime.block_on(fleet.toolbus.close());
    }

    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is within a folder");
    Ok(report.finish(&target.join("bench"))?)
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
