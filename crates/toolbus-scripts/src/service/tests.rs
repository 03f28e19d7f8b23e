//! The service with a scripted runner, over the in-memory broker; real runners have their own.

use std::time::Duration;

use parking_lot::Mutex;
use toolbus_bus::MemoryBus;
use toolbus_bus::requester::Requester;
use toolbus_tools::call::{Call as ToolCall, Outcome as ToolOutcome};
use toolbus_tools::{Guides, Invoker, Registry, Scope};
use toolbus_wire::name::AgentName;
use toolbus_wire::{ErrorCode, Message as _};

use super::*;
use crate::files::{FILES_BYTES_MAX, File, FileName, Produced, Refused};
use crate::runner::{Captured, Ending, OUTPUT_BYTES_MAX};

mod channel;
mod grants;

/// What scripts may take in these tests.
const ALLOWANCE: ScriptAllowance =
    ScriptAllowance { timeout_max: Duration::from_secs(450), memory_bytes: 3 << 30 };

type Answer = dyn Fn(&Script) -> Result<Outcome, Error> + Send + Sync;

/// Answers every script with what it was told, and remembers what it was asked.
struct Scripted {
    answer: Box<Answer>,
    asked: Arc<Mutex<Vec<Script>>>,
}

impl Runner for Scripted {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        if let Some(live) = run.live {
            live(Stream::Stdout, "half way\n");
        }
        let answer = (self.answer)(&script);
        self.asked.lock().push(script);
        Box::pin(std::future::ready(answer))
    }
}

fn printed(text: &str, ending: Ending) -> Outcome {
    let captured = Captured { text: text.to_owned(), truncated: false };
    Outcome {
        output: captured.clone(),
        stdout: captured,
        stderr: Captured::default(),
        ending,
        elapsed: Duration::from_millis(12),
        usage: None,
        produced: Produced::default(),
    }
}

struct Fixture {
    invoker: Invoker,
    asked: Arc<Mutex<Vec<Script>>>,
    _worker: Responder,
}

async fn fixture(
    answer: impl Fn(&Script) -> Result<Outcome, Error> + Send + Sync + 'static,
) -> Fixture {
    let asked = Arc::default();
    let runner = Scripted { answer: Box::new(answer), asked: Arc::clone(&asked) };
    fixture_of(Arc::new(runner), asked).await
}

async fn fixture_of(runner: Arc<dyn Runner>, asked: Arc<Mutex<Vec<Script>>>) -> Fixture {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let four = NonZeroU16::new(4).unwrap();
    let grants = GrantCheck::off();
    let options = WorkerOptions { concurrency: four, allowance: ALLOWANCE, grants };
    let worker = serve(Arc::clone(&bus), &InstanceId::random(), runner, options).await.unwrap();
    let requester =
        Requester::start(bus, AgentName::standard(), &InstanceId::random()).await.unwrap();
    let registry = Arc::new(Registry::new());
    crate::tool::register(&registry, &Guides::default(), requester, ALLOWANCE).unwrap();
    Fixture { invoker: Invoker::new(registry), asked, _worker: worker }
}

impl Fixture {
    async fn call(&self, arguments: serde_json::Value, progress: Progress) -> ToolOutcome {
        let call = ToolCall::by_name(
            &Scope::local(AgentName::standard()),
            "execute_python_script",
            arguments,
        )
        .expect("a short name")
        .with_progress(progress);
        self.invoker.invoke(call).await
    }
}

#[tokio::test]
async fn a_call_of_the_tool_reaches_the_runner_and_its_outcome_the_model() {
    let fixture = fixture(|_| Ok(printed("42\n", Ending::Exited(0)))).await;
    let arguments = serde_json::json!({
        "script": "print(42)", "input_data": "in", "timeout_seconds": 5, "pip_packages": "numpy"
    });
    let output = fixture.call(arguments, Progress::none()).await.unwrap();

    assert_eq!(output.content.as_deref(), Some("42\n"));

    let asked = fixture.asked.lock()[0].clone();

    let expected = Script {
        source: "print(42)".to_owned(),
        input: "in".to_owned(),
        timeout: Duration::from_secs(5),
        packages: vec!["numpy".to_owned()],
        files: Vec::new(),
        prelude: None,
    };

    assert_eq!(asked, expected);
}

#[tokio::test]
async fn files_reach_the_runner_and_what_it_gives_back_the_model() {
    let file = |name: &str, content: &[u8]| File {
        name: FileName::parse(name).unwrap(),
        content: content.to_vec().into(),
    };
    let left = vec![file("a.csv", b"1,2"), file("b.png", b"\x89PNG\r\n\x1a\n")];
    let refused = Refused { name: "c".to_owned(), reason: "it is a link".to_owned() };
    let produced = Produced { files: left, refused: vec![refused] };
    let fixture = fixture(move |_| {
        Ok(Outcome { produced: produced.clone(), ..printed("42\n", Ending::Exited(0)) })
    })
    .await;
    let arguments = serde_json::json!({
        "script": "x", "input_files": [{"name": "in", "text": "é"}, {"name": "bytes", "data": "/w=="}],
    });
    let output = fixture.call(arguments, Progress::none()).await.unwrap();
    let text = "42\n\n[output/c does not come back: it is a link]";

    assert_eq!(output.content.as_deref(), Some(text));

    let blocks: Vec<(&str, Option<&str>, Option<&str>)> = output
        .blocks
        .iter()
        .map(|block| (block.kind.as_str(), block.text.as_deref(), block.data.as_deref()))
        .collect();

    let names = "Files from the folder output: a.csv, b.png";

    let expected = [
        ("text", Some(text), None),
        ("text", Some(names), None),
        ("resource", Some("1,2"), None),
        ("image", None, Some("iVBORw0KGgo=")),
    ];

    assert_eq!(blocks, expected);

    let asked = fixture.asked.lock()[0].files.clone();
    assert_eq!(asked, [file("in", "é".as_bytes()), file("bytes", b"\xff")]);
}

/// Answers are bounded by the bus; what a script printed goes before its files.
#[tokio::test]
async fn files_that_make_an_answer_too_large_are_left_out_with_a_word() {
    // A character that takes six bytes in JSON, as often as it may come, three times.
    let zeros = Captured { text: "\0".repeat(OUTPUT_BYTES_MAX), truncated: false };
    let large = File {
        name: FileName::parse("large").unwrap(),
        content: vec![b'x'; FILES_BYTES_MAX].into(),
    };

    let fixture = fixture(move |_| {
        let produced = Produced { files: vec![large.clone()], refused: Vec::new() };
        let printed = printed("", Ending::Exited(0));
        Ok(Outcome { output: zeros.clone(), stdout: zeros.clone(), produced, ..printed })
    })
    .await;

    let output = fixture.call(serde_json::json!({"script": "x"}), Progress::none()).await.unwrap();
    let content = output.content.unwrap();

    assert!(content.starts_with('\0') && output.blocks.is_empty());

    let note = "\n[output/large does not come back: with what the script printed the answer would be \
                too large]";
    assert!(content.ends_with(note), "{}", &content[OUTPUT_BYTES_MAX..]);
}

#[tokio::test]
async fn models_are_told_the_limits_that_hold() {
    let fixture = fixture(|_| Ok(printed("", Ending::Exited(0)))).await;
    let arguments = serde_json::json!({"script": "x", "timeout_seconds": 9000});
    fixture.call(arguments, Progress::none()).await.unwrap();
    assert_eq!(fixture.asked.lock()[0].timeout, Duration::from_secs(450));

    let tool = fixture.invoker.registry().find("execute_python_script").unwrap();
    let parameters = tool.tool.parameters.to_string();
    assert!(parameters.contains("1 to 450; 30 when not given"), "{parameters}");
    let guide = ALLOWANCE.fill_in(include_str!("../guide.md"));
    assert!(guide.contains("450 at most") && guide.contains("3072 MiB"), "{guide}");
    assert!(!guide.contains("{memory}") && !guide.contains("{timeout"), "{guide}");
}

#[test]
fn who_asks_a_worker_for_more_time_than_it_gives_gets_what_it_gives() {
    let allowance = ScriptAllowance { timeout_max: Duration::from_secs(20), ..ALLOWANCE };
    assert_eq!(allowance.timeout_seconds_default(), 20);
    assert_eq!([0, 7, 21].map(|seconds| allowance.clamp_seconds(seconds)), [1, 7, 20]);
    let allowance = ScriptAllowance { timeout_max: Duration::MAX, ..ALLOWANCE };
    assert_eq!(allowance.timeout_seconds_max(), 1200);
}

/// What a script printed is cut where it would not fit into an answer by itself.
#[tokio::test]
async fn output_that_makes_an_answer_too_large_is_shortened() {
    let zeros = Captured { text: "\0".repeat(OUTPUT_BYTES_MAX), truncated: false };
    let fixture = fixture(move |_| {
        let printed = printed("", Ending::Exited(0));
        let (output, stdout, stderr) = (zeros.clone(), zeros.clone(), zeros.clone());
        Ok(Outcome { output, stdout, stderr, ..printed })
    })
    .await;

    let output = fixture.call(serde_json::json!({"script": "x"}), Progress::none()).await.unwrap();
    let content = output.content.unwrap();

    assert!(content.starts_with(&"\0".repeat(OUTPUT_BYTES_MAX / 2)));
    assert!(content.len() < OUTPUT_BYTES_MAX / 2 + 200, "{}", content.len());
    assert!(content.contains("truncated"), "{}", &content[OUTPUT_BYTES_MAX / 2..]);
}

#[tokio::test]
async fn files_that_no_runner_takes_never_reach_one() {
    let fixture = fixture(|_| panic!("it reached the runner")).await;
    let check = async |files: serde_json::Value, expected: &str| {
        let arguments = serde_json::json!({"script": "x", "input_files": files});
        let error = fixture.call(arguments, Progress::none()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(error.message.contains(expected), "{}", error.message);
    };

    check(serde_json::json!([{"name": "../x", "text": ""}]), "its name is a path").await;
    check(serde_json::json!([{"name": "x", "path": "/etc/passwd"}]), "path").await;

    let large = "x".repeat(FILES_BYTES_MAX + 10);
    check(serde_json::json!([{"name": "x", "text": large}]), "over the limits").await;

    let many: Vec<_> =
        (0..33).map(|n| serde_json::json!({"name": n.to_string(), "text": ""})).collect();
    check(serde_json::json!(many), "33 files of about 0 bytes are over the limits").await;
}

#[tokio::test]
async fn output_reaches_the_caller_while_the_script_runs() {
    let fixture = fixture(|_| Ok(printed("", Ending::Exited(0)))).await;
    let heard: Arc<Mutex<Vec<ToolProgress>>> = Arc::default();
    let sink = Arc::clone(&heard);
    let progress = Progress::to(move |progress| sink.lock().push(progress));

    // News and replies go separate ways, and only replies are waited for.
    while heard.lock().is_empty() {
        fixture.call(serde_json::json!({"script": "x"}), progress.clone()).await.unwrap();
    }

    let first = heard.lock()[0].clone();
    assert_eq!(first.stream, Some(OutputStream::Stdout));
    assert_eq!(first.text.as_deref(), Some("half way\n"));
}

#[tokio::test]
async fn a_missing_script_and_other_mistakes_never_reach_the_runner() {
    let fixture = fixture(|_| panic!("it reached the runner")).await;
    let check = async |arguments: serde_json::Value, expected: &str| {
        let error = fixture.call(arguments, Progress::none()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(error.message.contains(expected), "{}", error.message);
    };

    check(serde_json::json!({}), "Missing 'script' argument").await;
    check(serde_json::json!({"script": 1}), "1 is not of type").await;

    let huge = "x".repeat(SCRIPT_BYTES_MAX + 1);
    check(serde_json::json!({"script": huge}), "a script of 1048577 bytes is over").await;
    let many = vec!["a"; PACKAGES_MAX + 1];
    check(serde_json::json!({"script": "x", "pip_packages": many}), "33 packages are over").await;
}

#[tokio::test]
async fn a_runner_without_room_and_one_that_panics_are_typed_errors() {
    let busy = fixture(|_| Err(Error::Busy("4 scripts wait".to_owned()))).await;

    let error = busy.call(serde_json::json!({"script": "x"}), Progress::none()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Busy);

    let broken = fixture(|_| panic!("on purpose")).await;
    let error =
        broken.call(serde_json::json!({"script": "x"}), Progress::none()).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ExecutionFailed);

    assert_eq!(error.message, "the script runner failed: it panicked");
}

/// Waits for as long as a call lets it, in vain.
struct Patient;

impl Runner for Patient {
    fn name(&self) -> &'static str {
        "patient"
    }

    fn run(&self, _script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(async move {
            tokio::time::sleep_until(run.wait_deadline(Duration::from_secs(3600))).await;
            Err(Error::Unavailable("nobody answers".to_owned()))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn why_a_script_has_not_begun_is_told_before_its_caller_stops_waiting() {
    let fixture = fixture_of(Arc::new(Patient), Arc::default()).await;
    for seconds in [1, 30, 300] {
        let arguments = serde_json::json!({"script": "x", "timeout_seconds": seconds});
        let error = fixture.call(arguments, Progress::none()).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::ExecutionFailed, "{seconds}");
        assert_eq!(error.message, "running scripts is unavailable: nobody answers", "{seconds}");
    }
}

#[tokio::test]
async fn nobody_to_run_scripts_is_told_at_once() {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let requester =
        Requester::start(bus, AgentName::standard(), &InstanceId::random()).await.unwrap();
    let registry = Arc::new(Registry::new());

    crate::tool::register(&registry, &Guides::default(), requester, ALLOWANCE).unwrap();

    let call = ToolCall::by_name(
        &Scope::local(AgentName::standard()),
        "execute_python_script",
        serde_json::json!({"script": "x"}),
    )
    .expect("a short name");

    let error = Invoker::new(registry).invoke(call).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Unroutable);

    assert_eq!(error.message, "no scripts manager is running: nobody takes scripts");
}

#[test]
fn a_call_id_without_a_bound_is_malformed_and_not_repeated() {
    let service = ScriptService {
        runner: Arc::new(Unavailable("never asked".to_owned())),
        metrics: ScriptMetrics::new("test"),
        allowance: ALLOWANCE,
        grants: GrantCheck::off(),
    };
    let request = |id: &str| {
        let body = serde_json::json!({"toolCallId": id, "script": "x"}).to_string();
        Envelope::new(ScriptInvokeRequest::TYPE, "stranger", body.into_bytes().into())
    };

    assert!(service.parse(&request(&"x".repeat(256))).is_ok());
    for id in ["x".repeat(257), "x".repeat(1 << 20)] {
        let malformed = service.parse(&request(&id)).err().expect("it is over the limit");
        assert_eq!(malformed.ids.tool_call_id.len(), 256);
        assert!(malformed.reason.len() < 300, "{}", malformed.reason);
    }
}
