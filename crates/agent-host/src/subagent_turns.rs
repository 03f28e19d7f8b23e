//! Subagents: each is a turn of the agent, in a session of its own.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use toolbus_agent::sessions::Error;
use toolbus_agent::{Agent, Occasion, Said, TurnContext, TurnEnd};
use toolbus_bus::Asker;
use toolbus_models::completion::Completion;
use toolbus_models::error::ModelError;
use toolbus_models::model::{Model, OnEvent};
use toolbus_models::outside::OutsideText;
use toolbus_models::request::ModelRequest;
use toolbus_policy::SessionOwner;
use toolbus_subagents::{RunSubagent, SubagentEnd, SubagentRun};
use toolbus_tools::{Lineage, Scope};

/// Between two attempts to have a session that the process had which was lost.
const SESSION_BACKOFF: Duration = Duration::from_millis(500);

/// Does the work of subagents, once there is an agent. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct SubagentTurns(Arc<OnceLock<Agent>>);

impl SubagentTurns {
    /// Has this agent do it.
    pub(crate) fn begin(&self, agent: &Agent) {
        let _ = self.0.set(agent.clone());
    }
}

impl RunSubagent for SubagentTurns {
    fn restore_scope<'a>(
        &'a self,
        lineage: &'a Lineage,
        owner: SessionOwner,
    ) -> BoxFuture<'a, Result<Scope, String>> {
        Box::pin(async move {
            let agent = self.0.get().ok_or("no agent is there to do it")?;
            agent.restore_scope(lineage, owner).await.map_err(|error| error.to_string())
        })
    }

    fn run(&self, run: SubagentRun, paused: watch::Receiver<bool>) -> BoxFuture<'_, SubagentEnd> {
        Box::pin(async move {
            match self.0.get() {
                Some(agent) => run_turn(agent, run, paused).await,
                None => failed("no agent is there to do it"),
            }
        })
    }
}

async fn run_turn(agent: &Agent, run: SubagentRun, paused: watch::Receiver<bool>) -> SubagentEnd {
    let model = Pausable { model: Arc::clone(agent.model()), paused };
    let agent = agent.with_model(Arc::new(model));
    let task = OutsideText::new(&format!("agent {}", run.scope.agent), &text_of(&run));
    let said = Said::from_outside(Occasion::SubagentTask, task, run.id.clone());
    loop {
        let scope = Arc::clone(&run.scope);
        let context = TurnContext { scope, asker: Asker::none(), on_event: &|_| {} };
        let report = match agent.say(context, said.clone()).await {
            // The process had it that was lost.
            Err(Error::Busy(_)) => {
                tokio::time::sleep(SESSION_BACKOFF).await;
                continue;
            }
            Err(error) => return failed(&error.to_string()),
            Ok(report) => report,
        };

        return match report.end.into_answer() {
            Ok(text) => SubagentEnd::Completed { text },
            Err(TurnEnd::Failed { reason }) => failed(&reason),
            Err(_) => SubagentEnd::Cancelled { text: String::new() },
        };
    }
}

fn failed(error: &str) -> SubagentEnd {
    SubagentEnd::Failed { text: String::new(), error: error.to_owned() }
}

/// What a subagent is told to do.
fn text_of(run: &SubagentRun) -> String {
    let context = match &run.context {
        Some(context) => format!("\n\n{context}"),
        None => String::new(),
    };
    format!(
        "[You are a subagent: this task is all that you know, and nobody is there to answer \
         questions. Your answer goes to the agent that has spawned you. Say with report_progress \
         what it should know before that.]\n\n{}{context}",
        run.description
    )
}

/// A model that is not asked while a subagent is paused.
struct Pausable {
    model: Arc<dyn Model>,
    paused: watch::Receiver<bool>,
}

impl Model for Pausable {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn complete<'a>(
        &'a self,
        request: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        Box::pin(async move {
            let mut paused = self.paused.clone();
            // Where nobody is left to say so, it goes on.
            let _ = paused.wait_for(|is_paused| !is_paused).await;
            self.model.complete(request, on_event).await
        })
    }
}
