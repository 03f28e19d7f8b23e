//! Whether healthy servers feel hostile ones: the same calls alone, beside calls of hostile servers
//! of the same bridge, and beside calls of hostile servers of a bridge apart, in turns. What comes
//! of the machine's processors being busy is in the last as well; the rest is the bridge's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Latencies, Report, Rounds, Row, at_once};
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolbus_testkit::rabbit;

use crate::hop::{Caller, Fleet, SERVER, TEXT_BYTES, invoke};
use crate::misbehaving::{self, DIES, FLOOD, GOOD, HUGE, SILENT};
use crate::server::ECHO;

const ROUNDS: usize = 7;
/// How long a round lasts at least: long enough for each hostile server to do what it does.
const ROUND: Duration = Duration::from_secs(3);
/// Calls of a burst, over all lanes; a round is as many bursts as it takes.
const CALLS: usize = 400;
/// Lanes for each of the two healthy servers.
const LANES: usize = 4;
/// How long the silent one may take, in milliseconds.
const SILENCE_MS: u64 = 1_000;
/// How often each hostile server is called at the most.
const PAUSE: Duration = Duration::from_millis(250);
/// For the hostile calls of a round to be over, and their servers to be back.
const CALM: Duration = Duration::from_millis(500);

/// Each hostile server, and how many call it at a time.
const HOSTILE: [(&str, usize); 4] = [(SILENT, 8), (FLOOD, 1), (DIES, 1), (HUGE, 1)];

/// One side, round by round.
#[derive(Default)]
struct Measured {
    p50: Rounds,
    p99: Rounds,
}

impl Measured {
    fn round(&mut self, runtime: &Runtime, fleet: &Fleet) -> anyhow::Result<()> {
        let (began, mut latencies) = (Instant::now(), Latencies::default());
        while began.elapsed() < ROUND {
            let lanes = [SERVER, GOOD].into_iter().flat_map(|server| {
                (0..LANES).map(move |_| Caller { toolbus: fleet.toolbus.clone(), server })
            });
            latencies.append(at_once(runtime, lanes, CALLS)?.latencies);
        }
        let micros = |share| latencies.percentile(share).as_secs_f64() * 1e6;
        self.p50.add(micros(0.5));
        self.p99.add(micros(0.99));
        Ok(())
    }
}

pub(crate) fn measure(report: &mut Report, runtime: &Runtime, server: &str) -> anyhow::Result<()> {
    // A broker carries a message to every bridge of an agent, so each fleet has a part of its own.
    let Some(vhost) = runtime.block_on(rabbit::vhost()) else { return Ok(()) };
    let Some(vhost_apart) = runtime.block_on(rabbit::vhost()) else { return Ok(()) };
    let [folder, folder_apart] = [tempfile::tempdir()?, tempfile::tempdir()?];
    let program = std::env::current_exe()?;
    let launch = |kind: &str| json!({"command": program, "args": [crate::MISBEHAVE, kind]});
    let mut hostile: Map<String, Value> =
        HOSTILE.iter().map(|(kind, _)| ((*kind).to_owned(), launch(kind))).collect();
    hostile[SILENT]["timeoutMs"] = SILENCE_MS.into();
    let mut servers = hostile.clone();
    servers.insert(GOOD.to_owned(), launch(GOOD));
    let healthy = json!({"type": "http", "url": format!("{server}/mcp")});
    servers.insert(SERVER.to_owned(), healthy);
    let start = |servers: Map<String, Value>, broker: String, folder: PathBuf| {
        runtime.block_on(async move { Fleet::with(&broker, servers.into(), &folder).await })
    };

    let fleet = start(servers, vhost.amqp_url(), folder.path().into())?;
    let fleet_apart = start(hostile, vhost_apart.amqp_url(), folder_apart.path().into())?;

    let [mut beside, mut alone, mut apart] = std::array::from_fn(|_| Measured::default());
    let mut ends = [0; HOSTILE.len()];
    let rounds = crate::rounds(ROUNDS);
    for round in 0..=rounds {
        alone.round(runtime, &fleet)?;
        for (measured, hostile) in [(&mut beside, &fleet), (&mut apart, &fleet_apart)] {
            let hostility = Hostility::begin(runtime, hostile);
            measured.round(runtime, &fleet)?;
            for (all, more) in ends.iter_mut().zip(runtime.block_on(hostility.end())?) {
                *all += more;
            }
        }
        // The first round is for caches and allocators to fill.
        if round == 0 {
            [beside, alone, apart] = std::array::from_fn(|_| Measured::default());
        }
    }

    for fleet in [fleet, fleet_apart] {
        runtime.block_on(fleet.toolbus.close());
    }

    for ((kind, _), ends) in HOSTILE.iter().zip(ends) {
        ensure!(ends > 0, "no call of the server {kind} came to an end: nothing was shown");
    }

    let row = |what: &str, ours, peer| Row::new(what, "µs", ours).beside(peer);
    let goal = Goal::RatioAtMost(1.5);
    report.add(row("healthy beside hostile, p50, peer alone", beside.p50.clone(), alone.p50));
    report.add(row("healthy beside hostile, p99, peer alone", beside.p99.clone(), alone.p99));
    report.add(row("the same, p50, peer apart", beside.p50, apart.p50).with_goal(goal));
    report.add(row("the same, p99, peer apart", beside.p99, apart.p99).with_goal(goal));
    report.note(format!(
        "Hostile: calls of two healthy servers, one over HTTP and one over stdio, {} in flight, \
         {TEXT_BYTES} bytes, {rounds} rounds of {} s each, in turns: alone, beside calls of four \
         others of the same bridge, and beside calls of the same four of a bridge apart: {}. Calls \
         of theirs that came to their end: {ends:?}.",
        2 * LANES,
        ROUND.as_secs(),
        misbehaving::told(),
    ));

    Ok(())
}

/// Calls of hostile servers that go on until they are ended.
struct Hostility {
    stop: CancellationToken,
    running: JoinSet<anyhow::Result<(usize, usize)>>,
}

impl Hostility {
    fn begin(runtime: &Runtime, fleet: &Fleet) -> Self {
        let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
        for (number, (kind, callers)) in HOSTILE.into_iter().enumerate() {
            for _ in 0..callers {
                let (toolbus, stop) = (fleet.toolbus.clone(), stop.clone());
                let calls = async move {
                    let mut ends = 0;
                    loop {
                        let outcome = invoke(&toolbus, (kind, ECHO), stop.clone()).await;
                        if stop.is_cancelled() {
                            return Ok((number, ends));
                        }
                        match outcome {
                            Ok(_) => ensure!(kind == FLOOD, "{kind} has answered"),
                            Err(error) => ensure!(error.message.contains(kind), "{error:?}"),
                        }
                        ends += 1;
                        tokio::time::sleep(PAUSE).await;
                    }
                };
                running.spawn_on(calls, runtime.handle());
            }
        }

        Self { stop, running }
    }

    /// How many calls of each came to their end, other than by this.
    async fn end(mut self) -> anyhow::Result<[usize; HOSTILE.len()]> {
        self.stop.cancel();
        let mut all = [0; HOSTILE.len()];
        while let Some(ended) = self.running.join_next().await {
            let (number, ends) = ended?.context("a call of a hostile server")?;
            all[number] += ends;
        }
        tokio::time::sleep(CALM).await;
        Ok(all)
    }
}
