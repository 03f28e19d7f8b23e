//! Questions of a call reach its caller, wherever that is, and each has one end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join, join_all, ready};
use futures_util::stream::{self, StreamExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use toolbus_wire::header::{self, Headers};
use toolbus_wire::message::tool::{CallIds, ID_BYTES_MAX};
use toolbus_wire::message::toolbus::{
    AskError, AskErrorCode, AskKind, AskRound, ToolAnswer, ToolAsk, ToolProgress,
};
use toolbus_wire::name::{AgentName, InstanceId};
use toolbus_wire::{Envelope, Topic, json, topic};

use super::stage::{Stage, at_once, in_order, message};
use crate::asker::{ANSWER_BYTES_MAX, QUESTION_BYTES_MAX, QUESTIONS_MAX, SCRIPT_QUESTIONS};
use crate::requester::{Error, Request, Requester};
use crate::responder::{
    Call, Context, Failure, LARGE_REQUESTS_BYTES, Listen, Malformed, Repeat, Reply, Responder,
    Service,
};
use crate::{Asker, Bus, CallContext, Deadline, Progress, Question};

/// The question goes to whoever made the call, and the answer to whoever asked, over two
/// connections and for several calls at a time.
pub(super) async fn a_question_reaches_its_caller_and_the_answer_comes_back(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let calls = (0..5).map(async |number| {
        let answers = Asker::to(move |question: Question| async move {
            assert_eq!(question.kind, AskKind::Elicitation);
            assert_eq!(question.from.as_deref(), Some("the suite"));
            Ok(json!([number, question.params]))
        });
        asking.call(&format!("ask call{number}"), answers).await
    });

    for (number, reply) in join_all(calls).await.into_iter().enumerate() {
        assert_eq!(reply.unwrap_or_default(), format!("[{number},\"call{number}\"]"));
    }
}

/// Questions of one round are open together, each knows its place, and whoever asks knows what is
/// answered.
pub(super) async fn a_round_of_questions_comes_together(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let here = Arc::new(tokio::sync::Barrier::new(3));
    let answers = Asker::to(move |question: Question| {
        let here = Arc::clone(&here);
        async move {
            here.wait().await;
            let round = question.round.unwrap_or_else(|| panic!("it has no place"));
            Ok(json!([round.key, round.size, question.params]))
        }
    });

    let kinds = [AskKind::Elicitation, AskKind::Roots, AskKind::from("newer")];
    let told = asking.call("ask-round 3", answers.with_kinds(kinds)).await.unwrap_or_default();
    let one = |key| format!(r#"["{key}",3,["elicitation","roots","newer"]]"#);
    assert_eq!(told, [one("k0"), one("k1"), one("k2")].join(" "));

    let alone = Asker::to(|question: Question| async move { Ok(question.params) });
    let told = asking.call("ask-round 1", alone).await.unwrap_or_default();
    assert_eq!(told, r#"["elicitation","sampling"]"#);
    let told = asking.call("ask-round 1", Asker::none()).await.unwrap_or_default();
    assert!(told.starts_with("unsupported: "), "{told}");
}

/// Whoever is asked may hear nothing after: a client gets the question as its answer.
pub(super) async fn what_a_call_tells_before_it_asks_is_heard_before(stage: Stage) {
    const PIECES: usize = 20;
    let asking = Asking::start(&stage).await;
    let heard = Arc::new(Mutex::new(0));
    let progress = Arc::clone(&heard);
    let answers = Asker::to(move |_| std::future::ready(Ok(json!(*heard.lock()))));
    let what = format!("tell-and-ask {PIECES}");
    let request = Request {
        may_repeat: false,
        workers: None,
        topic: &asking.topic,
        envelope: message(&what),
        call_id: &what,
        context: CallContext::until(Deadline::after(Duration::from_secs(30)))
            .with_progress(Progress::to(move |_| *progress.lock() += 1))
            .with_asker(answers),
    };

    let reply = asking.requester.request(request).await;
    let reply = reply.unwrap_or_else(|error| panic!("no reply: {error}"));
    assert_eq!(String::from_utf8_lossy(&reply.body), PIECES.to_string());
}

/// What the caller says instead of an answer is what whoever asked is told.
pub(super) async fn a_refusal_comes_back_as_it_was_given(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let refuses =
        Asker::to(|_| async { Err(AskError::new(AskErrorCode::Unsupported, "no model")) });
    let reply = asking.call("ask anything", refuses).await;
    assert_eq!(reply.unwrap_or_default(), "unsupported: no model");
    // Without the hook that would print it.
    let panics = Asker::to(|_| async { std::panic::resume_unwind(Box::new("on purpose")) });
    let reply = asking.call("ask anything", panics).await.unwrap_or_default();
    assert!(reply.starts_with("failed: "), "{reply}");
}

/// Nobody who takes questions, or nobody at the topic that should: told at once, not at the
/// deadline.
pub(super) async fn a_question_that_nobody_takes_is_refused_at_once(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let reply = asking.call("ask anything", Asker::none()).await.unwrap_or_default();
    assert!(reply.starts_with("unsupported: "), "{reply}");

    let replies = stage.acks();
    let bus = &asking.callers;
    let _replies = stage.subscribe(bus, stage.private("r", "reply", in_order(1)), &replies).await;
    let request = message("ask anything")
        .with_reply_to(stage.topic("reply"))
        .with_header(header::ASK_TO, stage.topic("nobody").as_str());
    stage.publish(bus, &asking.topic, request).await;
    let reply = replies.received(1).await.remove(0).delivery.envelope;
    let reply = String::from_utf8_lossy(&reply.body).into_owned();
    assert!(reply.starts_with("unroutable: "), "{reply}");
}

/// A question of a call that nobody waits for is refused, and so is one that cannot be asked.
pub(super) async fn a_question_of_no_call_is_refused(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let answers = asking.answers(&stage).await;
    asking.question("never made", "1", json!(null)).await;
    let answer = answers.next().await;
    assert_eq!(answer.error.map(|error| error.code), Some(AskErrorCode::UnknownCall));
    assert_eq!((answer.tool_call_id.as_str(), answer.ask_id.as_str()), ("never made", "1"));
    asking.question("never made", "2", json!("x".repeat(QUESTION_BYTES_MAX))).await;
    let answer = answers.next().await;
    assert_eq!(answer.error.map(|error| error.code), Some(AskErrorCode::TooLarge));
    assert_eq!(answer.ask_id, "2");
    // One whose id would be kept and is too long is none.
    asking.question("never made", &"x".repeat(ID_BYTES_MAX + 1), json!(null)).await;
    asking.question("never made", "3", json!(null)).await;
    assert_eq!(answers.next().await.ask_id, "3");
}

/// Delivery is at least once; a person is asked once.
pub(super) async fn a_question_that_comes_twice_is_asked_once(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let answers = asking.answers(&stage).await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let asker = Asker::to(move |question: Question| {
        seen.lock().push(question.params.clone());
        async move { Ok(question.params) }
    });

    let call = asking.call("wait", asker);
    let asks = async {
        // The name of the call is its text.
        stage.until("the call waits", || async { asking.requester.stats().pending == 1 }).await;
        for id in ["a", "a", "b"] {
            asking.question("wait", id, json!(id)).await;
        }

        // Questions are put at the same time, so their answers come in any order.
        let mut results = [answers.next().await.result, answers.next().await.result];
        results.sort_by_key(|result| format!("{result:?}"));
        assert_eq!(results, [Some(json!("a")), Some(json!("b"))]);
        asking.question("wait", "a", json!("a")).await;
        stage.quiet().await;
        asking.release.cancel();
    };

    let (reply, ()) = join(call, asks).await;
    assert_eq!(reply.unwrap_or_default(), "waited");
    let mut asked = std::mem::take(&mut *asked.lock());
    asked.sort_by_key(ToString::to_string);
    assert_eq!(asked, [json!("a"), json!("b")]);
    assert_eq!(answers.count(), 2);
}

/// A tool that asks without end, or at great length, is told so.
pub(super) async fn questions_are_bounded_in_number_and_size(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let echo = || Asker::to(|question: Question| async move { Ok(question.params) });
    let reply = asking.call(&format!("ask-often {}", QUESTIONS_MAX + 50), echo()).await;
    assert_eq!(reply.unwrap_or_default(), format!("{QUESTIONS_MAX} answers, then busy"));
    let reply = asking.call(&format!("ask-long {QUESTION_BYTES_MAX}"), echo()).await;
    assert!(reply.unwrap_or_default().starts_with("too_large: "));
    let long = Asker::to(|_| async { Ok(json!("x".repeat(ANSWER_BYTES_MAX))) });
    let reply = asking.call("ask anything", long).await.unwrap_or_default();
    assert!(reply.starts_with("too_large: "), "{reply}");
}

/// What scripts ask is counted apart: it may be more, and leaves room for all else.
pub(super) async fn questions_of_scripts_have_limits_of_their_own(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let all = SCRIPT_QUESTIONS.open;
    let here = Arc::new(tokio::sync::Barrier::new(all + 1));
    let answers = Asker::to(move |question: Question| {
        let here = Arc::clone(&here);
        async move {
            // The last question is a person's, and asked while all others are open.
            if question.kind != AskKind::Script || question.params == json!("at once") {
                here.wait().await;
            }
            Ok(question.params)
        }
    });
    let reply = asking.call(&format!("ask-as-script {}", QUESTIONS_MAX * 4), answers).await;
    let expected = format!("{} answers, {all} at once, 3 busy, \"person\"", QUESTIONS_MAX * 4);
    assert_eq!(reply.unwrap_or_default(), expected);
}

/// Cancelled or out of time, a call takes its questions along, at both ends.
pub(super) async fn a_question_ends_with_its_call(stage: Stage) {
    let asking = Asking::start(&stage).await;
    let open = Arc::new(Mutex::new(0_u32));
    let silent = {
        let open = Arc::clone(&open);
        Asker::to(move |_| {
            let open = Arc::clone(&open);
            async move {
                let _open = Counted::new(open);
                std::future::pending().await
            }
        })
    };

    let cancelled = CancellationToken::new();
    let call = asking.call_until("ask anything", silent.clone(), stage.patience(), &cancelled);
    let cancel = async {
        stage.until("the question is put", || async { *open.lock() == 1 }).await;
        cancelled.cancel();
    };

    let (reply, ()) = join(call, cancel).await;
    assert_eq!(reply, Err(Error::Cancelled));
    stage.until("the question is withdrawn", || async { *open.lock() == 0 }).await;
    let told = asking.told.clone();
    let ended = || async { told.lock().iter().any(|end| end.starts_with("cancelled: ")) };
    stage.until("whoever asked is told", ended).await;

    // Another call by its id: a cancel of the first may come twice.
    let brief = Duration::from_millis(1_500);
    let never = CancellationToken::new();
    let reply = asking.call_until("ask anything else", silent, brief, &never).await;
    assert!(reply.clone().unwrap_or_default().starts_with("timeout: "), "{reply:?}");
    stage.until("the question is withdrawn", || async { *open.lock() == 0 }).await;
}

/// A caller and a worker, on a connection each. The worker asks as its requests say.
struct Asking {
    callers: Arc<dyn Bus>,
    requester: Requester,
    ask_topic: Topic,
    topic: Topic,
    answer_topic: Topic,
    /// What the worker's questions came to.
    told: Arc<Mutex<Vec<String>>>,
    /// Lets every `wait` end.
    release: CancellationToken,
    _worker: Responder,
}

impl Asking {
    async fn start(stage: &Stage) -> Self {
        let (callers, workers) = (stage.bus().await, stage.bus().await);
        let agent = AgentName::parse(stage.id()).expect("the ids of the suite are short");
        let instance = InstanceId::random();
        let requester = Requester::start(Arc::clone(&callers), agent.clone(), &instance).await;
        let topic = stage.topic("work");
        let listen = Listen {
            topic: topic.clone(),
            subscription: stage.name("workers"),
            instance: instance.clone(),
            concurrency: at_once(16).prefetch(),
            large_requests_bytes: LARGE_REQUESTS_BYTES,
        };

        let (told, release) = (Arc::default(), CancellationToken::new());
        let service = Asks { told: Arc::clone(&told), release: release.clone() };
        let worker = Responder::start(workers, listen, service).await;

        Self {
            callers,
            requester: requester.unwrap_or_else(|error| panic!("no requester: {error}")),
            ask_topic: topic::tool_ask(&agent, &instance),
            topic,
            answer_topic: stage.topic("answers"),
            told,
            release,
            _worker: worker.unwrap_or_else(|error| panic!("no worker: {error}")),
        }
    }

    async fn call(&self, what: &str, asker: Asker) -> Result<String, Error> {
        let never = CancellationToken::new();
        self.call_until(what, asker, Duration::from_secs(30), &never).await
    }

    async fn call_until(
        &self,
        what: &str,
        asker: Asker,
        budget: Duration,
        cancelled: &CancellationToken,
    ) -> Result<String, Error> {
        let request = Request {
            may_repeat: false,
            workers: None,
            topic: &self.topic,
            envelope: message(what),
            call_id: what,
            context: CallContext::until(Deadline::after(budget))
                .with_cancelled(cancelled.clone())
                .with_asker(asker),
        };
        let reply = self.requester.request(request).await?;
        Ok(String::from_utf8_lossy(&reply.body).into_owned())
    }

    /// Puts a question as a worker would.
    async fn question(&self, call_id: &str, ask_id: &str, params: Value) {
        let ask = ToolAsk {
            tool_call_id: call_id.to_owned(),
            ask_id: ask_id.to_owned(),
            kind: AskKind::Sampling,
            from: None,
            params,
            round: None,
        };

        let envelope = Envelope::of(&ask, "conformance")
            .with_correlation_id(&ask_id[..ask_id.len().min(36)])
            .with_reply_to(self.answer_topic.clone());
        let put = self.callers.publish(&self.ask_topic, envelope).await;
        put.unwrap_or_else(|error| panic!("the caller cannot be asked: {error}"));
    }

    async fn answers(&self, stage: &Stage) -> Answers {
        let probe = stage.acks();
        let subscription = stage.private("a", "answers", in_order(1));
        let consumer = stage.subscribe(&self.callers, subscription, &probe).await;
        Answers { probe, taken: Mutex::new(0), _consumer: consumer }
    }
}

/// The answers that come to a topic.
struct Answers {
    probe: Arc<super::probe::Probe>,
    taken: Mutex<usize>,
    _consumer: crate::Consumer,
}

impl Answers {
    async fn next(&self) -> ToolAnswer {
        let at = *self.taken.lock();
        let envelope = self.probe.received(at + 1).await.remove(at).delivery.envelope;
        *self.taken.lock() += 1;
        json::read(&envelope.body).unwrap_or_else(|error| panic!("no answer: {error}"))
    }

    fn count(&self) -> usize {
        self.probe.texts().len()
    }
}

/// Counts what is open.
struct Counted(Arc<Mutex<u32>>);

impl Counted {
    fn new(count: Arc<Mutex<u32>>) -> Self {
        *count.lock() += 1;
        Self(count)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        *self.0.lock() -= 1;
    }
}

/// A service that asks.
struct Asks {
    told: Arc<Mutex<Vec<String>>>,
    release: CancellationToken,
}

impl Asks {
    async fn run(&self, what: &str, context: &Context) -> String {
        let asker = &context.call.asker;
        let (verb, argument) = what.split_once(' ').unwrap_or((what, ""));
        let number = || argument.parse::<usize>().unwrap_or_default();

        match verb {
            "ask" => self.ask(asker, json!(argument)).await,
            "tell-and-ask" => {
                // The first question takes longer: a queue is made for its answer.
                self.ask(asker, json!(0)).await;
                (0..number()).for_each(|_| context.call.progress.send(ToolProgress::default()));
                self.ask(asker, json!(argument)).await
            }
            "ask-round" => {
                let size = argument.parse().unwrap_or_default();
                let keys: Vec<_> = (0..size).map(|number| format!("k{number}")).collect();
                let kinds: Vec<_> = asker.kinds().iter().map(AskKind::as_str).collect();
                let told = keys.iter().map(|key| {
                    let round = Some(AskRound { key: key.clone(), size });
                    self.put(asker, Question { round, ..question(json!(kinds)) })
                });
                join_all(told).await.join(" ")
            }
            "ask-long" => self.ask(asker, json!("x".repeat(number()))).await,
            "ask-often" => {
                let mut answers = 0;
                for question in 0..number() {
                    let told = self.ask(asker, json!(question)).await;
                    if told.starts_with("busy: ") {
                        return format!("{answers} answers, then busy");
                    }
                    answers += 1;
                }
                format!("{answers} answers")
            }
            "ask-as-script" => self.ask_as_script(asker, number()).await,
            _ => {
                self.release.cancelled().await;
                "waited".to_owned()
            }
        }
    }

    /// Asks so many questions one after another, then all that may be open and three more, and a
    /// person beside them.
    async fn ask_as_script(&self, asker: &Asker, count: usize) -> String {
        let script = |params| Question { kind: AskKind::Script, ..question(params) };
        let mut answers = 0;
        for number in 0..count {
            let told = self.put(asker, script(json!(number))).await;
            answers += usize::from(told == number.to_string());
        }

        // As many as may be open, over and over.
        let steady = stream::iter((0..count).map(|number| script(json!(number))));
        let steady = steady.map(|question| self.put(asker, question));
        let steady = steady.buffer_unordered(SCRIPT_QUESTIONS.open);
        let busy_before = steady.filter(|told| ready(told.starts_with("busy: "))).count().await;
        answers -= busy_before;

        let at_once = (0..SCRIPT_QUESTIONS.open + 3)
            .map(|_| self.put(asker, script(json!("at once"))))
            .collect::<Vec<_>>();
        let person = async {
            tokio::task::yield_now().await;
            self.ask(asker, json!("person")).await
        };
        let (told, person) = join(join_all(at_once), person).await;
        let answered = told.iter().filter(|told| *told == "\"at once\"").count();
        let busy = told.iter().filter(|told| told.starts_with("busy: ")).count();
        format!("{answers} answers, {answered} at once, {busy} busy, {person}")
    }

    async fn ask(&self, asker: &Asker, params: Value) -> String {
        self.put(asker, question(params)).await
    }

    async fn put(&self, asker: &Asker, question: Question) -> String {
        let answer = asker.ask(question).await;
        let told = match answer {
            Ok(answer) => answer.to_string(),
            Err(error) => format!("{}: {error}", error.code),
        };
        self.told.lock().push(told.clone());
        told
    }
}

fn question(params: Value) -> Question {
    let from = Some("the suite".to_owned());
    Question { kind: AskKind::Elicitation, from, params, round: None }
}

impl Service for Asks {
    type Request = String;

    fn parse(&self, envelope: &Envelope) -> Result<Call<String>, Malformed> {
        let request = String::from_utf8_lossy(&envelope.body).into_owned();
        Ok(Call {
            ids: CallIds { tool_call_id: request.clone(), tool_name: String::new() },
            request,
            default_budget: Duration::from_secs(30),
            repeat: Repeat::Never,
        })
    }

    fn serve(&self, request: String, context: Context) -> BoxFuture<'_, Reply> {
        Box::pin(async move { reply(self.run(&request, &context).await) })
    }

    fn fail(&self, _: &CallIds, failure: Failure) -> Reply {
        reply(format!("{failure:?}"))
    }

    fn default_reply_topic(&self) -> Option<Topic> {
        None
    }

    fn source(&self) -> &'static str {
        "conformance"
    }
}

fn reply(text: String) -> Reply {
    Reply {
        message_type: "Toolbus.Conformance".into(),
        body: text.into(),
        headers: Headers::new(),
        error: None,
    }
}
