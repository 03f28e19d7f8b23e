//! A call that needs an approval: what it is, who may be asked, and how it is refused.

use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use toolbus_bus::{Asker, Slot};
use toolbus_tools::gate::Passage;
use toolbus_tools::policy::ApprovalDemand;
use toolbus_tools::{CallError, Door, Principal};
use toolbus_wire::ErrorCode;

use crate::approval::Approval;
use crate::ask::Askable;
use crate::binding::Binding;
use crate::{Error, ask};

/// How much of the caller's time is left over for the refusal, when nobody answers: a tenth, and at
/// most this.
const REFUSAL_GRACE_MAX: Duration = Duration::from_secs(2);

/// A call that needs an approval, and who may give it.
pub(super) struct Case {
    pub(super) binding: Binding,
    pub(super) demand: ApprovalDemand,
    pub(super) door: Door,
    pub(super) caller: Principal,
    /// Who has made the call, where that may be asked.
    pub(super) asker: Option<Asker>,
    pub(super) askable: Askable,
    pub(super) slot: Slot,
    pub(super) cancelled: CancellationToken,
    /// What the call is known by when it comes again.
    pub(super) call_key: Option<String>,
    pub(super) timeout: Duration,
}

impl Case {
    pub(super) fn of(
        passage: &Passage,
        demand: ApprovalDemand,
        timeout: Duration,
        may_ask_caller: bool,
    ) -> Self {
        let call = &passage.call;
        let principal = &call.scope.principal;
        let binding = Binding::of(passage, &demand);
        let may_ask = may_ask_caller || *principal == Principal::local();
        let askable = match may_ask {
            true => ask::can_be_asked(&call.asker, &binding.arguments),
            false => Askable::No,
        };
        let asker = (askable == Askable::Yes).then(|| call.asker.clone());

        // The refusal has to reach the caller before it stops waiting.
        let left = passage.caller_deadline.left();
        let margin = (left / 10).min(REFUSAL_GRACE_MAX);
        Self {
            binding,
            demand,
            door: call.scope.door,
            caller: principal.clone(),
            asker,
            askable,
            slot: call.slot.clone(),
            cancelled: call.cancelled.clone(),
            call_key: call.slot.call_key(call.id.as_str()),
            timeout: timeout.min(left.saturating_sub(margin)),
        }
    }

    /// What runs where an approver has changed the arguments: they fit the tool's schema, and mean
    /// the same tool.
    pub(super) fn modified(
        &self,
        passage: &Passage,
        approval: &Approval,
    ) -> Result<Binding, CallError> {
        let refuse = |why: String| {
            self.refuse(&format!("the arguments that it was approved with cannot be used: {why}"))
        };
        if approval.binding.with_arguments(Value::Null) != self.binding.with_arguments(Value::Null)
        {
            return Err(refuse("they are for another call".to_owned()));
        }
        let Value::Object(arguments) = approval.binding.arguments.clone() else {
            return Err(refuse("they are no object".to_owned()));
        };

        let read = passage.read_arguments(arguments);
        let (subject, arguments) = read.map_err(|error| refuse(error.message))?;
        if subject != passage.subject {
            return Err(refuse(format!("they are about '{}'", subject.id)));
        }
        Ok(self.binding.with_arguments(arguments))
    }

    /// Lets the call pass with what was approved: the tool is sent just that, not another text that
    /// is read as the same.
    pub(super) fn let_pass(&self, passage: &mut Passage, arguments: Option<Value>) {
        passage.approval = None;
        if passage.entry.is_some() {
            let arguments = arguments.unwrap_or_else(|| passage.arguments.clone());
            passage.replace_arguments(arguments);
        }
    }

    pub(super) fn refuse(&self, why: &str) -> CallError {
        let waits = "approve it while it waits (agent-host approvals, or a client that can be \
                     asked)";
        self.refuse_with(why, waits)
    }

    /// Refuses a call that does not wait because nobody can answer.
    pub(super) fn refuse_unasked(&self, why: &str) -> CallError {
        let would_wait = "set approvals.wait_for_operator, and it waits for agent-host approvals";
        self.refuse_with(why, would_wait)
    }

    fn refuse_with(&self, why: &str, how: &str) -> CallError {
        let Self { binding, demand, door, .. } = self;
        let outside = match door {
            Door::Chain => ", or call it directly, outside the chain",
            _ => "",
        };
        let text = format!(
            "'{}' needs an approval ({}; rule '{}'), and was not run: {why}. To allow it: {}; or \
             {how}{outside}",
            binding.subject,
            demand.reason,
            demand.rule,
            demand.how_to_allow(&binding.subject)
        );
        CallError::new(ErrorCode::Denied, text)
    }

    pub(super) fn refuse_for(&self, error: &Error) -> CallError {
        match error {
            Error::Store(error) => tracing::warn!(%error, "approvals cannot be kept"),
            error => tracing::info!(%error, "a call cannot be approved"),
        }
        self.refuse(&error.to_string())
    }

    pub(super) fn refuse_denied(&self, approval: &Approval) -> CallError {
        let by = approval.told_by();
        let note = approval.note.as_ref().map_or_else(String::new, |note| format!(": {note}"));
        let subject = &self.binding.subject;
        CallError::new(ErrorCode::Denied, format!("'{subject}' was denied{by}{note}"))
    }

    pub(super) fn refuse_expired(&self, approval: &Approval) -> CallError {
        let why = approval.note.as_deref().unwrap_or("nobody answered in time");
        self.refuse(why)
    }
}
