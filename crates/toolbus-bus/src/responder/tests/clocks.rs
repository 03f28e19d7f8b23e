//! Callers whose wall clocks differ from the worker's.

use std::io;

use parking_lot::Mutex;
use toolbus_wire::clock::unix_now;

use super::*;
use crate::port::{Consumer, Handler, Health};
use crate::requester::{Request, Requester};
use crate::testing::agent;

/// By how many seconds a caller's clock is ahead.
const SKEWS: [i64; 7] = [0, 5, -5, 120, -120, 3_600, -3_600];

/// The bus as a process meets it whose clock is ahead by so many milliseconds.
struct Skewed {
    inner: Arc<Faulty>,
    ahead_ms: i64,
}

impl Bus for Skewed {
    fn publish<'a>(
        &'a self,
        topic: &'a Topic,
        mut envelope: Envelope,
    ) -> BoxFuture<'a, Result<(), PublishError>> {
        if let Some(moment) = envelope.headers.get(header::DEADLINE_MS) {
            let moment = moment.parse::<u64>().unwrap().saturating_add_signed(self.ahead_ms);
            envelope.headers.set(header::DEADLINE_MS, moment.to_string());
        }
        self.inner.publish(topic, envelope)
    }

    fn subscribe(
        &self,
        subscription: Subscription,
        handler: Arc<dyn Handler>,
    ) -> BoxFuture<'_, Result<Consumer, SubscribeError>> {
        self.inner.subscribe(subscription, handler)
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn close(&self, grace: Duration) -> BoxFuture<'_, ()> {
        self.inner.close(grace)
    }
}

/// A request that its caller, whose clock is ahead by so many seconds, sent a while ago, when ten
/// seconds were left.
pub(super) fn sent_ago(call: &str, tool: &str, ahead: i64, ago: Duration) -> Envelope {
    let sent_ms = (unix_now() - ago).as_millis() as u64;
    let moment = sent_ms.saturating_add_signed(ahead * 1_000) + 10_000;
    request(call, tool, "")
        .with_header(header::TIMEOUT_MS, "10000")
        .with_header(header::DEADLINE_MS, moment.to_string())
        .with_expiry(10 * SECOND)
}

#[tokio::test(start_paused = true)]
async fn no_call_is_refused_because_of_a_clock_and_none_outlives_its_caller() {
    for ahead in SKEWS {
        let stage = Stage::start(1).await;
        let bus = Arc::new(Skewed { inner: Arc::clone(&stage.bus), ahead_ms: ahead * 1_000 });
        let requester = Requester::start(bus, agent("RockBot"), &instance("caller")).await.unwrap();
        let work = topic(WORK);
        let ask = async |call_id: &str, tool: &str| {
            let context = CallContext::until(Deadline::after(10 * SECOND));
            let envelope = request(call_id, tool, "");
            let asked = Request {
                topic: &work,
                workers: None,
                envelope,
                call_id,
                may_repeat: false,
                context,
            };
            outcome(&requester.request(asked).await.unwrap())
        };

        for call in ["a", "b", "c"] {
            assert_eq!(ask(call, "echo").await, format!("{call} was run RockBot"), "{ahead} s");
        }

        let start = Instant::now();
        let late = "d: Timeout { asked: 10s, execution: Started }";
        assert_eq!(ask("d", "held").await, late, "{ahead} s");
        let took = start.elapsed();
        assert!(took > 8 * SECOND && took < 10 * SECOND, "{ahead} s: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_in_the_queue_counts_whatever_the_clocks_say() {
    for ahead in SKEWS {
        let stage = Stage::start(1).await;
        stage.publish(sent_ago("a", "echo", ahead, Duration::ZERO)).await;
        assert_eq!(stage.outcomes(1).await, ["a was run RockBot"], "{ahead} s");

        let start = Instant::now();
        stage.publish(sent_ago("b", "held", ahead, 6 * SECOND)).await;
        stage.outcomes(2).await;
        let took = start.elapsed();
        // The tenth that is left to the answer is not the work's.
        assert!(took > 3 * SECOND && took < 4 * SECOND, "{ahead} s: {took:?}");

        stage.publish(sent_ago("c", "echo", ahead, 11 * SECOND)).await;
        let over = "c: Timeout { asked: 10s, execution: NotStarted }";
        assert_eq!(stage.outcomes(3).await[2], over, "{ahead} s");
    }
}

/// The first request of a caller may have waited, or its clock may be behind. The broker has not
/// dropped it, so it is not over.
#[tokio::test(start_paused = true)]
async fn a_caller_of_whom_nothing_is_known_gets_what_was_left() {
    let stage = Stage::start(1).await;
    let start = Instant::now();
    stage.publish(sent_ago("a", "held", -120, 6 * SECOND)).await;
    assert_eq!(stage.outcomes(1).await, ["a: Timeout { asked: 10s, execution: Started }"]);
    assert_eq!(start.elapsed(), 9 * SECOND);
}

/// As a dead letter that somebody has sent again: nothing says that it is not over.
#[tokio::test(start_paused = true)]
async fn a_moment_without_an_expiry_is_that_of_the_clock() {
    let stage = Stage::start(1).await;
    let envelope = sent_ago("a", "echo", 0, 11 * SECOND);
    stage.publish(Envelope { expires_after: None, ..envelope }).await;
    assert_eq!(stage.outcomes(1).await, ["a: Timeout { asked: 10s, execution: NotStarted }"]);
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// How many lines have all of these words.
    fn count(&self, words: &[&str]) -> usize {
        let text = String::from_utf8(self.0.lock().clone()).unwrap();
        text.lines().filter(|line| words.iter().all(|word| line.contains(word))).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_is_behind_reports_it_once_for_each_process() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
    let _logging = tracing::subscriber::set_default(subscriber.finish());

    let stage = Stage::start(1).await;
    for call in ["a", "b", "c"] {
        stage.publish(sent_ago(call, "echo", 120, Duration::ZERO)).await;
    }
    stage.outcomes(3).await;
    let words = ["WARN", "the clock of a peer is ahead of ours", "peer=\"RockBot\""];
    assert_eq!(log.count(&words), 1);

    let bus = Arc::clone(&stage.bus);
    let requester = Requester::start(bus, agent("RockBot"), &instance("one")).await.unwrap();
    for worker in ["bridge-1", "bridge-1", "bridge-2"] {
        let alive = Alive { instance: worker.to_owned(), ..Alive::default() };
        let mut heartbeat = Envelope::of(&alive, "mcp-bridge");
        heartbeat.timestamp += 120;
        let to = topic::tool_progress(&agent("RockBot"), &instance("one"));
        stage.bus.publish(&to, heartbeat).await.unwrap();
    }

    let words = |process| ["WARN", "ahead of ours", "peer=\"mcp-bridge\"", process];
    until("both reports", || log.count(&words("process=\"bridge-2\"")) == 1).await;
    assert_eq!(log.count(&words("process=\"bridge-1\"")), 1);
    requester.close().await;
}
