//! Subscriptions of resources on one connection.
//!
//! In the older era they belong to the connection, so they are counted: the first who wants a
//! resource subscribes, the last one ends that. In the newer era each is a stream of its own.
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

use super::{CANCEL_WAIT, Connection};
use crate::failure::Failure;

/// Who wants each resource of a connection of the older era. Held while the server is told, so that
/// it hears in which order the first came and the last went.
pub(super) type Wanted = Arc<Mutex<HashMap<String, Wish>>>;

/// What is known of a resource that somebody wants.
#[derive(Default)]
pub(super) struct Wish {
    /// How many want it.
    holds: usize,
    /// The server has taken it. Whoever comes while it has not, tries in turn.
    is_subscribed: bool,
}

/// Resources that are subscribed to, for as long as it lives.
pub(crate) struct Hold<'a> {
    connection: &'a Connection,
    /// Of the older era: what has to be ended.
    uris: Vec<String>,
    /// Of the newer one.
    stream: Option<Subscription>,
    changes: broadcast::Receiver<Arc<str>>,
}

/// What is heard of resources that are subscribed to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// This one has changed.
    Changed(Arc<str>),
    /// Any may have: not everything could be heard.
    TooMuch,
}

impl Connection {
    /// Subscribes to resources. What the server tells from then on is heard.
    pub(crate) async fn hold(&self, uris: &[String]) -> Result<Hold<'_>, ServiceError> {
        let changes = self.wire.resources_changed.subscribe();
        let mut hold = Hold { connection: self, uris: Vec::new(), stream: None, changes };
        if self.is_of_the_newer_era {
            let filter = SubscriptionFilter::builder().resource_subscriptions(uris);
            hold.stream = Some(Box::pin(self.peer.listen(filter.build())).await?);
            return Ok(hold);
        }
        for uri in uris {
            let mut wanted = self.wanted.lock().await;
            let wish = wanted.entry(uri.clone()).or_default();
            wish.holds += 1;
            // From here on it is ended with the hold, whatever the server says.
            hold.uris.push(uri.clone());
            if !wish.is_subscribed {
                let params = SubscribeRequestParams::new(uri);
                let request = ClientRequest::SubscribeRequest(SubscribeRequest::new(params));
                self.request(request).await?;
                wish.is_subscribed = true;
            }
        }
        Ok(hold)
    }
}

impl Hold<'_> {
    /// Waits for a change.
    ///
    /// # Errors
    /// Why there will be no more.
    pub(crate) async fn next(&mut self) -> Result<Heard, Failure> {
        let Self { connection, stream, changes, .. } = self;
        let stream = async {
            match stream {
                // What is told on it the tap takes; here is only heard when it ends.
                Some(stream) => while let Ok(Some(_)) = stream.next().await {},
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            change = changes.recv() => match change {
                Ok(uri) => Ok(Heard::Changed(uri)),
                Err(broadcast::error::RecvError::Lagged(_)) => Ok(Heard::TooMuch),
                Err(broadcast::error::RecvError::Closed) => Err(connection.why_over().await),
            },
            () = stream => Err(Failure::new("it has ended the subscription")),
            () = connection.over() => Err(connection.why_over().await),
        }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        let uris = std::mem::take(&mut self.uris);
        let runtime = tokio::runtime::Handle::try_current();
        let (false, false, Ok(runtime)) =
            (uris.is_empty(), self.connection.wire.ended.is_cancelled(), runtime)
        else {
            return;
        };
        let (wanted, peer) = (Arc::clone(&self.connection.wanted), self.connection.peer.clone());
        let ending = async move {
            for uri in uris {
                let mut wanted = wanted.lock().await;
                let Some(wish) = wanted.get_mut(&uri) else { continue };
                wish.holds -= 1;
                if wish.holds > 0 {
                    continue;
                }
                wanted.remove(&uri);
                let params = UnsubscribeRequestParams::new(uri);
                let request = ClientRequest::UnsubscribeRequest(UnsubscribeRequest::new(params));
                let options = PeerRequestOptions::no_options();
                let ended = async {
                    let handle = peer.send_cancellable_request(request, options).await?;
                    handle.await_response().await
                };
                // A server that does not take it goes on to tell what nobody hears.
                let _ = timeout(CANCEL_WAIT, ended).await;
            }
        };
        self.connection.pending.spawn_on(ending, &runtime);
    }
}
