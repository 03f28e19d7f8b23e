//! The tools that models ask other agents with.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::Risk;
use toolbus_tools::{Executor, Guide, Tool};

use crate::tasks::{NewTask, Tasks};
use crate::{Error, texts};

const SOURCE: &str = "a2a";
/// What is said of a missing argument.
const MISSING_ARGUMENT: &str = "Missing required argument: {}";

/// What the tools are made with.
#[derive(Clone)]
pub struct A2aDeps {
    /// The tasks for other agents, and the directory.
    pub tasks: Tasks,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Invoke,
    List,
    Details,
}

#[derive(Clone)]
struct A2aTool {
    operation: Operation,
    tasks: Tasks,
}

/// Registers `invoke_agent`, `list_known_agents` and `get_agent_details`.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, deps: A2aDeps) -> Result<(), registry::Error> {
    for operation in [Operation::Invoke, Operation::List, Operation::Details] {
        let tool = A2aTool { operation, tasks: deps.tasks.clone() };
        registry.register(operation.definition(), tool)?;
    }
    Ok(())
}

/// The guide to the tools.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Give tasks to other agents, and find out which there are".to_owned(),
        document: include_str!("guides/a2a.md").to_owned(),
    }
}

impl Operation {
    fn definition(self) -> Tool {
        let (name, description) = match self {
            Self::Invoke => (
                "invoke_agent",
                "Gives a task to another agent. It works on its own: the result comes into this \
                 conversation later, and so does word of a failure or a timeout.",
            ),
            Self::List => (
                "list_known_agents",
                "Lists the agents that can be given tasks with invoke_agent, and their skills.",
            ),
            Self::Details => (
                "get_agent_details",
                "Shows all that is known of an agent: what its skills are for, with examples.",
            ),
        };
        let tool = Tool::new(name, description, SOURCE).in_group(SOURCE);
        let tool = Tool { missing_argument: Some(MISSING_ARGUMENT), ..tool };
        let described = |text: &str| json!({"type": "string", "description": text});
        let agent_name = described("The name of the agent, as listed");

        match self {
            Self::Invoke => tool.with_risk(Risk::Medium).with_parameters(json!({
                "type": "object",
                "properties": {
                    "agent_name": agent_name,
                    "skill": described("The id of the skill"),
                    "message": described(
                        "What the agent is to do, so that it can be understood alone: it does not \
                         know this conversation"
                    ),
                    "timeout_minutes": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How long to wait for the result (default 5)",
                    },
                },
                "required": ["agent_name", "skill", "message"],
            })),
            Self::List => tool.read_only().with_parameters(json!({
                "type": "object",
                "properties": {"skill": described("Only agents with this skill")},
            })),
            Self::Details => tool.read_only().with_parameters(json!({
                "type": "object",
                "properties": {"agent_name": agent_name},
                "required": ["agent_name"],
            })),
        }
    }
}

impl Executor for A2aTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let name = text(&call.arguments, "agent_name");
            let directory = self.tasks.directory();
            if directory.find(name).is_none() {
                directory.until_settled().await;
            }
            Ok(Output::text(match self.operation {
                Operation::Invoke => self.invoke(&call).await?,
                Operation::List => {
                    let skill = Some(text(&call.arguments, "skill").trim());
                    let skill = skill.filter(|skill| !skill.is_empty());
                    texts::describe_agents(&directory.list(skill), skill)
                }
                Operation::Details => match directory.find(name) {
                    Some(agent) => texts::describe_agent(&agent),
                    None => texts::describe_unknown(name),
                },
            }))
        })
    }

    /// Forgives what models do: null for what is not given, and a text for a number.
    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        if let Some(minutes) = arguments.get_mut("timeout_minutes") {
            let written = minutes.as_str().and_then(|text| text.trim().parse::<f64>().ok());
            if let Some(number) = written.or_else(|| minutes.as_f64())
                && number.fract() == 0.0
                && (0.0..1e9).contains(&number)
            {
                *minutes = json!(number as u64);
            }
        }
    }
}

impl A2aTool {
    async fn invoke(&self, call: &Invocation) -> Result<String, Error> {
        let minutes = call.arguments.get("timeout_minutes").and_then(Value::as_u64);
        let task = NewTask {
            target: text(&call.arguments, "agent_name").to_owned(),
            skill: text(&call.arguments, "skill").to_owned(),
            message: text(&call.arguments, "message").to_owned(),
            timeout: minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
        };
        let sent = self.tasks.invoke(&call.scope, task).await?;
        Ok(texts::describe_dispatched(sent.target.as_str(), &sent.task_id))
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}
