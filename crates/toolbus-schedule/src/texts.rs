//! What models read of schedules. Every time is shown by the clocks of the person's zone, with its
//! name.

use jiff::Timestamp;

use crate::occurrence::{Occurrence, OccurrenceState};
use crate::schedules::NamedZone;
use crate::task::Task;

/// How much of a description is shown in the table, in characters.
const DESCRIPTION_CHARS: usize = 300;
/// How much of a text is shown that a model has given, in characters.
const PREVIEW_CHARS: usize = 120;

/// A time such as `2026-11-27 09:00:00 (Europe/Berlin)`.
pub(crate) fn format_time(at_ms: i64, zone: &NamedZone) -> String {
    let at = Timestamp::from_millisecond(at_ms).unwrap_or_default();
    let at = at.to_zoned(zone.zone.clone());
    format!("{} ({})", at.strftime("%Y-%m-%d %H:%M:%S"), zone.name)
}

/// The beginning of a text in one line.
pub(crate) fn make_preview(text: &str) -> String {
    shorten(text, PREVIEW_CHARS)
}

pub(crate) fn describe_scheduled(
    task: (&str, &str),
    next_ms: i64,
    now_ms: i64,
    zone: &NamedZone,
) -> String {
    let (name, cron) = task;
    let (next, now) = (format_time(next_ms, zone), format_time(now_ms, zone));
    format!("Scheduled task '{name}' with cron '{cron}'. Next fire: {next}. Current time: {now}.")
}

pub(crate) fn describe_never(cron: &str, now_ms: i64, zone: &NamedZone) -> String {
    let now = format_time(now_ms, zone);
    format!(
        "WARNING: no future occurrence found — task will never fire with cron '{cron}', so nothing \
         was scheduled. Current time: {now}."
    )
}

/// All tasks as a table of Markdown.
pub(crate) fn describe_tasks(tasks: &[Task], now_ms: i64, zone: &NamedZone) -> String {
    let now = format_time(now_ms, zone);
    if tasks.is_empty() {
        return format!("No scheduled tasks. Current time: {now}");
    }

    let mut text = format!(
        "Current time: {now}\nScheduled tasks ({}):\n\n\
         | Name | Cron | Next fire | Description | Created | Last fired |\n\
         |---|---|---|---|---|---|",
        tasks.len()
    );
    for task in tasks {
        let time = |at_ms: i64| format_time(at_ms, zone);
        let once = if task.run_once { " (once)" } else { "" };
        let next = task.next_ms.map_or_else(|| "now".to_owned(), time);
        let last = task.last_fired_ms.map_or_else(|| "never".to_owned(), time);
        let description = escape(&shorten(&task.description, DESCRIPTION_CHARS));
        text.push_str(&format!(
            "\n| {} | `{}`{once} | {next} | {description} | {} | {last} |",
            escape(&task.name),
            task.cron,
            time(task.created_ms),
        ));
    }
    text
}

/// Occurrences that were not run, or not to their end; nothing where there are none.
pub(crate) fn describe_not_run(not_run: &[&Occurrence], zone: &NamedZone) -> String {
    if not_run.is_empty() {
        return String::new();
    }
    let mut text = "\n\nDid not run:".to_owned();
    for occurrence in not_run {
        let Occurrence { name, fires, reason, .. } = occurrence;
        let state = match occurrence.state {
            OccurrenceState::Lost => "interrupted",
            state => state.as_str(),
        };
        let due = format_time(occurrence.due_ms, zone);
        text.push_str(&format!("\n- '{name}', due {due}"));
        if *fires > 1 {
            let until = format_time(occurrence.until_ms, zone);
            text.push_str(&format!(", and {} more until {until}", fires - 1));
        }
        text.push_str(&format!(": {state}, {reason}"));
    }
    text
}

fn shorten(text: &str, chars_max: usize) -> String {
    let mut line = String::new();
    for (at, word) in text.split_whitespace().enumerate() {
        if line.len() > 4 * chars_max {
            break;
        }
        line.push_str(if at > 0 { " " } else { "" });
        line.push_str(word);
    }
    match line.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// A text as a cell of a table.
fn escape(text: &str) -> String {
    text.replace('|', "\\|")
}
