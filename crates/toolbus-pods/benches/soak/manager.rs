//! `scripts-manager` as a process, one who asks it over RabbitMQ, and what the process holds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::ensure;
use e2e::bench::{Goal, Report, Row, process};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::responder::{OUTCOME_TTL, REMEMBERED_BYTES};
use toolbus_bus::{Bus, CallContext, Deadline, Envelope};
use toolbus_rabbitmq::{Config, RabbitBus, Start};
use toolbus_scripts::conformance::honest::{Fault, Honest};
use toolbus_testkit::process::{Launch, Service};
use toolbus_wire::message::script::{ScriptInvokeResponse, ScriptReason};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{json, topic};

use crate::tally::{one, zero};

const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long an answer may take: waiting for its turn, for the first of all also installing
/// packages.
const ANSWER_WITHIN: Duration = Duration::from_secs(600);
/// How soon nothing is left of what was answered.
const SOON: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
/// Until somebody asks again who was told that nobody could do it.
const AGAIN_AFTER: Duration = Duration::from_secs(1);
/// What connections that are kept for the next request may come to.
const DESCRIPTORS_MAX: f64 = 8.0;
/// What an allocator may keep.
const MEMORY_MAX_MIB: f64 = 8.0;

/// The manager, and one who asks it.
pub(crate) struct Manager {
    /// Which runner it has, for people.
    pub(crate) runner: &'static str,
    pub(crate) service: Service,
    requester: Requester,
    /// When it answered, and how many bytes.
    answers: Mutex<VecDeque<(Instant, usize)>>,
    asked_again: AtomicUsize,
}

/// What came of asking once.
enum Asked {
    /// It was not begun, for this reason.
    Again(Fault),
    Judged(Result<(), Fault>),
}

/// What a process holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Holds {
    descriptors: usize,
    children: usize,
    memory_mib: f64,
    /// What it is to remember of its answers, for requests that come twice.
    remembered_mib: f64,
}

impl Manager {
    pub(crate) async fn start(
        runner: &'static str,
        launch: Launch,
        broker: &str,
        at_once: u16,
    ) -> anyhow::Result<Self> {
        let at_once = at_once.to_string();
        let mut service = launch
            .args(["--bus", broker])
            .env("TOOLBUS_SCRIPTS__MAX_CONCURRENT", &at_once)
            .env("TOOLBUS_AGENTS__MAX_CONCURRENT", &at_once)
            .start()?;
        service.ready(READY_WITHIN).await?;

        let mut config = Config::new(broker)?;
        config.start = Start::Within(READY_WITHIN);
        let bus: Arc<dyn Bus> = RabbitBus::connect(config).await?;
        let name = AgentName::parse("soak")?;
        let requester = Requester::start(bus, name, &InstanceId::random()).await?;
        Ok(Self {
            runner,
            service,
            requester,
            answers: Mutex::default(),
            asked_again: AtomicUsize::new(0),
        })
    }

    /// Has a script run and judges the answer; that there is none is a fault, too. Whoever is told
    /// that it was not begun, for want of a manager or of its cluster, asks again.
    pub(crate) async fn judge(&self, script: &'static Honest) -> Result<(), Fault> {
        let end = Instant::now() + ANSWER_WITHIN;
        loop {
            match self.ask(script).await {
                Asked::Again(fault) if Instant::now() >= end => return Err(fault),
                Asked::Again(_) => _ = self.asked_again.fetch_add(1, Ordering::Relaxed),
                Asked::Judged(judged) => return judged,
            }
            sleep(AGAIN_AFTER).await;
        }
    }

    /// How often it was asked again.
    pub(crate) fn asked_again(&self) -> usize {
        self.asked_again.load(Ordering::Relaxed)
    }

    async fn ask(&self, script: &'static Honest) -> Asked {
        let fault = |cause: String, details: String| Fault { script: script.name, cause, details };
        let request = script.request();
        let sent = requester::Request {
            may_repeat: false,
            workers: None,
            topic: &topic::SCRIPT_INVOKE,
            envelope: Envelope::of(&request, self.requester.agent().as_str()),
            call_id: &request.tool_call_id,
            context: CallContext::until(Deadline::after(ANSWER_WITHIN)),
        };
        let reply = match self.requester.request(sent).await {
            Ok(reply) => reply,
            Err(error) => {
                let fault = fault("no answer".to_owned(), format!("{error:?}"));
                let is_begun = !error.is_unroutable();
                return if is_begun { Asked::Judged(Err(fault)) } else { Asked::Again(fault) };
            }
        };
        self.answers.lock().push_back((Instant::now(), REMEMBERED_BYTES + reply.body.len()));

        let response: ScriptInvokeResponse = match json::read(&reply.body) {
            Ok(response) => response,
            Err(error) => {
                let cause = "an answer of another kind".to_owned();
                return Asked::Judged(Err(fault(cause, format!("{error:?}"))));
            }
        };
        match script.judge(&response) {
            Err(fault) if is_unbegun(&response) => Asked::Again(fault),
            judged => Asked::Judged(judged),
        }
    }

    /// What it holds now.
    pub(crate) fn holds(&mut self) -> anyhow::Result<Holds> {
        let id = self.service.process().id();
        Ok(Holds {
            descriptors: process::descriptors(id)?,
            children: process::children(id)?,
            memory_mib: process::resident_mib(id)?,
            remembered_mib: self.remembered() as f64 / f64::from(1 << 20),
        })
    }

    fn remembered(&self) -> usize {
        let mut answers = self.answers.lock();
        while answers.front().is_some_and(|(at, _)| at.elapsed() >= OUTCOME_TTL) {
            answers.pop_front();
        }
        answers.iter().map(|(_, bytes)| bytes).sum()
    }

    /// What it holds once it has put everything away, or what it does not put away.
    pub(crate) async fn holds_at_last(&mut self, before: Holds) -> anyhow::Result<Holds> {
        let end = Instant::now() + SOON;
        loop {
            let now = self.holds()?;
            let is_quiet = now.children <= before.children && now.descriptors <= before.descriptors;
            if is_quiet || Instant::now() >= end {
                return Ok(now);
            }
            sleep(PAUSE).await;
        }
    }

    /// Ends it; gives the id of its process.
    pub(crate) async fn stop(mut self) -> anyhow::Result<u32> {
        self.requester.close().await;
        let id = self.service.process().id();
        let status = self.service.process().terminate(READY_WITHIN).await?;
        ensure!(status.success(), "{}: {status}", self.runner);
        Ok(id)
    }
}

impl Holds {
    /// Tells what it holds more than before.
    pub(crate) fn report(self, report: &mut Report, runner: &str, before: Self) {
        let more = |now: usize, before: usize| now as f64 - before as f64;
        report.add(zero(format!("{runner}: processes more"), more(self.children, before.children)));
        let descriptors = one(more(self.descriptors, before.descriptors));
        report.add(
            Row::new(format!("{runner}: descriptors more"), "", descriptors)
                .with_goal(Goal::AtMost(DESCRIPTORS_MAX)),
        );
        let remembered = self.remembered_mib - before.remembered_mib;
        report.add(Row::new(format!("{runner}: answers remembered more"), "MiB", one(remembered)));
        let memory = one(self.memory_mib - before.memory_mib - remembered);
        report.add(
            Row::new(format!("{runner}: resident memory more, beside them"), "MiB", memory)
                .with_goal(Goal::AtMost(MEMORY_MAX_MIB)),
        );
    }
}

/// Whether an answer says that the script was not begun and may be another time.
fn is_unbegun(response: &ScriptInvokeResponse) -> bool {
    matches!(&response.reason, Some(ScriptReason::Busy | ScriptReason::Unavailable))
}
