//! One approval, as its row has it.

use std::fmt;

use serde::Serialize;
use serde_json::Value;
use toolbus_store::sqlx::Row as _;
use toolbus_store::sqlx::any::AnyRow;

use crate::Error;
use crate::binding::{Binding, BoundPrincipal, Remember};

/// What has become of an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Nobody has answered yet.
    Pending,
    /// Somebody has said yes, and the call has not begun.
    Approved,
    /// The same with other arguments.
    Modified,
    /// Somebody has said no.
    Denied,
    /// Nobody has answered in time, or nobody waits for the answer any more.
    Expired,
    /// The call was let begin.
    Consumed,
}

/// One approval.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its id.
    pub id: String,
    /// What has become of it.
    pub state: ApprovalState,
    /// What it is bound to: what runs if the answer is yes.
    pub binding: Binding,
    /// The digest of that.
    pub digest: String,
    /// The arguments that were asked for, where an approver has changed them.
    pub asked_arguments: Option<Value>,
    /// The caller's id for the call.
    pub call_id: String,
    /// What the tool was called by.
    pub tool: String,
    /// How much harm it can do.
    pub risk: String,
    /// Where the call came in.
    pub door: String,
    /// The agent that is called.
    pub agent: String,
    /// Why the rule wants an approval.
    pub reason: String,
    /// When it was asked for, in Unix milliseconds of the store.
    pub asked_ms: i64,
    /// Until when it can be answered, and once it is, used.
    pub expires_ms: i64,
    /// When it was answered.
    pub answered_ms: Option<i64>,
    /// Who has answered.
    pub answered_by: Option<String>,
    /// What there is to say of it.
    pub note: Option<String>,
    /// When nothing could come of it any more.
    pub ended_ms: Option<i64>,
    /// Whether the call outlives the process that it came to.
    pub is_kept: bool,
    /// What the call is known by when it comes again.
    #[serde(skip)]
    pub(crate) call_key: String,
    /// The process that has the call.
    #[serde(skip)]
    pub(crate) held_by: Option<String>,
}

/// An answer that holds for calls to come.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Remembered {
    /// Its id.
    pub id: String,
    /// What it holds for.
    pub remember: Remember,
    /// The approval that it was said of.
    pub approval: String,
    /// What that was bound to. Of this, what `remember` leaves open may differ.
    pub binding: Binding,
    /// Who said so.
    pub made_by: String,
    /// When, in Unix milliseconds of the store.
    pub made_ms: i64,
    /// Until when it holds.
    pub expires_ms: i64,
}

/// The columns of an approval, in the order in which nobody reads them.
pub(crate) const COLUMNS: &str = "id, state, binding, asked_binding, digest, call_id, tool, risk, \
     door, agent, reason, asked_ms, expires_ms, answered_ms, answered_by, note, ended_ms, held_by, \
     call_key, \
     CAST(CASE WHEN request IS NULL THEN 0 ELSE 1 END AS BIGINT) AS is_kept";

impl ApprovalState {
    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Modified => "modified",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Consumed => "consumed",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let all = [
            Self::Pending,
            Self::Approved,
            Self::Modified,
            Self::Denied,
            Self::Expired,
            Self::Consumed,
        ];
        all.into_iter().find(|state| state.as_str() == name)
    }
}

impl fmt::Display for ApprovalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Approval {
    pub(crate) fn of_row(row: &AnyRow) -> Result<Self, Error> {
        let id: String = row.try_get("id")?;
        let unreadable = || Error::Unreadable(id.clone());
        let read = |text: &str| toolbus_json::from_trusted(text).map_err(|_| unreadable());
        let asked: Option<String> = row.try_get("asked_binding")?;
        let asked: Option<Binding> = asked.as_deref().map(read).transpose()?;

        Ok(Self {
            state: ApprovalState::parse(row.try_get("state")?).ok_or_else(unreadable)?,
            binding: read(row.try_get("binding")?)?,
            digest: row.try_get("digest")?,
            asked_arguments: asked.map(|asked| asked.arguments),
            call_id: row.try_get("call_id")?,
            tool: row.try_get("tool")?,
            risk: row.try_get("risk")?,
            door: row.try_get("door")?,
            agent: row.try_get("agent")?,
            reason: row.try_get("reason")?,
            asked_ms: row.try_get("asked_ms")?,
            expires_ms: row.try_get("expires_ms")?,
            answered_ms: row.try_get("answered_ms")?,
            answered_by: row.try_get("answered_by")?,
            note: row.try_get("note")?,
            ended_ms: row.try_get("ended_ms")?,
            call_key: row.try_get("call_key")?,
            held_by: row.try_get("held_by")?,
            is_kept: row.try_get::<i64, _>("is_kept")? != 0,
            id,
        })
    }

    /// Who has answered, as the end of a sentence.
    pub(crate) fn told_by(&self) -> String {
        self.answered_by.as_ref().map_or_else(String::new, |by| format!(" by {by}"))
    }

    /// Who has made the call.
    #[must_use]
    pub fn requester(&self) -> &BoundPrincipal {
        &self.binding.principal
    }
}

impl Remembered {
    pub(crate) fn of_row(row: &AnyRow) -> Result<Self, Error> {
        let id: String = row.try_get("id")?;
        let unreadable = || Error::Unreadable(id.clone());
        let binding: &str = row.try_get("binding")?;

        Ok(Self {
            remember: Remember::parse(row.try_get("remember")?).ok_or_else(unreadable)?,
            approval: row.try_get("approval")?,
            binding: toolbus_json::from_trusted(binding).map_err(|_| unreadable())?,
            made_by: row.try_get("made_by")?,
            made_ms: row.try_get("made_ms")?,
            expires_ms: row.try_get("expires_ms")?,
            id,
        })
    }
}
