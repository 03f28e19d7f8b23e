//! Tasks of other agents: each is a turn of this one, in a session of its caller's.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;
use toolbus_a2a::{DoTask, Task, TaskEnd, TaskProgress};
use toolbus_agent::{Agent, Occasion, Said, TurnContext, TurnEnd};
use toolbus_bus::Asker;
use toolbus_models::outside::OutsideText;
use toolbus_policy::principal_text;
use toolbus_tools::canonical::sha256_hex;
use toolbus_tools::id::SessionId;
use toolbus_tools::scope::DEPTH_MAX;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::message::a2a::{AgentErrorCode, AgentTaskRequest};
use toolbus_wire::name::AgentName;

/// Does tasks as turns.
pub(crate) struct AgentTasks {
    pub(crate) agent: Agent,
    pub(crate) name: AgentName,
}

impl DoTask for AgentTasks {
    fn run<'a>(
        &'a self,
        task: Task,
        _: &'a dyn TaskProgress,
        stop: CancellationToken,
    ) -> BoxFuture<'a, TaskEnd> {
        Box::pin(async move {
            let Some(depth) = task.lineage.depth.checked_add(1).filter(|depth| *depth <= DEPTH_MAX)
            else {
                let limit = format!("tasks of agents may be {DEPTH_MAX} deep");
                return failed(AgentErrorCode::InvalidRequest, limit);
            };
            let session = match session_of(&task) {
                Ok(session) => session,
                Err(problem) => return failed(AgentErrorCode::InvalidRequest, problem),
            };
            // On the bus, a name that nothing proves.
            let claimed = || Principal::claimed(&format!("{}/a2a", task.caller));
            let caller = task.client.clone().unwrap_or_else(claimed);
            // A client has come in by HTTP.
            let doors: &[Door] = match task.client {
                Some(_) => &[Door::Http, Door::Bus],
                None => &[Door::Bus],
            };
            let scope = self.agent.turn_scope(doors, &self.name, caller, session);
            let scope = scope.with_earlier_doors(task.lineage.doors);
            let context = TurnContext {
                scope: Arc::new(Scope { cancelled: stop, depth, ..scope }),
                asker: Asker::none(),
                on_event: &|_| {},
            };

            let caller = name_of(&task);
            let text = text_of(&caller, &task.request);
            let text = OutsideText::new(&format!("agent {caller}"), &text);
            let id = task.request.task_id.clone();
            let said = Said::from_outside(Occasion::AgentTask, text, id);
            let end = match self.agent.say(context, said).await {
                Ok(report) => report.end,
                Err(error) => return failed(AgentErrorCode::ExecutionFailed, error.to_string()),
            };
            match end.into_answer() {
                Ok(text) => TaskEnd::Completed { text, artifacts: Vec::new() },
                Err(TurnEnd::Failed { reason }) => failed(AgentErrorCode::ExecutionFailed, reason),
                Err(_) => TaskEnd::Canceled,
            }
        })
    }
}

fn failed(code: AgentErrorCode, message: String) -> TaskEnd {
    TaskEnd::Failed { code, message, is_retryable: false }
}

/// The session of a task: one for each caller and context, where there is a context. They are
/// named by digests, since names of strangers may be anything.
fn session_of(task: &Task) -> Result<SessionId, String> {
    let AgentTaskRequest { context_id, task_id, .. } = &task.request;
    let context = match context_id.as_deref().filter(|context| !context.is_empty()) {
        Some(context) => format!("context\n{context}"),
        None => format!("task\n{task_id}"),
    };
    let digest = sha256_hex(&format!("{}\n{context}", task.caller));
    SessionId::parse(format!("a2a/{}", &digest[..32])).map_err(|error| error.to_string())
}

/// The name of the caller for the model. The name of a client excludes the id of its token.
fn name_of(task: &Task) -> String {
    match &task.client {
        Some(client) => format!("http:{}", principal_text(client)),
        None => task.caller.clone(),
    }
}

/// The text of the turn.
fn text_of(caller: &str, request: &AgentTaskRequest) -> String {
    let parts = request.message.parts.iter();
    let said: Vec<_> =
        parts.filter_map(|part| part.text.as_deref().or(part.data.as_deref())).collect();
    let wanted = match &*request.skill {
        "" => "something".to_owned(),
        skill => format!("'{skill}'"),
    };
    format!(
        "[The agent '{caller}' asks for {wanted}. Your answer goes to it, and nobody is there to \
         answer questions.]\n\n{}",
        said.join("\n")
    )
}
