//! The broker of a run: one node with classic queues, or three with quorum queues.

use anyhow::bail;
use toolbus_testkit::rabbit::{Cluster, Node, Vhost};

/// How many nodes the broker of a run has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeCount {
    /// One, whose queues are classic ones.
    One,
    /// Three, whose durable queues are quorum queues.
    Three,
}

/// A broker that is there to be broken.
#[derive(Debug)]
pub enum TestBroker {
    /// A broker of one node.
    Node(Box<Node>),
    /// A broker of three.
    Cluster(Box<Cluster>),
}

impl NodeCount {
    /// The count of this number.
    ///
    /// # Errors
    /// When it is neither 1 nor 3.
    pub fn parse(number: u64) -> anyhow::Result<Self> {
        match number {
            1 => Ok(Self::One),
            3 => Ok(Self::Three),
            _ => bail!("a broker has 1 node or 3, not {number}"),
        }
    }
}

impl TestBroker {
    /// Starts a broker.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn start(nodes: NodeCount) -> anyhow::Result<Self> {
        match nodes {
            NodeCount::One => Ok(Self::Node(Box::new(Node::start().await?))),
            NodeCount::Three => Ok(Self::Cluster(Box::new(Cluster::start().await?))),
        }
    }

    /// How many nodes it has.
    #[must_use]
    pub fn count(&self) -> NodeCount {
        match self {
            Self::Node(_) => NodeCount::One,
            Self::Cluster(_) => NodeCount::Three,
        }
    }

    /// A new virtual host.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn vhost(&self) -> anyhow::Result<Vhost> {
        match self {
            Self::Node(node) => node.vhost().await,
            Self::Cluster(cluster) => cluster.vhost().await,
        }
    }

    /// Its node, or the first of them.
    ///
    /// # Panics
    /// Never: a cluster has three.
    #[must_use]
    pub fn node(&self) -> &Node {
        match self {
            Self::Node(node) => node,
            Self::Cluster(cluster) => &cluster.nodes()[0],
        }
    }

    /// The same, to be broken.
    pub fn node_mut(&mut self) -> &mut Node {
        match self {
            Self::Node(node) => node,
            Self::Cluster(cluster) => cluster.node(0),
        }
    }

    /// Its three nodes.
    ///
    /// # Errors
    /// When it has but one.
    pub fn cluster(&mut self) -> anyhow::Result<&mut Cluster> {
        match self {
            Self::Node(_) => bail!("the broker has one node"),
            Self::Cluster(cluster) => Ok(cluster),
        }
    }
}
