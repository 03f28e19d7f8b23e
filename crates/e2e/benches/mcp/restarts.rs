//! Many servers that are started again at the same time: how much agents are told of it.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use e2e::bench::{Goal, Report, Rounds, Row};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use toolbus_bus::port::{Delivery, Disposition, Flow, Subscription};
use toolbus_bus::{Bus, TopicPattern};
use toolbus_rabbitmq::{Config, RabbitBus};
use toolbus_testkit::rabbit;
use toolbus_wire::message::mcp::McpServersIndexed;
use toolbus_wire::name::AgentName;
use toolbus_wire::{json as body, topic};

use crate::hop::{Fleet, invoke};
use crate::misbehaving::RESTARTS;
use crate::server::ECHO;

const SERVERS: usize = 50;
const ROUNDS: usize = 3;
/// Until all have been announced.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);
/// What comes after the last of them counts, too.
const QUIET: Duration = Duration::from_secs(5);

/// How many messages have announced each server, and how many there were.
#[derive(Default)]
struct Announced {
    by_server: BTreeMap<String, usize>,
    messages: usize,
}

pub(crate) fn measure(report: &mut Report, runtime: &Runtime) -> anyhow::Result<()> {
    let Some(vhost) = runtime.block_on(rabbit::vhost()) else { return Ok(()) };
    let broker = vhost.amqp_url();
    let folder = tempfile::tempdir()?;
    let program = std::env::current_exe()?;
    let launch = json!({"command": program, "args": [crate::MISBEHAVE, RESTARTS]});
    let servers: Map<String, Value> =
        (0..SERVERS).map(|server| (format!("restarts-{server}"), launch.clone())).collect();
    let fleet = runtime.block_on(Fleet::with(&broker, servers.into(), folder.path()))?;

    let announced = Arc::new(Mutex::new(Announced::default()));
    let bus = runtime.block_on(RabbitBus::connect(Config::new(&broker)?))?;
    let _consumer = runtime.block_on(listen(&*bus, Arc::clone(&announced)))?;

    let rounds = crate::rounds(ROUNDS);
    let [mut most, mut all] = std::array::from_fn(|_| Rounds::new());
    for _ in 0..rounds {
        runtime.block_on(async { sleep(QUIET).await });
        *announced.lock() = Announced::default();
        runtime.block_on(restart_all(&fleet, &announced))?;
        let announced = announced.lock();
        let largest = announced.by_server.values().max().context("nothing was announced")?;
        most.add(*largest as f64);
        all.add(announced.messages as f64);
    }

    runtime.block_on(fleet.toolbus.close());
    report.add(
        Row::new(format!("{SERVERS} servers restarted, messages about one, at most"), "", most)
            .with_goal(Goal::AtMost(3.0)),
    );
    report.add(Row::new(format!("{SERVERS} servers restarted, messages in all"), "", all));
    report.note(format!(
        "Restarted: {SERVERS} servers over stdio that end in the same moment and list another \
         definition of their tool when they are started again; the messages that announce them to \
         agents, at the broker, until {} s after the last server was announced. {rounds} rounds.",
        QUIET.as_secs()
    ));
    Ok(())
}

/// Counts what is announced.
async fn listen(
    bus: &dyn Bus,
    announced: Arc<Mutex<Announced>>,
) -> anyhow::Result<toolbus_bus::port::Consumer> {
    let count = move |delivery: Delivery| {
        if let Ok(indexed) = body::read::<McpServersIndexed>(&delivery.envelope.body) {
            let mut announced = announced.lock();
            announced.messages += 1;
            for server in indexed.servers {
                *announced.by_server.entry(server.server_name).or_default() += 1;
            }
        }
        std::future::ready(Disposition::Ack)
    };
    let topic = topic::tool_meta_mcp(&AgentName::standard());
    let flow = Flow::Ordered { prefetch: NonZeroU16::new(64).expect("it is not zero") };
    let subscription = Subscription::private("bench.announced", TopicPattern::from(topic), flow);
    Ok(bus.subscribe(subscription, Arc::new(count)).await?)
}

async fn restart_all(fleet: &Fleet, announced: &Mutex<Announced>) -> anyhow::Result<()> {
    let mut calls = JoinSet::new();
    for server in 0..SERVERS {
        let toolbus = fleet.toolbus.clone();
        calls.spawn(async move {
            let server = format!("restarts-{server}");
            invoke(&toolbus, (&server, ECHO), CancellationToken::new()).await
        });
    }
    while let Some(ended) = calls.join_next().await {
        ensure!(ended?.is_err(), "a server has not ended in its call");
    }

    let began = Instant::now();
    while announced.lock().by_server.len() < SERVERS {
        ensure!(began.elapsed() < RESTART_TIMEOUT, "not all servers were announced again");
        sleep(Duration::from_millis(100)).await;
    }
    sleep(QUIET).await;
    Ok(())
}
