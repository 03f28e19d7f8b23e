//! The end of a connection: the ways in which it comes about, and the reason that callers are
//! given.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;
use crate::transport::intercept::WireState;
use crate::transport::process::ChildMonitor;

/// How long a child that has ended its protocol has to show how it ended.
const EXIT_STATUS_TIMEOUT: Duration = Duration::from_secs(1);

/// The ways in which one connection ends.
pub(super) struct ConnectionLifecycle {
    wire: Arc<WireState>,
    child: Option<Arc<ChildMonitor>>,
    /// Fires when nothing new should be begun on this connection any more.
    retired: CancellationToken,
    retired_because: Mutex<Option<Failure>>,
    /// Fires when the calls that wait on this connection have to end.
    cut: CancellationToken,
}

impl ConnectionLifecycle {
    pub(super) fn new(
        wire: Arc<WireState>,
        child: Option<Arc<ChildMonitor>>,
        cut: CancellationToken,
    ) -> Self {
        let retired = CancellationToken::new();
        Self { wire, child, retired, retired_because: Mutex::default(), cut }
    }

    /// Waits until nothing more should be begun on this connection.
    pub(super) async fn wait_over(&self) {
        tokio::select! {
            () = self.wire.ended.cancelled() => {}
            () = self.wire.stuck.cancelled() => {}
            () = self.wire.session_lost.cancelled() => {}
            () = self.wire.stream_lost.cancelled() => {}
            () = self.retired.cancelled() => {}
        }
    }

    /// Waits until no answer will come any more.
    pub(super) async fn wait_cut_off(&self) {
        tokio::select! {
            () = self.wire.ended.cancelled() => {}
            () = self.cut.cancelled() => {}
        }
    }

    /// Whether nothing more should be begun on this connection.
    pub(super) fn is_over(&self) -> bool {
        let WireState { ended, stuck, session_lost, stream_lost, .. } = &*self.wire;
        let tokens = [ended, stuck, session_lost, stream_lost, &self.retired];
        tokens.iter().any(|token| token.is_cancelled())
    }

    /// Whether the server answers, and has forgotten the session.
    pub(super) fn has_lost_session(&self) -> bool {
        self.wire.session_lost.is_cancelled()
    }

    /// Whether the transport is closed, so that nothing can be sent.
    pub(super) fn has_ended(&self) -> bool {
        self.wire.ended.is_cancelled()
    }

    /// Leaves the connection to the calls that are on it.
    pub(super) fn retire(&self, because: &Failure) {
        self.retired_because.lock().get_or_insert_with(|| because.clone());
        self.retired.cancel();
    }

    /// Ends the calls that wait on this connection.
    pub(super) fn cut_calls(&self) {
        self.cut.cancel();
    }

    /// Ends the transport.
    pub(super) fn end_transport(&self) {
        self.wire.ended.cancel();
    }

    /// Ends the child, if there is one, and waits until it was reaped.
    pub(super) async fn stop_child(&self) {
        if let Some(child) = &self.child {
            child.stop();
            child.wait_reaped().await;
        }
    }

    /// Why the connection is over, as far as it is known.
    pub(super) async fn why_over(&self) -> Failure {
        if let Some(failure) = self.retired_because.lock().clone() {
            return failure;
        }
        if self.wire.stuck.is_cancelled() {
            return Failure::new("it does not take what it is sent");
        }
        if self.wire.session_lost.is_cancelled() {
            return Failure::new("its session was lost");
        }
        if self.wire.stream_lost.is_cancelled() {
            return Failure::new("its event stream was lost");
        }

        let failure = Failure::new("the connection was closed");
        match &self.child {
            Some(child) if self.wire.ended.is_cancelled() => add_child_exit(failure, child).await,
            _ => failure,
        }
    }
}

/// Adds to a failure what the child's exit and its last words say about it.
pub(super) async fn add_child_exit(failure: Failure, child: &ChildMonitor) -> Failure {
    // A child that has closed its stdout is usually about to end by itself.
    let _ = timeout(EXIT_STATUS_TIMEOUT, child.wait_reaped()).await;
    failure.of_child(child.exit_text(), child.last_words())
}
