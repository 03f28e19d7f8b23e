//! What the hop costs beside calling the server directly.

use std::time::Duration;

use e2e::bench::peer::Peer;
use e2e::bench::{Goal, Lane, Latencies, Report, Rounds, Row, at_once, one_by_one};
use tokio::runtime::Runtime;

use crate::direct::Direct;
use crate::hop::{Caller, Embedded, Fleet, TEXT_BYTES};
use crate::{IN_FLIGHT, TERMS};

const ROUNDS: usize = 9;
/// Calls of a round, one by one.
const CALLS: usize = 300;
/// Calls of a round, many at once.
const MANY_CALLS: usize = 3_200;

/// One side, round by round.
#[derive(Default)]
struct Measured {
    one: Rounds,
    many_p50: Rounds,
    many_p99: Rounds,
    rate: Rounds,
}

impl Measured {
    fn round<L: Lane>(&mut self, runtime: &Runtime, lane: impl Fn() -> L) -> anyhow::Result<()> {
        let one = one_by_one(runtime, lane(), CALLS)?;
        self.one.add_latencies(one, Duration::from_micros(1));
        let burst = at_once(runtime, (0..IN_FLIGHT).map(|_| lane()), MANY_CALLS)?;
        let micros = |latencies: &Latencies, share| latencies.percentile(share).as_secs_f64() * 1e6;
        self.many_p50.add(micros(&burst.latencies, 0.5));
        self.many_p99.add(micros(&burst.latencies, 0.99));
        self.rate.add(burst.rate);
        Ok(())
    }
}

pub(crate) fn measure(
    report: &mut Report,
    runtime: &Runtime,
    fleet: &Fleet,
    (server, broker): (&str, &str),
) -> anyhow::Result<()> {
    let direct = runtime.block_on(Direct::connect(server))?;
    let peer = runtime.block_on(Peer::start(broker, TERMS))?;
    let one_process = runtime.block_on(Embedded::start(server))?;
    let [mut ours, mut plain, mut bare, mut embedded] =
        std::array::from_fn(|_| Measured::default());

    // The first round is for caches, allocators and the outcome memory to fill.
    let rounds = crate::rounds(ROUNDS);
    for round in 0..=rounds {
        ours.round(runtime, || Caller::of(&fleet.toolbus))?;
        embedded.round(runtime, || Caller::of(&one_process.toolbus))?;
        plain.round(runtime, || direct.clone())?;
        bare.round(runtime, || peer.lane())?;
        if round == 0 {
            [ours, plain, bare, embedded] = std::array::from_fn(|_| Measured::default());
        }
    }

    let row = |what: &str, ours: Rounds, peer: Rounds| Row::new(what, "µs", ours).beside(peer);
    report.add(
        row("hop, 1 in flight, peer direct", ours.one.clone(), plain.one.clone())
            .with_goal(Goal::ExcessAtMost(800.0)),
    );
    report.add(row("hop in one process, 1 in flight, peer direct", embedded.one, plain.one));
    report.add(row("hop, 1 in flight, peer bare AMQP", ours.one, bare.one));
    let sum = plain.many_p50.plus(&bare.many_p50);
    report.add(
        row("hop, 32 in flight, p50, peer direct + bare AMQP", ours.many_p50, sum)
            .with_goal(Goal::RatioAtMost(1.35)),
    );
    let sum = plain.many_p99.plus(&bare.many_p99);
    report.add(
        row("hop, 32 in flight, p99, peer direct + bare AMQP", ours.many_p99, sum)
            .with_goal(Goal::RatioAtMost(2.0)),
    );
    report.add(Row::new("hop, 32 in flight, peer direct", "calls/s", ours.rate).beside(plain.rate));
    report.note(format!(
        "Hop: a tool that repeats {TEXT_BYTES} bytes, called through the agent's gates, RabbitMQ \
         and `mcp-bridge` over streamable HTTP, in four processes beside the broker. Direct: the \
         same server called with the protocol's library alone. Bare AMQP: a ping-pong of the AMQP \
         library alone, bodies of {TEXT_BYTES} bytes, durable, with confirms. {rounds} rounds, in \
         turns, of {CALLS} calls one by one and {MANY_CALLS} with {IN_FLIGHT} in flight."
    ));

    Ok(())
}
