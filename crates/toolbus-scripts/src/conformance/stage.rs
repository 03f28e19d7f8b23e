//! The test bed of a case: the service with the runner under test behind an in-memory bus, and
//! helpers to send it scripts.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toolbus_bus::requester::{self, Requester};
use toolbus_bus::responder::Responder;
use toolbus_bus::{Bus, CallContext, Deadline, Envelope, MemoryBus, Progress};
use toolbus_tools::GrantCheck;
use toolbus_wire::envelope::new_id;
use toolbus_wire::message::script::{ScriptInvokeRequest, ScriptInvokeResponse, ScriptReason};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{json, topic};

use crate::runner::Runner;
use crate::{ScriptAllowance, WorkerOptions};

use super::{Canaries, Fixture, host};

/// What a script of a case may take when the case does not say, in seconds.
const TIMEOUT_SECONDS: u64 = 30;
/// Scripts that are run at a time.
const CONCURRENCY: NonZeroU16 = NonZeroU16::new(8).expect("8 is not zero");

/// The service under test. Clones are the same one.
#[derive(Clone)]
pub(super) struct Stage {
    fixture: Arc<dyn Fixture>,
    requester: Requester,
    worker: Arc<Mutex<Option<Responder>>>,
    call_ids: Arc<Mutex<Vec<String>>>,
}

/// A request that asks for nothing but this script.
pub(super) fn script(source: &str) -> ScriptInvokeRequest {
    ScriptInvokeRequest {
        tool_call_id: format!("call_{}/ü ", new_id()),
        script: source.to_owned(),
        input_data: None,
        timeout_seconds: TIMEOUT_SECONDS.cast_signed(),
        pip_packages: None,
        files: None,
        channel: None,
    }
}

impl Stage {
    pub(super) async fn start(fixture: Arc<dyn Fixture>) -> Self {
        let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
        let here = InstanceId::random();
        let there = InstanceId::random();
        let (allowance, grants) = (ScriptAllowance::default(), GrantCheck::off());
        let options = WorkerOptions { concurrency: CONCURRENCY, allowance, grants };
        let worker = crate::serve(Arc::clone(&bus), &there, fixture.runner(), options).await;
        let worker = worker.expect("the in-memory bus takes a subscription");
        let requester = Requester::start(bus, AgentName::standard(), &here).await;
        let requester = requester.expect("the in-memory bus takes a subscription");
        let worker = Arc::new(Mutex::new(Some(worker)));
        Self { fixture, requester, worker, call_ids: Arc::default() }
    }

    /// Ends the service, and sees that nothing is left of what it ran.
    pub(super) async fn tear_down(&self) {
        self.settle().await;
        self.requester.close().await;
        let worker = self.worker.lock().take();
        worker.expect("a stage is torn down once").stop(Duration::from_secs(1)).await;
        self.fixture.end().await;
    }

    /// Sees that nothing is left of all that was run until now.
    pub(super) async fn settle(&self) {
        let call_ids = self.call_ids.lock().clone();
        self.fixture.settle(&call_ids).await;
    }

    /// The runner itself, for what both ends of the bus in this process would spoil.
    pub(super) fn runner(&self) -> Arc<dyn Runner> {
        self.fixture.runner()
    }

    pub(super) fn patience(&self) -> Duration {
        self.fixture.patience()
    }

    pub(super) async fn canaries(&self) -> Canaries {
        self.fixture.canaries().await
    }

    /// Asks for a script and waits for the response.
    pub(super) async fn ask(&self, request: ScriptInvokeRequest) -> ScriptInvokeResponse {
        self.ask_live(request, Progress::none()).await
    }

    /// The same, with its output as it comes.
    pub(super) async fn ask_live(
        &self,
        request: ScriptInvokeRequest,
        progress: Progress,
    ) -> ScriptInvokeResponse {
        self.call_ids.lock().push(request.tool_call_id.clone());

        let patience =
            Duration::from_secs(request.timeout_seconds.unsigned_abs()) + self.patience();

        let sent = requester::Request {
            may_repeat: false,
            workers: None,
            topic: &topic::SCRIPT_INVOKE,
            envelope: Envelope::of(&request, self.requester.agent().as_str()),
            call_id: &request.tool_call_id,
            // Hops keep a margin of what they are given.
            context: CallContext::until(Deadline::after(patience * 2)).with_progress(progress),
        };

        let start = Instant::now();
        let reply = self.requester.request(sent).await.expect("a reply");

        assert!(start.elapsed() < patience, "the answer took {:?}", start.elapsed());

        let response: ScriptInvokeResponse =
            json::read(&reply.body).expect("the reply is a response");
        assert_eq!(response.tool_call_id, request.tool_call_id);

        response
    }

    /// Runs a script.
    pub(super) async fn run(&self, source: &str) -> ScriptInvokeResponse {
        self.ask(script(source)).await
    }

    /// Runs a script that may take so many seconds.
    pub(super) async fn run_for(&self, source: &str, seconds: i64) -> ScriptInvokeResponse {
        self.ask(ScriptInvokeRequest { timeout_seconds: seconds, ..script(source) }).await
    }

    /// Runs a script and checks its merged output and its exit code.
    pub(super) async fn check(&self, source: &str, output: &str, exit_code: i32) {
        let response = self.run(source).await;
        let got = (response.output.as_deref(), response.exit_code);
        assert_eq!(got, (Some(output), exit_code), "{source}\n{response:?}");
    }

    /// Runs a script that attacks, ends by itself, and tells of every attempt on a line of its own:
    /// each of them must end with the word `refused`, and there must be so many. The script has
    /// [`ATTEMPT`] before it.
    pub(super) async fn attack(&self, attempts: usize, source: &str) {
        let response = self.run(&format!("{ATTEMPT}{source}")).await;
        let said = response.output.clone().unwrap_or_default();
        assert_eq!(response.exit_code, 0, "{said}\n{response:?}");
        let through: Vec<_> = said.lines().filter(|line| !line.ends_with("refused")).collect();
        assert!(through.is_empty(), "these got through: {through:#?}");
        assert!(said.lines().count() >= attempts, "too few were made: {said}");
    }

    /// Runs a script that may take `seconds` until it has started processes with this mark, then
    /// waits for its end and returns it. `watch` is told which there are, until it says `true`.
    /// Where processes do not show, nothing is watched.
    pub(super) async fn watch(
        &self,
        request: ScriptInvokeRequest,
        mark: &str,
        mut watch: impl FnMut(&[i32]) -> bool,
    ) -> ScriptInvokeResponse {
        let running = self.ask(request);
        if !self.fixture.shows_processes() {
            return running.await;
        }

        let watching = async {
            while !watch(&host::processes_with(mark)) {
                // sleeps: looks again until the script ends.
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };

        tokio::pin!(running);
        tokio::select! {
            response = &mut running => panic!("it ended before it was seen: {response:?}"),
            () = watching => {}
        }

        running.await
    }

    /// Sees that no process with this mark is left. Asked right after an answer: by then they are
    /// gone.
    pub(super) fn assert_no_process(&self, mark: &str) {
        if self.fixture.shows_processes() {
            assert_eq!(host::processes_with(mark), [0; 0], "processes are left");
        }
    }
}

/// What became of a script that had to be ended.
#[track_caller]
pub(super) fn assert_ended_for(response: &ScriptInvokeResponse, reasons: &[ScriptReason]) {
    let reason = response.reason.as_ref();
    assert!(reason.is_some_and(|reason| reasons.contains(reason)), "{response:?}");
}

/// How scripts that attack report each attempt. `deny` is for what is there on every runner and
/// must be forbidden: an attempt that fails for another reason, such as a path that does not exist,
/// proves nothing and is reported as it failed. `attempt` is for what may also be absent.
pub(super) const ATTEMPT: &str = r"
import errno, os, sys
FORBIDDEN = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EROFS, errno.EAFNOSUPPORT}
def deny(name, action):
    try: print(name, 'got', repr(action())[:200])
    except OSError as error: print(name, 'refused' if error.errno in FORBIDDEN else f'failed: {error!r}')
def attempt(name, action):
    try: print(name, 'got', repr(action())[:200])
    except (OSError, ValueError): print(name, 'refused')
def unless_empty(value):
    if not value: raise PermissionError(errno.EACCES, 'nothing is shown')
    return value
def put(path, content):
    file = os.open(path, os.O_WRONLY)
    try: return os.write(file, content)
    finally: os.close(file)
";
