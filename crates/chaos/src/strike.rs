//! How each fault is done to a fleet. A strike returns when it is over.

use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::time::Instant;

use crate::fault::{Fault, Strike};
use crate::fleet::{Fleet, WorkerGroup};
use crate::proxy::LinkState;

/// Extra time of each way while links are late, at least and at most, in milliseconds.
const LATENCY_MS: std::ops::Range<u64> = 20..200;
/// What a narrow link carries, at least and at most, in bytes a second.
const RATE_BYTES: std::ops::Range<u64> = 50_000..500_000;
/// What makes the disk alarm go off on any machine, and what ends it on the testkit's node.
const DISK_LIMITS: [&str; 2] = ["900000GB", "50MB"];
/// How long the broker may take to answer again after it was started.
const BROKER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two questions whether it does.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// The queue of requests to the server of effects, and the topic that it is bound to.
const WORKER_QUEUE: &str = "rockbot.mcp.server.RockBot.effects";
const WORKER_TOPIC: &str = "mcp.server.RockBot.effects";
/// A queue of the same topic that nobody takes messages from, such as one left by an older agent.
const SECOND_QUEUE: &str = "rockbot.mcp-bridge.Retired";
/// The policy that limits the workers' queue.
const POLICY: &str = "chaos-full";

/// Does it. Where there is no victim any more, nothing happens.
///
/// # Errors
/// When the fleet or the broker cannot be put right again.
pub async fn strike(fleet: &mut Fleet<'_>, strike: Strike) -> anyhow::Result<()> {
    let Strike { fault, victim, hold, .. } = strike;

    match fault {
        Fault::None => Ok(()),
        Fault::CallerReset | Fault::CallerBlackHole | Fault::CallerStop | Fault::CallerKill => {
            strike_caller(fleet, strike).await
        }
        Fault::WorkerReset
        | Fault::WorkerBlackHole
        | Fault::WorkerStop
        | Fault::WorkerKill
        | Fault::WorkerTerm => strike_worker(fleet, WorkerGroup::Bridges, strike).await,
        Fault::ManagerReset | Fault::ManagerKill | Fault::ManagerTerm => {
            strike_worker(fleet, WorkerGroup::Managers, strike).await
        }
        Fault::Latency | Fault::Bandwidth => strike_links(fleet, strike).await,
        Fault::BrokerKill | Fault::BrokerRestart => strike_broker(fleet, strike).await,
        Fault::MemoryAlarm5s | Fault::MemoryAlarm35s => {
            fleet.broker.node().block_publishers().await?;
            tokio::time::sleep(hold).await;
            fleet.broker.node().unblock_publishers().await
        }
        Fault::DiskAlarm5s | Fault::DiskAlarm35s => {
            let [full, free] = DISK_LIMITS;
            fleet.broker.node().ctl(&["set_disk_free_limit", full]).await?;
            tokio::time::sleep(hold).await;
            fleet.broker.node().ctl(&["set_disk_free_limit", free]).await.map(drop)
        }
        Fault::ChannelKill => close_channel(fleet, victim).await,
        Fault::QueueFull => fill_worker_queue(fleet, hold).await,
        Fault::SecondQueueFull => bind_full_queue(fleet, hold).await,
        Fault::Scale => fleet.scale_bridges(victim, hold).await,
        Fault::Clock5s | Fault::Clock120s => {
            let error = fault.clock_error().unwrap_or_default();
            fleet.restart_worker_with_wrong_clock(victim, error, hold).await
        }
        Fault::NodeKill | Fault::NodeCut => strike_node(fleet, strike).await,
    }
}

async fn strike_caller(fleet: &mut Fleet<'_>, strike: Strike) -> anyhow::Result<()> {
    let Strike { fault, victim, hold, .. } = strike;
    if fault == Fault::CallerKill {
        return fleet.kill_caller(victim, hold).await;
    }

    let Some(caller) = fleet.pick_caller(victim) else { return Ok(()) };
    match fault {
        Fault::CallerBlackHole => {
            caller.place.set_link(draw_silence(victim));
            tokio::time::sleep(hold).await;
            caller.place.set_link(LinkState::default());
        }
        Fault::CallerStop => caller.pause(hold).await?,
        _ => caller.place.reset(),
    }
    Ok(())
}

async fn strike_worker(
    fleet: &mut Fleet<'_>,
    group: WorkerGroup,
    strike: Strike,
) -> anyhow::Result<()> {
    let Strike { fault, victim, hold, .. } = strike;
    match fault {
        Fault::WorkerKill | Fault::ManagerKill => {
            return fleet.kill_worker(group, victim, hold).await;
        }
        Fault::WorkerTerm | Fault::ManagerTerm => {
            return fleet.restart_worker(group, victim, hold).await;
        }
        _ => {}
    }

    let Some(worker) = fleet.pick_worker(group, victim) else { return Ok(()) };
    match fault {
        Fault::WorkerBlackHole => {
            worker.place.set_link(draw_silence(victim));
            tokio::time::sleep(hold).await;
            worker.place.set_link(LinkState::default());
        }
        Fault::WorkerStop => worker.pause(hold).await?,
        _ => worker.place.reset(),
    }
    Ok(())
}

/// A silence of both ways, or of one.
fn draw_silence(victim: u64) -> LinkState {
    // Other bits than those that choose the victim.
    let way = (victim >> 32) % 3;
    LinkState { is_silent_up: way != 1, is_silent_down: way != 2, ..LinkState::default() }
}

async fn strike_links(fleet: &mut Fleet<'_>, strike: Strike) -> anyhow::Result<()> {
    let between =
        |range: std::ops::Range<u64>| range.start + strike.victim % (range.end - range.start);
    let state = if strike.fault == Fault::Latency {
        let latency = Duration::from_millis(between(LATENCY_MS));
        LinkState { latency, ..LinkState::default() }
    } else {
        let rate = u32::try_from(between(RATE_BYTES)).ok();
        LinkState { bytes_per_second: rate, ..LinkState::default() }
    };

    set_links(fleet, state);
    tokio::time::sleep(strike.hold).await;
    set_links(fleet, LinkState::default());
    Ok(())
}

fn set_links(fleet: &Fleet<'_>, state: LinkState) {
    let workers = fleet.workers().map(|worker| &worker.place);
    let callers = fleet.callers.iter().map(|caller| &caller.place);
    for place in workers.chain(callers) {
        place.set_link(state);
    }
}

async fn strike_broker(fleet: &mut Fleet<'_>, strike: Strike) -> anyhow::Result<()> {
    match strike.fault {
        Fault::BrokerKill => fleet.broker.node_mut().crash().await?,
        _ => fleet.broker.node_mut().stop().await?,
    }
    tokio::time::sleep(strike.hold).await;
    fleet.broker.node_mut().start_again().await?;

    let end = Instant::now() + BROKER_TIMEOUT;
    while let Err(error) = fleet.vhost.queues().await {
        anyhow::ensure!(Instant::now() < end, "the broker does not answer: {error:?}");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(())
}

/// Kills one of the broker's nodes, or cuts it off, and waits until all are one broker again.
async fn strike_node(fleet: &mut Fleet<'_>, strike: Strike) -> anyhow::Result<()> {
    let cluster = fleet.broker.cluster()?;
    let count = u64::try_from(cluster.nodes().len())?;
    let node = usize::try_from(strike.victim % count)?;

    match strike.fault {
        Fault::NodeKill => cluster.node(node).crash().await?,
        _ => cluster.cut_off(node).await?,
    }
    tokio::time::sleep(strike.hold).await;
    match strike.fault {
        Fault::NodeKill => cluster.node(node).start_again().await?,
        _ => cluster.heal(node).await?,
    }

    cluster.wait_until_whole().await
}

/// Has the broker close one channel as it does after a mistake of its client.
async fn close_channel(fleet: &Fleet<'_>, victim: u64) -> anyhow::Result<()> {
    let number = victim % 1_000_000;
    let close = format!(
        "case rabbit_channel:list() of [] -> none; All -> \
         Channel = lists:nth(({number} rem length(All)) + 1, All), \
         [{{connection, Reader}}, {{number, Number}}] = \
         rabbit_channel:info(Channel, [connection, number]), \
         Reader ! {{channel_exit, Number, {{amqp_error, precondition_failed, \"chaos\", none}}}}, \
         rabbit_channel:shutdown(Channel) end."
    );
    fleet.broker.node().ctl(&["eval", &close]).await.map(drop)
}

async fn fill_worker_queue(fleet: &Fleet<'_>, hold: Duration) -> anyhow::Result<()> {
    let vhost = fleet.vhost.name();
    let pattern = format!("^{}$", WORKER_QUEUE.replace('.', "\\."));
    let limit = json!({"max-length": 0, "overflow": "reject-publish"}).to_string();
    let set = ["set_policy", "-p", vhost, "--apply-to", "queues", POLICY, pattern.as_str(), &limit];

    fleet.broker.node().ctl(&set).await.context("limiting the workers' queue")?;
    tokio::time::sleep(hold).await;
    fleet.broker.node().ctl(&["clear_policy", "-p", vhost, POLICY]).await.map(drop)
}

async fn bind_full_queue(fleet: &Fleet<'_>, hold: Duration) -> anyhow::Result<()> {
    let limit = json!({"x-max-length": 0, "x-overflow": "reject-publish"});
    let queue = json!({"durable": true, "arguments": limit});

    fleet.vhost.declare_queue(SECOND_QUEUE, queue).await?;
    fleet.vhost.bind("rockbot", SECOND_QUEUE, WORKER_TOPIC).await?;
    tokio::time::sleep(hold).await;
    fleet.vhost.delete_queue(SECOND_QUEUE).await
}
