//! What runs a session: it asks the model, makes the calls, and writes down what happens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use serde::Serialize;
use serde_json::Value;
use tokio::time::{MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;
use toolbus_bus::Asker;
use toolbus_models::completion::{Completion, StopReason, TokenUsage};
use toolbus_models::error::{ErrorKind, ModelError};
use toolbus_models::message::{CallArguments, ModelCall, ToolResult};
use toolbus_models::model::{Model, ModelEvent};
use toolbus_models::request::ModelRequest;
use toolbus_policy::SessionOwner;
use toolbus_tools::call::{Arguments, Call, Outcome, Output};
use toolbus_tools::id::{RunId, SessionId, ToolName};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Budget, CallError, Door, ForeignText, Invoker, Lineage, Principal, Scope};
use toolbus_wire::ErrorCode;
use toolbus_wire::name::AgentName;
use tracing::Instrument as _;

use crate::context::ContextBuilder;
use crate::conversation::{ANSWERS_BREAK, Effect, Event, Occasion, TurnEnd};
use crate::notices::{Inbox, Notice, Noticed, Posted, TurnsUnderWay};
use crate::people::PeopleServed;
use crate::runs::{RunWork, Runs};
use crate::said::Said;
use crate::sessions::{
    EarlierTurn, Error, LEASE_RENEW_INTERVAL, OpenSession, SessionRef, Sessions,
};
use crate::spans::turn_span;

/// An agent. Clones are the same.
#[derive(Clone)]
pub struct Agent {
    deps: Arc<AgentDeps>,
    people: PeopleServed,
    turns: TurnsUnderWay,
    runs: Runs,
}

/// What an agent works with.
pub struct AgentDeps {
    /// Makes its calls.
    pub invoker: Invoker,
    /// Answers.
    pub model: Arc<dyn Model>,
    /// Keeps what was said.
    pub sessions: Sessions,
    /// Says what the model is told beside the session.
    pub context: Arc<ContextBuilder>,
}

/// What happens in a turn, for who looks on.
#[derive(Debug, Clone, PartialEq)]
pub enum TurnEvent {
    /// Something that the model tells while it answers.
    Model(ModelEvent),
    /// A call begins.
    CallBegun {
        /// Its id.
        id: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A call came to its end.
    CallEnded {
        /// Its id.
        id: String,
        /// The tool.
        tool: String,
        /// What the model reads.
        text: String,
        /// Whether it failed.
        is_error: bool,
        /// How long it took.
        took: Duration,
    },
}

/// A turn as it ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TurnReport {
    /// How it ended.
    #[serde(flatten)]
    pub end: TurnEnd,
    /// What the model took.
    pub usage: TokenUsage,
}

/// Who is told what happens. It must not block.
pub type OnTurnEvent<'a> = &'a (dyn Fn(TurnEvent) + Send + Sync);

/// Whose turn it is, and who looks on.
#[derive(Clone)]
pub struct TurnContext<'a> {
    /// Who speaks, in which session, and within which bounds. When it is cancelled, the turn ends.
    pub scope: Arc<Scope>,
    /// Answers the questions of calls, such as whether they may run.
    pub asker: Asker,
    /// Is told what happens.
    pub on_event: OnTurnEvent<'a>,
}

impl Agent {
    /// An agent that works with these.
    #[must_use]
    pub fn new(deps: AgentDeps) -> Self {
        Self {
            runs: Runs::new(deps.sessions.store().clone()),
            deps: Arc::new(deps),
            people: PeopleServed::default(),
            turns: TurnsUnderWay::default(),
        }
    }

    /// The same agent, for which this model answers. Its turns are those of the same agent.
    #[must_use]
    pub fn with_model(&self, model: Arc<dyn Model>) -> Self {
        let AgentDeps { invoker, model: _, sessions, context } = &*self.deps;
        let (invoker, sessions) = (invoker.clone(), sessions.clone());
        let deps = AgentDeps { invoker, model, sessions, context: Arc::clone(context) };
        Self { deps: Arc::new(deps), ..self.clone() }
    }

    /// The model that answers.
    #[must_use]
    pub fn model(&self) -> &Arc<dyn Model> {
        &self.deps.model
    }

    /// Whether a turn of this principal is under way in this process that nobody scheduled.
    #[must_use]
    pub fn is_serving(&self, principal: &Principal) -> bool {
        self.people.is_serving(principal)
    }

    /// The sessions.
    #[must_use]
    pub fn sessions(&self) -> &Sessions {
        &self.deps.sessions
    }

    /// Says something in the session of a scope, and has the model answer. A turn that was
    /// interrupted before is brought to its end first.
    ///
    /// # Errors
    /// When the session is in use elsewhere, or cannot be kept.
    pub async fn say(
        &self,
        context: TurnContext<'_>,
        said: impl Into<Said>,
    ) -> Result<TurnReport, Error> {
        let said = said.into();
        let _serving = self.people.begin(&context.scope);
        let turn = async {
            let mut turn = self.open_turn(&context).await?;
            let hint = self.deps.context.hint(&context.scope, said.words.text()).await;
            let report = turn.say(said, hint).await;
            turn.close().await;
            report
        };
        turn.instrument(turn_span(&context.scope)).await
    }

    /// Tells the session of a scope something that happened beside it, once: the turn that is under
    /// way in this process, or else one that is begun for it.
    ///
    /// # Errors
    /// As of [`say`](Agent::say).
    pub async fn notify(&self, context: TurnContext<'_>, notice: Notice) -> Result<Noticed, Error> {
        let at = SessionRef::of(&context.scope)?;
        if self.turns.post(&at, notice.clone()).await {
            return Ok(Noticed::InTurn);
        }

        let turn = async {
            let mut turn = self.open_turn(&context).await?;
            let Notice { id, text } = notice;
            if turn.session.was_noticed(&id) {
                turn.close().await;
                return Ok(Noticed::InTurn);
            }
            let said = Said::from_outside(Occasion::Notice, text, id);
            let report = turn.say(said, None).await;
            turn.close().await;
            report.map(Noticed::Turn)
        };
        turn.instrument(turn_span(&context.scope)).await
    }

    /// Tells a session something without beginning a turn: what no turn takes that is under way in
    /// this process is told in the next one.
    ///
    /// # Errors
    /// As of [`say`](Agent::say).
    pub async fn note(&self, at: &SessionRef, notice: Notice) -> Result<(), Error> {
        if self.turns.post(at, notice.clone()).await {
            return Ok(());
        }
        let mut session = self.deps.sessions.open(at).await?;
        let recorded = session.record_notice(notice).await;
        session.close().await;
        recorded.map(|_| ())
    }

    /// Tells the turn that is under way in a session in this process, if there is one. `false`:
    /// there is none, or it takes no more notices.
    pub async fn notify_turn(&self, at: &SessionRef, notice: Notice) -> bool {
        self.turns.post(at, notice).await
    }

    /// Waits until a turn of the session is under way in this process.
    pub async fn until_turn(&self, at: &SessionRef) {
        self.turns.until_begun(at).await;
    }

    /// Brings the turn to its end that was interrupted in the session of a scope. `None`: there is
    /// none.
    ///
    /// # Errors
    /// As of [`say`](Agent::say).
    pub async fn resume(&self, context: TurnContext<'_>) -> Result<Option<TurnReport>, Error> {
        let turn = async {
            let mut turn = self.open_turn(&context).await?;
            let report = turn.resume().await;
            turn.close().await;
            report
        };
        turn.instrument(turn_span(&context.scope)).await
    }

    /// Writes down what a user thinks of an answer in a session. The model is told in the next
    /// turn.
    ///
    /// # Errors
    /// As of [`say`](Agent::say).
    pub async fn rate(
        &self,
        at: &SessionRef,
        message: String,
        is_positive: bool,
    ) -> Result<(), Error> {
        let mut session = self.deps.sessions.open(at).await?;
        let recorded = session.record(Event::Rated { message, is_positive }).await;
        session.close().await;
        recorded.map(|_| ())
    }

    /// Creates the scope for turns of an agent that a principal has in this session. `doors` lists
    /// the doors that the request came through; the last one is the door of the scope. The calls of
    /// the turn also come through [`Door::Turn`].
    ///
    /// # Panics
    /// If there is no door.
    #[must_use]
    pub fn turn_scope(
        &self,
        doors: &[Door],
        agent: &AgentName,
        principal: Principal,
        session: SessionId,
    ) -> Scope {
        let door = *doors.last().expect("a turn comes in by a door");
        let scope = Scope::new(door, principal, agent.clone());
        let scope = in_turn(scope.with_earlier_doors(DoorSet::of(doors)));
        self.deps.invoker.begin_run(scope.with_session(Some(session)))
    }

    /// Restores the scope that work was begun in, for turns in the session of its owner: it sees,
    /// reaches and spends no more than that. All work of a run spends of one account.
    ///
    /// # Errors
    /// When no scope has such a lineage, or the state cannot be read.
    pub async fn restore_scope(
        &self,
        lineage: &Lineage,
        owner: SessionOwner,
    ) -> Result<Scope, Error> {
        let account = self.runs.account(lineage).await?;
        let SessionOwner { agent, principal, session } = owner;
        Ok(lineage.clone().restore(principal, agent, Some(session), account)?)
    }

    /// Creates the scope of a run that begins now, of work that was begun in another run: it sees
    /// and reaches no more than that one, came through its doors, this one and [`Door::Turn`], and
    /// has a budget of its own.
    ///
    /// # Errors
    /// When no scope has such a lineage.
    pub fn begin_scope(
        &self,
        lineage: &Lineage,
        door: Door,
        owner: SessionOwner,
    ) -> Result<Scope, Error> {
        let SessionOwner { agent, principal, session } = owner;
        let lineage = lineage.clone().for_new_runs();
        let scope = lineage.restore(principal, agent, Some(session), Budget::unlimited())?;
        let scope = Scope { door, run: RunId::random(), ..scope };
        Ok(self.deps.invoker.begin_run(in_turn(scope.through(DoorSet::of(&[door])))))
    }

    /// Counts a turn that a notice begins in the run of this lineage. Returns false if the run has
    /// had its last one; such a notice is for [`note`](Agent::note).
    ///
    /// # Errors
    /// When the state cannot be written.
    pub async fn may_begin_notice_turn(&self, lineage: &Lineage) -> Result<bool, Error> {
        let max = self.deps.sessions.limits().notice_turns_max;
        Ok(self.runs.count_notice_turn(lineage.run(), max).await?)
    }

    async fn open_turn<'a>(&'a self, context: &'a TurnContext<'a>) -> Result<Turn<'a>, Error> {
        let at = SessionRef::of(&context.scope)?;
        let session = self.deps.sessions.open(&at).await?;
        let inbox = self.turns.begin(at);
        let work = self.runs.begin(&context.scope);
        Ok(Turn {
            deps: &self.deps,
            runs: &self.runs,
            context,
            scope: Arc::new(in_turn(Scope::clone(&context.scope))),
            session,
            inbox,
            work: vec![work],
            usage: TokenUsage::default(),
            exhausted: None,
        })
    }
}

/// Adds the door of turns to a scope, after the doors that it came through before.
fn in_turn(scope: Scope) -> Scope {
    scope.through(DoorSet::of(&[Door::Turn]))
}

/// A turn that is under way.
struct Turn<'a> {
    deps: &'a AgentDeps,
    runs: &'a Runs,
    context: &'a TurnContext<'a>,
    /// The scope of the turn: that of the context, or the one that an interrupted turn was begun
    /// in. Rules for turns apply to it, whatever began the turn.
    scope: Arc<Scope>,
    session: OpenSession,
    inbox: Inbox,
    /// The runs that it works for.
    work: Vec<RunWork>,
    usage: TokenUsage,
    /// Why no more is asked of the model.
    exhausted: Option<String>,
}

/// Something that was done.
enum Done {
    Answered(Result<Completion, ModelError>),
    Called(CallEnd),
}

struct CallEnd {
    call: ModelCall,
    result: ToolResult,
    timed_out: bool,
    took: Duration,
}

impl<'a> Turn<'a> {
    /// Lets the session go. Notices that come from here on are not this turn's.
    async fn close(self) {
        let Self { session, inbox, work, .. } = self;
        drop(inbox);
        session.close().await;
        for work in work {
            work.end().await;
        }
    }

    async fn say(&mut self, said: Said, hint: Option<ForeignText>) -> Result<TurnReport, Error> {
        let earlier = said.id.as_deref().and_then(|id| self.session.earlier_turn(id));
        if let Some(EarlierTurn::Ended(end)) = earlier {
            return Ok(TurnReport { end, usage: self.usage });
        }
        let resumed = self.resume().await?;
        if let (Some(EarlierTurn::UnderWay), Some(report)) = (earlier, resumed) {
            return Ok(report);
        }

        self.usage = TokenUsage::default();
        let event = said.into_event(hint, Lineage::of(&self.scope));
        let effects = self.session.record(event).await?;
        self.session.leave_with_turn();
        self.run(effects).await
    }

    /// Goes on with a turn that another process has begun. Calls that had begun and have no result
    /// are made again where that does no harm.
    async fn resume(&mut self) -> Result<Option<TurnReport>, Error> {
        let mut effects = self.session.conversation().outstanding();
        if effects.is_empty() {
            return Ok(None);
        }

        let mut lost = Vec::new();
        effects.retain(|effect| match effect {
            Effect::Call(call) if self.may_change(call) => {
                lost.push(call.id.clone());
                false
            }
            _ => true,
        });
        for id in lost {
            let result = ToolResult::failure(id, INTERRUPTED);
            let event = Event::CallEnded { result, timed_out: false };
            effects.extend(self.session.record(event).await?);
        }

        let scope = self.scope_begun_in().await?;
        let own = std::mem::replace(&mut self.scope, scope);
        let ended = self.run(effects).await;
        self.scope = own;
        ended.map(Some)
    }

    /// The scope that the interrupted turn was begun in. Whoever brings it to its end, it goes on
    /// with that.
    async fn scope_begun_in(&mut self) -> Result<Arc<Scope>, Error> {
        let Some(lineage) = self.session.lineage().cloned() else {
            return Ok(Arc::clone(&self.scope));
        };

        // Work of one run may differ in doors, view and artifacts, and spends of one account.
        let is_same_run = lineage.run() == self.scope.run.as_str();
        let account = match is_same_run {
            true => self.scope.budget.run_account(),
            false => self.runs.account(&lineage).await?,
        };
        let Scope { principal, agent, session, cancelled, .. } = &*self.scope;
        let (principal, agent, session) = (principal.clone(), agent.clone(), session.clone());
        let scope = lineage.restore(principal, agent, session, account)?;
        // A turn that an earlier version began may lack the door.
        let scope = Scope { cancelled: cancelled.clone(), ..in_turn(scope) };
        if !is_same_run {
            self.work.push(self.runs.begin(&scope));
        }
        Ok(Arc::new(scope))
    }

    async fn run(&mut self, effects: Vec<Effect>) -> Result<TurnReport, Error> {
        let mut working: FuturesUnordered<BoxFuture<'a, Done>> = FuturesUnordered::new();
        let first = Instant::now() + LEASE_RENEW_INTERVAL;
        let mut renewing = interval_at(first.into(), LEASE_RENEW_INTERVAL);
        renewing.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let stop = self.scope.cancelled.child_token();
        let mut effects = effects;

        loop {
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Ask { with_tools } => match self.exhausted.take() {
                        Some(reason) => {
                            let failed = Event::ModelFailed { reason, said: String::new() };
                            effects.extend(self.session.record(failed).await?);
                        }
                        None => working.push(self.ask(with_tools)),
                    },
                    Effect::Call(call) => working.push(self.call(call, &stop)),
                    Effect::Stop => {
                        stop.cancel();
                        working.clear();
                    }
                    Effect::End(end) => return Ok(TurnReport { end, usage: self.usage }),
                }
            }
            if !effects.is_empty() {
                continue;
            }

            effects = tokio::select! {
                Some(done) = working.next() => {
                    let event = self.event_of(done);
                    let is_whole = is_whole_answer(&event);
                    if matches!(event, Event::Answered { .. }) {
                        self.keep_spent().await;
                    }
                    let effects = self.session.record(event).await?;
                    // It is asked again for what it did not know.
                    if is_whole && effects.iter().any(|effect| matches!(effect, Effect::Ask { .. })) {
                        let delta = ANSWERS_BREAK.to_owned();
                        (self.context.on_event)(TurnEvent::Model(ModelEvent::Text { delta }));
                    }
                    effects
                }
                () = self.scope.cancelled.cancelled() => self.session.record(Event::Cancelled).await?,
                Some(posted) = self.inbox.next() => self.take_notice(posted).await?,
                _ = renewing.tick() => {
                    self.session.renew().await?;
                    Vec::new()
                }
            };
        }
    }

    /// Writes down what was spent so far, before what it was spent for: another process that goes
    /// on with this turn has no budget anew.
    async fn keep_spent(&self) {
        for work in &self.work {
            work.keep().await;
        }
    }

    /// Writes a notice down, unless the session was told before or takes no more.
    async fn take_notice(&mut self, posted: Posted) -> Result<Vec<Effect>, Error> {
        let Posted { notice, taken } = posted;
        match self.session.record_notice(notice).await {
            Ok(effects) => {
                // Who has told it may be gone.
                let _ = taken.send(true);
                Ok(effects)
            }
            Err(Error::OutOfTurn(_)) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Asks the model.
    fn ask(&self, with_tools: bool) -> BoxFuture<'a, Done> {
        let (deps, context, scope) = (self.deps, self.context, Arc::clone(&self.scope));
        let messages = self.session.conversation().messages().to_vec();
        async move {
            let request: ModelRequest =
                deps.context.request(&deps.invoker, &scope, messages, with_tools);
            let mut tell = |event| (context.on_event)(TurnEvent::Model(event));
            Done::Answered(deps.model.complete(&request, &mut tell).await)
        }
        .boxed()
    }

    /// Makes a call.
    fn call(&self, call: ModelCall, stop: &CancellationToken) -> BoxFuture<'a, Done> {
        let (deps, context, scope) = (self.deps, self.context, Arc::clone(&self.scope));
        let id = self.session.call_id(&call.id);
        let stop = stop.clone();
        async move {
            let arguments = call.arguments.value().cloned().unwrap_or_default();
            (context.on_event)(TurnEvent::CallBegun {
                id: call.id.clone(),
                tool: call.name.clone(),
                arguments: arguments.clone(),
            });

            let began = Instant::now();
            let outcome = match ToolName::parse(&call.name) {
                Ok(tool) => {
                    let arguments = Arguments::Value(arguments);
                    let made = Call::new(&scope, id, tool, arguments)
                        .with_cancelled(stop)
                        .with_asker(context.asker.clone());
                    deps.invoker.invoke(made).await
                }
                Err(error) => Err(CallError::new(ErrorCode::ToolNotFound, error.to_string())),
            };
            let timed_out = matches!(&outcome, Err(error) if error.code == ErrorCode::Timeout);
            let result = result_of(&call.id, outcome);
            Done::Called(CallEnd { call, result, timed_out, took: began.elapsed() })
        }
        .boxed()
    }

    fn event_of(&mut self, done: Done) -> Event {
        match done {
            Done::Called(CallEnd { call, result, timed_out, took }) => {
                (self.context.on_event)(TurnEvent::CallEnded {
                    id: call.id,
                    tool: call.name,
                    text: result.text.clone(),
                    is_error: result.is_error,
                    took,
                });
                Event::CallEnded { result, timed_out }
            }

            Done::Answered(Ok(completion)) => {
                self.count(completion.usage);
                Event::Answered { completion }
            }
            Done::Answered(Err(error))
                if matches!(error.kind, ErrorKind::ContextTooLong { .. }) =>
            {
                Event::TooLong
            }
            Done::Answered(Err(error)) => {
                let reason = error.to_string();
                let said = error.partial.map(|partial| {
                    self.count(partial.usage);
                    partial.text()
                });
                Event::ModelFailed { reason, said: said.unwrap_or_default() }
            }
        }
    }

    /// Counts what an answer took, and remembers where that was more than there is.
    fn count(&mut self, usage: TokenUsage) {
        let is_first = self.usage == TokenUsage::default();
        let used = if is_first { usage.of_turn() } else { usage.of_request() };
        self.usage = self.usage.plus(usage);
        if let Err(exceeded) = self.scope.budget.add_usage(used) {
            self.exhausted = Some(exceeded.to_string());
        }
    }

    /// Whether a call may change something if it is made again, as far as its tool says.
    fn may_change(&self, call: &ModelCall) -> bool {
        let CallArguments::Json { value: Value::Object(arguments) } = &call.arguments else {
            return false;
        };
        self.deps.invoker.registry().snapshot().may_change(&call.name, arguments)
    }
}

/// Whether the model has said something, and nothing is left of that.
fn is_whole_answer(event: &Event) -> bool {
    let Event::Answered { completion: Completion { message, stop, .. } } = event else {
        return false;
    };
    let is_cut = *stop == StopReason::MaxTokens;
    !is_cut && message.calls().next().is_none() && !message.text().is_empty()
}

/// The result of a call that had begun when its process ended.
const INTERRUPTED: &str = "Error: the agent was interrupted while this call was under way, and nobody \
     knows whether it was made. Look before you call it again.";

/// What the model reads of an outcome.
fn result_of(id: &str, outcome: Outcome) -> ToolResult {
    match outcome {
        Ok(output) if output.is_error => {
            ToolResult::failure(id, format!("Error: {}", text_of(&output)))
        }
        Ok(output) => ToolResult::success(id, text_of(&output)),
        Err(error) => ToolResult::failure(id, format!("Error: {}", error.message)),
    }
}

/// The text of an output, or else its value.
fn text_of(output: &Output) -> String {
    let text = output.to_text();
    match &output.structured {
        Some(value) if text.trim().is_empty() => value.text().to_owned(),
        _ => text.into_owned(),
    }
}
