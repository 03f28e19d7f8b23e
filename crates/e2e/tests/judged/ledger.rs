//! What happens to calls, in its order, and whether what ran is what was judged.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;
use toolbus_policy::owner_text;
use toolbus_tools::Door;
use toolbus_tools::call::Arguments;
use toolbus_tools::gate::{Gate, Passage, Verdict};
use toolbus_tools::observe::{
    ArgumentsDigest, CallEvent, CallEventKind, CallRecord, CallStatus, Observe,
};
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_tools::scope::DoorSet;
use toolbus_wire::Execution;

use super::bridge::asked_by;
use super::calls::probes;
use super::rules::allows;

/// The tools whose calls make calls of their own, by the door `chain`.
const PROGRAMS: [&str; 2] = ["tool_chain", "spawn_wisps"];
/// The tools that succeed without anything that the test sees run.
const UNSEEN: [&str; 7] = [
    "mcp_list_services",
    "tool_chain",
    "spawn_wisps",
    "spawn_subagent",
    "schedule_task",
    "invoke_agent",
    "execute_python_script",
];

/// Something that happened to a call.
#[derive(Debug, Clone)]
pub(crate) enum Happened {
    /// It came in.
    Began(Begun),
    /// The policy was asked about a call of this subject that came through these doors.
    Judged { subject: String, doors: DoorSet, is_allowed: bool },
    /// It came to the last gates, about this and with these arguments.
    Passed { call: String, subject: String, arguments: Value },
    /// The bridge, or a tool of the test, was asked to run something.
    Ran(Ran),
    /// It ended.
    Ended { call: String, end: End },
}

/// A call as it came in.
#[derive(Debug, Clone)]
pub(crate) struct Begun {
    id: String,
    tool: String,
    parent: Option<String>,
    door: Door,
    doors: DoorSet,
    /// The owner of the call.
    owner: String,
    has_reference: bool,
}

/// What the bridge, or a tool of the test, was asked to run.
#[derive(Debug, Clone)]
pub(crate) struct Ran {
    pub(crate) subject: String,
    /// What it was asked for beside the names of the server and the tool.
    pub(crate) asked: Value,
}

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct End {
    subject: Option<String>,
    status: CallStatus,
    execution: Execution,
    refused_by: Option<&'static str>,
}

/// A call that has ended, of which what ran is what was judged.
#[derive(Debug)]
pub(crate) struct CheckedCall {
    pub(crate) id: String,
    pub(crate) tool: String,
    pub(crate) parent: Option<String>,
    pub(crate) door: &'static str,
    /// Every door that the call came through, outermost first.
    pub(crate) doors: String,
    pub(crate) owner: String,
    /// The state of the tool's execution, as in rows of the audit log.
    pub(crate) execution: &'static str,
    pub(crate) subject: Option<String>,
    pub(crate) refused_by: Option<&'static str>,
    /// Whether the bridge, or a tool of the test, has run it.
    pub(crate) ran: bool,
    pub(crate) was_judged: bool,
    pub(crate) has_reference: bool,
    /// The digest of the arguments that it came to the last gates with.
    pub(crate) arguments: Option<String>,
}

/// Notes what happens. Clones note in the same place.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Notes>);

#[derive(Default)]
struct Notes {
    happened: Mutex<Vec<Happened>>,
    is_open: AtomicBool,
}

impl Ledger {
    /// Marks the end of the setup: later requests to the bridge belong to calls.
    pub(crate) fn open(&self) {
        self.0.is_open.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_open.load(Ordering::SeqCst)
    }

    pub(crate) fn add(&self, happened: Happened) {
        self.0.happened.lock().push(happened);
    }

    /// Takes all that has happened.
    pub(crate) fn take(&self) -> Vec<Happened> {
        std::mem::take(&mut *self.0.happened.lock())
    }

    /// Notes a decision of the policy.
    pub(crate) fn add_decision(&self, request: &PolicyRequest<'_>, decision: &Decision) {
        self.add(Happened::Judged {
            subject: request.subject.id.as_str().to_owned(),
            doors: request.scope.doors,
            is_allowed: *decision == Decision::Allow,
        });
    }
}

impl Observe for Ledger {
    fn on_event(&self, event: &CallEvent<'_>) {
        match &event.kind {
            CallEventKind::Began(call) => self.add(Happened::Began(Begun {
                id: event.call.to_string(),
                tool: event.tool.to_string(),
                parent: event.scope.parent.as_ref().map(ToString::to_string),
                door: event.scope.door,
                doors: event.scope.doors,
                owner: owner_text(&event.scope.principal),
                has_reference: has_reference(&call.arguments),
            })),
            CallEventKind::Ended(record) => {
                let call = event.call.to_string();
                self.add(Happened::Ended { call, end: End::of(record) });
            }
            _ => {}
        }
    }
}

/// The gate behind those that may change a call.
impl Gate for Ledger {
    fn name(&self) -> &'static str {
        "ledger"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        self.add(Happened::Passed {
            call: passage.call.id.to_string(),
            subject: passage.subject.id.as_str().to_owned(),
            arguments: passage.arguments.clone(),
        });
        Verdict::Now(Ok(()))
    }
}

fn has_reference(arguments: &Arguments) -> bool {
    const MEMBER: &str = "$artifact";
    match arguments {
        Arguments::Value(value) => value.to_string().contains(MEMBER),
        Arguments::Text(text) => text.as_ref().is_some_and(|text| text.contains(MEMBER)),
    }
}

impl End {
    fn of(record: &CallRecord) -> Self {
        Self {
            subject: record.subject.as_ref().map(|subject| subject.as_str().to_owned()),
            status: record.status,
            execution: record.execution,
            refused_by: record.refused_by,
        }
    }
}

impl CheckedCall {
    /// Whether it is about one of the tools that manage servers.
    pub(crate) fn is_of_management(&self) -> bool {
        self.subject.as_deref().is_some_and(|subject| subject.starts_with("mcp:management/"))
    }
}

/// Checks what has happened to calls that came through these doors, and to those that they made in
/// programs: every call that ran was judged, by all doors of its lineage, as just what ran.
///
/// # Errors
/// The first violation.
pub(crate) fn check(happened: &[Happened], doors: DoorSet) -> Result<Vec<CheckedCall>, String> {
    let mut begun = HashMap::new();
    let mut open: Vec<OpenCall<'_>> = Vec::new();
    let mut checked = Vec::new();

    for (at, one) in happened.iter().enumerate() {
        match one {
            Happened::Began(call) => {
                check_doors(call, &begun, doors)?;
                if begun.insert(call.id.as_str(), call).is_some() {
                    return Err(format!("two calls have the id of {call:?}"));
                }
                open.push(OpenCall { begun: call, at, passed: None, ran: false });
            }
            Happened::Judged { .. } => {}
            Happened::Passed { call, subject, arguments } => {
                let place = find(&open, call)?;
                open[place].passed = Some((subject.as_str(), arguments));
            }
            Happened::Ran(ran) => {
                let Some(place) = open.iter().position(|call| call.was_judged_as(ran)) else {
                    return Err(format!("{ran:?}, and no call was judged as that of {open:#?}"));
                };
                let before = &happened[open[place].at..at];
                open[place].begin(ran, before)?;
            }
            Happened::Ended { call, end } => {
                let place = find(&open, call)?;
                checked.push(open.remove(place).end(end)?);
            }
        }
    }
    match open.first() {
        None => Ok(checked),
        Some(call) => Err(format!("it has not ended: {call:?}")),
    }
}

/// Checks that each of the probes ran, exactly if it was tried and the rules allow it to calls that
/// came through these doors.
pub(crate) fn check_probes(
    calls: &[CheckedCall],
    doors: DoorSet,
    was_tried: impl Fn(&str) -> bool,
) {
    for (subject, _) in probes() {
        let is_it = |call: &&CheckedCall| call.subject.as_deref() == Some(subject);
        let ran = calls.iter().filter(is_it).any(|call| call.ran);
        assert_eq!(ran, was_tried(subject) && allows(subject, doors), "{subject} by {doors}");
    }
}

/// A call of a program came through the doors of the program and by `chain`, and any other call
/// through these doors.
fn check_doors(call: &Begun, begun: &HashMap<&str, &Begun>, doors: DoorSet) -> Result<(), String> {
    let parent = call.parent.as_deref().and_then(|parent| begun.get(parent));
    let expected = match parent {
        None => doors,
        Some(parent) if PROGRAMS.contains(&parent.tool.as_str()) => {
            parent.doors.union(DoorSet::of(&[Door::Chain]))
        }
        Some(parent) => return Err(format!("{call:?} was made by {parent:?}")),
    };

    // In a fixed order, because equal sets may differ in the order of their doors.
    let is_whole = call.doors.to_string() == expected.to_string();
    match is_whole && expected.contains(call.door) {
        true => Ok(()),
        false => Err(format!("{call:?} came through {expected}")),
    }
}

fn find(open: &[OpenCall<'_>], id: &str) -> Result<usize, String> {
    let found = open.iter().position(|call| call.begun.id == id);
    found.ok_or_else(|| format!("no call is open that has the id {id}"))
}

/// A call that has not ended.
#[derive(Debug)]
struct OpenCall<'a> {
    begun: &'a Begun,
    /// The number of what happened when it began.
    at: usize,
    /// What it was about at the last gates, and its arguments there.
    passed: Option<(&'a str, &'a Value)>,
    ran: bool,
}

impl OpenCall<'_> {
    fn was_judged_as(&self, ran: &Ran) -> bool {
        let Some((subject, arguments)) = self.passed.filter(|_| !self.ran) else { return false };
        subject == ran.subject && asked_by(&self.begun.tool, arguments) == ran.asked
    }

    /// The call runs; `before` is what has happened since it began.
    fn begin(&mut self, ran: &Ran, before: &[Happened]) -> Result<(), String> {
        let Begun { doors, .. } = *self.begun;
        let decisions = before.iter().filter_map(|one| match one {
            Happened::Judged { subject, doors: by, is_allowed }
                if *subject == ran.subject && *by == doors =>
            {
                Some(*is_allowed)
            }
            _ => None,
        });
        let decisions: Vec<bool> = decisions.collect();

        if decisions.is_empty() || decisions.contains(&false) {
            return Err(format!("{ran:?} ran, and the policy said {decisions:?} of {self:?}"));
        }
        if !allows(&ran.subject, doors) {
            return Err(format!("{ran:?} ran, which the rules do not allow to {self:?}"));
        }
        self.ran = true;
        Ok(())
    }

    fn end(self, end: &End) -> Result<CheckedCall, String> {
        let Self { begun, passed, ran, .. } = self;
        let End { subject, status, execution, refused_by } = end;
        let was_started = *execution != Execution::NotStarted;
        let is_denied = subject.as_deref().is_some_and(|subject| !allows(subject, begun.doors));
        let subject_passed = passed.map(|(subject, _)| subject);

        let violation = if ran && (subject.as_deref() != subject_passed || refused_by.is_some()) {
            Some("it ran, and its record says otherwise")
        } else if ran && !was_started {
            Some("it ran, and its record says that nothing was started")
        } else if is_denied && was_started {
            Some("it was started, which the rules do not allow")
        } else if !ran && *status == CallStatus::Ok && !UNSEEN.contains(&begun.tool.as_str()) {
            Some("nothing ran, and it succeeded")
        } else {
            None
        };
        if let Some(what) = violation {
            return Err(format!("{what}: {begun:?} {passed:?} {end:?}"));
        }

        Ok(CheckedCall {
            id: begun.id.clone(),
            tool: begun.tool.clone(),
            parent: begun.parent.clone(),
            door: begun.door.as_str(),
            doors: begun.doors.to_string(),
            owner: begun.owner.clone(),
            execution: execution_text(*execution),
            subject: subject.clone(),
            refused_by: *refused_by,
            ran,
            was_judged: passed.is_some() || *refused_by == Some("permission"),
            has_reference: begun.has_reference,
            arguments: passed.map(|(_, arguments)| ArgumentsDigest::of(arguments).to_string()),
        })
    }
}

fn execution_text(execution: Execution) -> &'static str {
    match execution {
        Execution::NotStarted => "not_started",
        Execution::Started => "started",
        _ => "unknown",
    }
}
