//! `audit`: shows the audit log, of any process at the same store.

use std::fmt::Write as _;
use std::io::Write as _;

use jiff::Timestamp;
use toolbus_audit::{AuditLog, AuditRow, Query};
use toolbus_runtime::service::{BoxError, Context, Exit};

use super::{fail, print_warning};
use crate::arguments::Audit;
use crate::settings::Settings;
use crate::{state, terminal_text};

pub(super) async fn run(
    options: Audit,
    settings: &Settings,
    context: &Context,
) -> Result<Exit, BoxError> {
    let Some(store) = state::store(settings) else {
        return Err("there is no place for state: set `store`".into());
    };
    let Audit { json, limit, run, status, tool } = options;
    let query = Query { run, status, subject: tool };

    // A look makes no file.
    let listed = match store.may_hold_something() {
        true => AuditLog::new(store.clone()).list(&query, limit).await,
        false => Ok(Vec::new()),
    };
    store.close().await;
    let rows = match listed {
        Ok(rows) => rows,
        Err(error) => return Ok(fail(error)),
    };

    if json {
        let _ = writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&rows)?);
        return Ok(Exit::SUCCESS);
    }
    if rows.is_empty() && !settings.audit.enabled {
        print_warning("there is no audit log: set audit.enabled = true", context);
    }
    let text = table(&rows);
    // Names are the words of strangers.
    let text = terminal_text::for_stream(&text, &std::io::stdout());
    let _ = write!(std::io::stdout(), "{text}");
    Ok(Exit::SUCCESS)
}

/// One line for each call, the newest first.
fn table(rows: &[AuditRow]) -> String {
    let mut text = String::new();
    for row in rows {
        let tool = row.subject.as_ref().unwrap_or(&row.tool);
        let by = row.refused_by.as_ref().map(|gate| format!(" by {gate}")).unwrap_or_default();
        let error = row.error.as_ref().map(|code| format!("  {code}{by}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "{}  {:7}  {:>8}  {:12}  {}  {tool}  {}{error}",
            time_text(row.began_ms),
            row.status,
            took_text(row.took_us),
            doors_text(row),
            row.principal,
            row.arguments.as_deref().unwrap_or("-"),
        );
    }
    text
}

/// Formats every door that a call came through, outermost first. Rows of older programs have only
/// the innermost door.
fn doors_text(row: &AuditRow) -> String {
    let doors = row.lineage.as_ref().map(|lineage| lineage.doors.to_string());
    doors.unwrap_or_else(|| row.door.clone())
}

/// The time in UTC, to the millisecond.
fn time_text(ms: i64) -> String {
    let time = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::MAX);
    format!("{time:.3}")
}

fn took_text(us: i64) -> String {
    match us {
        ..=9_999 => format!("{us}us"),
        10_000..=9_999_999 => format!("{}ms", us / 1_000),
        _ => format!("{}s", us / 1_000_000),
    }
}
