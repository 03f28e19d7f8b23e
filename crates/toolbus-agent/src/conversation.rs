//! One session as a state machine.
//!
//! A turn begins with the words of a user or with a text from outside. The conversation asks the
//! model, makes all calls of an answer at the same time, and returns the results in the order of
//! the calls. It repeats this until the model answers without calls or a limit is reached.
//!
//! Invariants: between turns, and whenever the model is asked, each call that it made has a result
//! right behind it; a result is never taken away without its call; what is shown as the end of a
//! turn is among the messages; a message of the user is what a person said, or words of ours: text
//! from outside is the result of a call that is made for the model, between marks that carry the
//! nonce of the turn.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toolbus_models::completion::{Completion, StopReason};
use toolbus_models::message::{
    AssistantMessage, AssistantPart, CallArguments, Message, ModelCall, ToolResult,
};
use toolbus_models::outside::{NOTICES_TOOL, OutsideText};
use toolbus_tools::foreign_text::FOREIGN_BYTES_MAX;
use toolbus_tools::{ForeignText, Lineage, Nonce};

use crate::history::History;

/// What a turn may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnLimits {
    /// Rounds of calls. After them the model is asked for an answer, and offered no tools.
    pub rounds_max: u32,
    /// Rounds on end in which every call timed out. After them the same holds.
    pub timeout_rounds_max: u32,
    /// Calls of one answer that are made; the others are refused.
    pub calls_max: usize,
    /// How often an answer that was cut off at its length is continued.
    pub continuations_max: u32,
    /// How often the session is made shorter for a model that cannot read all of it.
    pub trims_max: u32,
    /// Notices that a turn takes, and as many between two turns.
    pub notices_max: usize,
    /// Turns of one run that notices begin. Later notices wait for the next turn of the session.
    pub notice_turns_max: u32,
}

impl Default for TurnLimits {
    fn default() -> Self {
        Self {
            rounds_max: 12,
            timeout_rounds_max: 2,
            calls_max: 64,
            continuations_max: 3,
            trims_max: 8,
            notices_max: 32,
            notice_turns_max: 100,
        }
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A person says something, or a text from outside begins a turn.
    Said {
        /// The text.
        text: String,
        /// The origin of the text. `None`: a person typed it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outside: Option<Outside>,
        /// The nonce of the turn. Rows of older releases have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nonce: Option<Nonce>,
        /// What the model is told beside it: services that may help.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<ForeignText>,
        /// The id of what is said, where it may come twice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
        /// The lineage of the turn, for the process that brings it to its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        lineage: Option<Lineage>,
    },
    /// Something happened beside the session. The model is told when it is asked next: before the
    /// turn ends, or in the next one.
    Noticed {
        /// The id of the notice.
        id: String,
        /// The source. Rows of older releases have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<ForeignText>,
        /// What the model is told.
        text: ForeignText,
    },
    /// A user says what they think of an answer. The model is told when it is asked next.
    Rated {
        /// The id of the answer.
        message: String,
        /// Whether it was of use.
        is_positive: bool,
    },
    /// The model answered.
    Answered {
        /// The answer.
        completion: Completion,
    },
    /// The model cannot read so much.
    TooLong,
    /// There is no answer, and none is to be had.
    ModelFailed {
        /// Why, in words for the user.
        reason: String,
        /// What it had said before that.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        said: String,
    },
    /// A call came to its end.
    CallEnded {
        /// The result, as the model reads it.
        result: ToolResult,
        /// Whether its time was over before it had ended.
        timed_out: bool,
    },
    /// The user does not want an answer any more.
    Cancelled,
}

/// Origin of a turn that no person began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outside {
    /// Kind of the text.
    pub occasion: Occasion,
    /// Source of the text.
    pub from: ForeignText,
}

/// Kinds of text from outside that can begin a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A notice of an event outside the session.
    Notice,
    /// A task that the agent scheduled.
    ScheduledTask,
    /// A task for a subagent.
    SubagentTask,
    /// A task from another agent.
    AgentTask,
}

impl Occasion {
    /// Returns the fixed words that the model reads before the text.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Notice => NEWS,
            Self::ScheduledTask => SCHEDULED,
            Self::SubagentTask => SUBAGENT,
            Self::AgentTask => ASKED_BY_AGENT,
        }
    }
}

impl Event {
    /// Creates the event of a person's message.
    pub fn said(text: impl Into<String>) -> Self {
        let (outside, nonce, hint, id, lineage) = (None, None, None, None, None);
        Self::Said { text: text.into(), outside, nonce, hint, id, lineage }
    }
}

/// Something to be done.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Ask the model, with the messages as they are now.
    Ask {
        /// Whether it is offered tools.
        with_tools: bool,
    },
    /// Make a call. All calls of one answer come together, and are made at the same time.
    Call(ModelCall),
    /// Stop the question or the calls that are under way: nobody waits for them.
    Stop,
    /// The turn is over.
    End(TurnEnd),
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "snake_case")]
pub enum TurnEnd {
    /// With an answer.
    Answered {
        /// All that the model said in the turn behind its last calls.
        text: String,
        /// What kept it from going on, where something did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limit: Option<TurnLimit>,
    },
    /// Without one.
    Failed {
        /// Why, in words for the user.
        reason: String,
    },
    /// It was cancelled.
    Cancelled,
}

impl TurnEnd {
    /// The answer, with what kept the model from going on where something did.
    ///
    /// # Errors
    /// The end, where it has none.
    pub fn into_answer(self) -> Result<String, Self> {
        match self {
            Self::Answered { text, limit: None } => Ok(text),
            Self::Answered { text, limit: Some(limit) } => {
                Ok(format!("{text}\n\n[{}]", limit.explanation()))
            }
            end => Err(end),
        }
    }
}

/// What kept a model from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnLimit {
    /// It had called tools in as many rounds as a turn has.
    Rounds,
    /// Its calls did nothing but time out.
    Timeouts,
    /// Its answer was cut off at its length.
    Length,
}

impl TurnLimit {
    /// What it means, for a person.
    #[must_use]
    pub fn explanation(self) -> &'static str {
        match self {
            Self::Rounds => "the agent had called tools in as many rounds as a turn has",
            Self::Timeouts => "the calls of the agent did nothing but time out",
            Self::Length => "the answer was cut off at its longest",
        }
    }
}

/// An event that cannot happen now. Nothing was changed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OutOfTurn {
    /// Somebody speaks while the turn before is under way.
    #[error("a turn is under way")]
    Busy,
    /// An answer that nobody waits for.
    #[error("nobody waits for that")]
    Unexpected,
}

/// A session: its messages, and the turn that is under way.
#[derive(Debug, Clone, Default)]
pub struct Conversation {
    history: History,
    turn: Option<Turn>,
    /// Whether the last answer was of use, where the user said so and the model was not told yet.
    rating: Option<bool>,
    /// What the model is to be told when it is asked next.
    notices: Vec<OutsideText>,
    /// Nonce of the current or last turn.
    nonce: Option<Nonce>,
    limits: TurnLimits,
}

#[derive(Debug, Clone, Default)]
struct Turn {
    rounds: u32,
    timeout_rounds: u32,
    continuations: u32,
    trims: u32,
    /// Set when the model was told to come to an end.
    limit: Option<TurnLimit>,
    /// What was said before answers that were cut off.
    said: String,
    /// The calls that are under way. `None`: the model is asked.
    calls: Option<Vec<PendingCall>>,
    /// How many notices there were.
    noticed: usize,
}

#[derive(Debug, Clone)]
struct PendingCall {
    id: String,
    end: Option<(ToolResult, bool)>,
}

impl Conversation {
    /// A session without messages.
    #[must_use]
    pub fn new(limits: TurnLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// What was said so far, as the model is to be told.
    #[must_use]
    pub fn messages(&self) -> &[Arc<Message>] {
        self.history.messages()
    }

    /// Whether a turn is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.turn.is_some()
    }

    /// What is to be done for the turn that is under way, for who goes on with a session that was
    /// interrupted: the question, or the calls that have not ended.
    #[must_use]
    pub fn outstanding(&self) -> Vec<Effect> {
        let Some(turn) = &self.turn else { return Vec::new() };
        let Some(calls) = &turn.calls else {
            return vec![Effect::Ask { with_tools: turn.limit.is_none() }];
        };
        let is_open = |id: &str| calls.iter().any(|call| call.id == id && call.end.is_none());
        let Some(Message::Assistant(answer)) = self.messages().last().map(|last| &**last) else {
            return Vec::new();
        };
        answer.calls().filter(|call| is_open(&call.id)).cloned().map(Effect::Call).collect()
    }

    /// Takes an event, and says what is to be done.
    ///
    /// # Errors
    /// [`OutOfTurn`] when it cannot happen now.
    pub fn apply(&mut self, event: Event) -> Result<Vec<Effect>, OutOfTurn> {
        match event {
            Event::Said { text, outside, nonce, hint, id: _, lineage: _ } => {
                self.begin(text, outside, nonce, hint)
            }
            Event::Noticed { id: _, from, text } => self.notice(from, text),

            Event::Rated { message: _, is_positive } => {
                self.rating = Some(is_positive);
                Ok(Vec::new())
            }
            Event::Answered { completion } => self.answered(completion),
            Event::TooLong => self.too_long(),
            Event::ModelFailed { reason, said } => {
                self.asked()?;
                if !said.is_empty() {
                    self.history.push(Message::Assistant(AssistantMessage::text_only(said)));
                }
                Ok(self.end(TurnEnd::Failed { reason }))
            }
            Event::CallEnded { result, timed_out } => self.call_ended(result, timed_out),
            Event::Cancelled => self.cancel(),
        }
    }

    fn begin(
        &mut self,
        text: String,
        outside: Option<Outside>,
        nonce: Option<Nonce>,
        hint: Option<ForeignText>,
    ) -> Result<Vec<Effect>, OutOfTurn> {
        if self.turn.is_some() {
            return Err(OutOfTurn::Busy);
        }

        let nonce = nonce.unwrap_or_else(Nonce::unknown);
        match outside {
            None => self.history.begin_turn(text),
            Some(Outside { occasion, from }) => {
                let text = ForeignText::new(&text, FOREIGN_BYTES_MAX);
                let item = OutsideText { from, text };
                self.history.begin_outside(occasion.words(), item, &nonce);
            }
        }
        self.nonce = Some(nonce);
        match self.rating.take() {
            Some(true) => self.tell(WAS_OF_USE),
            Some(false) => self.tell(WAS_OF_NO_USE),
            None => {}
        }

        if let Some(text) = hint {
            self.notices.insert(0, OutsideText { from: source_of(HINTS), text });
        }
        self.tell_notices();
        self.turn = Some(Turn::default());
        Ok(vec![Effect::Ask { with_tools: true }])
    }

    fn notice(
        &mut self,
        from: Option<ForeignText>,
        text: ForeignText,
    ) -> Result<Vec<Effect>, OutOfTurn> {
        let noticed = self.turn.as_ref().map_or(self.notices.len(), |turn| turn.noticed);
        if noticed >= self.limits.notices_max {
            return Err(OutOfTurn::Busy);
        }
        if let Some(turn) = &mut self.turn {
            turn.noticed += 1;
        }
        let from = from.unwrap_or_else(|| source_of(UNKNOWN));
        self.notices.push(OutsideText { from, text });
        Ok(Vec::new())
    }

    fn answered(&mut self, completion: Completion) -> Result<Vec<Effect>, OutOfTurn> {
        self.asked()?;
        let Completion { message, stop, .. } = completion;
        if message.calls().next().is_some() {
            return Ok(self.call(message));
        }

        let text = message.text();
        if !message.parts.is_empty() {
            self.history.push(Message::Assistant(message));
        }
        let limits = self.limits;
        let Some(turn) = &mut self.turn else { return Err(OutOfTurn::Unexpected) };
        turn.said.push_str(&text);
        let is_cut = stop == StopReason::MaxTokens;
        if is_cut && turn.continuations < limits.continuations_max {
            turn.continuations += 1;
            let with_tools = turn.limit.is_none();
            self.tell(CUT_OFF);
            return Ok(vec![Effect::Ask { with_tools }]);
        }

        if !self.notices.is_empty() {
            // The answer was given without knowing them.
            if !turn.said.is_empty() {
                turn.said.push_str(ANSWERS_BREAK);
            }
            let with_tools = turn.limit.is_none();
            self.tell_notices();
            return Ok(vec![Effect::Ask { with_tools }]);
        }

        let limit = turn.limit.or(is_cut.then_some(TurnLimit::Length));
        let text = std::mem::take(&mut turn.said);
        Ok(self.end(TurnEnd::Answered { text, limit }))
    }

    /// Makes the calls of an answer.
    fn call(&mut self, message: AssistantMessage) -> Vec<Effect> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        turn.said.clear();
        // It calls tools though it was offered none: what it said is all that there is.
        if let Some(limit) = turn.limit {
            let text = message.text();
            let parts = message.parts.into_iter();
            let parts = parts.filter(|part| !matches!(part, AssistantPart::Call(_))).collect();
            let message = AssistantMessage { parts };
            if !message.parts.is_empty() {
                self.history.push(Message::Assistant(message));
            }
            return self.end(TurnEnd::Answered { text, limit: Some(limit) });
        }

        turn.rounds += 1;
        let (mut pending, mut effects) = (Vec::new(), Vec::new());
        for (at, call) in message.calls().enumerate() {
            let refused = refusal(call, at, self.limits.calls_max);
            let end = refused.map(|text| (ToolResult::failure(&call.id, text), false));
            if end.is_none() {
                effects.push(Effect::Call(call.clone()));
            }
            pending.push(PendingCall { id: call.id.clone(), end });
        }
        turn.calls = Some(pending);
        self.history.push(Message::Assistant(message));
        effects.extend(self.end_round());
        effects
    }

    fn call_ended(
        &mut self,
        result: ToolResult,
        timed_out: bool,
    ) -> Result<Vec<Effect>, OutOfTurn> {
        let calls = self.turn.as_mut().and_then(|turn| turn.calls.as_mut());
        let calls = calls.ok_or(OutOfTurn::Unexpected)?;
        let is_it = |call: &&mut PendingCall| call.id == result.call_id && call.end.is_none();
        let call = calls.iter_mut().find(is_it).ok_or(OutOfTurn::Unexpected)?;
        call.end = Some((result, timed_out));
        Ok(self.end_round())
    }

    /// Gives the results back, once all are there.
    fn end_round(&mut self) -> Vec<Effect> {
        let limits = self.limits;
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let is_over =
            turn.calls.as_ref().is_some_and(|calls| calls.iter().all(|call| call.end.is_some()));
        if !is_over {
            return Vec::new();
        }

        let ends = turn.calls.take().unwrap_or_default().into_iter().filter_map(|call| call.end);
        let (results, timed_out): (Vec<_>, Vec<_>) = ends.unzip();
        turn.timeout_rounds =
            if timed_out.iter().all(|timed_out| *timed_out) { turn.timeout_rounds + 1 } else { 0 };
        turn.limit = if turn.timeout_rounds >= limits.timeout_rounds_max {
            Some(TurnLimit::Timeouts)
        } else if turn.rounds >= limits.rounds_max {
            Some(TurnLimit::Rounds)
        } else {
            None
        };
        let limit = turn.limit;
        self.history.push(Message::Results { results });
        self.tell_notices();
        match limit {
            Some(TurnLimit::Timeouts) => self.tell(ALL_TIMED_OUT),
            Some(_) => self.tell(OUT_OF_ROUNDS),
            None => {}
        }
        vec![Effect::Ask { with_tools: limit.is_none() }]
    }

    fn too_long(&mut self) -> Result<Vec<Effect>, OutOfTurn> {
        self.asked()?;
        let trims_max = self.limits.trims_max;
        let Some(turn) = &mut self.turn else { return Err(OutOfTurn::Unexpected) };
        turn.trims += 1;
        let (with_tools, is_last) = (turn.limit.is_none(), turn.trims > trims_max);
        if is_last || !self.history.shorten() {
            let reason = TOO_LONG.to_owned();
            return Ok(self.end(TurnEnd::Failed { reason }));
        }
        Ok(vec![Effect::Ask { with_tools }])
    }

    /// Ends the turn where it is. Calls that have not ended get a result that says so, for no model
    /// takes calls without results.
    fn cancel(&mut self) -> Result<Vec<Effect>, OutOfTurn> {
        let turn = self.turn.as_mut().ok_or(OutOfTurn::Unexpected)?;
        if let Some(calls) = turn.calls.take() {
            let ends = calls.into_iter().map(|call| match call.end {
                Some((result, _)) => result,
                None => ToolResult::failure(call.id, CANCELLED),
            });
            let results = ends.collect();
            self.history.push(Message::Results { results });
        }
        let mut effects = vec![Effect::Stop];
        effects.extend(self.end(TurnEnd::Cancelled));
        Ok(effects)
    }

    fn end(&mut self, end: TurnEnd) -> Vec<Effect> {
        // What came too late for this turn is read in the next one.
        self.tell_notices();
        self.turn = None;
        vec![Effect::End(end)]
    }

    /// Passes the pending texts from outside to the model.
    fn tell_notices(&mut self) {
        let notices = std::mem::take(&mut self.notices);
        if notices.is_empty() {
            return;
        }

        // Some APIs reject two consecutive assistant messages.
        let is_behind_answer =
            matches!(self.messages().last().map(|last| &**last), Some(Message::Assistant(_)));
        if is_behind_answer {
            self.tell(NEWS);
        }
        let nonce = self.nonce.clone().unwrap_or_else(Nonce::unknown);
        self.history.push_outside(&notices, &nonce);
    }

    /// Adds a message with fixed words of Toolbus.
    fn tell(&mut self, words: &'static str) {
        self.history.push_words(words);
    }

    /// Checks that the model is being asked.
    fn asked(&self) -> Result<(), OutOfTurn> {
        match &self.turn {
            Some(Turn { calls: None, .. }) => Ok(()),
            _ => Err(OutOfTurn::Unexpected),
        }
    }
}

/// Stands between two answers of one turn.
pub(crate) const ANSWERS_BREAK: &str = "\n\n";
/// Announces a notice to the model.
const NEWS: &str = "[There is news: the result of the call below. No person typed this. Go on with \
     what the user asked for, with what it says in mind.]";
const SCHEDULED: &str = "[A scheduled task is due: the result of the call below. Do it. No person \
     typed this, and nobody is there to answer questions.]";
const SUBAGENT: &str = "[You are a subagent, and your task is the result of the call below. Do it. \
     No person typed this, and nobody is there to answer questions.]";
const ASKED_BY_AGENT: &str = "[Another agent asks for something: the result of the call below. Do \
     it as far as that is right. No person typed this, and nobody is there to answer questions.]";
/// Sources of hints, and of notices of older releases.
const HINTS: &str = "lists of services and tools";
const UNKNOWN: &str = "outside";
/// Said to a model whose last answer a user has rated.
const WAS_OF_USE: &str = "[The user marked your last answer as helpful.]";
const WAS_OF_NO_USE: &str = "[The user marked your last answer as not helpful.]";
/// Said to a model whose answer was cut off.
const CUT_OFF: &str = "[Your answer was cut off at its longest. Go on exactly where it stopped, without \
     repeating anything.]";
/// Said to a model that has called tools in as many rounds as it may.
const OUT_OF_ROUNDS: &str = "[No more tools can be called in this turn. Answer with what you have, and \
     say what is missing.]";
/// Said to a model whose calls did nothing but time out.
const ALL_TIMED_OUT: &str = "[Every call of the last rounds timed out, so no more tools can be called \
     in this turn. Say what did not answer, and what you know without it.]";
/// Said to the user.
const TOO_LONG: &str = "the session is longer than the model can read, and cannot be made shorter";
/// The result of a call that was under way when its turn was cancelled.
const CANCELLED: &str =
    "Error: the turn was cancelled before the call ended; it may have had effects.";

fn source_of(name: &'static str) -> ForeignText {
    ForeignText::line(name, name.len())
}

/// Why a call is not made at all.
fn refusal(call: &ModelCall, at: usize, calls_max: usize) -> Option<String> {
    if call.name == NOTICES_TOOL {
        return Some(format!(
            "Error: not run: `{NOTICES_TOOL}` is called for you when there is text from outside."
        ));
    }
    if at >= calls_max {
        return Some(format!(
            "Error: not run: an answer may make {calls_max} calls at a time. Call again for this one."
        ));
    }
    match &call.arguments {
        CallArguments::Json { .. } => None,
        CallArguments::NotJson { problem, .. } => {
            Some(format!("Error: not run: its arguments are no JSON object: {problem}"))
        }
    }
}

#[cfg(test)]
mod tests;
