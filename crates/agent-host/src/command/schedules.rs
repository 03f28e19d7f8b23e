//! `schedules`: what the agent is to do later, and what became of it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use jiff::Timestamp;
use toolbus_runtime::service::{BoxError, Exit};
use toolbus_schedule::{Occurrence, Schedules, Task};
use toolbus_wire::name::AgentName;

use super::{fail, misuse};
use crate::arguments::{SchedulesCommand, SchedulesOptions};
use crate::scheduled_turns::KeptZones;
use crate::settings::Settings;
use crate::{state, terminal_text};

/// Most occurrences that are shown of a task.
const SHOWN_MAX: u32 = 20;

pub(super) async fn run(options: SchedulesOptions, settings: &Settings) -> Result<Exit, BoxError> {
    let Some(store) = state::store(settings) else {
        return Ok(misuse("there is no place for state (setting store)"));
    };
    let zones = Arc::new(KeptZones::new(store.clone()));
    let schedules = Schedules::new(store.clone(), settings.schedules.config(), zones);
    let agent = AgentName::parse(&settings.name)?;

    let done = obey(&options.command, &schedules, &agent).await;
    store.close().await;
    let (text, exit) = match done {
        Ok(done) => done,
        Err(error) => return Ok(fail(toolbus_config::on_one_line(&error))),
    };
    let mut stdout = std::io::stdout();
    let _ = write!(stdout, "{}", terminal_text::for_stream(&text, &stdout));
    let _ = stdout.flush();
    Ok(exit)
}

async fn obey(
    command: &SchedulesCommand,
    schedules: &Schedules,
    agent: &AgentName,
) -> Result<(String, Exit), toolbus_schedule::Error> {
    let tasks = schedules.list_all(agent).await?;
    let find = |name: &str| tasks.iter().find(|task| task.name.eq_ignore_ascii_case(name));
    match command {
        SchedulesCommand::List { json: true } => Ok((as_json(&tasks), Exit::SUCCESS)),
        SchedulesCommand::List { json: false } if tasks.is_empty() => {
            Ok(("No scheduled tasks.\n".to_owned(), Exit::SUCCESS))
        }
        SchedulesCommand::List { json: false } => {
            Ok((tasks.iter().map(line_of).collect(), Exit::SUCCESS))
        }

        SchedulesCommand::Show { task: name } => {
            let Some(task) = find(name) else { return Ok(none(name)) };
            let history = schedules.history(&task.owner, Some(name), SHOWN_MAX).await?;
            Ok((describe(task, &history), Exit::SUCCESS))
        }
        SchedulesCommand::Cancel { task: name } => {
            let Some(task) = find(name) else { return Ok(none(name)) };
            match schedules.cancel(&task.owner, name).await? {
                Some(name) => Ok((format!("Cancelled '{name}'.\n"), Exit::SUCCESS)),
                None => Ok(none(name)),
            }
        }
        SchedulesCommand::Run { task: name } => {
            let Some(task) = find(name) else { return Ok(none(name)) };
            match schedules.run_now(&task.owner, name).await? {
                true => {
                    let text = "It runs as soon as an agent serves and is free.\n";
                    Ok((text.to_owned(), Exit::SUCCESS))
                }
                false => Ok(none(name)),
            }
        }
    }
}

fn none(name: &str) -> (String, Exit) {
    (format!("There is no scheduled task '{name}'.\n"), Exit::FAILURE)
}

fn as_json(tasks: &[Task]) -> String {
    let text = serde_json::to_string_pretty(tasks).unwrap_or_default();
    format!("{text}\n")
}

fn line_of(task: &Task) -> String {
    let next = task.next_ms.map_or_else(|| "-".to_owned(), time_text);
    format!("{}  {}  next {next}  {}\n", task.name, task.cron, first_line(&task.description))
}

fn describe(task: &Task, history: &[Occurrence]) -> String {
    let mut text = format!("{}  {}  {}\n", task.name, task.cron, task.zone);
    let next = task.next_ms.map_or_else(|| "never".to_owned(), time_text);
    let last = task.last_fired_ms.map_or_else(|| "never".to_owned(), time_text);
    let _ = writeln!(text, "next {next}, last {last}\n\n{}", task.description.trim_end());
    if !history.is_empty() {
        let _ = writeln!(text);
    }
    for occurrence in history {
        let state = occurrence.state.as_str();
        let due = time_text(occurrence.due_ms);
        let _ = writeln!(text, "{due}  {state}  {}", first_line(&occurrence.reason));
    }
    text
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The time in UTC, to the second.
fn time_text(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{time:.0}")
}
