//! What agents' tasks need of others: who is told, who keeps results, who does what is asked.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolbus_policy::SessionOwner;
use toolbus_tools::Principal;
use toolbus_wire::message::a2a::{AgentArtifact, AgentErrorCode, AgentTaskRequest};

use crate::{TaskEvent, TaskLineage};

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is in the session, or will be for sure.
    Taken,
    /// It cannot be taken now, such as while another process has the session. It is told again.
    Later,
}

/// Is told what happens to the tasks of an agent: the turn that waits, or the session's next one.
pub trait OnTask: Send + Sync {
    /// Takes an event. The end of a task may come again after a kill, and counts once by its id. It
    /// has half an hour, as long as a turn of an agent takes, and no other process tells it
    /// meanwhile. What becomes of an event that is no [end](crate::TaskChange::is_end) does not
    /// matter, and it has a second. A session that is gone takes everything.
    fn tell<'a>(&'a self, event: &'a TaskEvent) -> BoxFuture<'a, Told>;
}

/// The text of a result, to be kept in working memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultText<'a> {
    /// Whose it is, and in which session.
    pub owner: &'a SessionOwner,
    /// The key within the namespace of the session: `a2a/{agent}/{task}/result`.
    pub key: String,
    /// The text.
    pub text: &'a str,
    /// How long it is kept.
    pub ttl: Duration,
}

/// Keeps the texts of results: working memory.
pub trait KeepResult: Send + Sync {
    /// Keeps one, in place of the one that is there, and says under which key it can be read.
    /// `None`: it cannot be kept, which is no reason not to tell it.
    fn keep<'a>(&'a self, result: ResultText<'a>) -> BoxFuture<'a, Option<String>>;
}

/// A task that another agent has given to this one.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// What is asked for. Its id is unique together with the caller.
    pub request: AgentTaskRequest,
    /// The name of the agent that asks, which nothing proves; or of a client over HTTP, which
    /// begins with `http:`, as no name on the bus does.
    pub caller: String,
    /// The client that asks over HTTP, known by its token where clients have any.
    pub client: Option<Principal>,
    /// Depth and doors from the agents before.
    pub lineage: TaskLineage,
    /// Whether another process has begun it and was lost. Who cannot go on with it where it was
    /// lets it fail: it is not to be done twice.
    pub is_resumed: bool,
    /// How long it may take from now on.
    pub timeout: Duration,
}

/// What came of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskEnd {
    /// It is done.
    Completed {
        /// The answer.
        text: String,
        /// What was made.
        artifacts: Vec<AgentArtifact>,
    },
    /// It does not go on without an answer, which comes as another task.
    InputRequired {
        /// What is asked.
        text: String,
    },
    /// It was cancelled.
    Canceled,
    /// It failed.
    Failed {
        /// Which error it is.
        code: AgentErrorCode,
        /// What went wrong.
        message: String,
        /// Whether it may go well when it is tried again.
        is_retryable: bool,
    },
}

/// Says how a task is going.
pub trait TaskProgress: Send + Sync {
    /// Tells whoever has asked. Lost where nobody hears it.
    fn say<'a>(&'a self, text: &'a str) -> BoxFuture<'a, ()>;
}

/// Does what other agents ask for: an agent's turn.
pub trait DoTask: Send + Sync {
    /// Whether it ends when it is told to stop.
    fn can_stop(&self) -> bool {
        true
    }

    /// Does it. When `stop` fires, it ends soon, as far as it has come; one that does not is
    /// dropped, and so is one whose time is over or whose process stops: then another goes on.
    fn run<'a>(
        &'a self,
        task: Task,
        progress: &'a dyn TaskProgress,
        stop: CancellationToken,
    ) -> BoxFuture<'a, TaskEnd>;
}
