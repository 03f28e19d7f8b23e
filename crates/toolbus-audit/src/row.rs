//! One row: what is kept of a call.

use serde::{Deserialize, Serialize};
use toolbus_policy::{owner_text, principal_text};
use toolbus_store::JsonColumn;
use toolbus_store::sqlx::any::{AnyArguments, AnyRow};
use toolbus_store::sqlx::query::Query;
use toolbus_store::sqlx::{Any, Error, FromRow, Row as _};
use toolbus_tools::Scope;
use toolbus_tools::observe::{CallEvent, CallRecord};
use toolbus_tools::scope::DoorSet;
use toolbus_wire::Execution;
use toolbus_wire::clock::unix_now;

/// The columns, in the order in which they are bound.
pub(crate) const COLUMNS: [&str; 17] = [
    "began_ms",
    "took_us",
    "call_id",
    "parent",
    "run",
    "session",
    "agent",
    "door",
    "principal",
    "tool",
    "subject",
    "arguments",
    "status",
    "error",
    "refused_by",
    "execution",
    "lineage",
];

/// What is kept of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AuditRow {
    /// When it came in, in milliseconds of Unix time by the clock of its process.
    pub began_ms: i64,
    /// How long it took, in microseconds.
    pub took_us: i64,
    /// The call.
    pub call_id: String,
    /// The call that made it.
    pub parent: Option<String>,
    /// The run that it belongs to.
    pub run: String,
    /// The session that it belongs to.
    pub session: Option<String>,
    /// The agent that was called for.
    pub agent: String,
    /// The last door that it came through, as rules of the policy name doors.
    pub door: String,
    /// Who called, as rules of the policy name principals.
    pub principal: String,
    /// The tool, as it was called.
    pub tool: String,
    /// The id of the tool that it was about, where that was found out.
    pub subject: Option<String>,
    /// The digest of its arguments: 16 hexadecimal digits.
    pub arguments: Option<String>,
    /// `ok`, `error`, `denied` or `timeout`.
    pub status: String,
    /// The code of the error.
    pub error: Option<String>,
    /// The gate that refused it.
    pub refused_by: Option<String>,
    /// Whether its tool was started: `started`, `not_started` or `unknown`.
    pub execution: String,
    /// The doors and the owner of the call. `None`: an older program wrote the row.
    pub lineage: Option<CallLineage>,
}

/// The doors and the owner of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CallLineage {
    /// Every door, outermost first. A policy compares all of them with its rules.
    pub doors: DoorSet,
    /// Number of scopes above the scope of the call.
    pub depth: u8,
    /// The principal with the id of its key or client, in the form of owners in the store. It
    /// distinguishes two keys that had the same name.
    pub owner: String,
}

impl CallLineage {
    fn of(scope: &Scope) -> Self {
        Self { doors: scope.doors, depth: scope.depth, owner: owner_text(&scope.principal) }
    }
}

impl AuditRow {
    /// The row of a call that has just ended.
    pub(crate) fn of(event: &CallEvent<'_>, record: &CallRecord) -> Self {
        let scope = event.scope;
        let began = unix_now().saturating_sub(record.took);
        let text = |text: &str| text.to_owned();

        Self {
            began_ms: i64::try_from(began.as_millis()).unwrap_or(i64::MAX),
            took_us: i64::try_from(record.took.as_micros()).unwrap_or(i64::MAX),
            call_id: text(event.call.as_str()),
            parent: scope.parent.as_ref().map(|parent| text(parent.as_str())),
            run: text(scope.run.as_str()),
            session: scope.session.as_ref().map(|session| text(session.as_str())),
            agent: scope.agent.to_string(),
            door: text(scope.door.as_str()),
            principal: principal_text(&scope.principal),
            tool: text(event.tool.as_str()),
            subject: record.subject.as_ref().map(|subject| text(subject.as_str())),
            arguments: record.arguments.map(|digest| digest.to_string()),
            status: text(record.status.as_str()),
            // A peer may send any text as its code.
            error: record.error.as_ref().map(|code| text(code.label())),
            refused_by: record.refused_by.map(text),
            execution: text(execution_name(record.execution)),
            lineage: Some(CallLineage::of(scope)),
        }
    }

    /// Binds all of it, in the order of [`COLUMNS`].
    pub(crate) fn bind<'q>(
        self,
        query: Query<'q, Any, AnyArguments>,
    ) -> Query<'q, Any, AnyArguments> {
        query
            .bind(self.began_ms)
            .bind(self.took_us)
            .bind(self.call_id)
            .bind(self.parent)
            .bind(self.run)
            .bind(self.session)
            .bind(self.agent)
            .bind(self.door)
            .bind(self.principal)
            .bind(self.tool)
            .bind(self.subject)
            .bind(self.arguments)
            .bind(self.status)
            .bind(self.error)
            .bind(self.refused_by)
            .bind(self.execution)
            .bind(self.lineage.map(JsonColumn))
    }
}

fn execution_name(execution: Execution) -> &'static str {
    match execution {
        Execution::NotStarted => "not_started",
        Execution::Started => "started",
        _ => "unknown",
    }
}

impl FromRow<'_, AnyRow> for AuditRow {
    fn from_row(row: &AnyRow) -> Result<Self, Error> {
        let call_id: String = row.try_get("call_id")?;
        let lineage = JsonColumn::read_optional(row, "lineage", &call_id)?;

        Ok(Self {
            began_ms: row.try_get("began_ms")?,
            took_us: row.try_get("took_us")?,
            call_id,
            parent: row.try_get("parent")?,
            run: row.try_get("run")?,
            session: row.try_get("session")?,
            agent: row.try_get("agent")?,
            door: row.try_get("door")?,
            principal: row.try_get("principal")?,
            tool: row.try_get("tool")?,
            subject: row.try_get("subject")?,
            arguments: row.try_get("arguments")?,
            status: row.try_get("status")?,
            error: row.try_get("error")?,
            refused_by: row.try_get("refused_by")?,
            execution: row.try_get("execution")?,
            lineage,
        })
    }
}
