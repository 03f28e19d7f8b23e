//! A virtual host of one test, and what the management API tells of it.
//!
//! Numbers of messages and consumers are statistics: on a node of ours they lag by up to a second,
//! on another broker by some. Wait for them with `eventually`; that they show nothing proves
//! nothing.

use std::thread;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Broker;
use super::management::Management;

/// How often a virtual host is asked for.
const ATTEMPTS: usize = 3;

/// A virtual host. Deleted, with its connections closed, when this is dropped.
#[derive(Debug)]
pub struct Vhost {
    name: String,
    management: Management,
}

/// What queues of a virtual host are unless they say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueueType {
    Classic,
    Quorum,
}

/// A queue, as the management API shows it.
#[derive(Debug, Clone, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// `classic` or `quorum`.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The node that it is on, or that leads it.
    #[serde(default)]
    pub node: String,
    /// Whether it outlives the broker.
    #[serde(default)]
    pub durable: bool,
    /// Whether it belongs to one connection.
    #[serde(default)]
    pub exclusive: bool,
    /// Whether it goes with its last consumer.
    #[serde(default)]
    pub auto_delete: bool,
    /// The arguments it was declared with.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// Messages in it, those not yet acknowledged included.
    #[serde(default)]
    pub messages: u64,
    /// Messages delivered and not yet acknowledged.
    #[serde(default)]
    pub messages_unacknowledged: u64,
    /// Consumers on it.
    #[serde(default)]
    pub consumers: u64,
}

/// A binding of a queue to an exchange other than the default one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Binding {
    /// The exchange.
    pub source: String,
    /// The queue, or an exchange.
    pub destination: String,
    /// The routing key or pattern.
    pub routing_key: String,
}

/// A message, as the management API takes it from a queue.
#[derive(Debug, Clone)]
pub struct Message {
    /// The exchange it was published to.
    pub exchange: String,
    /// The key it was published with.
    pub routing_key: String,
    /// Whether it has been delivered before.
    pub redelivered: bool,
    /// Its properties; `headers` is a member.
    pub properties: Map<String, Value>,
    /// Its body.
    pub body: Vec<u8>,
}

impl Vhost {
    pub(crate) async fn create(broker: Broker, queue_type: QueueType) -> anyhow::Result<Self> {
        let vhost = Self {
            name: format!("test-{}", uuid::Uuid::new_v4().simple()),
            management: Management::new(broker)?,
        };
        let rights = json!({"configure": ".*", "write": ".*", "read": ".*"});
        let user = vhost.management.broker().user();
        let description = match queue_type {
            QueueType::Classic => json!({}),
            // RabbitMQ 3.10 has it by another name than later ones.
            QueueType::Quorum => {
                json!({"defaultqueuetype": "quorum", "default_queue_type": "quorum"})
            }
        };
        vhost.put(description).await?;
        vhost.management.put(&["permissions", &vhost.name, &user], rights).await?;
        Ok(vhost)
    }

    /// Makes the virtual host. A node that has just joined its cluster may keep the answer waiting
    /// for longer than a request may take.
    async fn put(&self, description: Value) -> anyhow::Result<()> {
        let mut attempt = 1;
        loop {
            match self.management.put(&["vhosts", &self.name], description.clone()).await {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// The AMQP URL of this virtual host; of several nodes, theirs with commas between.
    pub fn amqp_url(&self) -> String {
        self.management.broker().amqp_url(&self.name)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All queues.
    ///
    /// # Errors
    /// When the management API does not answer, as for all that follow.
    pub async fn queues(&self) -> anyhow::Result<Vec<Queue>> {
        read(self.management.get(&["queues", &self.name]).await?)
    }

    /// One queue, or `None` where there is none of this name.
    pub async fn queue(&self, name: &str) -> anyhow::Result<Option<Queue>> {
        self.management.find(&["queues", &self.name, name]).await?.map(read).transpose()
    }

    /// All bindings but those that each queue has to the default exchange.
    pub async fn bindings(&self) -> anyhow::Result<Vec<Binding>> {
        let all: Vec<Binding> = read(self.management.get(&["bindings", &self.name]).await?)?;
        Ok(all.into_iter().filter(|binding| !binding.source.is_empty()).collect())
    }

    /// Takes up to `limit` messages out of a queue.
    pub async fn take(&self, queue: &str, limit: usize) -> anyhow::Result<Vec<Message>> {
        self.fetch(queue, limit, "ack_requeue_false").await
    }

    /// Shows up to `limit` messages of a queue and puts them back, marked as redelivered.
    pub async fn peek(&self, queue: &str, limit: usize) -> anyhow::Result<Vec<Message>> {
        self.fetch(queue, limit, "ack_requeue_true").await
    }

    /// Publishes a message; false where no queue took it. `properties` are those of AMQP by their
    /// names, `headers` among them.
    pub async fn publish(
        &self,
        exchange: &str,
        routing_key: &str,
        properties: Value,
        body: &[u8],
    ) -> anyhow::Result<bool> {
        let message = json!({
            "routing_key": routing_key,
            "properties": properties,
            "payload": BASE64.encode(body),
            "payload_encoding": "base64",
        });
        // The default exchange has no name and this one in paths.
        let exchange = if exchange.is_empty() { "amq.default" } else { exchange };
        let path = ["exchanges", &self.name, exchange, "publish"];
        let answer = self.management.ask(&path, message).await?;
        answer["routed"].as_bool().context("an answer without `routed`")
    }

    /// Declares a queue, described as the management API does: `durable`, `auto_delete` and
    /// `arguments`, all optional.
    pub async fn declare_queue(&self, name: &str, description: Value) -> anyhow::Result<()> {
        self.management.put(&["queues", &self.name, name], description).await
    }

    /// Binds a queue to an exchange.
    pub async fn bind(&self, exchange: &str, queue: &str, routing_key: &str) -> anyhow::Result<()> {
        let path = ["bindings", &self.name, "e", exchange, "q", queue];
        self.management.post(&path, json!({"routing_key": routing_key})).await
    }

    /// Removes all messages that are ready in a queue.
    pub async fn purge(&self, queue: &str) -> anyhow::Result<()> {
        self.management.delete(&["queues", &self.name, queue, "contents"]).await
    }

    /// Deletes a queue; its consumers are cancelled by the broker.
    pub async fn delete_queue(&self, queue: &str) -> anyhow::Result<()> {
        self.management.delete(&["queues", &self.name, queue]).await
    }

    /// The names of the connections into this virtual host.
    pub async fn connections(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.list_connections().await?.into_iter().map(|connection| connection.name).collect())
    }

    /// The nodes that the connections into this virtual host lead to.
    pub async fn connected_nodes(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.list_connections().await?.into_iter().map(|connection| connection.node).collect())
    }

    /// By user, which the broker answers from its own tables: its lists by virtual host are
    /// statistics.
    async fn list_connections(&self) -> anyhow::Result<Vec<Connection>> {
        let user = self.management.broker().user();
        let mut list: Vec<Connection> =
            read(self.management.get(&["connections", "username", &user]).await?)?;
        list.retain(|connection| connection.vhost == self.name);
        Ok(list)
    }

    /// Has the broker close every connection into this virtual host and returns how many there
    /// were.
    pub async fn close_connections(&self) -> anyhow::Result<usize> {
        let names = self.connections().await?;
        for name in &names {
            self.management.delete(&["connections", name]).await?;
        }
        Ok(names.len())
    }

    async fn fetch(
        &self,
        queue: &str,
        limit: usize,
        acknowledge: &str,
    ) -> anyhow::Result<Vec<Message>> {
        let order = json!({"count": limit, "ackmode": acknowledge, "encoding": "auto"});
        let answer = self.management.ask(&["queues", &self.name, queue, "get"], order).await?;
        let answer: Vec<WireMessage> = read(answer)?;
        answer.into_iter().map(WireMessage::decode).collect()
    }
}

impl Drop for Vhost {
    /// Deletes the virtual host from a thread of its own, because a test may be ending in the
    /// middle of its runtime. A failure is not the test's: the broker may be down on purpose.
    fn drop(&mut self) {
        let broker = self.management.broker().clone();
        let name = self.name.clone();
        let delete = move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let management = Management::new(broker)?;
            runtime.block_on(management.delete(&["vhosts", &name]))
        };
        let _ = thread::spawn(delete).join();
    }
}

#[derive(Deserialize)]
struct Connection {
    name: String,
    node: String,
    vhost: String,
}

#[derive(Deserialize)]
struct WireMessage {
    exchange: String,
    routing_key: String,
    redelivered: bool,
    /// An empty list where there are none.
    properties: Value,
    payload: String,
    payload_encoding: String,
}

impl WireMessage {
    fn decode(self) -> anyhow::Result<Message> {
        let body = match self.payload_encoding.as_str() {
            "base64" => BASE64.decode(&self.payload).context("the body of a message")?,
            encoding => {
                ensure!(encoding == "string", "a body in the unknown encoding {encoding}");
                self.payload.into_bytes()
            }
        };

        let properties = match self.properties {
            Value::Object(properties) => properties,
            _ => Map::new(),
        };

        Ok(Message {
            exchange: self.exchange,
            routing_key: self.routing_key,
            redelivered: self.redelivered,
            properties,
            body,
        })
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> anyhow::Result<T> {
    let text = value.to_string();
    serde_json::from_value(value).with_context(|| format!("unexpected answer: {text}"))
}
