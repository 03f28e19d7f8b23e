//! Sends requests to one server, with their spans, and cancels those whose caller is gone.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::StringValue;
use rmcp::RoleClient;
use rmcp::model::{
    ClientRequest, GetExtensions as _, RequestMetaObject, ServerPeerInfo, ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, ServiceError};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use toolbus_wire::json::RawJson;
use tracing::Instrument as _;

use super::CallFailure;
use super::lifecycle::ConnectionLifecycle;
use crate::call::CallError;
use crate::eraser::Eraser;
use crate::record::{About, Operation, Recorder};
use crate::transport::intercept::{CallTag, WireState};

/// How long the notification that a request is cancelled may take; it waits behind other messages.
pub(super) const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// The requests of one connection.
pub(super) struct RequestSender {
    pub(super) server: String,
    pub(super) peer: Peer<RoleClient>,
    pub(super) wire: Arc<WireState>,
    pub(super) lifecycle: Arc<ConnectionLifecycle>,
    pub(super) eraser: Eraser,
    pub(super) recorder: Recorder,
    /// Counts requests without an answer, and those whose server is being told so.
    pub(super) pending: TaskTracker,
    /// The server speaks the newer protocol: requests say what their caller takes, and answers may
    /// ask for more.
    pub(super) is_stateless_protocol: bool,
}

impl RequestSender {
    /// Sends a request that belongs to no call, and waits for its answer.
    pub(super) async fn send(&self, request: ClientRequest) -> Result<ServerResult, ServiceError> {
        let operation = self.begin_operation(request.method().to_owned(), About::Nothing);
        let mut meta = RequestMetaObject::default();
        operation.inject(&mut meta);
        let options = PeerRequestOptions::no_options().with_meta(meta);

        let answering = async {
            let handle = self.peer.send_cancellable_request(request, options).await?;
            operation.set_request_id(&handle.id);
            let mut pending = SentRequest::new(self, handle);
            tokio::select! {
                biased;
                response = pending.wait_response() => response,
                () = self.lifecycle.wait_cut_off() => Err(ServiceError::TransportClosed),
            }
        };
        let response = answering.instrument(operation.span().clone()).await;

        operation.end(&response);
        response
    }

    /// Sends a request for a list, and returns the result as the server wrote it, and what rmcp has
    /// left of it.
    pub(super) async fn send_listing(
        &self,
        mut request: ClientRequest,
    ) -> Result<(RawJson, ServerResult), ServiceError> {
        let tag = CallTag::of_listing();
        request.extensions_mut().insert(tag.clone());
        let stand_in = self.send(request).await?;
        // What is not set aside is an answer of a kind that nobody asked for.
        let written = tag.take_result().ok_or(ServiceError::UnexpectedResponse)?;
        Ok((written, stand_in))
    }

    /// Begins the recording of a request.
    pub(super) fn begin_operation<'a>(
        &'a self,
        method: impl Into<StringValue>,
        about: About<'a>,
    ) -> Operation<'a> {
        self.recorder.begin(method, about, || self.wire.session.lock().clone())
    }

    /// What the server said of itself and its capabilities in the handshake.
    pub(super) fn server_info(&self) -> Option<Arc<ServerPeerInfo>> {
        self.peer.peer_info()
    }

    /// The final failure of a request whose answer is of no use.
    pub(super) fn answer_failure(&self, what: &str) -> CallFailure {
        let message = format!("MCP server '{}' {what}", self.server);
        CallFailure::Final(CallError::Failed { message, server_error: None, retry_after: None })
    }
}

/// A request that was sent. Dropped without its response, it is cancelled at the server.
pub(super) struct SentRequest<'a> {
    sender: &'a RequestSender,
    handle: Option<RequestHandle<RoleClient>>,
    _counted: TaskTrackerToken,
}

impl<'a> SentRequest<'a> {
    pub(super) fn new(sender: &'a RequestSender, handle: RequestHandle<RoleClient>) -> Self {
        Self { sender, handle: Some(handle), _counted: sender.pending.token() }
    }

    pub(super) async fn wait_response(&mut self) -> Result<ServerResult, ServiceError> {
        let Some(handle) = &mut self.handle else { return Err(ServiceError::TransportClosed) };
        let response = (&mut handle.rx).await;

        self.handle = None;
        response.unwrap_or(Err(ServiceError::TransportClosed))
    }
}

impl Drop for SentRequest<'_> {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else { return };
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.sender.lifecycle.has_ended() {
            return;
        }

        let cancel = timeout(CANCEL_TIMEOUT, handle.cancel(Some("not wanted any more".to_owned())));
        self.sender.pending.spawn_on(
            async move {
                // There is no caller left to report a failure to.
                let _ = cancel.await;
            },
            &runtime,
        );
    }
}
