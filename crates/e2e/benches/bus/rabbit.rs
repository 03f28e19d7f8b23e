//! RabbitMQ: the asking and the answering side in two processes, beside the broker.
//!
//! The answering side is this program again, started with [`WORKER`] and the broker's URL.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::bench::peer::{self, Confirms, Peer, PeerSettings};
use e2e::bench::{Goal, Lane, Report, Rounds, Row, at_once, one_by_one, runtime};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use toolbus_bus::Bus;
use toolbus_rabbitmq::{Config, RabbitBus, Start};

use crate::{IN_FLIGHT, request, tool};

/// What makes this program the answering side.
pub(crate) const WORKER: &str = "answer";

const ROUNDS: usize = 15;
/// Calls of a round, one by one.
const CALLS: usize = 400;
/// Calls of a round, many at once.
const MANY_CALLS: usize = 4_096;

const CONNECT_WITHIN: Duration = Duration::from_secs(30);
/// What the answering side says when it listens.
const READY: &str = "ready";

/// The answering side, until standard input ends.
pub(crate) fn work(url: &str) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let _answering = runtime.block_on(async {
        let bus = connect(url).await?;
        let workers = (
            request::Worker::start(Arc::clone(&bus)).await?,
            tool::Worker::start(Arc::clone(&bus)).await?,
        );
        let mut peers = JoinSet::new();
        for confirms in [Confirms::On, Confirms::Off] {
            let worker = peer::Worker::start(url, terms(confirms)).await?;
            peers.spawn(worker.run());
        }
        anyhow::Ok((workers, peers))
    })?;
    writeln!(std::io::stdout(), "{READY}")?;
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn terms(confirms: Confirms) -> PeerSettings {
    PeerSettings { confirms, in_flight: IN_FLIGHT, body_bytes: request::BODY_BYTES }
}

async fn connect(url: &str) -> anyhow::Result<Arc<dyn Bus>> {
    let mut config = Config::new(url)?;
    config.start = Start::Within(CONNECT_WITHIN);
    Ok(RabbitBus::connect(config).await?)
}

/// The other process. Killed when dropped.
struct Worker(Child);

impl Worker {
    fn start(url: &str) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([WORKER, url]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut worker = Self(command.spawn()?);
        let output = worker.0.stdout.take().context("its output is a pipe")?;
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        ensure!(line.trim() == READY, "the answering side did not start");
        Ok(worker)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself, with an error that it has told.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What is measured, each round by round.
#[derive(Default)]
struct Measured {
    latencies: Rounds,
    rates: Rounds,
}

impl Measured {
    fn round<L: Lane>(&mut self, runtime: &Runtime, lane: impl Fn() -> L) -> anyhow::Result<()> {
        let latencies = one_by_one(runtime, lane(), CALLS)?;
        self.latencies.add_latencies(latencies, Duration::from_micros(1));
        let lanes = (0..IN_FLIGHT).map(|_| lane());
        self.rates.add(at_once(runtime, lanes, MANY_CALLS)?.rate);
        Ok(())
    }
}

pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let [mut ours, mut tools, mut peer, mut bare] = std::array::from_fn(|_| Measured::default());
    if let Some(vhost) = runtime.block_on(toolbus_testkit::rabbit::vhost()) {
        let url = vhost.amqp_url();
        let _worker = Worker::start(&url)?;
        let (asker, caller, confirmed, unconfirmed) = runtime.block_on(async {
            let bus = connect(&url).await?;
            anyhow::Ok((
                request::Asker::start(Arc::clone(&bus)).await?,
                tool::Caller::start(bus).await?,
                Peer::start(&url, terms(Confirms::On)).await?,
                Peer::start(&url, terms(Confirms::Off)).await?,
            ))
        })?;
        // The first round is for caches, allocators and the outcome memory to fill.
        for round in 0..=ROUNDS {
            ours.round(&runtime, || asker.clone())?;
            peer.round(&runtime, || confirmed.lane())?;
            tools.round(&runtime, || caller.clone())?;
            bare.round(&runtime, || unconfirmed.lane())?;
            if round == 0 {
                [ours, tools, peer, bare] = std::array::from_fn(|_| Measured::default());
            }
        }
    }

    tell(report, ours, tools, peer, bare);
    Ok(())
}

fn tell(report: &mut Report, ours: Measured, tools: Measured, peer: Measured, bare: Measured) {
    let one = |what: &str, rounds: Rounds| {
        Row::new(format!("RabbitMQ, {what}, 1 in flight"), "µs", rounds)
    };

    let many = |what: &str, rounds: Rounds| {
        Row::new(format!("RabbitMQ, {what}, {IN_FLIGHT} in flight"), "calls/s", rounds)
    };

    report.add(
        one("request", ours.latencies.clone())
            .beside(peer.latencies.clone())
            .with_goal(Goal::RatioAtMost(1.25)),
    );
    report.add(
        many("request", ours.rates.clone())
            .beside(peer.rates.clone())
            .with_goal(Goal::RatioAtLeast(0.85)),
    );
    report.add(one("tool", tools.latencies).beside(peer.latencies));
    report.add(many("tool", tools.rates).beside(peer.rates));
    report.add(one("request, peer without confirms", ours.latencies).beside(bare.latencies));
    report.add(many("request, peer without confirms", ours.rates).beside(bare.rates));

    report.note(format!(
        "RabbitMQ: two processes of two threads each, beside the broker; bodies of {} bytes. \
         Ours is `Requester`, outcome memory and handler; a tool is called through the gates of \
         both agents. The peer is a ping-pong of the AMQP library alone with the same topology and \
         durability: topic exchange, durable request queue with the same arguments, exclusive reply \
         queue, persistent messages, mandatory, confirms on both sides, a request acked once its \
         reply is confirmed, the same prefetch. {ROUNDS} rounds, in turns, of {CALLS} calls one by \
         one and {MANY_CALLS} with {IN_FLIGHT} in flight.",
        request::BODY_BYTES,
    ));
}
