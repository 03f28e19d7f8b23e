//! Scripts with a channel, whose requests go to their caller over the bus.

use serde_json::json;
use toolbus_bus::CallContext;
use toolbus_bus::asker::SCRIPT_QUESTIONS;
use toolbus_bus::requester::Seal;
use toolbus_tools::GrantKey;
use toolbus_tools::call::CallError;
use toolbus_tools::grant::GrantPolicy;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode};

use super::*;
use crate::client::{ChannelScript, ScriptClient};

/// Sends each line of a script as a request, one after another or all at once, and prints what
/// comes back.
struct Asking {
    at_once: bool,
}

impl Runner for Asking {
    fn name(&self) -> &'static str {
        "asking"
    }

    fn run(&self, script: Script, run: Run) -> BoxFuture<'_, Result<Outcome, Error>> {
        Box::pin(async move {
            let Some(channel) = run.channel else { return Ok(printed("none", Ending::Exited(0))) };
            let lines = script.source.lines().enumerate();
            let mut requests = lines.map(|(number, line)| {
                let number = u32::try_from(number).expect("a few");
                channel.request(number, line.to_owned().into())
            });
            let answers = if self.at_once {
                futures_util::future::join_all(requests).await
            } else {
                let mut answers = Vec::new();
                for request in requests.by_ref() {
                    answers.push(request.await);
                }
                answers
            };
            let texts: Vec<_> =
                answers.iter().map(|answer| String::from_utf8_lossy(answer).into_owned()).collect();
            Ok(printed(&texts.join("\n"), Ending::Exited(0)))
        })
    }
}

struct Stage {
    client: ScriptClient,
    _worker: Responder,
}

/// Seals nothing.
struct NoSeal;

impl Seal for NoSeal {
    fn seal(&self, _: &Topic, _: toolbus_bus::Deadline, _: &mut Envelope) {}
}

async fn stage(at_once: bool, grants: GrantCheck) -> Stage {
    let bus: Arc<dyn Bus> = Arc::new(MemoryBus::new());
    let four = NonZeroU16::new(4).unwrap();
    let options = WorkerOptions { concurrency: four, allowance: ALLOWANCE, grants };
    let runner = Arc::new(Asking { at_once });
    let worker = serve(Arc::clone(&bus), &InstanceId::random(), runner, options).await.unwrap();
    let requester =
        Requester::start(bus, AgentName::standard(), &InstanceId::random()).await.unwrap();
    Stage { client: ScriptClient::new(requester), _worker: worker }
}

impl Stage {
    async fn run(&self, source: &str, asker: Asker) -> Result<ScriptInvokeResponse, CallError> {
        let script = ChannelScript {
            source: source.to_owned(),
            prelude: "p".to_owned(),
            timeout: Duration::from_secs(30),
            ..ChannelScript::default()
        };
        let deadline = toolbus_bus::Deadline::after(Duration::from_secs(60));
        self.client.run(script, CallContext::until(deadline).with_asker(asker), &NoSeal).await
    }

    async fn printed(&self, source: &str, asker: Asker) -> String {
        let response = self.run(source, asker).await.unwrap();
        assert_eq!(response.exit_code, 0, "{response:?}");
        response.output.unwrap()
    }
}

fn asker<F, Fut>(answer: F) -> Asker
where
    F: Fn(Value) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Value, AskError>> + Send + 'static,
{
    Asker::to(move |question: Question| {
        assert_eq!(question.kind, AskKind::Script);
        answer(question.params)
    })
    .with_kinds([AskKind::Script])
}

#[tokio::test]
async fn requests_reach_the_caller_with_their_numbers_and_responses_come_back() {
    let stage = stage(false, GrantCheck::off()).await;
    let echo = asker(|params| async move { Ok(params) });
    assert_eq!(
        stage.printed("{\"tool\": 1}\n[]", echo.clone()).await,
        "{\"number\":0,\"request\":{\"tool\":1}}\n{\"number\":1,\"request\":[]}"
    );
    let refuses = asker(|_| async { Err(AskError::new(AskErrorCode::Failed, "no \u{fc}")) });
    let answered = stage.printed("1", refuses).await;
    assert_eq!(answered, "{\"error\":{\"code\":\"failed\",\"message\":\"no \u{fc}\"}}");
    let answered = stage.printed("{", echo.clone()).await;
    assert!(answered.starts_with("{\"error\":{\"code\":\"invalid\","), "{answered}");
    let long = format!("\"{}\"", "x".repeat(1 << 20));
    let answered = stage.printed(&long[..(1 << 20) - 1], echo.clone()).await;
    assert!(answered.starts_with("{\"error\":{\"code\":\"invalid\","), "{answered}");
    let answered = stage.run(&long, echo).await.unwrap_err();
    assert_eq!(answered.code, ErrorCode::InvalidArguments);
}

#[tokio::test]
async fn a_caller_that_answers_no_scripts_gets_none_with_a_channel() {
    let stage = stage(false, GrantCheck::off()).await;
    let people = Asker::to(|_| async { Ok(json!(null)) });
    for asker in [Asker::none(), people.clone(), people.with_kinds([AskKind::Sampling])] {
        let response = stage.run("1", asker).await.unwrap();
        assert_eq!(response.reason, Some(ScriptReason::Invalid));
        let text = "the script has a channel, and its caller answers no requests of scripts";
        assert_eq!(response.stderr.as_deref(), Some(text));
    }
}

#[tokio::test]
async fn a_prelude_is_bounded() {
    let stage = stage(false, GrantCheck::off()).await;
    let script =
        ChannelScript { prelude: "#".repeat(PRELUDE_BYTES_MAX + 1), ..ChannelScript::default() };
    let deadline = toolbus_bus::Deadline::after(Duration::from_secs(60));
    let error = stage.client.run(script, CallContext::until(deadline), &NoSeal).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
}

/// More than other questions may be, and not more than these may.
#[tokio::test]
async fn requests_have_limits_of_their_own() {
    let numbers = |count: usize| (0..count).map(|_| "0\n").collect::<String>();
    let one_by_one = stage(false, GrantCheck::off()).await;
    let echo = asker(|params| async move { Ok(params["request"].clone()) });
    let zeros = one_by_one.printed(&numbers(1000), echo).await;
    assert_eq!(zeros.lines().filter(|line| *line == "0").count(), 1000);

    let at_once = stage(true, GrantCheck::off()).await;
    let all = Arc::new(tokio::sync::Barrier::new(SCRIPT_QUESTIONS.open));
    let together = asker(move |params| {
        let all = Arc::clone(&all);
        async move {
            all.wait().await;
            Ok(params["request"].clone())
        }
    });
    let answers = at_once.printed(&numbers(SCRIPT_QUESTIONS.open + 3), together).await;
    assert_eq!(answers.lines().filter(|line| *line == "0").count(), SCRIPT_QUESTIONS.open);
    assert_eq!(answers.lines().filter(|line| line.contains("busy")).count(), 3);
}

/// A permit to run scripts is no permit for those with a channel, nor the other way around.
#[tokio::test]
async fn a_script_with_a_channel_needs_a_grant_of_its_own() {
    let key = GrantKey::new("the key of agents and of workers").unwrap();
    let grants = GrantCheck::new("scripts manager", GrantPolicy::Require, key);
    let stage = stage(false, grants).await;
    let error = stage.run("1", asker(|params| async move { Ok(params) })).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::Denied);

    let with = |channel| ScriptInvokeRequest { channel, ..request_of("1") };
    let channel = Some(toolbus_wire::message::script::ScriptChannel::default());
    assert_ne!(crate::client::subject_of(&with(None)), crate::client::subject_of(&with(channel)));
}

fn request_of(source: &str) -> ScriptInvokeRequest {
    json::read(format!(r#"{{"toolCallId": "c", "script": "{source}"}}"#).as_bytes()).unwrap()
}
