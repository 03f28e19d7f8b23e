//! Users on the bus: what they say at `user.message` is answered where they want the reply.
//!
//! A message is acknowledged once its answer is out. When this process ends before that, the broker
//! hands it to another one, which goes on with the turn where it was: what is said under one
//! message id is answered once. Nobody here proves who they are: a user is known by the name of the
//! program that sends the message, and by the name that it gives them (`claimed:PROGRAM/USER`).

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::future::{join, join_all};
use parking_lot::Mutex;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;
use toolbus_bus::{
    Asker, Bus, Consumer, Delivery, Disposition, Envelope, Flow, PublishError, SubscribeError,
    Subscription, TopicPattern,
};
use toolbus_models::model::ModelEvent;
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::id::SessionId;
use toolbus_tools::scope::Proof;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::message::user::{
    AgentReply, ConversationHistoryRequest, ConversationHistoryResponse, ConversationTurn,
    UserFeedback, UserMessage,
};
use toolbus_wire::name::AgentName;
use toolbus_wire::{Message, Topic, message, queue, topic};

use crate::agent::{Agent, TurnContext, TurnEvent, TurnReport};
use crate::conversation::TurnEnd;
use crate::said::Said;
use crate::sessions::{self, Error, Exchange, SessionRef, Side};

/// How long a turn may take, with its wait for the turns before it: RabbitMQ closes the channel of
/// a consumer that has not acknowledged a message after 30 minutes.
const TURN_TIMEOUT: Duration = Duration::from_secs(25 * 60);
/// Between two attempts to publish a reply.
const REPLY_BACKOFF: Duration = Duration::from_secs(1);
/// How often it is attempted.
const REPLY_ATTEMPTS_MAX: u32 = 30;
/// Longest text that is told before the answer, in bytes. What is over that is left out.
const TOLD_BYTES_MAX: usize = 1 << 20;
/// How many such texts wait to be told.
const TOLD_WAITING_MAX: usize = 16;
/// What a history tells at most: the last of what was said, in number and in bytes of text.
const HISTORY_MAX: usize = 500;
const HISTORY_BYTES_MAX: usize = 4 << 20;
/// Longest text that a user may say, in bytes: a whole book, and more than models read.
const SAID_BYTES_MAX: usize = 2 << 20;
/// How feedback and requests for a history are taken: one at a time, since each may be as large as
/// a broker takes it.
const SMALL_REQUESTS: Flow = Flow::Concurrent(NonZeroU16::MIN);

/// How many bytes of messages are held at most with so many turns at a time: those of users, and
/// the small requests beside them, each under two names.
#[must_use]
pub const fn bus_users_bytes_max(turns_max: NonZeroU16) -> usize {
    2 * Flow::Concurrent(turns_max).bytes_max() + 4 * SMALL_REQUESTS.bytes_max()
}

/// Answers users on the bus until it is stopped.
pub struct BusUsers {
    consumers: Vec<Consumer>,
}

/// What that takes.
pub struct BusUsersDeps {
    /// The bus.
    pub bus: Arc<dyn Bus>,
    /// The name that the agent has on it.
    pub name: AgentName,
    /// Answers.
    pub agent: Agent,
    /// Turns at a time.
    pub turns_max: NonZeroU16,
}

impl BusUsers {
    /// Begins to answer them.
    ///
    /// # Errors
    /// When a queue cannot be had.
    pub async fn start(deps: BusUsersDeps) -> Result<Self, SubscribeError> {
        let turns = Flow::Concurrent(deps.turns_max);
        let (bus, name) = (Arc::clone(&deps.bus), deps.name.clone());
        let replies = UserReplies::new(Arc::clone(&bus), name.clone());
        let users = Arc::new(Users { deps, replies, lines: SessionLines::default() });

        // Newer peers send each agent its own.
        let messages = [topic::USER_MESSAGE, topic::user_message_agent(&name)];
        let feedback = [topic::USER_FEEDBACK, topic::user_feedback_agent(&name)];
        let histories = [topic::USER_HISTORY_REQUEST, topic::user_history_request_agent(&name)];
        let listen = |topic: Topic, flow| {
            let name = queue::of_agent(&name, topic.as_str());
            Subscription::durable(name, TopicPattern::from(topic), flow)
        };

        let mut consumers = Vec::new();
        for topic in messages {
            let users = Arc::clone(&users);
            let handler = move |delivery| Arc::clone(&users).answer(delivery);
            consumers.push(bus.subscribe(listen(topic, turns), Arc::new(handler)).await?);
        }
        for topic in feedback {
            let users = Arc::clone(&users);
            let handler = move |delivery| Arc::clone(&users).take_feedback(delivery);
            consumers.push(bus.subscribe(listen(topic, SMALL_REQUESTS), Arc::new(handler)).await?);
        }
        for topic in histories {
            let users = Arc::clone(&users);
            let handler = move |delivery| Arc::clone(&users).tell_history(delivery);
            consumers.push(bus.subscribe(listen(topic, SMALL_REQUESTS), Arc::new(handler)).await?);
        }
        Ok(Self { consumers })
    }

    /// Takes no more messages, and waits up to `grace` for turns that are under way. What is left
    /// goes back to the queue, and on with another process.
    pub async fn stop(self, grace: Duration) {
        join_all(self.consumers.into_iter().map(|consumer| consumer.stop(grace))).await;
    }
}

/// Tells users on the bus what the agent says. Clones are the same.
#[derive(Clone)]
pub struct UserReplies {
    bus: Arc<dyn Bus>,
    name: AgentName,
}

struct Users {
    deps: BusUsersDeps,
    replies: UserReplies,
    lines: SessionLines,
}

/// Turns of one session wait for each other in the order in which they came.
#[derive(Default)]
struct SessionLines(Mutex<HashMap<SessionRef, Weak<SessionLine>>>);

type SessionLine = tokio::sync::Mutex<()>;

impl SessionLines {
    fn of(&self, session: SessionRef) -> Arc<SessionLine> {
        let mut lines = self.0.lock();
        lines.retain(|_, line| line.strong_count() > 0);
        if let Some(line) = lines.get(&session).and_then(Weak::upgrade) {
            return line;
        }
        let line = Arc::default();
        lines.insert(session, Arc::downgrade(&line));
        line
    }
}

impl Users {
    async fn answer(self: Arc<Self>, delivery: Delivery) -> Disposition {
        let envelope = delivery.envelope;
        let said = match read::<UserMessage>(&envelope) {
            Ok(said) => said,
            Err(refused) => return refused,
        };
        delivery.dead_letter_body.release();
        let envelope = Envelope { body: Default::default(), ..envelope };
        if !self.is_meant(&envelope, said.target_agent.as_deref()) {
            return Disposition::Ack;
        }

        let content = match SessionId::parse(&said.session_id) {
            Ok(_) if said.content.len() > SAID_BYTES_MAX => {
                format!("Error: the message is over the limit of {SAID_BYTES_MAX} bytes")
            }
            Ok(session) => self.turn(&envelope, &said, session).await,
            Err(error) => format!("Error: {error}"),
        };
        self.reply(&envelope, &said.session_id, content, true).await;
        Disposition::Ack
    }

    /// One turn, to the text of its answer.
    async fn turn(&self, envelope: &Envelope, said: &UserMessage, session: SessionId) -> String {
        let agent = &self.deps.agent;
        let principal = Principal::claimed(&format!("{}/{}", envelope.source, said.user_id));
        let stop = CancellationToken::new();
        let scope = agent.turn_scope(&[Door::Bus, Door::Turn], &self.deps.name, principal, session);
        let scope = Arc::new(Scope { cancelled: stop.clone(), ..scope });
        let line = match SessionRef::of(&scope) {
            Ok(session) => self.lines.of(session),
            Err(error) => return format!("Error: {error}"),
        };

        let turn = async {
            let _turn = line.lock().await;
            self.say(envelope, said, &scope).await
        };
        let mut turn = std::pin::pin!(turn);
        tokio::select! {
            report = &mut turn => answer_of(report),
            () = tokio::time::sleep(TURN_TIMEOUT) => {
                stop.cancel();
                // It is written down that it was cancelled.
                let _ = tokio::time::timeout(REPLY_BACKOFF, turn).await;
                format!("Error: the turn took longer than {} minutes", TURN_TIMEOUT.as_secs() / 60)
            }
        }
    }

    async fn say(
        &self,
        envelope: &Envelope,
        said: &UserMessage,
        scope: &Arc<Scope>,
    ) -> Result<TurnReport, Error> {
        let (tell, told) = channel(TOLD_WAITING_MAX);
        // It ends what is told when it ends.
        let turn = async move {
            let teller = Teller { text: Mutex::default(), tell };
            let on_event = |event| teller.hear(event);
            loop {
                let context = TurnContext {
                    scope: Arc::clone(scope),
                    asker: Asker::none(),
                    on_event: &on_event,
                };
                let id = Some(envelope.message_id.clone());
                let said = Said::by_person(said.content.clone(), id);

                match self.deps.agent.say(context, said).await {
                    // Another process has a turn in it, which will end.
                    Err(Error::Busy(_)) if !scope.cancelled.is_cancelled() => {}
                    report => return report,
                }
            }
        };
        join(turn, self.tell(envelope, &said.session_id, told)).await.0
    }

    /// Tells the user what the agent says before it has an answer.
    async fn tell(&self, to: &Envelope, session: &str, mut told: Receiver<String>) {
        while let Some(text) = told.recv().await {
            self.reply(to, session, text, false).await;
        }
    }

    async fn take_feedback(self: Arc<Self>, delivery: Delivery) -> Disposition {
        let envelope = &delivery.envelope;
        let feedback = match read::<UserFeedback>(envelope) {
            Ok(feedback) => feedback,
            Err(refused) => return refused,
        };
        if !self.is_meant(envelope, feedback.agent_name.as_deref()) {
            return Disposition::Ack;
        }

        let rated = async {
            let Ok(session) = SessionId::parse(&feedback.session_id) else { return Ok(()) };
            let sessions = self.deps.agent.sessions();
            let found =
                sessions.find_claimed(&self.deps.name, &users_of(envelope), &session).await?;
            let Some(at) = found else { return Ok(()) };
            self.deps.agent.rate(&at, feedback.message_id, feedback.is_positive).await
        };
        if let Err(error) = rated.await {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "what a user thinks of an answer is not kept");
        }
        Disposition::Ack
    }

    async fn tell_history(self: Arc<Self>, delivery: Delivery) -> Disposition {
        let envelope = &delivery.envelope;
        let request = match read::<ConversationHistoryRequest>(envelope) {
            Ok(request) => request,
            Err(refused) => return refused,
        };
        if !self.is_meant(envelope, None) {
            return Disposition::Ack;
        }
        let Some(reply_to) = &envelope.reply_to else {
            return Disposition::DeadLetter { reason: "it names no reply topic".into() };
        };

        let exchanges = async {
            let Ok(session) = SessionId::parse(&request.session_id) else { return Ok(Vec::new()) };
            let sessions = self.deps.agent.sessions();
            let found =
                sessions.find_claimed(&self.deps.name, &users_of(envelope), &session).await?;
            let Some(at) = found else { return Ok(Vec::new()) };
            sessions.exchanges(&at).await
        };
        let exchanges = exchanges.await.unwrap_or_else(|error: Error| {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "what was said in a session cannot be told");
            Vec::new()
        });
        let response = ConversationHistoryResponse { turns: turns_of(exchanges) };
        let response = envelope.reply(&response, self.deps.name.as_str());
        self.replies.publish(reply_to, response).await;
        Disposition::Ack
    }

    /// Whether a message is for this agent, or for any.
    fn is_meant(&self, envelope: &Envelope, target: Option<&str>) -> bool {
        let names = [envelope.destination.as_deref(), target];
        let is_other = |name: &str| !name.eq_ignore_ascii_case(self.deps.name.as_str());
        !names.into_iter().flatten().any(|name| !name.is_empty() && is_other(name))
    }

    async fn reply(&self, to: &Envelope, session: &str, content: String, is_final: bool) {
        let reply = self.replies.message(session, content, is_final);
        let mut envelope = to.reply(&reply, self.deps.name.as_str());
        if is_final {
            envelope.message_id = reply_id(&to.message_id);
        }
        let topic = to.reply_to.clone().unwrap_or(topic::USER_RESPONSE);
        self.replies.publish(&topic, envelope).await;
    }
}

impl UserReplies {
    /// Replies of the agent of this name.
    #[must_use]
    pub fn new(bus: Arc<dyn Bus>, name: AgentName) -> Self {
        Self { bus, name }
    }

    /// Tells how a turn ended that began by itself, under this id, in a session of this principal.
    /// Nobody is told where that is no user on the bus, or the session is none of theirs.
    pub async fn tell(&self, principal: &Principal, session: &SessionId, id: &str, end: TurnEnd) {
        let is_user = principal.proof == Proof::Claimed && principal.name.contains('/');
        if !is_user || sessions::is_inner(session) {
            return;
        }
        let reply = self.message(session.as_str(), text_of(end), true);
        let mut envelope = Envelope::of(&reply, self.name.as_str());
        envelope.message_id = reply_id(id);
        self.publish(&topic::USER_RESPONSE, envelope).await;
    }

    fn message(&self, session: &str, content: String, is_final: bool) -> AgentReply {
        AgentReply {
            content,
            session_id: session.to_owned(),
            agent_name: self.name.to_string(),
            is_final,
            structured_data: None,
            content_type: None,
        }
    }

    /// Publishes what a user waits for, again where an outage may have swallowed it.
    async fn publish(&self, topic: &Topic, envelope: Envelope) {
        for attempt in 1.. {
            match self.bus.publish(topic, envelope.clone()).await {
                Ok(()) => return,
                Err(PublishError::Unroutable(topic)) => {
                    tracing::info!(%topic, "a user who was answered is gone");
                    return;
                }
                Err(PublishError::Unavailable(_) | PublishError::Unconfirmed)
                    if attempt < REPLY_ATTEMPTS_MAX =>
                {
                    tokio::time::sleep(REPLY_BACKOFF).await;
                }
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "a user is not answered");
                    return;
                }
            }
        }
    }
}

/// Gathers what the agent says, and tells it when calls follow: then it is not the answer.
struct Teller {
    text: Mutex<String>,
    tell: Sender<String>,
}

impl Teller {
    fn hear(&self, event: TurnEvent) {
        match event {
            TurnEvent::Model(ModelEvent::Text { delta }) => {
                let mut text = self.text.lock();
                if text.len() + delta.len() <= TOLD_BYTES_MAX {
                    text.push_str(&delta);
                }
            }
            TurnEvent::CallBegun { .. } => {
                let text = std::mem::take(&mut *self.text.lock());
                if !text.trim().is_empty() {
                    // What nobody can be told in time is left out: the answer is what counts.
                    let _ = self.tell.try_send(text);
                }
            }
            _ => {}
        }
    }
}

/// Reads a message, or says what becomes of one that cannot be read.
fn read<T: Message>(envelope: &Envelope) -> Result<T, Disposition> {
    if !message::is::<T>(envelope) {
        let reason = format!("unknown message type '{}'", envelope.message_type).into();
        return Err(Disposition::DeadLetter { reason });
    }
    message::read(envelope)
        .map_err(|error| Disposition::DeadLetter { reason: error.to_string().into() })
}

/// What the claimed names of the users of a program begin with.
fn users_of(envelope: &Envelope) -> String {
    format!("{}/", envelope.source)
}

/// The id of the reply to a message: the same when it has to be sent again.
fn reply_id(message: &str) -> String {
    let mut digest = sha256_hex(&format!("{message}\nreply"));
    digest.truncate(32);
    digest
}

/// What a user is told of a turn.
fn text_of(end: TurnEnd) -> String {
    end.into_answer().unwrap_or_else(|end| match end {
        TurnEnd::Failed { reason } => format!("Error: {reason}"),
        _ => "Error: the turn was cancelled".to_owned(),
    })
}

/// The text of an answer.
fn answer_of(report: Result<TurnReport, Error>) -> String {
    match report {
        Ok(report) => text_of(report.end),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::warn!(error, "a turn cannot be had");
            format!("Error: {error}")
        }
    }
}

/// The last of what was said, as far as it fits.
fn turns_of(exchanges: Vec<Exchange>) -> Vec<ConversationTurn> {
    let mut bytes = 0;
    let fits = |exchange: &Exchange| {
        bytes += exchange.text.len();
        bytes <= HISTORY_BYTES_MAX
    };
    let last = exchanges.into_iter().rev().take(HISTORY_MAX).take_while(fits);
    let mut turns: Vec<_> = last.map(turn_of).collect();
    turns.reverse();
    turns
}

fn turn_of(exchange: Exchange) -> ConversationTurn {
    let role = match exchange.side {
        Side::User => "user",
        Side::Agent => "assistant",
    };
    let at = jiff::Timestamp::from_millisecond(exchange.at_ms).unwrap_or_default();
    ConversationTurn { role: role.to_owned(), content: exchange.text, timestamp: at.to_string() }
}
