//! Subscriptions of resources of MCP servers, for front doors.
//!
//! A subscription is a request that a bridge holds. It is made anew a while before its time is
//! over, and as often as it is lost: with the bridge, with the server, with the broker. What may
//! have changed meanwhile is told as changed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::{CallContext, Deadline, Envelope, Progress};
use toolbus_tools::Permit;
use toolbus_tools::call::CallError;
use toolbus_wire::message::mcp::{McpSubscribeRequest, McpSubscribeResponse};
use toolbus_wire::message::toolbus::ToolProgress;
use toolbus_wire::{ErrorCode, Topic, header, json};

use crate::directory::McpDirectory;
use crate::index::Index;
use crate::manage::check_answer;

/// How long one request holds. A bridge that did not hear that it is cancelled holds it as long.
const LEASE_TTL: Duration = Duration::from_secs(120);
/// When the next one is made.
const RENEW_INTERVAL: Duration = Duration::from_secs(90);
/// How long a server may take to be subscribed to.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a subscription that was lost is made again.
const RETRY_BACKOFF: Duration = Duration::from_millis(500);
/// The longest pause between two attempts.
const RETRY_BACKOFF_MAX: Duration = Duration::from_secs(30);

type Changed = Arc<dyn Fn(&str) + Send + Sync>;

/// A subscription, for as long as it lives.
pub struct Subscription {
    _end: DropGuard,
}

/// A subscription that is wanted, and who hears of its changes.
struct DesiredSubscription {
    requester: Requester,
    index: Arc<Index>,
    request: McpSubscribeRequest,
    /// That it was let pass. It lasts as long as the subscription: to make that again is no other
    /// one.
    permit: Permit,
    changed: Changed,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// One request, before it holds.
struct LastingRequest {
    requester: Requester,
    topic: Topic,
    request: McpSubscribeRequest,
    permit: Permit,
    progress: Progress,
}

/// One request that holds.
struct Lease {
    ended: oneshot::Receiver<CallError>,
    _end: DropGuard,
}

impl McpDirectory {
    /// Hears of changes of a server's resources. `changed` is told the URI; it must not block. It
    /// is told too where something may have changed that nobody heard of.
    ///
    /// # Errors
    /// When no bridge answers in time, or the server does not let itself be subscribed to.
    pub async fn subscribe(
        &self,
        server: &str,
        uris: Vec<String>,
        permit: Permit,
        changed: impl Fn(&str) + Send + Sync + 'static,
    ) -> Result<Subscription, CallError> {
        let request = McpSubscribeRequest { server_name: server.to_owned(), uris };
        let desired = DesiredSubscription {
            requester: self.inner.requester.clone(),
            index: Arc::clone(&self.inner.index),
            request,
            permit,
            changed: Arc::new(changed),
            stop: self.inner.stop.clone(),
            tasks: self.inner.tasks.clone(),
        };

        let lease = match desired.acquire().await {
            // To subscribe twice is to subscribe once.
            Err(error) if error.code == ErrorCode::OutcomeUnknown => {
                desired.acquire_and_report().await?
            }
            acquired => acquired?,
        };

        let end = self.inner.stop.child_token();
        let running = end.clone();
        self.inner.tasks.spawn(async move {
            running.run_until_cancelled(desired.hold_lease(lease)).await;
        });

        Ok(Subscription { _end: end.drop_guard() })
    }
}

impl DesiredSubscription {
    /// Makes the request, and waits until it holds.
    async fn acquire(&self) -> Result<Lease, CallError> {
        let topic = self.index.expect_request_topic(&self.request.server_name)?;
        let (tell, ended) = oneshot::channel();
        let (hold, holds) = oneshot::channel();
        let end = self.stop.child_token();
        let mut lease = Lease { ended, _end: end.clone().drop_guard() };
        let lasting = LastingRequest {
            requester: self.requester.clone(),
            topic,
            request: self.request.clone(),
            permit: self.permit.clone(),
            progress: self.progress(hold),
        };

        self.tasks.spawn(async move {
            let why = lasting.run(&end).await;
            // Nobody may want to know any more.
            drop(tell.send(why));
        });

        let late = || CallError::new(ErrorCode::Timeout, "no MCP bridge subscribes in time");
        let acquired = async {
            tokio::select! {
                biased;
                Ok(()) = holds => Ok(()),
                why = &mut lease.ended => Err(why.unwrap_or_else(|_| late())),
            }
        };

        timeout(SUBSCRIBE_TIMEOUT, acquired).await.unwrap_or_else(|_| Err(late()))?;
        Ok(lease)
    }

    fn progress(&self, hold: oneshot::Sender<()>) -> Progress {
        let changed = Arc::clone(&self.changed);
        let hold = parking_lot::Mutex::new(Some(hold));
        Progress::to(move |progress: ToolProgress| {
            if let Some(hold) = hold.lock().take() {
                // Whoever waited for it may have given up.
                let _ = hold.send(());
            }
            if let Some(uri) = progress.resource {
                changed(&uri);
            }
        })
    }

    async fn hold_lease(self, mut lease: Lease) {
        loop {
            let lost = tokio::select! {
                why = &mut lease.ended => Some(why),
                () = sleep(RENEW_INTERVAL) => None,
            };

            if lost.is_none() {
                // The one before goes on until there is another, or until its end.
                if let Ok(next) = self.acquire().await {
                    lease = next;
                    continue;
                }
            }

            if let Some(Ok(why)) = &lost {
                let server = &self.request.server_name;
                tracing::info!(server, error = %why, "lost a subscription; subscribing again");
            }

            lease = self.acquire_again().await;
        }
    }

    /// Makes the request, and reports everything as changed: nobody has heard of what was
    /// meanwhile.
    async fn acquire_and_report(&self) -> Result<Lease, CallError> {
        let lease = self.acquire().await?;
        self.request.uris.iter().for_each(|uri| (self.changed)(uri));
        Ok(lease)
    }

    async fn acquire_again(&self) -> Lease {
        let mut pause = RETRY_BACKOFF;
        loop {
            sleep(pause).await;
            match self.acquire_and_report().await {
                Ok(lease) => return lease,
                Err(error) => tracing::debug!(%error, "could not subscribe; retrying"),
            }
            pause = (pause * 2).min(RETRY_BACKOFF_MAX);
        }
    }
}

impl LastingRequest {
    /// Makes the request and waits for its end.
    async fn run(self, end: &CancellationToken) -> CallError {
        let Self { requester, topic, request, permit, progress } = self;
        let envelope = Envelope::of(&request, requester.agent().as_str());
        let envelope = envelope.with_header(header::EXACT, "1");
        let request = requester::Request {
            may_repeat: false,
            topic: &topic,
            workers: Some(topic.as_str()),
            call_id: &envelope.message_id.clone(),
            envelope,
            context: CallContext::until(Deadline::after(LEASE_TTL))
                .with_cancelled(end.clone())
                .with_progress(progress),
        };

        let failed = |error: String| CallError::execution_failed(error);
        match requester.request_sealed(request, &permit).await {
            Ok(reply) => match json::read::<McpSubscribeResponse>(&reply.body) {
                Ok(ended) => match check_answer(&ended) {
                    Err(error) => error,
                    Ok(()) => failed("it has ended".to_owned()),
                },
                Err(error) => failed(format!("the reply cannot be read: {error}")),
            },
            Err(error) if error.is_unroutable() => {
                CallError::new(ErrorCode::Unroutable, "no MCP bridge is running that subscribes")
            }
            Err(error) => toolbus_tools::bus::error_of("resources/subscribe", error),
        }
    }
}
