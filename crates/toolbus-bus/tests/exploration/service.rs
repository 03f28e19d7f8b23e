//! The service that both workers offer: its work takes a while, and each run is written down.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use toolbus_bus::responder::{Call, Context, Failure, Malformed, Repeat, Reply, Service};
use toolbus_wire::message::tool::{CallIds, ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::{Envelope, ErrorCode, Topic, json};

use crate::broker::Broker;
use crate::event::{Moment, Party};
use crate::link::LinkStatus;

/// The tool whose calls are declared idempotent.
pub(crate) const IDEMPOTENT: &str = "idempotent";

pub(crate) struct Workload {
    pub(crate) broker: Arc<Broker>,
    pub(crate) worker: Party,
    /// How long a run takes.
    pub(crate) work: Duration,
}

impl Workload {
    async fn work(&self, request: ToolInvokeRequest) -> Reply {
        let run = RunGuard::start(&self.broker, self.worker);
        self.broker.come_to(Moment::RunStarts, self.worker);
        self.stay_alive().await;
        tokio::time::sleep(self.work).await;
        self.broker.come_to(Moment::RunEnds, self.worker);
        self.stay_alive().await;

        Reply::of(&ToolInvokeResponse {
            tool_call_id: request.tool_call_id,
            tool_name: request.tool_name,
            content: Some(run.complete()),
            ..ToolInvokeResponse::default()
        })
    }

    /// A process that was killed goes no further.
    async fn stay_alive(&self) {
        if self.broker.status(self.worker) == LinkStatus::Dead {
            std::future::pending::<()>().await;
        }
    }
}

impl Service for Workload {
    type Request = ToolInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ToolInvokeRequest>, Malformed> {
        let request: ToolInvokeRequest = json::read(&envelope.body).map_err(|error| Malformed {
            ids: CallIds::of_malformed(&envelope.body),
            reason: error.to_string(),
        })?;
        let is_idempotent = request.tool_name == IDEMPOTENT;
        let repeat = if is_idempotent { Repeat::Harmless } else { Repeat::Never };
        let ids = CallIds::from(&request);
        Ok(Call { ids, request, default_budget: Duration::from_secs(60), repeat })
    }

    fn serve(&self, request: ToolInvokeRequest, _context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(self.work(request))
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        let code = match &failure {
            Failure::Timeout { .. } => ErrorCode::Timeout,
            Failure::Cancelled { .. } => ErrorCode::Cancelled,
            Failure::OutcomeUnknown => ErrorCode::OutcomeUnknown,
            _ => ErrorCode::ExecutionFailed,
        };
        let mut error = ToolError::new(ids.clone(), code, format!("{failure:?}"));
        error.execution = Some(failure.execution());
        Reply::of(&error)
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &str {
        "worker"
    }
}

/// A run, which is written down as dropped when it is.
struct RunGuard<'a> {
    broker: &'a Broker,
    number: usize,
    is_completed: bool,
}

impl<'a> RunGuard<'a> {
    fn start(broker: &'a Broker, worker: Party) -> Self {
        Self { broker, number: broker.history.start_run(worker), is_completed: false }
    }

    /// Ends the run, and says what it is answered with: its number.
    fn complete(mut self) -> String {
        self.is_completed = true;
        self.number.to_string()
    }
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        self.broker.history.stop_run(self.number, self.is_completed);
    }
}
