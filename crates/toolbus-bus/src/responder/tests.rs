use tokio::sync::watch;
use tokio::time::Instant;
use toolbus_wire::message::tool::{ToolError, ToolInvokeRequest, ToolInvokeResponse};
use toolbus_wire::message::toolbus::{Alive, ToolCancel, ToolProgress};
use toolbus_wire::{ErrorCode, header, message};

use super::worker::CANCEL_GRACE;
use super::*;
use crate::Deadline;
use crate::port::{BODY_BYTES_MAX, Delivery, Disposition, PublishError};
use crate::slot::Kept;
use crate::testing::{Fault, Faulty, Inbox, at_once, instance, topic, until, within};

mod clocks;
mod delivery;
mod ending;
mod news;
mod parking;
mod queries;
mod room;

const SECOND: Duration = Duration::from_secs(1);
/// Where the requests of these tests go, and the name of the queue that takes them.
const WORK: &str = "work";
const WORKERS: &str = "workers";

/// A service that does what its requests name, and writes down what became of them.
#[derive(Clone, Default)]
struct Scripted {
    state: Arc<watch::Sender<State>>,
    default_reply: Option<Topic>,
}

#[derive(Default)]
struct State {
    /// Call ids in the order in which they were started.
    started: Vec<String>,
    /// Those that were dropped before their end.
    dropped: Vec<String>,
    /// Those whose token fired, ended or not.
    told: Vec<String>,
    /// Call ids that may end.
    released: Vec<String>,
    /// What was written down of calls that are parked.
    parked: Vec<ParkedRequest>,
    /// Those that have a slot again.
    resumed: Vec<String>,
    running: usize,
    most_running: usize,
    deadline: Option<Deadline>,
}

impl Scripted {
    fn release(&self, call: &str) {
        self.state.send_modify(|state| state.released.push(call.to_owned()));
    }

    async fn until(&self, what: &str, condition: impl FnMut(&State) -> bool) {
        let mut states = self.state.subscribe();
        within(what, states.wait_for(condition)).await.unwrap();
    }

    async fn started(&self, count: usize) {
        self.until(&format!("{count} calls start"), |state| state.started.len() >= count).await;
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.state.borrow())
    }

    async fn released(&self, call: &str) {
        let mut states = self.state.subscribe();
        let released = states.wait_for(|state| state.released.iter().any(|other| other == call));
        released.await.unwrap();
    }

    async fn act(&self, request: &ToolInvokeRequest, context: &Context) -> Reply {
        let id = request.tool_call_id.as_str();
        let argument = request.arguments.clone().unwrap_or_default();
        let seconds = || Duration::from_secs_f64(argument.parse().unwrap());

        match request.tool_name.as_str() {
            "polite" => {
                context.call.cancelled.cancelled().await;
                // It takes a moment to tidy up.
                tokio::time::sleep(CANCEL_GRACE / 3).await;
                let content = Some(format!("{id} stopped"));
                return Reply::of(&ToolInvokeResponse { content, ..response(request) });
            }
            "held" => self.released(id).await,
            "parked" | "stored" => {
                let kept = match &*request.tool_name {
                    "parked" => Kept::InMemory,
                    _ => Kept::InStore,
                };
                let parked = context.slot.request().unwrap();
                self.state.send_modify(|state| state.parked.push(parked));
                context.slot.park(kept);
                self.released(id).await;
                context.slot.leave_store();
                context.slot.resume().await.unwrap();
                self.state.send_modify(|state| state.resumed.push(id.to_owned()));
                self.released(&format!("{id} after")).await;
            }
            "found out" => {
                let content = Some(format!("{id} again: {} {}", context.redelivered, context.key));
                return Reply::of(&ToolInvokeResponse { content, ..response(request) });
            }
            "sleep" => tokio::time::sleep(seconds()).await,
            "panic" => panic!("on request"),
            "held, then panic twice" => {
                self.released(id).await;
                panic!("on request");
            }
            "talk" => {
                for word in argument.split(' ') {
                    let message = Some(word.to_owned());
                    context.call.progress.send(ToolProgress { message, ..ToolProgress::default() });
                }
            }
            "large" => {
                let body = vec![b' '; argument.parse().unwrap()].into();
                let (message_type, headers) = ("Test".into(), Headers::new());
                return Reply { message_type, body, headers, error: None };
            }
            _ => {}
        }

        let content = Some(format!("{id} was run {}", context.source()));
        let reply = Reply::of(&ToolInvokeResponse { content, ..response(request) });
        Reply { headers: Headers::new().with("rb-content-trust", "tool-output"), ..reply }
    }
}

fn response(request: &ToolInvokeRequest) -> ToolInvokeResponse {
    ToolInvokeResponse {
        tool_call_id: request.tool_call_id.clone(),
        tool_name: request.tool_name.clone(),
        ..ToolInvokeResponse::default()
    }
}

/// One call that runs, written down.
struct Run<'a> {
    service: &'a Scripted,
    id: String,
    token: CancellationToken,
    ended: bool,
}

impl<'a> Run<'a> {
    fn begin(service: &'a Scripted, id: &str, context: &Context) -> Self {
        service.state.send_modify(|state| {
            state.started.push(id.to_owned());
            state.running += 1;
            state.most_running = state.most_running.max(state.running);
            state.deadline = Some(context.call.deadline);
        });
        let token = context.call.cancelled.clone();
        Self { service, id: id.to_owned(), token, ended: false }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let (ended, told) = (self.ended, self.token.is_cancelled());
        self.service.state.send_modify(|state| {
            state.running -= 1;
            if !ended {
                state.dropped.push(self.id.clone());
            }
            if told {
                state.told.push(self.id.clone());
            }
        });
    }
}

impl Service for Scripted {
    type Request = ToolInvokeRequest;

    fn parse(&self, envelope: &Envelope) -> Result<Call<ToolInvokeRequest>, Malformed> {
        assert_ne!(&*envelope.body, b"panic", "on request");
        let request: ToolInvokeRequest = json::read(&envelope.body).map_err(|error| Malformed {
            ids: CallIds::of_malformed(&envelope.body),
            reason: error.to_string(),
        })?;
        let repeat = match request.tool_name.as_str() {
            "harmless" => Repeat::Harmless,
            "found out" => Repeat::FoundOut,
            _ => Repeat::Never,
        };
        Ok(Call { ids: CallIds::from(&request), request, default_budget: 60 * SECOND, repeat })
    }

    fn authorize(
        &self,
        call: &Call<ToolInvokeRequest>,
        received: Received<'_>,
    ) -> Result<(), Reply> {
        match received.envelope.headers.get("refuse") {
            None => Ok(()),
            Some(why) => {
                let text = format!("{why}, redelivered {}", received.redelivered);
                Err(Reply::of(&ToolError::new(call.ids.clone(), ErrorCode::Denied, text)))
            }
        }
    }

    fn serve(&self, request: ToolInvokeRequest, context: Context) -> BoxFuture<'_, Reply> {
        assert_ne!(request.tool_name, "panic at once", "on request");
        Box::pin(async move {
            let mut run = Run::begin(self, &request.tool_call_id, &context);
            let reply = self.act(&request, &context).await;
            run.ended = true;
            reply
        })
    }

    fn fail(&self, ids: &CallIds, failure: Failure) -> Reply {
        assert!(
            ids.tool_name != "held, then panic twice" || failure != Failure::Crashed,
            "on request, once more"
        );
        Reply::of(&ToolError::new(ids.clone(), ErrorCode::ExecutionFailed, format!("{failure:?}")))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        self.default_reply.clone()
    }

    fn source(&self) -> &str {
        "worker"
    }
}

/// A responder, the service in it, and a caller's reply queue.
struct Stage {
    bus: Arc<Faulty>,
    service: Scripted,
    replies: Arc<Inbox>,
    responder: Option<Responder>,
}

impl Stage {
    async fn start(concurrency: u16) -> Self {
        Self::start_on(Faulty::new(), concurrency).await
    }

    async fn start_on(bus: Arc<Faulty>, concurrency: u16) -> Self {
        let replies = Inbox::open(&*bus, "replies").await;
        let mut stage = Self { bus, service: Scripted::default(), replies, responder: None };
        stage.responder = Some(stage.worker("one", concurrency).await.unwrap());
        stage
    }

    async fn worker(&self, name: &str, concurrency: u16) -> Result<Responder, SubscribeError> {
        Responder::start(self.bus.clone(), listen(name, concurrency), self.service.clone()).await
    }

    async fn publish(&self, request: Envelope) {
        self.bus.publish(&topic(WORK), request).await.unwrap();
    }

    async fn cancel(&self, source: &str, call: &str) {
        let cancel =
            ToolCancel { source: source.to_owned(), tool_call_id: call.to_owned(), reason: None };
        let cancel = Envelope::of(&cancel, source);
        self.bus.publish(&topic::TOOL_CANCEL, cancel).await.unwrap();
    }

    /// The replies that have come, one line each, once there are at least so many.
    async fn outcomes(&self, at_least: usize) -> Vec<String> {
        self.replies.received(at_least).await.iter().map(outcome).collect()
    }

    async fn stop(&mut self, grace: Duration) {
        within("the stop", self.responder.take().unwrap().stop(grace)).await;
    }
}

fn listen(name: &str, concurrency: u16) -> Listen {
    Listen {
        topic: topic(WORK),
        subscription: WORKERS.to_owned(),
        instance: instance(name),
        concurrency: NonZeroU16::new(concurrency).unwrap(),
        large_requests_bytes: LARGE_REQUESTS_BYTES,
    }
}

/// What a reply says, in one line.
fn outcome(reply: &Envelope) -> String {
    if message::is::<ToolError>(reply) {
        let error: ToolError = json::read(&reply.body).unwrap();
        format!("{}: {}", error.tool_call_id, error.message)
    } else {
        let response: ToolInvokeResponse = json::read(&reply.body).unwrap();
        response.content.unwrap_or_default()
    }
}

/// A request for its reply at `replies`, from `RockBot`.
fn request(call: &str, tool: &str, argument: &str) -> Envelope {
    let body = ToolInvokeRequest {
        tool_call_id: call.to_owned(),
        tool_name: tool.to_owned(),
        arguments: Some(argument.to_owned()),
        session_id: None,
    };
    Envelope::of(&body, "RockBot")
        .with_correlation_id(format!("correlation of {call}"))
        .with_reply_to(topic("replies"))
}
