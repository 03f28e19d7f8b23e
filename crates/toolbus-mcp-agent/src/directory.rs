//! The directory of MCP servers that an agent keeps from the announcements of bridges.

use std::future::pending;
use std::num::NonZeroU16;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_bus::requester::Requester;
use toolbus_bus::{
    Bus, CallContext, Consumer, Deadline, Delivery, Disposition, Envelope, Flow, Handler,
    PublishError, SubscribeError, Subscription, TopicPattern,
};
use toolbus_tools::call::CallError;
use toolbus_tools::registry::Provider;
use toolbus_tools::subject::Subject;
use toolbus_tools::{Guides, Registry};
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsResponse, McpMetadataRefreshRequest, McpServerSummary, McpServersIndexed,
};
use toolbus_wire::name::InstanceId;
use toolbus_wire::{json, message, topic};

use crate::direct::DirectTools;
use crate::index::{Index, Servers};
use crate::manage::check_answer;
use crate::offers::Offers;
use crate::proxy::InvokeTool;
use crate::resolve::{find_exact_server, read_subject};
use crate::{manage, tools};

/// How announcements are read: in order, since they are deltas.
pub const ANNOUNCEMENT_FLOW: Flow = Flow::Ordered { prefetch: PREFETCH };
const PREFETCH: NonZeroU16 = NonZeroU16::new(4).expect("4 is not zero");

/// How often bridges are asked though nothing has happened.
const REFRESH_INTERVAL: Duration = Duration::from_secs(300);
/// How long after an outage of the broker a bridge may take to announce what it has.
const CONFIRM_GRACE: Duration = Duration::from_secs(30);

/// The directory of MCP servers that bridges have announced to an agent. Clones are the same.
#[derive(Clone)]
pub struct McpDirectory {
    pub(crate) inner: Arc<DirectoryInner>,
}

pub(crate) struct DirectoryInner {
    pub(crate) index: Arc<Index>,
    pub(crate) requester: Requester,
    registry: Arc<Registry>,
    direct: OnceLock<Arc<DirectTools>>,
    consumer: parking_lot::Mutex<Option<Consumer>>,
    pub(crate) stop: CancellationToken,
    pub(crate) tasks: TaskTracker,
}

impl McpDirectory {
    /// Subscribes to the announcements of bridges to this agent, with a queue of its own: several
    /// processes of one agent each hear everything.
    ///
    /// # Errors
    /// When the queue cannot be had.
    pub async fn start(
        bus: &Arc<dyn Bus>,
        requester: Requester,
        instance: &InstanceId,
        registry: Arc<Registry>,
        guides: Guides,
    ) -> Result<Self, SubscribeError> {
        let agent = requester.agent().clone();
        let index = Arc::new(Index::of(agent.clone()));
        let names = tools::names();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        registry
            .expect(&names, format!("no mcp-bridge serves agent '{agent}' just now: start one"));
        let resubscribed = Arc::new(Notify::new());

        let listener = Listener {
            index: Arc::clone(&index),
            requester: requester.clone(),
            offers: Offers::new(&registry, requester.clone(), Arc::clone(&index)),
            registry: Arc::clone(&registry),
            guides,
            provider: OnceLock::new(),
            resubscribed: Arc::clone(&resubscribed),
        };

        let subscription = Subscription::private(
            format!("inventory.{agent}.{instance}"),
            TopicPattern::from(topic::tool_meta_mcp(&agent)),
            ANNOUNCEMENT_FLOW,
        );
        let consumer = bus.subscribe(subscription, Arc::new(listener)).await?;
        let consumer = parking_lot::Mutex::new(Some(consumer));
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());

        tasks.spawn({
            let (requester, index, stop) = (requester.clone(), Arc::clone(&index), stop.clone());
            async move {
                // A request that is dropped half-way is one that nobody needs any more.
                stop.run_until_cancelled(refresh_regularly(&resubscribed, &requester, &index))
                    .await;
            }
        });

        let direct = OnceLock::new();
        let inner = DirectoryInner { index, requester, registry, direct, consumer, stop, tasks };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes every tool of every server a tool of its own as well, named `server__tool`, from now
    /// on: see [`crate::direct_name`]. At most 10,000 of them.
    pub fn offer_directly(&self) {
        let DirectoryInner { index, requester, registry, stop, .. } = &*self.inner;
        let gateway = InvokeTool { requester: requester.clone(), index: Arc::clone(index) };
        let direct = DirectTools::new(gateway, Arc::clone(registry), Arc::clone(index));
        let direct = Arc::new(direct);
        if self.inner.direct.set(Arc::clone(&direct)).is_err() {
            return;
        }
        let stop = stop.clone();
        self.inner.tasks.spawn(async move { direct.follow_index(&stop).await });
    }

    /// Whether tools of servers are tools of their own.
    #[must_use]
    pub fn offers_directly(&self) -> bool {
        self.inner.direct.get().is_some()
    }

    /// Whether every tool that was announced is there directly, as far as it could be had; also
    /// where none is offered so.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.inner.direct.get().is_none_or(|direct| direct.is_settled())
    }

    /// Asks every bridge to announce what it has. Answers whether there is a bridge to ask.
    ///
    /// # Errors
    /// When the request cannot be sent.
    pub async fn refresh(&self) -> Result<bool, PublishError> {
        refresh(&self.inner.requester).await
    }

    /// The servers that are known, in the order of their first announcement.
    #[must_use]
    pub fn servers(&self) -> Servers {
        self.inner.index.servers()
    }

    /// Returns the subject of a read of a server, by its exact name in any case. `method` is the
    /// name of the protocol method, such as `resources/read`.
    #[must_use]
    pub fn read_subject(&self, server: &str, method: &str) -> Subject {
        read_subject(find_exact_server(&self.servers(), server), server, method)
    }

    /// The names of servers whose bridge is away.
    #[must_use]
    pub fn away_servers(&self) -> Vec<String> {
        let (servers, _) = self.inner.index.list_indexed();
        servers.into_iter().filter(|server| server.is_away).map(|server| server.name).collect()
    }

    /// Waits until `enough` holds for the servers that are known, for as long as it takes.
    pub async fn until(&self, enough: impl Fn(&[McpServerSummary]) -> bool) {
        self.inner.index.wait_until(enough).await;
    }

    /// All about one server, asked of its bridge now.
    ///
    /// # Errors
    /// When no bridge answers in time, or none has the server.
    pub async fn details(&self, server: &str) -> Result<McpGetServiceDetailsResponse, CallError> {
        let context = CallContext::until(Deadline::after(manage::TIMEOUT));
        let timed_out = || format!("no bridge describes MCP server '{server}' in time");
        let requester = &self.inner.requester;
        let details = manage::ask_details(requester, server, context, timed_out).await?;

        check_answer(&details)?;
        Ok(details)
    }

    /// Whether any bridge has announced anything to this agent yet. From then on the MCP tools and
    /// their guide are there.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        self.inner.index.has_heard()
    }

    /// Waits until `enough` holds for the servers that are known, at most `limit`. Answers whether
    /// it holds.
    pub async fn wait_until(
        &self,
        limit: Duration,
        enough: impl Fn(&[McpServerSummary]) -> bool,
    ) -> bool {
        tokio::time::timeout(limit, self.inner.index.wait_until(enough)).await.is_ok()
    }

    /// Stops listening to announcements.
    pub async fn close(&self) {
        let consumer = self.inner.consumer.lock().take();
        if let Some(consumer) = consumer {
            consumer.stop(Duration::from_secs(1)).await;
        }
        self.inner.stop.cancel();
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }
}

impl Drop for DirectoryInner {
    /// What is dropped without [`McpDirectory::close`] leaves no task behind.
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

async fn refresh(requester: &Requester) -> Result<bool, PublishError> {
    let request = McpMetadataRefreshRequest::default();
    let envelope = Envelope::of(&request, requester.agent().as_str());
    match requester.bus().publish(&topic::TOOL_META_MCP_REFRESH, envelope).await {
        Ok(()) => Ok(true),
        Err(PublishError::Unroutable(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Announcements are changes, and those that were made while the queue was gone reached nobody. So
/// every bridge is asked to announce again, and a server that none of them confirms within
/// [`CONFIRM_GRACE`] is away; until then calls go out as before, and the bus says what is true of
/// them. From time to time bridges are asked anyway: one that was started again knows only the
/// agents that it is configured for.
async fn refresh_regularly(resubscribed: &Notify, requester: &Requester, index: &Index) {
    let mut confirmed_by: Option<Instant> = None;
    loop {
        let confirmation = async {
            match confirmed_by {
                Some(moment) => sleep_until(moment).await,
                None => pending().await,
            }
        };

        // Every arm only waits.
        tokio::select! {
            () = resubscribed.notified() => {
                index.begin_generation();
                confirmed_by = Some(Instant::now() + CONFIRM_GRACE);
            }
            () = confirmation => {
                confirmed_by = None;
                index.sweep_unconfirmed();
                continue;
            }
            () = sleep(REFRESH_INTERVAL) => {}
        }

        if let Err(error) = refresh(requester).await {
            // The broker is away again, and with it the queue: this is done again when it is back.
            tracing::info!(%error, "could not ask for MCP servers");
        }
    }
}

struct Listener {
    index: Arc<Index>,
    requester: Requester,
    offers: Offers,
    registry: Arc<Registry>,
    guides: Guides,
    /// The agent's own MCP tools, from the first announcement on.
    provider: OnceLock<Provider>,
    resubscribed: Arc<Notify>,
}

impl Handler for Listener {
    fn handle(&self, delivery: Delivery) -> BoxFuture<'_, Disposition> {
        Box::pin(std::future::ready(self.read(&delivery.envelope)))
    }

    fn on_resubscribed(&self) {
        self.resubscribed.notify_one();
    }
}

impl Listener {
    fn read(&self, envelope: &Envelope) -> Disposition {
        if !message::is::<McpServersIndexed>(envelope) {
            tracing::debug!(
                message_type = envelope.message_type,
                "ignored a message that is no announcement"
            );
            return Disposition::Ack;
        }

        match json::read::<McpServersIndexed>(&envelope.body) {
            Ok(announcement) => {
                // The tools first: who waits for the index may call them at once.
                self.offer_tools();
                self.index.apply(announcement, |servers| self.offers.follow_servers(servers));
            }
            Err(error) => tracing::warn!(%error, "dropped a malformed announcement"),
        }

        Disposition::Ack
    }

    fn offer_tools(&self) {
        self.provider.get_or_init(|| {
            let provider = self.registry.provider(tools::SOURCE);
            let offers = tools::offers(&Arc::clone(&self.index), &self.requester);
            for (tool, error) in provider.publish(offers) {
                tracing::error!(
                    tool,
                    error = &error as &dyn std::error::Error,
                    "could not register an MCP tool"
                );
            }
            self.guides.add(tools::guide());
            provider
        });
    }
}

#[cfg(test)]
mod tests;
