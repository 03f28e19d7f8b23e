//! Subscriptions of a client: notifications that lists or subscribed resources have changed.
//!
//! A client of the older era hears it for the length of its session, one of the newer era on the
//! stream that it asks for. Either way nothing piles up: what has changed twice before the client
//! could be notified is reported once. A client that is gone takes its subscriptions along.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::RoleServer;
use rmcp::model::{ErrorData, ResourceUpdatedNotificationParam, SubscriptionFilter};
use rmcp::service::{Peer, SubscriptionContext, SubscriptionSink};
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolbus_mcp_agent::ResourceSubscription as Subscription;
use toolbus_tools::Scope;
use toolbus_tools::invoker::ReadContext;

use crate::offer::{Lists, Offer};
use crate::resource_requests;
use crate::resource_set::{RESOURCES_MAX, ResourceSet, TooMany};

/// How long a client may take to accept a notification before it is dropped.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(10);

/// What one session has subscribed to. Clones are of the same session, which ends with the last.
#[derive(Clone)]
pub(crate) struct ResourceSubscriptions(Arc<SubscriptionSession>);

struct SubscriptionSession {
    resources: ResourceSet<Subscription>,
    changed: Arc<ChangedResources>,
    over: CancellationToken,
    _end: DropGuard,
}

/// Resources that have changed and of which the client has not been notified yet: only such as it
/// has subscribed to, of which there are [`RESOURCES_MAX`].
#[derive(Default)]
struct ChangedResources {
    uris: Mutex<BTreeSet<String>>,
    wake: Notify,
}

impl ChangedResources {
    /// Takes a change that a bridge reports of a subscription. What was not subscribed to is not
    /// the client's, whatever a bridge says.
    fn report(&self, subscribed: &[String], uri: &str) {
        if subscribed.iter().any(|subscribed| subscribed == uri) {
            self.add(uri);
        }
    }

    fn add(&self, uri: &str) {
        self.uris.lock().insert(uri.to_owned());
        self.wake.notify_one();
    }

    /// Waits for resources that have changed.
    async fn next_resources(&self) -> BTreeSet<String> {
        loop {
            let uris = std::mem::take(&mut *self.uris.lock());
            if !uris.is_empty() {
                return uris;
            }
            self.wake.notified().await;
        }
    }
}

impl Default for ResourceSubscriptions {
    fn default() -> Self {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        Self(Arc::new(SubscriptionSession {
            resources: ResourceSet::default(),
            changed: Arc::default(),
            over,
            _end: end,
        }))
    }
}

impl ResourceSubscriptions {
    /// Subscribes the client of this session to a resource.
    pub(crate) async fn subscribe(
        &self,
        offer: &Offer,
        scope: &Arc<Scope>,
        uri: String,
    ) -> Result<(), ErrorData> {
        let starting = self.0.resources.begin(&uri).map_err(|TooMany| too_many())?;
        let Some(starting) = starting else { return Ok(()) };

        let subscription = subscribe_at_server(offer, scope, vec![uri], &self.0.changed).await?;

        starting.finish(subscription);
        Ok(())
    }

    /// Ends a subscription, with what is still to be notified of it.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.0.resources.remove(uri);
        self.0.changed.uris.lock().remove(uri);
    }

    /// Tells the client of this session what changes, until the session is over.
    pub(crate) fn notify_changes(
        &self,
        offer: Offer,
        peer: Peer<RoleServer>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let over = self.0.over.clone();
        let mut feed =
            ChangeFeed { lists: offer.lists(), offer, changed: Arc::clone(&self.0.changed) };
        async move {
            loop {
                let changes = tokio::select! {
                    () = over.cancelled() => return,
                    changes = feed.next_changes() => changes,
                };
                ChangeSink::Session(&peer).notify(changes).await;
            }
        }
    }
}

/// The changes that one client is to be notified of.
struct ChangeFeed {
    offer: Offer,
    changed: Arc<ChangedResources>,
    /// The lists as the client knows them.
    lists: Lists,
}

enum ListChange {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

impl ChangeFeed {
    /// Waits for the next changes. Cancel-safe.
    async fn next_changes(&mut self) -> Vec<ListChange> {
        let now = tokio::select! {
            uris = self.changed.next_resources() => {
                return uris.into_iter().map(ListChange::Resource).collect();
            }
            now = self.offer.changed_lists(self.lists) => now,
        };

        let before = std::mem::replace(&mut self.lists, now);
        let changes = [
            (before.tools != now.tools, ListChange::Tools),
            (before.prompts != now.prompts, ListChange::Prompts),
            (before.resources != now.resources, ListChange::Resources),
        ];

        changes.into_iter().filter(|(is_other, _)| *is_other).map(|(_, changes)| changes).collect()
    }
}

/// Where the notifications of a client go.
enum ChangeSink<'a> {
    Session(&'a Peer<RoleServer>),
    Stream(&'a SubscriptionSink),
}

impl ChangeSink<'_> {
    /// Notifies the client. One that is gone needs nothing; one that reads too slowly has to list
    /// for itself.
    async fn notify(&self, changes: Vec<ListChange>) {
        let sending = async {
            for change in changes {
                match self {
                    Self::Session(peer) => drop(match change {
                        ListChange::Tools => peer.notify_tool_list_changed().await,
                        ListChange::Prompts => peer.notify_prompt_list_changed().await,
                        ListChange::Resources => peer.notify_resource_list_changed().await,
                        ListChange::Resource(uri) => {
                            let params = ResourceUpdatedNotificationParam::new(uri);
                            peer.notify_resource_updated(params).await
                        }
                    }),
                    // What the client did not ask for is not sent, and is no error here.
                    Self::Stream(sink) => drop(match change {
                        ListChange::Tools => sink.notify_tool_list_changed().await,
                        ListChange::Prompts => sink.notify_prompt_list_changed().await,
                        ListChange::Resources => sink.notify_resource_list_changed().await,
                        ListChange::Resource(uri) => sink.notify_resource_updated(uri).await,
                    }),
                }
            }
        };

        let _ = timeout(NOTIFY_TIMEOUT, sending).await;
    }
}

/// What a client of the newer era may ask to hear.
pub(crate) fn accepted_filter(requested: &SubscriptionFilter) -> SubscriptionFilter {
    let mut accepted = requested.clone();
    if let Some(uris) = &mut accepted.resource_subscriptions {
        uris.truncate(RESOURCES_MAX);
    }
    accepted
}

/// Tells a client of the newer era what it asked to hear, for as long as it listens.
///
/// # Errors
/// When it cannot be subscribed to a resource.
pub(crate) async fn listen(
    offer: &Offer,
    scope: &Arc<Scope>,
    context: &SubscriptionContext,
) -> Result<(), ErrorData> {
    let changed = Arc::new(ChangedResources::default());
    let mut feed =
        ChangeFeed { lists: offer.lists(), offer: offer.clone(), changed: Arc::clone(&changed) };
    let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();

    let _subscription = match uris.is_empty() {
        true => None,
        false => {
            let subscription = subscribe_at_server(offer, scope, uris.clone(), &changed).await?;
            // The client was told that it listens before this held.
            uris.iter().for_each(|uri| changed.add(uri));
            Some(subscription)
        }
    };

    loop {
        let changes = tokio::select! {
            () = context.cancelled() => return Ok(()),
            changes = feed.next_changes() => changes,
        };
        ChangeSink::Stream(context.sink()).notify(changes).await;
    }
}

async fn subscribe_at_server(
    offer: &Offer,
    scope: &Arc<Scope>,
    uris: Vec<String>,
    changed: &Arc<ChangedResources>,
) -> Result<Subscription, ErrorData> {
    let Some(server) = offer.server() else {
        return Err(ErrorData::invalid_request("there are no resources here", None));
    };
    let (changed, subscribed) = (Arc::clone(changed), uris.clone());
    let report = move |uri: &str| changed.report(&subscribed, uri);

    let deps = offer.deps();
    let call = resource_requests::read_call(scope, "resources/subscribe");
    let subject = deps.directory.read_subject(server, "resources/subscribe");
    let subscribe =
        |context: ReadContext| deps.directory.subscribe(server, uris, context.permit, report);

    deps.read(call, subject, subscribe).await.map_err(resource_requests::error)
}

fn too_many() -> ErrorData {
    let text = format!("busy: a client may be subscribed to {RESOURCES_MAX} resources");
    ErrorData::internal_error(text, None)
}

#[cfg(test)]
mod tests;
