//! What models read of subagents and of the whiteboard.

use crate::ActiveSubagent;
use crate::whiteboard::WhiteboardEntry;

/// How much of a text is shown in a line, in characters.
const PREVIEW_CHARS: usize = 120;

/// The beginning of a text in one line.
pub(crate) fn make_preview(text: &str) -> String {
    let mut line = String::new();
    for (at, word) in text.split_whitespace().enumerate() {
        if line.len() > 4 * PREVIEW_CHARS {
            break;
        }
        line.push_str(if at > 0 { " " } else { "" });
        line.push_str(word);
    }
    match line.char_indices().nth(PREVIEW_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

pub(crate) fn describe_spawned(id: &str) -> String {
    format!(
        "Subagent spawned with task_id: {id}. It will report progress and send a final result when \
         complete."
    )
}

pub(crate) fn describe_cancelled(id: &str, was_there: bool) -> String {
    let id = make_preview(id);
    match was_there {
        true => format!("Subagent {id} cancelled."),
        false => format!("No active subagent found with task_id '{id}'."),
    }
}

pub(crate) fn describe_subagents(listed: &[ActiveSubagent], now_ms: i64) -> String {
    if listed.is_empty() {
        return "No active subagents.".to_owned();
    }
    let mut text = format!("Active subagents ({}):", listed.len());
    for ActiveSubagent { id, description, created_ms } in listed {
        let elapsed = elapsed_seconds(*created_ms, now_ms);
        let description = make_preview(description);
        text.push_str(&format!("\n- task_id={id}, elapsed={elapsed}s, description={description}"));
    }
    text
}

pub(crate) fn describe_entry(key: &str, value: Option<String>) -> String {
    value.unwrap_or_else(|| format!("No entry '{}' on the whiteboard.", make_preview(key)))
}

pub(crate) fn describe_deleted(key: &str, was_there: bool) -> String {
    let key = make_preview(key);
    match was_there {
        true => format!("Deleted '{key}' from the whiteboard."),
        false => format!("No entry '{key}' on the whiteboard."),
    }
}

pub(crate) fn describe_whiteboard(entries: &[WhiteboardEntry], now_ms: i64) -> String {
    if entries.is_empty() {
        return "The whiteboard is empty.".to_owned();
    }
    let mut text = format!("Whiteboard entries ({}):", entries.len());
    for WhiteboardEntry { key, bytes, writer, written_ms } in entries {
        let elapsed = elapsed_seconds(*written_ms, now_ms);
        text.push_str(&format!("\n- {key} ({bytes} bytes, by {writer} {elapsed}s ago)"));
    }
    text
}

fn elapsed_seconds(since_ms: i64, now_ms: i64) -> i64 {
    now_ms.saturating_sub(since_ms).max(0) / 1_000
}
