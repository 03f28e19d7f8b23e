//! Scheduled tasks: each occurrence is a turn of the agent, in a session of its own.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolbus_agent::{Agent, Notice, Occasion, Said, SessionRef, TurnContext, TurnEnd, UserReplies};
use toolbus_bus::Asker;
use toolbus_memory::{MemoryOwner, Preferences};
use toolbus_models::outside::OutsideText;
use toolbus_policy::SessionOwner;
use toolbus_schedule::{Fire, RunEnd, RunTask, ScheduleOwner, ZoneUnreadable, Zones};
use toolbus_store::LazyStore;
use toolbus_tools::id::SessionId;
use toolbus_tools::{Door, Scope};

/// Runs tasks as turns. The session that their owner has used last is told what came of each, and,
/// where that is a user on the bus, so is the user.
pub(crate) struct ScheduledTurns {
    pub(crate) agent: Agent,
    pub(crate) replies: Option<UserReplies>,
}

impl RunTask for ScheduledTurns {
    fn is_busy<'a>(&'a self, fire: &'a Fire) -> BoxFuture<'a, bool> {
        let is_busy = self.agent.is_serving(&fire.owner.principal);
        Box::pin(std::future::ready(is_busy))
    }

    fn run(&self, fire: Fire, stop: CancellationToken) -> BoxFuture<'_, RunEnd> {
        Box::pin(async move {
            let session = match SessionId::parse(format!("schedule/{}", fire.id)) {
                Ok(session) => session,
                Err(error) => return RunEnd::Failed(error.to_string()),
            };
            let Some(lineage) = &fire.lineage else {
                return RunEnd::Failed("what the task inherits cannot be read".to_owned());
            };
            let ScheduleOwner { agent, principal } = fire.owner.clone();
            let owner = SessionOwner { agent, principal, session };
            let scope = match self.agent.begin_scope(lineage, Door::Schedule, owner) {
                Ok(scope) => scope,
                Err(error) => return RunEnd::Failed(error.to_string()),
            };
            let context = TurnContext {
                scope: Arc::new(Scope { cancelled: stop, ..scope }),
                asker: Asker::none(),
                on_event: &|_| {},
            };

            let task = OutsideText::new(&source_of(&fire), &text_of(&fire));
            let said = Said::from_outside(Occasion::ScheduledTask, task, fire.id.clone());
            let end = match self.agent.say(context, said).await {
                Ok(report) => report.end,
                Err(error) => return RunEnd::Failed(error.to_string()),
            };
            if let Err(error) = self.tell(&fire, &end).await {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, task = fire.name, "nobody is told of a scheduled task");
            }
            match end {
                TurnEnd::Answered { .. } => RunEnd::Done,
                TurnEnd::Failed { reason } => RunEnd::Failed(reason),
                TurnEnd::Cancelled => RunEnd::Failed("it was stopped".to_owned()),
            }
        })
    }
}

impl ScheduledTurns {
    /// Tells the owner what came of a task.
    async fn tell(&self, fire: &Fire, end: &TurnEnd) -> Result<(), toolbus_agent::sessions::Error> {
        let came = match end {
            TurnEnd::Answered { text, .. } if text.trim().is_empty() => return Ok(()),
            TurnEnd::Answered { text, .. } => format!("has run, and you have said:]\n\n{text}"),
            TurnEnd::Failed { reason } => format!("has failed: {reason}]"),
            TurnEnd::Cancelled => return Ok(()),
        };
        let ScheduleOwner { agent, principal } = &fire.owner;
        let Some(session) = self.agent.sessions().last_used(agent, principal).await? else {
            return Ok(());
        };
        let at = SessionRef::new(agent, principal, session.clone());
        let text = format!("[The scheduled task '{}' {came}", fire.name);
        self.agent.note(&at, Notice::new(fire.id.clone(), &source_of(fire), &text)).await?;

        if let Some(replies) = &self.replies {
            replies.tell(principal, &session, &fire.id, end.clone()).await;
        }
        Ok(())
    }
}

/// Returns the source name of a task and of its results. A model wrote the task.
fn source_of(fire: &Fire) -> String {
    format!("scheduled task {}", fire.name)
}

/// What the agent is told to do.
fn text_of(fire: &Fire) -> String {
    let missed = match fire.missed {
        0 => String::new(),
        1 => " It did not run the last time that it was due.".to_owned(),
        times => format!(" It did not run the last {times} times that it was due."),
    };
    format!(
        "[The scheduled task '{}' is due, and nobody is there to answer questions.{missed}]\n\n{}",
        fire.name, fire.description
    )
}

/// The zones that people have set with `set_timezone`.
pub(crate) struct KeptZones(Preferences);

impl KeptZones {
    pub(crate) fn new(store: LazyStore) -> Self {
        Self(Preferences::new(store))
    }
}

impl Zones for KeptZones {
    fn zone<'a>(
        &'a self,
        owner: &'a ScheduleOwner,
    ) -> BoxFuture<'a, Result<Option<String>, ZoneUnreadable>> {
        Box::pin(async move {
            let scope = Scope::new(Door::Schedule, owner.principal.clone(), owner.agent.clone());
            let zone = self.0.timezone(&MemoryOwner::of(&scope)).await;
            zone.map_err(|error| ZoneUnreadable(error.to_string()))
        })
    }
}
