//! A broker of three nodes on this machine, which can be crashed and cut off from each other.
//!
//! A cut is one of the Erlang distribution alone: clients still reach the node. It is made by a
//! cookie, so both sides notice it at once, and no packet is lost in silence.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;
use tokio::time::Instant;

use super::home::Home;
use super::management::{Broker, Management};
use super::node::{Node, retry_taken_ports};
use super::vhost::Vhost;

/// As many as it takes for one to be lost and a majority to stay.
const NODES: usize = 3;
/// A node that was cut off starts its applications anew, which takes some seconds on an idle core.
const WHOLE_TIMEOUT: Duration = Duration::from_secs(90);
/// Time between two looks at the nodes.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A private broker of three nodes. Killed, with all its data, when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    broker: Broker,
    home: Arc<Home>,
}

impl Cluster {
    /// Starts three nodes that pause where they are in the minority, and waits until they are one
    /// broker.
    ///
    /// # Errors
    /// When RabbitMQ is not installed, or a node is not ready in time; the error has its output.
    pub async fn start() -> anyhow::Result<Self> {
        retry_taken_ports(Self::try_start).await
    }

    async fn try_start() -> anyhow::Result<Self> {
        let home = Arc::new(Home::create()?);
        let mut nodes = Vec::new();
        for number in 0..NODES {
            let folder = home.folder().join(format!("node-{number}"));
            fs::create_dir(&folder)?;
            nodes.push(Node::prepare(Arc::clone(&home), folder)?);
        }
        let settings = cluster_settings(&nodes)?;
        for node in &nodes {
            node.add_settings(&settings)?;
        }

        // The others find the first one and join it.
        let (first, others) = nodes.split_first_mut().context("a first node")?;
        first.start_server().await?;
        for node in others {
            node.start_server().await?;
        }

        let broker = nodes
            .iter()
            .skip(1)
            .fold(nodes[0].broker().clone(), |broker, node| broker.with(node.broker()));
        let cluster = Self { nodes, broker, home };
        cluster.wait_until_whole().await?;
        Ok(cluster)
    }

    /// The addresses of all nodes.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// A node, by its place in [`Cluster::nodes`].
    ///
    /// # Panics
    /// When there is none.
    pub fn node(&mut self, number: usize) -> &mut Node {
        &mut self.nodes[number]
    }

    /// The place of the node that Erlang calls so.
    pub fn position(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name() == name)
    }

    /// A new virtual host whose queues are quorum queues unless they say otherwise.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn vhost(&self) -> anyhow::Result<Vhost> {
        self.broker.quorum_vhost().await
    }

    /// A new virtual host whose queues are classic ones unless they say otherwise.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn classic_vhost(&self) -> anyhow::Result<Vhost> {
        self.broker.vhost().await
    }

    /// Cuts a node off from the others. It notices that it is alone and pauses: its connections
    /// are closed, and it takes no more.
    ///
    /// # Errors
    /// When the node does not answer.
    pub async fn cut_off(&self, number: usize) -> anyhow::Result<()> {
        let others = self.others_of(number);
        let cut = format!(
            "[erlang:set_cookie(Node, cut_off) || Node <- {others}], \
             [erlang:disconnect_node(Node) || Node <- {others}], ok."
        );
        self.nodes[number].ctl(&["eval", &cut]).await.map(drop)
    }

    /// Ends what [`Cluster::cut_off`] began. The node comes back by itself, a while later.
    ///
    /// # Errors
    /// When the node does not answer.
    pub async fn heal(&self, number: usize) -> anyhow::Result<()> {
        let others = self.others_of(number);
        let cookie = self.home.cookie();
        let heal = format!("[erlang:set_cookie(Node, '{cookie}') || Node <- {others}], ok.");
        self.nodes[number].ctl(&["eval", &heal]).await.map(drop)
    }

    /// Waits until every node says that all of them run.
    ///
    /// # Errors
    /// When that takes too long.
    pub async fn wait_until_whole(&self) -> anyhow::Result<()> {
        let end = Instant::now() + WHOLE_TIMEOUT;
        for node in &self.nodes {
            let management = Management::new(node.broker().clone())?;
            loop {
                let answer = management.get(&["nodes"]).await;
                if answer.as_ref().is_ok_and(|list| count_running(list) == NODES) {
                    break;
                }
                ensure!(Instant::now() < end, "{}: not all nodes run: {answer:?}", node.name());
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        }
        Ok(())
    }

    /// The names of all nodes but this one, as a list in Erlang.
    fn others_of(&self, number: usize) -> String {
        let others = self.nodes.iter().enumerate().filter(|(other, _)| *other != number);
        let names: Vec<_> = others.map(|(_, node)| format!("'{}'", node.name())).collect();
        format!("[{}]", names.join(","))
    }
}

fn cluster_settings(nodes: &[Node]) -> anyhow::Result<String> {
    let mut settings = "cluster_partition_handling = pause_minority\n\
                        cluster_formation.peer_discovery_backend = classic_config\n"
        .to_owned();
    for (number, node) in nodes.iter().enumerate() {
        let name = node.name();
        writeln!(settings, "cluster_formation.classic_config.nodes.{} = {name}", number + 1)?;
    }
    Ok(settings)
}

fn count_running(nodes: &Value) -> usize {
    let nodes = nodes.as_array().map(Vec::as_slice).unwrap_or_default();
    nodes.iter().filter(|node| node["running"] == true).count()
}
