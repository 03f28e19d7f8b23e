use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::time::Instant;
use toolbus_wire::message::toolbus::{Alive, ToolCancel, ToolProgress};

use super::*;
use crate::testing::{Fault, Faulty, Inbox, agent, at_once, instance, topic, until, within};
use crate::{Health, Progress};

mod publishing;
mod silence;
mod workers;

const SECOND: Duration = Duration::from_secs(1);

/// A requester, and the bus that it asks on.
struct Stage {
    bus: Arc<Faulty>,
    requester: Requester,
    topic: Topic,
}

impl Stage {
    async fn start() -> Self {
        let bus = Faulty::new();
        let requester =
            Requester::start(bus.clone(), agent("RockBot"), &instance("one")).await.unwrap();
        Self { requester, bus, topic: topic("work") }
    }

    /// Requests, as a worker sees them that answers none.
    async fn silent_worker(&self) -> Arc<Inbox> {
        Inbox::open(&*self.bus, self.topic.as_str()).await
    }

    async fn ask(&self, call_id: &str, budget: Duration) -> Result<Envelope, Error> {
        self.ask_with(call_id, budget, &CancellationToken::new(), Progress::none()).await
    }

    async fn ask_with(
        &self,
        call_id: &str,
        budget: Duration,
        cancelled: &CancellationToken,
        progress: Progress,
    ) -> Result<Envelope, Error> {
        let context = CallContext::until(Deadline::after(budget))
            .with_cancelled(cancelled.clone())
            .with_progress(progress);
        self.request(call_id, false, context).await
    }

    /// Asks for something that is declared idempotent or read-only.
    async fn ask_harmless(&self, call_id: &str, budget: Duration) -> Result<Envelope, Error> {
        self.request(call_id, true, CallContext::until(Deadline::after(budget))).await
    }

    /// Asks those who take their requests from this subscription.
    async fn ask_workers(
        &self,
        call_id: &str,
        workers: &str,
        budget: Duration,
    ) -> Result<Envelope, Error> {
        let context = CallContext::until(Deadline::after(budget));
        let request = self.new_request(call_id, context);
        self.requester.request(Request { workers: Some(workers), ..request }).await
    }

    async fn request(
        &self,
        call_id: &str,
        may_repeat: bool,
        context: CallContext,
    ) -> Result<Envelope, Error> {
        let request = self.new_request(call_id, context);
        self.requester.request(Request { may_repeat, ..request }).await
    }

    fn new_request<'a>(&'a self, call_id: &'a str, context: CallContext) -> Request<'a> {
        let envelope = Envelope::new("Test", "", Bytes::copy_from_slice(call_id.as_bytes()));
        let topic = &self.topic;
        Request { may_repeat: false, workers: None, topic, envelope, call_id, context }
    }

    /// A sign of life of a worker that holds these calls.
    async fn sign(&self, calls: &[&str]) {
        let calls = calls.iter().map(|&call| call.to_owned()).collect();
        self.news(&Alive { instance: "worker".to_owned(), calls, ..Alive::default() }).await;
    }

    async fn news<M: toolbus_wire::Message>(&self, news: &M) {
        let to = topic::tool_progress(&agent("RockBot"), &instance("one"));
        self.bus.publish(&to, Envelope::of(news, "worker")).await.unwrap();
    }

    /// The answer of a worker that did not run the call and cannot know whether another does.
    async fn answer_tentatively(&self, request: &Envelope) {
        let reply = Envelope::new("Tentative", "another", request.body.clone());
        let reply = Envelope { correlation_id: request.correlation_id.clone(), ..reply };
        let reply = reply.with_header(header::TENTATIVE, "1");
        self.bus.publish(request.reply_to.as_ref().unwrap(), reply).await.unwrap();
    }

    async fn answer(&self, request: &Envelope) {
        let reply = Envelope::new("Test", "worker", request.body.clone());
        let reply = Envelope { correlation_id: request.correlation_id.clone(), ..reply };
        self.bus.publish(request.reply_to.as_ref().unwrap(), reply).await.unwrap();
    }
}

/// What each call heard of its progress.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<ToolProgress>>>);

impl Heard {
    fn progress(&self) -> Progress {
        let heard = Arc::clone(&self.0);
        Progress::to(move |progress| heard.lock().push(progress))
    }

    fn messages(&self) -> Vec<String> {
        self.0.lock().iter().filter_map(|progress| progress.message.clone()).collect()
    }
}

fn progress_of(call: &str, message: &str) -> ToolProgress {
    ToolProgress {
        tool_call_id: call.to_owned(),
        message: Some(message.to_owned()),
        ..ToolProgress::default()
    }
}

#[tokio::test(start_paused = true)]
async fn each_of_a_thousand_requests_gets_its_own_reply() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let ids: Vec<_> = (0..1_000).map(|number| format!("call {number}")).collect();
    let asking = join_all(ids.iter().map(|id| stage.ask(id, 60 * SECOND)));
    let answering = async {
        let requests = worker.received(1_000).await;
        for request in requests.iter().rev() {
            stage.answer(request).await;
        }
    };

    let (replies, ()) = tokio::join!(asking, answering);
    for (id, reply) in ids.iter().zip(replies) {
        assert_eq!(reply.unwrap().body, id.as_bytes());
    }

    assert_eq!(stage.requester.stats(), Stats::default());
}

/// Writes down all that a seal may cover.
struct Stamp;

impl Seal for Stamp {
    fn seal(&self, topic: &Topic, deadline: Deadline, envelope: &mut Envelope) {
        let correlation = envelope.correlation_id.as_deref().unwrap();
        let reply_to = envelope.reply_to.as_ref().unwrap();
        let until = envelope.headers.get(header::DEADLINE_MS).unwrap();
        let is_until = until.parse::<u64>().unwrap().abs_diff(deadline.unix_ms()) < 1_000;
        let stamp = format!("{topic} {correlation} {reply_to} {} {is_until}", envelope.source);
        envelope.headers.set("stamp", stamp);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_is_sealed_when_it_is_complete_and_sent_again_with_the_same_seal() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    stage.bus.fail([Fault::ArrivesBut(PublishError::Unconfirmed)]);
    let context = CallContext::until(Deadline::after(SECOND));
    let envelope = Envelope::new("Test", "", Bytes::new());
    let request = Request {
        may_repeat: true,
        workers: None,
        topic: &stage.topic,
        envelope,
        call_id: "c",
        context,
    };
    assert!(stage.requester.request_sealed(request, &Stamp).await.is_err());

    let requests = worker.received(2).await;
    for request in &requests {
        let correlation = request.correlation_id.as_deref().unwrap();
        let expected = format!("work {correlation} tool.result.RockBot.one RockBot true");
        assert_eq!(request.headers.get("stamp"), Some(expected.as_str()));
    }
    assert_eq!(requests[0].headers, requests[1].headers);
    let left = requests.iter().map(|request| request.expires_after);
    assert_eq!(left.collect::<Vec<_>>(), [Some(SECOND), Some(SECOND - RESEND_BACKOFF)]);
}

#[tokio::test(start_paused = true)]
async fn a_request_says_who_asks_where_the_reply_goes_and_until_when() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    assert!(stage.ask("c", SECOND).await.is_err());
    let request = worker.received(1).await.remove(0);
    assert_eq!(request.source, "RockBot");
    assert_eq!(request.reply_to.as_ref(), Some(stage.requester.reply_topic()));
    assert_eq!(request.reply_to.unwrap().as_str(), "tool.result.RockBot.one");
    assert_eq!(request.headers.get(header::PROGRESS_TO), Some("tool.progress.RockBot.one"));
    assert_eq!(request.headers.get(header::TIMEOUT_MS), Some("1000"));
    assert!(request.headers.get(header::DEADLINE_MS).is_some());
    assert_eq!(request.expires_after, Some(SECOND));
    assert!(request.correlation_id.is_some_and(|id| id.len() == 32));
}

#[tokio::test(start_paused = true)]
async fn a_request_says_whether_anybody_reads_progress() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    assert!(stage.ask("c", SECOND).await.is_err());
    let listened = Progress::to(|_| {});
    assert!(stage.ask_with("c", SECOND, &CancellationToken::new(), listened).await.is_err());
    let requests = worker.received(2).await;
    let quiet = requests.iter().map(|request| request.headers.get(header::QUIET).is_some());
    assert_eq!(quiet.collect::<Vec<_>>(), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn a_late_reply_is_told_from_a_stray_one() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    assert!(stage.ask("c", SECOND).await.is_err());
    let request = worker.received(1).await.remove(0);
    stage.answer(&request).await;
    until("a late reply", || stage.requester.stats().late == 1).await;

    let stray = Envelope { correlation_id: Some("nobody's".to_owned()), ..request.clone() };
    stage.answer(&stray).await;
    let nameless = Envelope { correlation_id: None, ..request };
    stage.answer(&nameless).await;
    until("two strays", || stage.requester.stats().unknown == 2).await;
    assert_eq!(stage.requester.stats(), Stats { pending: 0, late: 1, unknown: 2 });
}

/// Delivery is at least once, so an answer that comes again is no surprise.
#[tokio::test(start_paused = true)]
async fn a_second_reply_is_late() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let answering = async {
        let request = worker.received(1).await.remove(0);
        stage.answer(&request).await;
        request
    };

    let (reply, request) = tokio::join!(stage.ask("c", SECOND), answering);
    assert!(reply.is_ok());
    stage.answer(&request).await;
    until("a late reply", || stage.requester.stats().late == 1).await;
    assert_eq!(stage.requester.stats().unknown, 0);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_comes_at_the_deadline_and_names_what_was_asked_for() {
    let stage = Stage::start().await;
    let _worker = stage.silent_worker().await;
    let started = Instant::now();
    let error = stage.ask("c", 5 * SECOND).await.unwrap_err();
    assert_eq!(error, Error::Timeout { asked: 5 * SECOND });
    assert_eq!(error.to_string(), "no reply within 5000 ms");
    let took = started.elapsed();
    assert!(took >= 5 * SECOND && took < Duration::from_millis(5_005), "{took:?}");

    let request = Request {
        may_repeat: false,
        workers: None,
        topic: &stage.topic,
        envelope: Envelope::new("Test", "", Bytes::new()),
        call_id: "c",
        context: CallContext::until(Deadline::after(10 * SECOND).for_next_hop()),
    };

    let error = stage.requester.request(request).await.unwrap_err();
    assert_eq!(error, Error::Timeout { asked: 10 * SECOND });
    assert_eq!(stage.requester.stats().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn what_nobody_waits_for_is_not_sent() {
    let stage = Stage::start().await;
    let _worker = stage.silent_worker().await;
    let cancelled = CancellationToken::new();
    cancelled.cancel();
    let end = stage.ask_with("c", SECOND, &cancelled, Progress::none()).await;
    assert_eq!(end, Err(Error::Cancelled));
    assert_eq!(stage.ask("c", Duration::ZERO).await, Err(Error::Timeout { asked: Duration::ZERO }));
    stage.requester.close().await;
    assert_eq!(stage.ask("c", SECOND).await, Err(Error::Closed));
    assert!(stage.bus.published(&stage.topic).is_empty());
    assert!(stage.bus.published(&topic::TOOL_CANCEL).is_empty());
}

#[tokio::test(start_paused = true)]
async fn progress_reaches_the_call_that_it_is_about() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let (first, second) = (Heard::default(), Heard::default());
    let token = CancellationToken::new();
    let working = async {
        let requests = worker.received(2).await;
        stage.news(&progress_of("1", "a")).await;
        stage.news(&progress_of("2", "b")).await;
        stage.news(&progress_of("nobody's", "c")).await;
        stage.news(&progress_of("1", "d")).await;
        stage.answer(&requests[0]).await;
        stage.news(&progress_of("1", "too late")).await;
        stage.answer(&requests[1]).await;
    };

    let asking = async {
        tokio::join!(
            stage.ask_with("1", SECOND, &token, first.progress()),
            stage.ask_with("2", SECOND, &token, second.progress())
        )
    };

    let (ends, ()) = tokio::join!(asking, working);
    assert!(ends.0.is_ok() && ends.1.is_ok());
    assert_eq!(first.messages(), ["a", "d"]);
    assert_eq!(second.messages(), ["b"]);
}

#[tokio::test(start_paused = true)]
async fn news_that_cannot_be_read_are_passed_over() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let working = async {
        let request = worker.received(1).await.remove(0);
        let to = topic::tool_progress(&agent("RockBot"), &instance("one"));

        for message_type in ["Toolbus.Alive", "Toolbus.ToolProgress"] {
            for body in ["", "null", "[", "{\"calls\":7,\"seq\":\"x\"}", "\u{0}"] {
                let news =
                    Envelope::new(message_type, "worker", Bytes::from_static(body.as_bytes()));
                stage.bus.publish(&to, news).await.unwrap();
            }
        }

        stage.answer(&request).await;
    };

    let (end, ()) = tokio::join!(stage.ask("c", SECOND), working);
    assert!(end.is_ok());
    assert_eq!(stage.requester.stats(), Stats::default());
}

#[tokio::test(start_paused = true)]
async fn one_request_too_many_is_refused_and_finds_room_when_another_ends() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let ids: Vec<_> = (0..REQUESTS_MAX).map(|number| number.to_string()).collect();
    let mut waiting: Vec<_> = ids.iter().map(|id| Box::pin(stage.ask(id, 60 * SECOND))).collect();

    for request in &mut waiting {
        assert!(request.now_or_never().is_none());
    }

    assert_eq!(stage.requester.stats().pending, REQUESTS_MAX);
    let sent = worker.received(REQUESTS_MAX).await.len();
    assert_eq!(stage.ask("c", SECOND).await, Err(Error::Busy));
    waiting.pop();
    assert_eq!(stage.ask("c", SECOND).await, Err(Error::Timeout { asked: SECOND }));
    assert_eq!(worker.len(), sent + 1);
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_request() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let closing = async {
        worker.received(100).await;
        stage.requester.close().await;
        // It may be closed twice.
        stage.requester.close().await;
    };

    let asking = join_all((0..100).map(|_| stage.ask("c", 60 * SECOND)));
    let (ends, ()) = within("closing", async { tokio::join!(asking, closing) }).await;
    assert!(ends.iter().all(|end| *end == Err(Error::Closed)));
    assert_eq!(stage.requester.stats().pending, 0);
    let reply_topic = stage.requester.reply_topic();
    let gone = stage.bus.publish(reply_topic, Envelope::new("Test", "", Bytes::new())).await;
    assert_eq!(gone, Err(PublishError::Unroutable(reply_topic.clone())));
}

#[tokio::test(start_paused = true)]
async fn a_dropped_request_leaves_nothing_behind() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    {
        let mut request = Box::pin(stage.ask("c", 60 * SECOND));
        assert!((&mut request).now_or_never().is_none());
        assert_eq!(stage.requester.stats().pending, 1);
    }
    assert_eq!(stage.requester.stats().pending, 0);
    stage.answer(&worker.received(1).await[0]).await;
    until("a late reply", || stage.requester.stats().late == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_dropped_requester_leaves_no_task_behind() {
    let stage = Stage::start().await;
    let bus = Arc::downgrade(&stage.bus);
    drop(stage);
    until("the end of its tasks", || bus.strong_count() == 0).await;
}

#[tokio::test(start_paused = true)]
async fn two_requesters_do_not_take_each_other_s_replies() {
    let stage = Stage::start().await;
    let bus: Arc<dyn Bus> = stage.bus.clone();
    let other = Requester::start(bus, agent("RockBot"), &instance("two")).await.unwrap();
    let worker = stage.silent_worker().await;
    let answering = async { stage.answer(&worker.received(1).await[0]).await };
    let (end, ()) = tokio::join!(stage.ask("c", SECOND), answering);
    assert!(end.is_ok());
    assert_eq!(other.stats(), Stats::default());
    let again = Requester::start(stage.bus.clone(), agent("RockBot"), &instance("two")).await;
    assert!(matches!(again, Err(SubscribeError::Refused { .. })), "one instance, one queue");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_find_their_replies_on_many_threads() {
    let stage = Arc::new(Stage::start().await);
    let bus = stage.bus.clone();
    let worker = move |delivery: Delivery| {
        let bus = Arc::clone(&bus);
        async move {
            let Envelope { reply_to, correlation_id, body, .. } = delivery.envelope;
            let reply = Envelope { correlation_id, ..Envelope::new("Test", "worker", body) };
            bus.publish(&reply_to.unwrap(), reply).await.unwrap();
            Disposition::Ack
        }
    };

    let pattern = TopicPattern::from(stage.topic.clone());
    let subscription = Subscription::durable("workers", pattern, at_once(8));
    let worker = Arc::new(worker);
    let _first = stage.bus.subscribe(subscription.clone(), worker.clone()).await.unwrap();
    let _second = stage.bus.subscribe(subscription, worker).await.unwrap();
    let mut asking = tokio::task::JoinSet::new();

    for number in 0..2_000 {
        let stage = Arc::clone(&stage);
        asking.spawn(async move {
            let id = number.to_string();
            let reply = stage.ask(&id, 60 * SECOND).await.unwrap();
            assert_eq!(reply.body, id.as_bytes());
        });
    }

    while let Some(asked) = asking.join_next().await {
        asked.unwrap();
    }

    assert_eq!(stage.requester.stats(), Stats::default());
}
