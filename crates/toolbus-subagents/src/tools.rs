//! The tools that models split their work with.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_policy::spawn::Priority;
use toolbus_tools::arguments::{number, text, whole_number};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Executor, Guide, Tool};

use crate::{Error, NewSubagent, Subagents, texts};

const SOURCE: &str = "subagent";
/// The source of what is seen inside a subagent alone: see [`toolbus_tools::view::INSIDE_PREFIX`].
const INSIDE_SOURCE: &str = "inside:subagent";
/// What is said of a missing argument.
const MISSING_ARGUMENT: &str = "Missing required argument: {}";
/// How much a subagent may matter, by the names that models give.
const PRIORITIES: [(&str, Priority); 4] = [
    ("low", Priority::Low),
    ("normal", Priority::Normal),
    ("high", Priority::High),
    ("critical", Priority::Critical),
];

/// What the tools are made with.
#[derive(Clone)]
pub struct SubagentToolsDeps {
    /// The subagents.
    pub subagents: Subagents,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Spawn,
    Cancel,
    List,
    Report,
    Write,
    Read,
    ListEntries,
    Delete,
}

#[derive(Clone)]
struct SubagentTool {
    operation: Operation,
    subagents: Subagents,
}

/// Registers `spawn_subagent`, `cancel_subagent`, `list_subagents` and the tools of the whiteboard,
/// and `report_progress`, which only subagents see.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, deps: SubagentToolsDeps) -> Result<(), registry::Error> {
    for operation in Operation::ALL {
        let tool = SubagentTool { operation, subagents: deps.subagents.clone() };
        registry.register(operation.definition(), tool)?;
    }
    Ok(())
}

/// The guide to the tools.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Split your work among subagents, which work at the same time, and share a \
                  whiteboard with them"
            .to_owned(),
        document: include_str!("guides/subagent.md").to_owned(),
    }
}

impl Operation {
    const ALL: [Self; 8] = [
        Self::Spawn,
        Self::Cancel,
        Self::List,
        Self::Report,
        Self::Write,
        Self::Read,
        Self::ListEntries,
        Self::Delete,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Spawn => "spawn_subagent",
            Self::Cancel => "cancel_subagent",
            Self::List => "list_subagents",
            Self::Report => "report_progress",
            Self::Write => "whiteboard_write",
            Self::Read => "whiteboard_read",
            Self::ListEntries => "whiteboard_list",
            Self::Delete => "whiteboard_delete",
        }
    }

    const fn description(self) -> &'static str {
        match self {
            Self::Spawn => {
                "Has a subagent do a part of your work, beside you and with your tools. It returns \
                 at once: the result comes into this conversation later, and so does word of a \
                 failure or a timeout."
            }
            Self::Cancel => "Ends a subagent before it is done, and all that it has under way.",
            Self::List => "Lists the subagents that have not ended.",
            Self::Report => {
                "Tells whoever has spawned you how your work is going. Your last message is the \
                 result, so do not report that."
            }
            Self::Write => {
                "Writes an entry of the whiteboard that a conversation and its subagents share, in \
                 place of the one of that key."
            }
            Self::Read => "Reads an entry of the shared whiteboard.",
            Self::ListEntries => {
                "Lists the entries of the shared whiteboard: keys, sizes, who has written them and \
                 when."
            }
            Self::Delete => "Deletes an entry of the shared whiteboard.",
        }
    }

    fn parameters(self) -> Value {
        let described = |text: &str| json!({"type": "string", "description": text});
        let object = |properties: Value, required: &[&str]| json!({"type": "object", "properties": properties, "required": required});
        let key = described("A short name, such as findings/berlin");

        match self {
            Self::Spawn => object(
                json!({
                    "description": described(
                        "What the subagent is to do, so that it can be understood alone: it does \
                         not know this conversation"
                    ),
                    "context": described("What it has to know for that"),
                    "timeout_minutes": {
                        "type": "integer",
                        "minimum": 1,
                        "description": "How long it may take (default 10)",
                    },
                    "priority": {
                        "type": "string",
                        "enum": PRIORITIES.map(|(name, _)| name),
                        "description": "How much it matters (default normal). Where there is no \
                                        room, one that is high or critical pauses one that \
                                        matters less",
                    },
                }),
                &["description"],
            ),
            Self::Cancel => {
                object(json!({"task_id": described("The id of the subagent")}), &["task_id"])
            }
            Self::Report => {
                object(json!({"message": described("What to tell, in a sentence")}), &["message"])
            }
            Self::Write => {
                object(json!({"key": key, "value": described("The text")}), &["key", "value"])
            }
            Self::Read | Self::Delete => object(json!({"key": key}), &["key"]),
            Self::List | Self::ListEntries => json!({"type": "object", "properties": {}}),
        }
    }

    fn definition(self) -> Tool {
        let source = if matches!(self, Self::Report) { INSIDE_SOURCE } else { SOURCE };
        let tool = Tool::new(self.name(), self.description(), source)
            .in_group(SOURCE)
            .with_parameters(self.parameters())
            .with_missing_argument(MISSING_ARGUMENT);
        let repeatable = Annotations { idempotent: true, ..Annotations::default() };
        match self {
            // The same call is the same subagent, but two calls with the same arguments are two.
            Self::Spawn => tool.with_risk(Risk::Medium),
            Self::Cancel => Tool { annotations: repeatable, ..tool.with_risk(Risk::Medium) },
            Self::Report => tool.with_risk(Risk::Low).with_alias("ReportProgress"),
            Self::Write | Self::Delete => {
                Tool { annotations: repeatable, ..tool.with_risk(Risk::Low) }
            }
            Self::List | Self::Read | Self::ListEntries => tool.read_only(),
        }
    }
}

impl Executor for SubagentTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move { Ok(Output::text(self.answer(&call).await?)) })
    }

    /// Forgives what models do: null for what is not given, a text for a number, and a value that
    /// is no text.
    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        if let Some(minutes) = arguments.get_mut("timeout_minutes")
            && let Some(number) = whole_number(minutes)
        {
            *minutes = json!(number);
        }
        if let Some(priority) = arguments.get_mut("priority")
            && let Some(text) = priority.as_str()
        {
            *priority = text.trim().to_ascii_lowercase().into();
        }
        if matches!(self.operation, Operation::Write)
            && let Some(value) = arguments.get_mut("value").filter(|value| !value.is_string())
        {
            *value = value.to_string().into();
        }
    }
}

impl SubagentTool {
    async fn answer(&self, call: &Invocation) -> Result<String, Error> {
        let (subagents, scope) = (&self.subagents, &*call.scope);
        let argument = |name| text(&call.arguments, name).unwrap_or_default();

        Ok(match self.operation {
            Operation::Spawn => {
                let id = subagents.spawn(scope, &call.id, new_subagent(&call.arguments)).await?;
                texts::describe_spawned(&id)
            }
            Operation::Cancel => {
                let id = argument("task_id").trim();
                texts::describe_cancelled(id, subagents.cancel(scope, id).await?)
            }
            Operation::List => {
                let listed = subagents.list(scope).await?;
                texts::describe_subagents(&listed, subagents.inner().rows.now_ms().await?)
            }
            Operation::Report => {
                subagents.report_progress(scope, argument("message")).await?;
                "Progress reported.".to_owned()
            }
            Operation::Write => {
                let (key, value) = (argument("key"), argument("value"));
                subagents.write_entry(scope, key, value).await?;
                format!("Wrote '{}' ({} bytes).", texts::make_preview(key), value.len())
            }
            Operation::Read => {
                let key = argument("key");
                texts::describe_entry(key, subagents.read_entry(scope, key).await?)
            }
            Operation::ListEntries => {
                let entries = subagents.entries(scope).await?;
                texts::describe_whiteboard(&entries, subagents.inner().rows.now_ms().await?)
            }
            Operation::Delete => {
                let key = argument("key");
                texts::describe_deleted(key, subagents.delete_entry(scope, key).await?)
            }
        })
    }
}

fn new_subagent(arguments: &Map<String, Value>) -> NewSubagent {
    let minutes = number(arguments, "timeout_minutes");
    let named = text(arguments, "priority");
    let priority = PRIORITIES.iter().find(|(name, _)| Some(*name) == named);
    NewSubagent {
        description: text(arguments, "description").unwrap_or_default().to_owned(),
        context: text(arguments, "context").map(str::to_owned),
        timeout: minutes.map(|minutes| Duration::from_secs(minutes.saturating_mul(60))),
        priority: priority.map(|(_, priority)| *priority).unwrap_or_default(),
    }
}
