//! What happens beside a session, told to it: in the turn that is under way, or in one of its own.

use std::sync::{Arc, OnceLock};

use futures_util::future::BoxFuture;
use tokio::sync::Semaphore;
use toolbus_a2a::{KeepResult, OnTask, ResultText, TaskChange, TaskEvent, Told};
use toolbus_agent::{Agent, Notice, Noticed, SessionRef, TurnContext, UserReplies, sessions};
use toolbus_bus::Asker;
use toolbus_memory::{MemoryOwner, Namespace, NewEntry, WorkingMemory};
use toolbus_policy::SessionOwner;
use toolbus_subagents::{OnSubagent, SubagentEvent};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Lineage, Scope};

use crate::wisp_parts::TaskEnds;

/// The category of results in working memory.
const RESULT_CATEGORY: &str = "agent-result";

/// Tells sessions what happens beside them, once there is an agent. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct SessionNotices {
    notifier: Arc<OnceLock<Notifier>>,
    /// Those who wait for the end of a task are told in place of the session.
    task_ends: TaskEnds,
}

/// What tells sessions.
struct Notifier {
    agent: Agent,
    /// What may begin turns, and where people on the bus are told the answers. `None`: whoever is
    /// at the terminal begins them.
    server: Option<Server>,
}

struct Server {
    turns: Semaphore,
    replies: Option<UserReplies>,
}

impl SessionNotices {
    /// Has the turns of this agent told, which a person at a terminal begins.
    pub(crate) fn tell_turns_of(&self, agent: &Agent) {
        let _ = self.notifier.set(Notifier { agent: agent.clone(), server: None });
    }

    /// Has sessions of this agent told, so many at a time, in turns of their own where none is
    /// under way. People on the bus get the answers.
    pub(crate) fn tell_sessions_of(
        &self,
        agent: &Agent,
        turns_max: usize,
        replies: Option<UserReplies>,
    ) {
        let server = Server { turns: Semaphore::new(turns_max), replies };
        let _ = self.notifier.set(Notifier { agent: agent.clone(), server: Some(server) });
    }

    /// Those who wait for the end of a task.
    pub(crate) fn task_ends(&self) -> &TaskEnds {
        &self.task_ends
    }

    /// Tells a session. `false`: it is to be told again later.
    pub(crate) async fn tell(
        &self,
        to: &SessionOwner,
        lineage: Option<&Lineage>,
        notice: Notice,
    ) -> bool {
        match self.notifier.get() {
            Some(notifier) => notifier.tell(to, lineage, notice).await,
            None => false,
        }
    }

    /// Tells the turn of a session that is under way in this process, if there is one.
    pub(crate) async fn tell_turn(&self, to: &SessionOwner, notice: Notice) {
        if let Some(notifier) = self.notifier.get() {
            notifier.agent.notify_turn(&session_of(to), notice).await;
        }
    }
}

/// The session of an owner, as the agent names it.
fn session_of(owner: &SessionOwner) -> SessionRef {
    SessionRef::new(&owner.agent, &owner.principal, owner.session.clone())
}

impl Notifier {
    async fn tell(&self, to: &SessionOwner, lineage: Option<&Lineage>, notice: Notice) -> bool {
        let at = session_of(to);
        let Some(server) = &self.server else {
            self.agent.until_turn(&at).await;
            return self.agent.notify_turn(&at, notice).await;
        };
        if self.agent.notify_turn(&at, notice.clone()).await {
            return true;
        }

        let Ok(_turn) = server.turns.acquire().await else { return false };
        let id = notice.id.clone();
        let told = match self.scope_of_turn(to, lineage).await {
            Ok(Some(scope)) => {
                let scope = Arc::new(scope);
                let context = TurnContext { scope, asker: Asker::none(), on_event: &|_| {} };
                self.agent.notify(context, notice).await
            }
            Ok(None) => self.agent.note(&at, notice).await.map(|()| Noticed::InTurn),
            Err(error) => Err(error),
        };
        match told {
            Ok(Noticed::InTurn) => true,
            Ok(Noticed::Turn(report)) => {
                if let Some(replies) = &server.replies {
                    replies.tell(&to.principal, &to.session, &id, report.end).await;
                }
                true
            }
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::debug!(error, session = %to.session, "a session is told later");
                false
            }
        }
    }

    /// Restores the scope for a turn that a notice starts. The turn sees, reaches and spends no
    /// more than the work that the notice reports. `None`: no turn may start, and the notice waits
    /// for the next turn of the session.
    async fn scope_of_turn(
        &self,
        to: &SessionOwner,
        lineage: Option<&Lineage>,
    ) -> Result<Option<Scope>, sessions::Error> {
        let Some(lineage) = lineage else {
            tracing::warn!(session = %to.session, "a notice begins no turn: nothing says whose");
            return Ok(None);
        };

        let scope = self.agent.restore_scope(lineage, to.clone()).await?;
        if let Err(exceeded) = scope.budget.check_open() {
            tracing::info!(%exceeded, session = %to.session, "a notice begins no turn");
            return Ok(None);
        }
        if !self.agent.may_begin_notice_turn(lineage).await? {
            let run = lineage.run();
            tracing::warn!(run, session = %to.session, "a notice begins no turn: the run had as \
                 many as it may have");
            return Ok(None);
        }
        Ok(Some(Scope { door: Door::Turn, ..scope.through(DoorSet::of(&[Door::Turn])) }))
    }
}

impl OnTask for SessionNotices {
    fn tell<'a>(&'a self, event: &'a TaskEvent) -> BoxFuture<'a, Told> {
        Box::pin(async move {
            let from = format!("agent {}", event.target);
            let notice = Notice::new(event.task_id.clone(), &from, &event.text());

            if matches!(&event.what, TaskChange::Progress { text, .. } if text.is_empty()) {
                return Told::Taken;
            }

            if !event.what.is_end() {
                // Its end has the id of the task.
                let id = toolbus_wire::envelope::new_id();
                self.tell_turn(&event.owner, Notice { id, ..notice }).await;
                return Told::Taken;
            }
            if self.task_ends.give(event) {
                return Told::Taken;
            }
            match Self::tell(self, &event.owner, event.lineage.as_ref(), notice).await {
                true => Told::Taken,
                false => Told::Later,
            }
        })
    }
}

impl OnSubagent for SessionNotices {
    fn tell<'a>(&'a self, event: &'a SubagentEvent) -> BoxFuture<'a, toolbus_subagents::Told> {
        Box::pin(async move {
            let (from, text) = (format!("subagent {}", event.id), event.text());
            if !event.what.is_end() {
                let id = toolbus_wire::envelope::new_id();
                self.tell_turn(&event.owner, Notice::new(id, &from, &text)).await;
                return toolbus_subagents::Told::Taken;
            }
            let notice = Notice::new(format!("subagent/{}", event.id), &from, &text);
            match Self::tell(self, &event.owner, event.lineage.as_ref(), notice).await {
                true => toolbus_subagents::Told::Taken,
                false => toolbus_subagents::Told::Later,
            }
        })
    }
}

/// Keeps results of other agents in working memory.
pub(crate) struct KeptResults(pub(crate) WorkingMemory);

impl KeepResult for KeptResults {
    fn keep<'a>(&'a self, result: ResultText<'a>) -> BoxFuture<'a, Option<String>> {
        Box::pin(async move {
            let ResultText { owner, key, text, ttl } = result;
            let scope = Scope::new(Door::Turn, owner.principal.clone(), owner.agent.clone());
            let kept = async {
                let path = Namespace::of_session(&owner.session)?.path_of(&key)?;
                let key = path.as_str().to_owned();
                let entry = NewEntry::new(path, text).with_ttl(ttl);
                let entry = entry.with_category(Some(RESULT_CATEGORY))?;
                self.0.save(&MemoryOwner::of(&scope), entry).await?;
                Ok::<_, toolbus_memory::Error>(key)
            };
            kept.await.inspect_err(|error| tracing::warn!(%error, "a result is not kept")).ok()
        })
    }
}
