//! What a client hears unasked: that lists have changed, and the resources that it subscribed to.
//!
//! A client of the older era hears it for the length of its session, one of the newer era on the
//! stream that it asks for. Either way nothing piles up: what has changed twice before the client
//! could be told is told once. A client that is gone takes its subscriptions along.

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

use crate::offer::{Lists, Offer};
use crate::reading;
use crate::resource_set::{RESOURCES_MAX, ResourceSet, TooMany};

/// How long a client may take to be told something, before it is not.
const TELL_WAIT: Duration = Duration::from_secs(10);

/// What one session has subscribed to. Clones are of the same session, which ends with the last.
#[derive(Clone)]
pub(crate) struct Standing(Arc<Session>);

struct Session {
    resources: ResourceSet<Subscription>,
    changed: Arc<Changed>,
    over: CancellationToken,
    _end: DropGuard,
}

/// Resources that have changed, and that the client is not told of yet.
#[derive(Default)]
struct Changed {
    uris: Mutex<BTreeSet<String>>,
    news: Notify,
}

impl Changed {
    fn add(&self, uri: &str) {
        self.uris.lock().insert(uri.to_owned());
        self.news.notify_one();
    }

    /// Waits for resources that have changed.
    async fn next(&self) -> BTreeSet<String> {
        loop {
            let uris = std::mem::take(&mut *self.uris.lock());
            if !uris.is_empty() {
                return uris;
            }
            self.news.notified().await;
        }
    }
}

impl Default for Standing {
    fn default() -> Self {
        let over = CancellationToken::new();
        let end = over.clone().drop_guard();
        let (resources, changed) = (ResourceSet::default(), Arc::default());
        Self(Arc::new(Session { resources, changed, over, _end: end }))
    }
}

impl Standing {
    /// Subscribes the client of this session to a resource.
    pub(crate) async fn subscribe(&self, offer: &Offer, uri: String) -> Result<(), ErrorData> {
        let starting = self.0.resources.begin(&uri).map_err(|TooMany| too_many())?;
        let Some(starting) = starting else { return Ok(()) };

        let subscription = subscribed(offer, vec![uri], &self.0.changed).await?;

        starting.finish(subscription);
        Ok(())
    }

    /// Ends that. What the client is not subscribed to, it is not told of anyway.
    pub(crate) fn unsubscribe(&self, uri: &str) {
        self.0.resources.remove(uri);
        self.0.changed.uris.lock().remove(uri);
    }

    /// Tells the client of this session what changes, until the session is over.
    pub(crate) fn tell(
        &self,
        offer: Offer,
        peer: Peer<RoleServer>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let over = self.0.over.clone();
        let mut news = News { lists: offer.lists(), offer, changed: Arc::clone(&self.0.changed) };
        async move {
            loop {
                let told = tokio::select! {
                    () = over.cancelled() => return,
                    told = news.next() => told,
                };
                Client::Session(&peer).tell(told).await;
            }
        }
    }
}

/// What one client is to be told.
struct News {
    offer: Offer,
    changed: Arc<Changed>,
    /// The lists as the client knows them.
    lists: Lists,
}

enum Told {
    Tools,
    Prompts,
    Resources,
    Resource(String),
}

impl News {
    /// Waits for the next. A future of this may be dropped at any time.
    async fn next(&mut self) -> Vec<Told> {
        let now = tokio::select! {
            uris = self.changed.next() => return uris.into_iter().map(Told::Resource).collect(),
            now = self.offer.other_lists(self.lists) => now,
        };
        let before = std::mem::replace(&mut self.lists, now);
        let told = [
            (before.tools != now.tools, Told::Tools),
            (before.prompts != now.prompts, Told::Prompts),
            (before.resources != now.resources, Told::Resources),
        ];
        told.into_iter().filter(|(is_other, _)| *is_other).map(|(_, told)| told).collect()
    }
}

/// Where a client is told.
enum Client<'a> {
    Session(&'a Peer<RoleServer>),
    Stream(&'a SubscriptionSink),
}

impl Client<'_> {
    /// Tells it. A client that has gone needs no news, and one that takes them too slowly has to
    /// ask by itself.
    async fn tell(&self, told: Vec<Told>) {
        let telling = async {
            for told in told {
                match self {
                    Self::Session(peer) => drop(match told {
                        Told::Tools => peer.notify_tool_list_changed().await,
                        Told::Prompts => peer.notify_prompt_list_changed().await,
                        Told::Resources => peer.notify_resource_list_changed().await,
                        Told::Resource(uri) => {
                            let params = ResourceUpdatedNotificationParam::new(uri);
                            peer.notify_resource_updated(params).await
                        }
                    }),
                    // What the client did not ask for is not sent, and is no error here.
                    Self::Stream(sink) => drop(match told {
                        Told::Tools => sink.notify_tool_list_changed().await,
                        Told::Prompts => sink.notify_prompt_list_changed().await,
                        Told::Resources => sink.notify_resource_list_changed().await,
                        Told::Resource(uri) => sink.notify_resource_updated(uri).await,
                    }),
                }
            }
        };
        let _ = timeout(TELL_WAIT, telling).await;
    }
}

/// What a client of the newer era may ask to hear.
pub(crate) fn accepted(requested: &SubscriptionFilter) -> SubscriptionFilter {
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
pub(crate) async fn listen(offer: &Offer, context: &SubscriptionContext) -> Result<(), ErrorData> {
    let changed = Arc::new(Changed::default());
    let mut news =
        News { lists: offer.lists(), offer: offer.clone(), changed: Arc::clone(&changed) };
    let uris = context.accepted().resource_subscriptions.clone().unwrap_or_default();
    let _subscription = match uris.is_empty() {
        true => None,
        false => {
            let subscription = subscribed(offer, uris.clone(), &changed).await?;
            // The client was told that it listens before this held.
            uris.iter().for_each(|uri| changed.add(uri));
            Some(subscription)
        }
    };
    loop {
        let told = tokio::select! {
            () = context.cancelled() => return Ok(()),
            told = news.next() => told,
        };
        Client::Stream(context.sink()).tell(told).await;
    }
}

async fn subscribed(
    offer: &Offer,
    uris: Vec<String>,
    changed: &Arc<Changed>,
) -> Result<Subscription, ErrorData> {
    let Some(server) = offer.server() else {
        return Err(ErrorData::invalid_request("there are no resources here", None));
    };
    let changed = Arc::clone(changed);
    let tell = move |uri: &str| changed.add(uri);
    offer.deps().directory.subscribe(server, uris, tell).await.map_err(reading::error)
}

fn too_many() -> ErrorData {
    let text = format!("busy: a client may be subscribed to {RESOURCES_MAX} resources");
    ErrorData::internal_error(text, None)
}
