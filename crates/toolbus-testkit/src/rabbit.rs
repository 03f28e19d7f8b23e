//! RabbitMQ for tests: [`vhost`] for most, a [`Node`] or a [`Cluster`] of one's own for those that
//! break it.
//!
//! A test never sees the default virtual host, nor another test's: each gets its own, made and
//! deleted through the management API.

mod cluster;
mod home;
mod management;
mod node;
mod vhost;

use std::env;

use tokio::sync::OnceCell;

pub use cluster::Cluster;
pub use management::Broker;
pub use node::Node;
pub use vhost::{Binding, Message, Queue, Vhost};

/// A virtual host for one test, on the broker that `TOOLBUS_TEST_AMQP` names (its management API at
/// `TOOLBUS_TEST_AMQP_API`, by default port 15672 of the same host), else on a node that is started
/// once for this test process. `None` where RabbitMQ is not installed and may be missing.
///
/// # Panics
/// When the broker cannot be started or does not answer, or when it is missing and
/// `TOOLBUS_REQUIRE_REAL` is `1`.
pub async fn vhost() -> Option<Vhost> {
    let broker = shared().await?;
    Some(broker.vhost().await.unwrap_or_else(|error| panic!("no virtual host: {error:?}")))
}

/// A node of the test's own, to be stopped, crashed and paused. `None` as for [`vhost`].
///
/// # Panics
/// As [`vhost`] does.
pub async fn node() -> Option<Node> {
    if !is_installed() {
        return None;
    }
    Some(Node::start().await.unwrap_or_else(|error| panic!("no node: {error:?}")))
}

/// A broker of three nodes of the test's own. `None` as for [`vhost`].
///
/// # Panics
/// As [`vhost`] does.
pub async fn cluster() -> Option<Cluster> {
    if !is_installed() {
        return None;
    }
    Some(Cluster::start().await.unwrap_or_else(|error| panic!("no cluster: {error:?}")))
}

/// Whether there is RabbitMQ; says so where there is none.
fn is_installed() -> bool {
    if !Node::is_installed() {
        crate::skip("rabbitmq-server is not installed: run dev/setup");
    }
    Node::is_installed()
}

async fn shared() -> Option<Broker> {
    // The one static of this crate: a node takes seconds to start, and tests share nothing else
    // that could hold it. Its guard ends it with the process.
    static NODE: OnceCell<Option<Node>> = OnceCell::const_new();
    crate::declared::check("services", "rabbitmq");
    if let Ok(amqp) = env::var("TOOLBUS_TEST_AMQP") {
        let api = env::var("TOOLBUS_TEST_AMQP_API").ok();
        let broker = Broker::parse(&amqp, api.as_deref());
        return Some(broker.unwrap_or_else(|error| panic!("TOOLBUS_TEST_AMQP: {error:?}")));
    }
    NODE.get_or_init(node).await.as_ref().map(|node| node.broker().clone())
}
