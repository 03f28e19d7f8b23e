//! Subscriptions of resources on one connection.
//!
//! In the older era they belong to the connection, so they are counted: the first subscriber of a
//! resource subscribes, the last one unsubscribes. In the newer era each is a stream of its own.
#![expect(deprecated, reason = "servers of the older era know no other way")]

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{
    ClientRequest, SubscribeRequest, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequest, UnsubscribeRequestParams,
};
use rmcp::service::{PeerRequestOptions, ServiceError, Subscription};
use tokio::sync::{Mutex, broadcast};
use tokio::time::timeout;

use super::request_sender::{CANCEL_TIMEOUT, RequestSender};
use crate::failure::Failure;

/// The subscribed resources of a connection of the older era, by URI. Locked while the server
/// is asked, so that requests are in the order in which the first subscriber came and the last
/// went.
pub(super) type SharedSubscriptions = Arc<Mutex<HashMap<String, SharedSubscription>>>;

/// One subscription at the server, for all its subscribers here.
#[derive(Default)]
pub(super) struct SharedSubscription {
    subscribers: usize,
    /// The server has accepted it. While it has not, every new subscriber tries in turn.
    is_accepted: bool,
}

/// Resources that are subscribed to, until this is dropped.
pub(crate) struct ResourceSubscription<'a> {
    sender: &'a RequestSender,
    subscriptions: &'a SharedSubscriptions,
    /// Older era: the resources to unsubscribe from.
    uris: Vec<String>,
    /// Newer era: the stream of the subscription.
    stream: Option<Subscription>,
    changes: broadcast::Receiver<Arc<str>>,
}

/// A change of resources that are subscribed to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ResourceChange {
    /// This one has changed.
    Updated(Arc<str>),
    /// Any may have: some notifications were missed.
    Missed,
}

impl<'a> ResourceSubscription<'a> {
    /// Subscribes to resources. Changes that the server reports from then on are received.
    pub(super) async fn open(
        sender: &'a RequestSender,
        subscriptions: &'a SharedSubscriptions,
        uris: &[String],
    ) -> Result<Self, ServiceError> {
        let changes = sender.wire.resources_changed.subscribe();
        let mut subscription =
            Self { sender, subscriptions, uris: Vec::new(), stream: None, changes };

        if sender.is_stateless_protocol {
            let filter = SubscriptionFilter::builder().resource_subscriptions(uris);
            subscription.stream = Some(Box::pin(sender.peer.listen(filter.build())).await?);
            return Ok(subscription);
        }

        for uri in uris {
            let mut all = subscriptions.lock().await;
            let shared = all.entry(uri.clone()).or_default();
            shared.subscribers += 1;
            // From here on it is given up with this subscription, whatever the server answers.
            subscription.uris.push(uri.clone());

            if !shared.is_accepted {
                let params = SubscribeRequestParams::new(uri);
                let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(params));
                sender.send(request).await?;
                shared.is_accepted = true;
            }
        }
        Ok(subscription)
    }

    /// Waits for a change.
    ///
    /// # Errors
    /// Why there will be no more.
    pub(crate) async fn next_change(&mut self) -> Result<ResourceChange, Failure> {
        let Self { sender, stream, changes, .. } = self;
        let lifecycle = &sender.lifecycle;
        let stream_end = async {
            match stream {
                // Its notifications are intercepted; here only its end is seen.
                Some(stream) => while let Ok(Some(_)) = stream.next().await {},
                None => std::future::pending().await,
            }
        };

        tokio::select! {
            biased;
            change = changes.recv() => match change {
                Ok(uri) => Ok(ResourceChange::Updated(uri)),
                Err(broadcast::error::RecvError::Lagged(_)) => Ok(ResourceChange::Missed),
                Err(broadcast::error::RecvError::Closed) => Err(lifecycle.why_over().await),
            },
            () = stream_end => Err(Failure::new("it has ended the subscription")),
            () = lifecycle.wait_over() => Err(lifecycle.why_over().await),
        }
    }
}

impl Drop for ResourceSubscription<'_> {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if uris.is_empty() || self.sender.lifecycle.has_ended() {
            return;
        }

        let subscriptions = Arc::clone(self.subscriptions);
        let peer = self.sender.peer.clone();
        let unsubscribing = async move {
            for uri in uris {
                let mut all = subscriptions.lock().await;
                let Some(shared) = all.get_mut(&uri) else { continue };
                shared.subscribers -= 1;
                if shared.subscribers > 0 {
                    continue;
                }

                all.remove(&uri);
                let params = UnsubscribeRequestParams::new(uri);
                let request = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(params));
                let options = PeerRequestOptions::no_options();
                let unsubscribed = async {
                    let handle = peer.send_cancellable_request(request, options).await?;
                    handle.await_response().await
                };
                // A server that does not take it goes on reporting what has no subscriber.
                let _ = timeout(CANCEL_TIMEOUT, unsubscribed).await;
            }
        };
        self.sender.pending.spawn_on(unsubscribing, &runtime);
    }
}
