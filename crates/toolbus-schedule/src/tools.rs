//! The tools that models schedule with.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};
use toolbus_tools::call::{CallError, Invocation, Output};
use toolbus_tools::registry::{self, Registry};
use toolbus_tools::tool::{Annotations, Risk};
use toolbus_tools::{Executor, Guide, Lineage, Scope, Tool};

use crate::occurrence::{Occurrence, OccurrenceState};
use crate::plan::{MissedRule, ms};
use crate::schedules::{Scheduled, Schedules};
use crate::task::NewTask;
use crate::{Error, ScheduleOwner, texts};

const SOURCE: &str = "scheduling";
/// What is said of a missing argument, as the seeds have it.
const MISSING_ARGUMENT: &str = "Missing required argument: {}";

/// How long a list tells of occurrences that did not run.
const NOT_RUN_TTL: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// Most of them.
const NOT_RUN_MAX: usize = 5;
/// How many occurrences are looked through for them.
const LOOKED_THROUGH_MAX: u32 = 100;

/// What the tools are made with.
#[derive(Clone)]
pub struct ScheduleDeps {
    /// The tasks.
    pub schedules: Schedules,
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Schedule,
    List,
    Cancel,
}

#[derive(Clone)]
struct ScheduleTool {
    operation: Operation,
    schedules: Schedules,
}

/// Registers `schedule_task`, `list_scheduled_tasks` and `cancel_scheduled_task`.
///
/// # Errors
/// When a name is taken.
pub fn register(registry: &Registry, deps: ScheduleDeps) -> Result<(), registry::Error> {
    for operation in [Operation::Schedule, Operation::List, Operation::Cancel] {
        let tool = ScheduleTool { operation, schedules: deps.schedules.clone() };
        registry.register(operation.definition(), tool)?;
    }
    Ok(())
}

/// The guide to the tools.
#[must_use]
pub fn guide() -> Guide {
    Guide {
        name: SOURCE.to_owned(),
        summary: "Do something later, or again and again, at the times of a cron expression"
            .to_owned(),
        document: include_str!("guides/scheduling.md").to_owned(),
    }
}

impl Operation {
    fn definition(self) -> Tool {
        let (name, description) = match self {
            Self::Schedule => (
                "schedule_task",
                "Creates or replaces a task that this agent does later, at the times of a cron \
                 expression in the person's time zone: 5 fields (minute hour day-of-month month \
                 day-of-week), or 6 with seconds first.",
            ),
            Self::List => (
                "list_scheduled_tasks",
                "Lists all scheduled tasks with their next times, and the current time and time \
                 zone.",
            ),
            Self::Cancel => ("cancel_scheduled_task", "Removes a scheduled task, by its name."),
        };
        let tool = Tool::new(name, description, SOURCE).in_group(SOURCE);
        let tool = Tool { missing_argument: Some(MISSING_ARGUMENT), ..tool };
        let described = |text: &str| json!({"type": "string", "description": text});

        match self {
            Self::Schedule => with_change_annotations(tool).with_parameters(json!({
                "type": "object",
                "properties": {
                    "name": described("A short name; a task of the same name is replaced"),
                    "cron": described("When, such as 0 9 * * 1-5 for 9:00 on every weekday"),
                    "description": described("What to do then, so that it can be understood alone"),
                    "run_once": {
                        "type": "boolean",
                        "description": "Remove the task after it has fired. Pin all time fields to \
                                        the exact time, with * for the day of the week",
                    },
                    "on_missed": {
                        "type": "string",
                        "enum": MissedRule::NAMES,
                        "description": "What becomes of times at which the agent was not there: \
                                        skip them, run once for all of them, or run all",
                    },
                },
                "required": ["name", "cron", "description"],
            })),
            Self::List => tool.read_only(),
            Self::Cancel => with_change_annotations(tool.destructive()).with_parameters(json!({
                "type": "object",
                "properties": {"name": described("The name of the task")},
                "required": ["name"],
            })),
        }
    }
}

/// What a tool changes can be changed back, and is the same when it is changed twice.
fn with_change_annotations(tool: Tool) -> Tool {
    let annotations = Annotations { idempotent: true, ..tool.annotations };
    Tool { annotations, ..tool.with_risk(Risk::Medium) }
}

impl Executor for ScheduleTool {
    fn execute(&self, call: Invocation) -> BoxFuture<'_, Result<Output, CallError>> {
        Box::pin(async move {
            let owner = ScheduleOwner::of(&call.scope);
            Ok(Output::text(self.answer(&owner, &call.scope, &call.arguments).await?))
        })
    }

    /// Forgives what models do: null for what is not given, `runOnce` as older agents have it, and
    /// a text for a truth value.
    fn coerce(&self, arguments: &mut Map<String, Value>) {
        arguments.retain(|_, value| !value.is_null());
        if let Some(once) = arguments.remove("runOnce") {
            arguments.entry("run_once").or_insert(once);
        }
        if let Some(once) = arguments.get_mut("run_once")
            && let Some(text) = once.as_str()
            && let Ok(value) = text.trim().to_ascii_lowercase().parse::<bool>()
        {
            *once = value.into();
        }
    }
}

impl ScheduleTool {
    async fn answer(
        &self,
        owner: &ScheduleOwner,
        scope: &Scope,
        arguments: &Map<String, Value>,
    ) -> Result<String, Error> {
        let name = text(arguments, "name");
        match self.operation {
            Operation::Schedule => self.schedule(owner, scope, arguments).await,
            Operation::List => self.list(owner).await,
            Operation::Cancel => Ok(match self.schedules.cancel(owner, name).await? {
                Some(name) => format!("Cancelled scheduled task '{name}'."),
                None => {
                    let name = texts::make_preview(name);
                    format!("No scheduled task named '{name}' was found.")
                }
            }),
        }
    }

    async fn schedule(
        &self,
        owner: &ScheduleOwner,
        scope: &Scope,
        arguments: &Map<String, Value>,
    ) -> Result<String, Error> {
        let cron = text(arguments, "cron").parse().map_err(Error::Cron)?;
        let missed = arguments.get("on_missed").and_then(Value::as_str);
        let task = NewTask {
            name: text(arguments, "name").to_owned(),
            cron,
            description: text(arguments, "description").to_owned(),
            run_once: arguments.get("run_once").and_then(Value::as_bool).unwrap_or_default(),
            missed: missed.map(|name| MissedRule::of(name, MissedRule::RUN_ALL_DEFAULT)),
            lineage: Lineage::of(scope).for_new_runs(),
        };
        let (name, cron) = (texts::make_preview(&task.name), task.cron.clone());
        let scheduled = self.schedules.put(owner, task).await?;

        let zone = self.schedules.zone(owner).await?;
        let now_ms = self.schedules.now_ms().await?;
        Ok(match scheduled {
            Scheduled::Armed { next_ms } => {
                texts::describe_scheduled((&name, cron.as_str()), next_ms, now_ms, &zone)
            }
            Scheduled::Never => texts::describe_never(cron.as_str(), now_ms, &zone),
        })
    }

    async fn list(&self, owner: &ScheduleOwner) -> Result<String, Error> {
        let tasks = self.schedules.list(owner).await?;
        let history = self.schedules.history(owner, None, LOOKED_THROUGH_MAX).await?;
        let zone = self.schedules.zone(owner).await?;
        let now_ms = self.schedules.now_ms().await?;

        let did_not_run = |occurrence: &&Occurrence| {
            let state = occurrence.state;
            let is_new = now_ms.saturating_sub(occurrence.until_ms) <= ms(NOT_RUN_TTL);
            is_new
                && matches!(
                    state,
                    OccurrenceState::Missed | OccurrenceState::Lost | OccurrenceState::Skipped
                )
        };
        let not_run: Vec<_> = history.iter().filter(did_not_run).take(NOT_RUN_MAX).collect();
        let tasks = texts::describe_tasks(&tasks, now_ms, &zone);
        Ok(tasks + &texts::describe_not_run(&not_run, &zone))
    }
}

fn text<'a>(arguments: &'a Map<String, Value>, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}
