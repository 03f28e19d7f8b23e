//! What wisps need of others: a model that completes, agents whose ends are waited for, and word
//! that MCP servers are there.

use futures_util::future::BoxFuture;
use toolbus_tools::Scope;
use toolbus_tools::budget::TurnUsage;

/// A question to a model.
#[derive(Debug, Clone, Copy)]
pub struct CompletionRequest<'a> {
    /// For whom it is asked, and within which bounds.
    pub scope: &'a Scope,
    /// All that the model is told.
    pub prompt: &'a str,
}

/// What a model answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompletionText {
    /// The answer.
    pub text: String,
    /// What it took.
    pub usage: TurnUsage,
    /// Whether it was cut off, for it had as many tokens as it may have.
    pub is_cut_off: bool,
}

/// Why a model did not answer. The texts are for models, too, and hold no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompleteError {
    /// It, or a filter in front of it, would not.
    #[error("the model would not answer: {0}")]
    Refused(String),
    /// It could not be asked, or has not answered.
    #[error("the model did not answer: {0}")]
    Failed(String),
}

/// Asks a model for one completion, without tools.
pub trait Complete: Send + Sync {
    /// Asks. Dropping the future cancels the request. What it took is counted by whoever asks.
    fn complete<'a>(
        &'a self,
        request: CompletionRequest<'a>,
    ) -> BoxFuture<'a, Result<CompletionText, CompleteError>>;
}

/// How a task of another agent ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentEnd {
    /// It is done.
    Completed(
        /// The answer.
        String,
    ),
    /// The agent asks back.
    InputRequired(
        /// What it asks.
        String,
    ),
    /// It failed, was cancelled, or its time was over.
    Failed(
        /// What went wrong, for models.
        String,
    ),
}

/// Waits for tasks of other agents, which `invoke_agent` has sent.
pub trait AwaitAgent: Send + Sync {
    /// Waits for the end of a task of this scope, which may be over already. It is told to nobody
    /// else.
    fn wait<'a>(&'a self, scope: &'a Scope, task_id: &'a str) -> BoxFuture<'a, AgentEnd>;

    /// Asks the agent to give a task up, for nobody waits for it any more. It has a few seconds.
    fn cancel<'a>(&'a self, scope: &'a Scope, task_id: &'a str) -> BoxFuture<'a, ()>;
}

/// Knows when MCP servers can be called: a bridge announces them after the start.
pub trait McpReady: Send + Sync {
    /// Waits until these servers are known. It is given up after a while, and then the calls say
    /// what is missing.
    fn wait<'a>(&'a self, servers: &'a [String]) -> BoxFuture<'a, ()>;
}
