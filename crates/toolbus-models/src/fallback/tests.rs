use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::*;
use crate::completion::{StopReason, TokenUsage};
use crate::error::TimedPhase;
use crate::message::AssistantMessage;

/// A model that fails in these ways, in order, and then answers.
struct Script {
    name: &'static str,
    failures: Mutex<Vec<ErrorKind>>,
    asked: AtomicUsize,
    /// Whether it has passed something on before it fails.
    begins: bool,
}

impl Script {
    fn new(name: &'static str, mut failures: Vec<ErrorKind>) -> Arc<Self> {
        failures.reverse();
        let failures = Mutex::new(failures);
        Arc::new(Self { name, failures, asked: AtomicUsize::new(0), begins: false })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

impl Model for Script {
    fn name(&self) -> &str {
        self.name
    }

    fn complete<'a>(
        &'a self,
        _: &'a ModelRequest,
        on_event: OnEvent<'a>,
    ) -> BoxFuture<'a, Result<Completion, ModelError>> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        if self.begins {
            on_event(ModelEvent::Text { delta: "x".to_owned() });
        }
        let result = match self.failures.lock().pop() {
            Some(kind) => Err(kind.into()),
            None => Ok(Completion {
                message: AssistantMessage::text_only(self.name),
                stop: StopReason::End,
                usage: TokenUsage::default(),
                model: self.name.to_owned(),
            }),
        };
        Box::pin(std::future::ready(result))
    }
}

fn limited(seconds: u64) -> ErrorKind {
    let retry_after = Some(Duration::from_secs(seconds));
    ErrorKind::RateLimited { message: String::new(), retry_after }
}

fn silent() -> ErrorKind {
    ErrorKind::TimedOut { phase: TimedPhase::NextEvent }
}

fn refused(status: u16) -> ErrorKind {
    ErrorKind::Refused { status, message: String::new() }
}

const LIMITS: RetryLimits = RetryLimits { retries_max: 3, wait_max: Duration::from_secs(60) };

/// The answer of these models in turn, and how long it took.
async fn ask(models: &[&Arc<Script>]) -> (Result<String, ErrorKind>, Duration) {
    let mut models = models.iter().map(|model| (*model).clone() as Arc<dyn Model>);
    let first = models.next().expect("there is one");
    let model = FallbackModel::new(first, models.collect(), LIMITS);
    let begun = Instant::now();
    let result = model.complete(&ModelRequest::default(), &mut |_| {}).await;
    let result = result.map(|completion| completion.text()).map_err(|error| error.kind);
    (result, begun.elapsed())
}

#[tokio::test(start_paused = true)]
async fn waits_grow_and_are_as_long_as_was_asked_for() {
    let (result, took) = ask(&[&Script::new("a", vec![silent(), silent(), silent()])]).await;
    assert_eq!(result.as_deref(), Ok("a"));
    // 0.5, 1 and 2 seconds, each with up to a quarter more or less.
    let expected = Duration::from_millis(2_600)..Duration::from_millis(4_400);
    assert!(expected.contains(&took), "{took:?}");

    let (result, took) = ask(&[&Script::new("a", vec![limited(60)])]).await;
    assert_eq!(result.as_deref(), Ok("a"));
    assert!((60..62).contains(&took.as_secs()), "{took:?}");

    let script = Script::new("a", vec![limited(61)]);
    let (result, took) = ask(&[&script]).await;
    assert_eq!((result, took), (Err(limited(61)), Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn it_ends_at_its_limit() {
    let script = Script::new("a", vec![silent(); 10]);
    assert_eq!(ask(&[&script]).await.0, Err(silent()));
    assert_eq!(script.asked(), 4);

    let script = Script::new("a", vec![refused(400)]);
    assert_eq!(ask(&[&script]).await.0, Err(refused(400)));
    assert_eq!(script.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_is_asked_soon() {
    let (a, b) = (Script::new("a", vec![silent(); 10]), Script::new("b", vec![silent(); 2]));
    assert_eq!(ask(&[&a, &b]).await.0.as_deref(), Ok("b"));
    assert_eq!((a.asked(), b.asked()), (2, 3));

    let gone = Script::new("gone", vec![refused(404)]);
    assert_eq!(ask(&[&gone, &b]).await.0.as_deref(), Ok("b"));
    let wrong = Script::new("wrong", vec![refused(400)]);
    assert_eq!(ask(&[&wrong, &b]).await.0, Err(refused(400)));
    let no_key = Script::new("no key", vec![ErrorKind::NoKey { reason: String::new() }]);
    assert_eq!(ask(&[&no_key, &b]).await.0.as_deref(), Ok("b"));
}

#[tokio::test(start_paused = true)]
async fn nobody_else_is_asked_once_something_was_passed_on() {
    let begun = Script {
        begins: true,
        ..Arc::into_inner(Script::new("a", vec![silent()])).expect("it is alone")
    };
    let (begun, other) = (Arc::new(begun), Script::new("b", Vec::new()));
    assert_eq!(ask(&[&begun, &other]).await.0, Err(silent()));
    assert_eq!((begun.asked(), other.asked()), (1, 0));
}
