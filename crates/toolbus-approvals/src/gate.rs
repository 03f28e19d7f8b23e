//! The gate between the policy that wants an approval and the gate that refuses calls without one.
//!
//! In order: an answer that was given before, whether anybody can be asked, the row (on the disk
//! before anybody is told), the question, the wait, and the one update that lets the call begin.
//! While it waits the call is parked. What goes wrong is a refusal: no call runs because something
//! failed.

mod case;

use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use toolbus_bus::slot::Kept;
use toolbus_bus::{Asker, Slot};
use toolbus_tools::CallError;
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::policy::ApprovalDemand;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::toolbus::AskError;

use crate::Error;
use crate::answers::{Answer, Approve};
use crate::approval::{Approval, ApprovalState};
use crate::ask::{self, Askable};
use crate::calls::{Asked, Begin, NewApproval};
use crate::chain_answer;
use crate::desk::{Approvals, Desk, Watch};
use case::Case;

/// How long a call that waits leaves a store alone that it cannot read.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Gets calls approved that need it.
pub struct ApprovalGate {
    approvals: Approvals,
}

/// The row of a call, as long as the call is under way. Dropped, it says what has become of the
/// call.
struct CallRow {
    desk: Arc<Desk>,
    id: String,
    call_key: String,
    /// The call's slot and what cancels it, until it is decided whether the call begins.
    undecided: Option<(Slot, CancellationToken)>,
}

/// What a call hears while it waits.
enum Heard {
    Woken,
    Answered(Result<Approve, AskError>),
    TimeIsUp,
}

impl ApprovalGate {
    pub(crate) fn new(approvals: Approvals) -> Self {
        Self { approvals }
    }

    fn desk(&self) -> &Arc<Desk> {
        self.approvals.desk()
    }
}

impl Gate for ApprovalGate {
    fn name(&self) -> &'static str {
        "approval"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let call = &passage.call;
        let returning = self.desk().take_returning(|| call.slot.call_key(call.id.as_str()));

        match (passage.approval.clone(), returning) {
            (None, None) => Verdict::Now(Ok(())),
            (None, Some(call_key)) => {
                Verdict::Later(Box::pin(self.begin_without(passage, call_key)))
            }
            (Some(demand), returning) => {
                Verdict::Later(Box::pin(self.obtain(passage, demand, returning)))
            }
        }
    }
}

impl ApprovalGate {
    /// A call that was brought back and needs no approval any more still begins once at most.
    async fn begin_without(
        &self,
        passage: &mut Passage,
        call_key: String,
    ) -> Result<(), CallError> {
        let rows = &self.desk().rows;
        let begin = rows.begin_without(&call_key).await.map_err(|error| unusable(&error))?;

        match begin {
            Begin::Now | Begin::Begun => passage.hold(CallRow::decided(self.desk(), call_key)),
            Begin::No | Begin::Elsewhere => return leave(&passage.call.slot).await,
        }
        if begin == Begin::Begun { Err(begun_before()) } else { Ok(()) }
    }

    async fn obtain(
        &self,
        passage: &mut Passage,
        demand: ApprovalDemand,
        returning: Option<String>,
    ) -> Result<(), CallError> {
        let config = &self.desk().config;
        let case = Case::of(passage, demand, config.timeout, config.allow_self_approval);
        self.desk().start().await.map_err(|error| case.refuse_for(&error))?;

        let found = self.find_answer(&case).await;
        if let Some(id) = found.map_err(|error| case.refuse_for(&error))? {
            tracing::info!(remembered = id, subject = case.binding.subject, "approved before");
            if let Some(call_key) = returning {
                self.begin_without(passage, call_key).await?;
            }
            case.let_pass(passage, None);
            return Ok(());
        }

        let new = self.new_approval(passage, &case)?;
        let written = self.write_down(new, &case).await;
        if written.is_err()
            && let Some(call_key) = returning
        {
            // It is answered here, so nobody is to bring it back again.
            passage.hold(CallRow::decided(self.desk(), call_key));
        }
        let Some((approval, mut row)) = written? else {
            return leave(&case.slot).await;
        };
        let answered = self.wait_for_answer(&case, approval).await?;
        let begin = self.begin(passage, &case, &answered).await?;

        row.undecided = None;
        passage.hold(row);
        match begin {
            Ok(Begin::Now) => Ok(()),
            Ok(Begin::Begun) => Err(begun_before()),
            Ok(Begin::No) => {
                Err(case.refuse("its approval is for something else, or was not used in time"))
            }
            Ok(Begin::Elsewhere) => leave(&case.slot).await,
            Err(refusal) => Err(refusal),
        }
    }

    /// Finds an answer that was given before for such a call, and takes it where it is for so many.
    async fn find_answer(&self, case: &Case) -> Result<Option<String>, Error> {
        let rows = &self.desk().rows;
        if let Some(remembered) = rows.find_remembered(&case.binding).await? {
            return Ok(Some(remembered));
        }
        chain_answer::take(rows.store().await?, &case.binding).await
    }

    /// Writes down what is asked for. `None` where another process has the call.
    async fn write_down(
        &self,
        new: NewApproval,
        case: &Case,
    ) -> Result<Option<(Approval, CallRow)>, CallError> {
        let asked = self.desk().rows.ask(new).await;
        let approval = match asked.map_err(|error| case.refuse_for(&error))? {
            Asked::Ours(approval) => *approval,
            Asked::Elsewhere => return Ok(None),
            Asked::Begun => return Err(begun_before()),
        };

        let row = CallRow {
            desk: Arc::clone(self.desk()),
            id: approval.id.clone(),
            call_key: approval.call_key.clone(),
            undecided: Some((case.slot.clone(), case.cancelled.clone())),
        };
        Ok(Some((approval, row)))
    }

    fn new_approval(&self, passage: &Passage, case: &Case) -> Result<NewApproval, CallError> {
        let Desk { config, .. } = &**self.desk();
        let request = case.slot.request();
        let request = request.and_then(|request| serde_json::to_string(&request).ok());
        if case.asker.is_none() && request.is_none() && !config.wait_for_operator {
            return Err(case.refuse_unasked(match case.askable {
                Askable::TooLargeForForm => "its arguments are too long for the form of its caller",
                _ => "there is nobody to ask",
            }));
        }
        if self.desk().is_full() {
            return Err(case.refuse_for(&Error::Full(config.pending_max)));
        }

        let call = &passage.call;
        Ok(NewApproval {
            binding: case.binding.clone(),
            call_key: request.as_ref().and(case.call_key.clone()),
            call_id: call.id.to_string(),
            tool: call.tool.to_string(),
            risk: format!("{:?}", passage.subject.risk).to_lowercase(),
            door: format!("{:?}", case.door).to_lowercase(),
            agent: call.scope.agent.to_string(),
            reason: case.demand.reason.to_string(),
            request,
            timeout: case.timeout,
        })
    }

    /// Waits until the approval is answered or over.
    async fn wait_for_answer(
        &self,
        case: &Case,
        mut approval: Approval,
    ) -> Result<Approval, CallError> {
        if approval.state != ApprovalState::Pending {
            return Ok(approval);
        }
        park(case, &approval).await;

        let rows = &self.desk().rows;
        let watch = self.desk().watch(&approval.id);
        let ends_at = Instant::now() + case.timeout;
        let mut asker = case.asker.clone();
        let mut question = pin!(self.ask(asker.clone(), approval.clone()));

        loop {
            // Also the first time: it may have been answered before anybody watched.
            match rows.read(&approval.id).await {
                Ok(read) if read.state != ApprovalState::Pending => return Ok(read),
                Ok(read) => approval = read,
                Err(error) if Instant::now() >= ends_at => return Err(case.refuse_for(&error)),
                Err(error) => {
                    tracing::debug!(%error, "an approval cannot be looked at");
                    tokio::time::sleep(RETRY_INTERVAL).await;
                    continue;
                }
            }

            match hear(&watch, question.as_mut(), asker.is_some(), ends_at).await {
                Heard::Woken => {}
                Heard::Answered(Ok(verdict)) => {
                    asker = None;
                    self.write_answer(case, &approval.id, verdict).await?;
                }
                Heard::Answered(Err(error)) => {
                    asker = None;
                    self.go_on_without(case, &approval, &error).await?;
                }
                Heard::TimeIsUp => {
                    let note = "nobody answered in time";
                    let expired = rows.expire(&approval.id, note).await;
                    expired.map_err(|error| case.refuse_for(&error))?;
                }
            }
        }
    }

    /// Asks whoever has made the call.
    async fn ask(&self, asker: Option<Asker>, approval: Approval) -> Result<Approve, AskError> {
        match asker {
            Some(asker) => ask::ask(asker, approval, self.desk().config.remember_for).await,
            None => pending().await,
        }
    }

    /// Writes down what the caller has answered.
    async fn write_answer(&self, case: &Case, id: &str, verdict: Approve) -> Result<(), CallError> {
        let answer = Answer::new(verdict, &case.caller);
        let answered = self.approvals.store().answer(id, answer).await;
        match answered {
            // Somebody else was faster, and that holds.
            Ok(_) | Err(Error::AlreadyAnswered(_)) => Ok(()),
            Err(error) => Err(case.refuse_for(&error)),
        }
    }

    /// The caller gives no answer. Others may.
    async fn go_on_without(
        &self,
        case: &Case,
        approval: &Approval,
        error: &AskError,
    ) -> Result<(), CallError> {
        if approval.is_kept || self.desk().config.wait_for_operator {
            tracing::debug!(%error, approval = approval.id, "the caller does not answer");
            return Ok(());
        }
        let refusal = case.refuse_unasked(&format!("nobody could be asked: {error}"));
        let expired = self.desk().rows.expire(&approval.id, "nobody could be asked").await;
        expired.map_err(|error| case.refuse_for(&error))?;
        Err(refusal)
    }

    /// Lets the call begin, where the answer is a yes to what it is. The error outside is one of
    /// the store; the one inside is what the call ends in.
    async fn begin(
        &self,
        passage: &mut Passage,
        case: &Case,
        approval: &Approval,
    ) -> Result<Result<Begin, CallError>, CallError> {
        let (digest, runs) = match approval.state {
            ApprovalState::Approved => (case.binding.digest(), case.binding.clone()),
            ApprovalState::Modified => match case.modified(passage, approval) {
                Ok(runs) => (approval.digest.clone(), runs),
                Err(refusal) => return Ok(Err(refusal)),
            },
            ApprovalState::Denied => return Ok(Err(case.refuse_denied(approval))),
            ApprovalState::Consumed => return Ok(Ok(Begin::Begun)),
            ApprovalState::Pending | ApprovalState::Expired => {
                return Ok(Err(case.refuse_expired(approval)));
            }
        };

        let begin = self.desk().rows.consume(approval, digest, &runs).await;
        let begin = begin.map_err(|error| case.refuse_for(&error))?;
        if begin == Begin::Now {
            case.let_pass(passage, Some(runs.arguments));
        }
        Ok(Ok(begin))
    }
}

/// Parks a call. One that is kept and finds no room is left to its row.
async fn park(case: &Case, approval: &Approval) {
    if !approval.is_kept {
        case.slot.park(Kept::InMemory);
        return;
    }
    case.slot.park(Kept::InStore);
    if case.slot.kept() != Some(Kept::InStore) && case.slot.leave() {
        pending::<()>().await;
    }
}

/// Leaves the call to whoever has it: this process has nothing to say of it any more.
async fn leave(slot: &Slot) -> Result<(), CallError> {
    if slot.leave() {
        pending::<()>().await;
    }
    Err(begun_before())
}

async fn hear(
    watch: &Watch,
    question: impl Future<Output = Result<Approve, AskError>>,
    is_asked: bool,
    ends_at: Instant,
) -> Heard {
    // Every arm only waits.
    tokio::select! {
        biased;
        answer = question, if is_asked => Heard::Answered(answer),
        () = watch.woken() => Heard::Woken,
        () = tokio::time::sleep_until(ends_at) => Heard::TimeIsUp,
    }
}

fn begun_before() -> CallError {
    CallError::new(
        ErrorCode::OutcomeUnknown,
        "the call was let begin before: it may have taken effect or not",
    )
}

fn unusable(error: &Error) -> CallError {
    tracing::warn!(%error, "approvals cannot be kept");
    CallError::new(ErrorCode::Denied, format!("the call was not run: {error}"))
}

impl CallRow {
    /// The row of a call of which it is decided whether it begins.
    fn decided(desk: &Arc<Desk>, call_key: String) -> Self {
        Self { desk: Arc::clone(desk), id: String::new(), call_key, undecided: None }
    }
}

impl Drop for CallRow {
    fn drop(&mut self) {
        let desk = Arc::clone(&self.desk);
        let (id, call_key) = (std::mem::take(&mut self.id), std::mem::take(&mut self.call_key));
        let Some((slot, cancelled)) = &self.undecided else {
            return self.desk.spawn(async move { desk.rows.forget_request(&call_key).await });
        };

        let is_kept = slot.kept() == Some(Kept::InStore) && !cancelled.is_cancelled();
        self.desk.spawn(async move {
            match is_kept {
                true => desk.rows.release(&call_key).await,
                false => desk.rows.withdraw(&id).await,
            }
        });
    }
}
