//! Agents that are asked over HTTP, by the A2A protocol: those of the settings.
//!
//! Their cards are read and are in the directory beside those of the agents on the bus. A task for
//! one of them is the same row; what is sent is a row beside it, which one process at a time has.
//! It is sent once: what may have been sent counts as sent. Then the agent is asked how it is going
//! until it is over, and the end is written on condition, and told, as that of any task.

mod client;
mod drive;
mod sent;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_tools::CredentialSource;
use toolbus_wire::message::a2a::AgentCard;
use toolbus_wire::name::AgentName;
use zeroize::Zeroizing;

use crate::config::ms;
use crate::{Error, Tasks};
use client::AgentClient;
pub(crate) use sent::NEW as SENT_NEW;
use sent::SentTasks;

pub use client::HttpAgentError;

/// How often cards are read again.
const CARD_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// Until a card is read again that could not be: at first, and at most.
const CARD_BACKOFF: Duration = Duration::from_secs(5);
const CARD_BACKOFF_MAX: Duration = Duration::from_secs(5 * 60);
/// Time between two looks for what other processes have left, while there is nothing.
const IDLE_INTERVAL: Duration = Duration::from_secs(30);
/// Tasks that this process sends or asks after at a time. Others wait.
const DRIVEN_MAX: usize = 256;
/// How long what is being sent has at the end.
const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// An agent that is asked over HTTP.
#[derive(Clone)]
pub struct HttpAgent {
    /// The name that models know it by. No agent on the bus has it then.
    pub name: AgentName,
    /// Where its card is, such as `https://agent.example.com/.well-known/agent-card.json`.
    pub card_url: String,
    /// What says who asks.
    pub header: Option<AgentHeader>,
    /// Whether it is one of the operator's own network. Others are reached at public addresses
    /// only.
    pub is_internal: bool,
}

/// A header that is sent along to one agent, and to no other origin than that of its card.
#[derive(Clone)]
pub struct AgentHeader {
    /// Its name, such as `Authorization`.
    pub name: String,
    /// Its value.
    pub value: AgentHeaderValue,
}

/// Where the value of a header is from.
#[derive(Clone)]
pub enum AgentHeaderValue {
    /// The settings.
    Fixed(Zeroizing<String>),
    /// A credential of the provider `a2a:AGENT`, read for each request.
    Credential {
        /// Its name.
        name: String,
        /// What stands before it, such as `Bearer`.
        scheme: Option<String>,
    },
}

/// What asking over HTTP takes.
pub struct HttpCallerDeps {
    /// The agents.
    pub agents: Vec<HttpAgent>,
    /// Where their credentials are from.
    pub credentials: Option<Arc<dyn CredentialSource>>,
}

/// Asks agents over HTTP, until it is closed.
pub struct HttpCaller {
    inner: Arc<Inner>,
    tasks: TaskTracker,
    /// Fires when what is under way is left as it is.
    abandon: CancellationToken,
}

pub(crate) struct Inner {
    asked: Tasks,
    sent: SentTasks,
    /// By their names in lower case.
    agents: BTreeMap<String, Arc<AgentClient>>,
    under_way: Mutex<HashSet<String>>,
    stop: CancellationToken,
}

impl HttpCaller {
    /// Begins to read cards, and to send. From now on these agents are asked over HTTP. A
    /// [`Caller`](crate::Caller), which is started after it, tells the ends.
    ///
    /// # Errors
    /// When an agent's settings cannot be used, or the tasks have agents over HTTP already.
    pub fn start(asked: &Tasks, deps: HttpCallerDeps) -> Result<Self, HttpAgentError> {
        let mut agents = BTreeMap::new();
        for agent in deps.agents {
            let name = agent.name.to_string();
            let client = AgentClient::new(agent, deps.credentials.clone())?;
            if agents.insert(name.to_ascii_lowercase(), Arc::new(client)).is_some() {
                return Err(HttpAgentError::Twice(name));
            }
        }
        let names: HashSet<_> = agents.keys().cloned().collect();
        if !asked.set_http_agents(names.clone()) {
            return Err(HttpAgentError::Started);
        }
        asked.directory().claim_names(names);

        let sent = SentTasks {
            store: asked.deps().store.clone(),
            agent: asked.deps().agent.clone(),
            instance: asked.deps().instance.clone(),
            lease_ms: ms(asked.deps().config.lease_ttl),
        };
        let stop = CancellationToken::new();
        let asked = asked.clone();
        let inner = Arc::new(Inner { asked, sent, agents, under_way: Mutex::default(), stop });

        let (tasks, abandon) = (TaskTracker::new(), CancellationToken::new());
        for client in inner.agents.values() {
            let (inner, client) = (Arc::clone(&inner), Arc::clone(client));
            tasks.spawn(async move {
                let stop = inner.stop.clone();
                stop.run_until_cancelled(inner.read_cards(&client)).await;
            });
        }
        tasks.spawn(Arc::clone(&inner).run(tasks.clone(), abandon.clone()));
        Ok(Self { inner, tasks, abandon })
    }

    /// Reads the card of an agent now, for a check of the settings.
    ///
    /// # Errors
    /// When it cannot be had, or may not be used.
    pub async fn read_card(&self, name: &str) -> Result<AgentCard, HttpAgentError> {
        match self.inner.agents.get(&name.to_ascii_lowercase()) {
            Some(client) => client.read_card().await,
            None => Err(HttpAgentError::Unknown(name.to_owned())),
        }
    }

    /// Sends no more, and leaves what is under way to the next process.
    pub async fn close(self) {
        self.inner.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(CLOSE_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("a task was being sent to another agent when this one was closed");
            self.abandon.cancel();
            self.tasks.wait().await;
        }
        let sent = &self.inner.sent;
        if sent.store.opened().is_some()
            && let Err(error) = sent.release().await
        {
            tracing::warn!(
                error = error.as_dyn(),
                "tasks over HTTP wait until the lease of this process is over"
            );
        }
    }
}

impl Inner {
    /// Keeps the card of an agent in the directory.
    async fn read_cards(&self, client: &AgentClient) {
        let mut backoff = CARD_BACKOFF;
        loop {
            let wait = match client.read_card().await {
                Ok(card) => {
                    backoff = CARD_BACKOFF;
                    if let Err(error) = self.asked.directory().put_over_http(card) {
                        tracing::warn!(agent = client.name(), %error, "a card is not taken");
                    }
                    CARD_INTERVAL
                }

                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(agent = client.name(), error, "could not read an agent's card");
                    let wait = backoff;
                    backoff = (backoff * 2).min(CARD_BACKOFF_MAX);
                    wait
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// Takes up what is to be sent or asked after, until it is stopped.
    async fn run(self: Arc<Self>, tasks: TaskTracker, abandon: CancellationToken) {
        while !self.stop.is_cancelled() {
            let wait = self.look(&tasks, &abandon).await.unwrap_or_else(|error| {
                tracing::warn!(error = error.as_dyn(), "could not look after tasks over HTTP");
                self.asked.deps().config.look_interval
            });
            // Every arm only waits.
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
                () = self.asked.http_nudged() => {}
            }
        }
    }

    async fn look(
        self: &Arc<Self>,
        tasks: &TaskTracker,
        abandon: &CancellationToken,
    ) -> Result<Duration, Error> {
        if !self.sent.store.may_hold_something() || !self.sent.has_any().await? {
            return Ok(IDLE_INTERVAL);
        }
        while self.under_way.lock().len() < DRIVEN_MAX {
            let Some(row) = self.sent.claim().await? else { break };
            if !self.under_way.lock().insert(row.id.clone()) {
                // Its lease was over while it was being driven here.
                break;
            }
            let (this, abandon) = (Arc::clone(self), abandon.clone());
            tasks.spawn(async move {
                let id = row.id.clone();
                abandon.run_until_cancelled(this.drive(row)).await;
                this.under_way.lock().remove(&id);
            });
        }
        Ok(self.asked.deps().config.look_interval)
    }
}
