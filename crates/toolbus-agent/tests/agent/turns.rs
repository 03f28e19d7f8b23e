//! What happens in a turn.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolbus_agent::{SessionRef, TurnEnd, TurnEvent, TurnLimit};
use toolbus_models::{AssistantMessage, Completion, ErrorKind, Message, ModelError, ModelEvent};
use toolbus_testkit::eventually;
use toolbus_tools::Scope;
use toolbus_tools::budget::{Budget, BudgetLimits};

use crate::support::{Answer, Bench, at, completion, scope, usage};

fn answered(text: &str) -> TurnEnd {
    TurnEnd::Answered { text: text.to_owned(), limit: None }
}

/// MX-A1, MX-A2 and MX-A4: what fails is told by its own result, flagged, and harms no other call.
#[tokio::test]
async fn a_model_calls_tools_until_it_has_an_answer() {
    for bench in Bench::all().await {
        bench.script.add([
            Answer::Calls(vec![
                ("1", "late", json!({"after": 200})),
                ("2", "look", json!({})),
                ("3", "fail", json!({})),
                ("4", "nothing", json!({})),
            ]),
            Answer::Says("done"),
            Answer::Says("again"),
        ]);
        let (report, events) = bench.say_in(&scope("session/a"), "hello").await;
        assert_eq!((&report.end, report.usage), (&answered("done"), usage().plus(usage())));

        // At the same time, and given back in the order of the calls.
        let results = match &*bench.script.asked.lock()[1].messages[2] {
            Message::Results { results } => results.clone(),
            other => panic!("{other:?}"),
        };
        let texts: Vec<_> = results.iter().map(|result| result.text.as_str()).collect();
        assert_eq!((texts[0], texts[1]), ("after 200", "look 1"));
        assert!(texts[2].starts_with("Error: ") && texts[2].contains("it broke"), "{texts:?}");
        assert!(texts[3].starts_with("Error: ") && texts[3].contains("nothing"), "{texts:?}");
        let told: Vec<_> =
            results.iter().map(|result| (result.call_id.as_str(), result.is_error)).collect();
        assert_eq!(told, [("1", false), ("2", false), ("3", true), ("4", true)]);
        let ends: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                TurnEvent::CallEnded { id, .. } => Some(id.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!((ends.len(), ends.last()), (4, Some(&"1")), "they ran at the same time");
        let delta = TurnEvent::Model(ModelEvent::Text { delta: "done".to_owned() });
        assert!(events.contains(&delta));

        // The next turn has all that was said before.
        bench.say("session/a", "and?").await;
        let asked = bench.script.asked.lock();
        let system = &*asked[2].system;
        assert!(system.starts_with("You are a test.\n\n# Text from outside\n"), "{system}");
        assert_eq!(asked[0].system, asked[2].system, "it is the same for each turn");
        assert_eq!(
            (asked[2].messages.len(), asked[2].session_key.as_deref()),
            (5, Some("session/a"))
        );
        assert!(asked[2].tools.tools().iter().any(|entry| entry.tool.name == "look"));
    }
}

#[tokio::test]
async fn sessions_are_listed_and_nobody_elses() {
    for bench in Bench::all().await {
        bench.say("session/a", "\u{0}first\u{0} thing\nmore").await;
        bench.say("session/b", "second").await;
        bench.say("session/a", "third").await;
        let sessions = bench.agent.sessions();
        let listed = sessions.list(&scope("session/x"), 10).await.unwrap();
        let listed: Vec<_> =
            listed.iter().map(|one| (one.session.as_str(), one.title.as_str())).collect();
        assert_eq!(listed, [("session/a", "first thing"), ("session/b", "second")]);
        assert_eq!(sessions.transcript(&at("session/b")).await.unwrap().len(), 2);

        let principal = toolbus_tools::Principal::claimed("other");
        let other = Scope { principal, ..(*scope("session/a")).clone() };
        assert_eq!(sessions.list(&other, 10).await.unwrap(), []);
        assert_eq!(sessions.transcript(&SessionRef::of(&other).unwrap()).await.unwrap().len(), 0);
    }
}

#[tokio::test]
async fn a_model_that_does_nothing_but_call_is_stopped() {
    let bench = Bench::sqlite();
    bench.script.add((0..20).map(|_| Answer::Calls(vec![("1", "look", json!({}))])));
    let report = bench.say("session/a", "hello").await;
    let limit = Some(TurnLimit::Rounds);
    assert_eq!(report.end, TurnEnd::Answered { text: String::new(), limit });
    assert_eq!(*bench.looked.lock(), 12);
    let asked = bench.script.asked.lock();
    assert_eq!(asked.len(), 13);
    assert!(asked[12].tools.tools().is_empty(), "it is offered none at last");
}

#[tokio::test]
async fn calls_that_do_nothing_but_time_out_end_a_turn() {
    let bench = Bench::sqlite();
    let stuck = || Answer::Calls(vec![("1", "stuck", json!({})), ("2", "stuck", json!({}))]);
    bench.script.add([stuck(), stuck(), Answer::Says("nobody answers")]);
    let report = bench.say("session/a", "hello").await;
    let limit = Some(TurnLimit::Timeouts);
    assert_eq!(report.end, TurnEnd::Answered { text: "nobody answers".to_owned(), limit });
}

#[tokio::test]
async fn a_session_that_is_too_long_for_the_model_goes_on() {
    let bench = Bench::sqlite();
    let kind = ErrorKind::ContextTooLong { message: "too long".to_owned() };
    let too_long = || ModelError { kind: kind.clone(), partial: None };
    bench.script.add([Answer::Says("one"), Answer::Fails(too_long()), Answer::Says("two")]);
    bench.say("session/a", "first").await;
    let report = bench.say("session/a", "second").await;
    assert_eq!(report.end, answered("two"));
    let asked = bench.script.asked.lock();
    assert_eq!((asked[1].messages.len(), asked[2].messages.len()), (3, 2));
    assert!(matches!(&*asked[2].messages[1], Message::User { text } if text == "second"));
}

#[tokio::test]
async fn a_budget_ends_a_turn() {
    let bench = Bench::sqlite();
    bench.script.add([Answer::Calls(vec![("1", "look", json!({}))]), Answer::Says("no")]);
    let limits = BudgetLimits { tokens: Some(50), ..BudgetLimits::default() };
    let scope = (*scope("session/a")).clone().with_budget(Budget::limited(limits));
    let (report, _) = bench.say_in(&Arc::new(scope), "hello").await;
    let TurnEnd::Failed { reason } = report.end else { panic!("{report:?}") };
    assert!(reason.contains("tokens"), "{reason}");
    assert_eq!((bench.script.asked.lock().len(), *bench.looked.lock()), (1, 0));
    // The session goes on with another budget.
    assert_eq!(bench.say("session/a", "again").await.end, answered("no"));
}

#[tokio::test]
async fn a_turn_is_cancelled_with_its_calls() {
    let bench = Bench::sqlite();
    bench.script.add([Answer::Calls(vec![("1", "never", json!({}))]), Answer::Says("here")]);
    let scope_of_turn = scope("session/a");
    let cancelling = async {
        eventually(Duration::from_secs(10), async || {
            if bench.ids.lock().is_empty() { Err("not called") } else { Ok(()) }
        })
        .await;
        scope_of_turn.cancelled.cancel();
    };
    let ((report, _), ()) = tokio::join!(bench.say_in(&scope_of_turn, "hello"), cancelling);
    assert_eq!(report.end, TurnEnd::Cancelled);
    assert_eq!(bench.say("session/a", "still there?").await.end, answered("here"));
}

/// What had come of an answer that broke off is part of the session.
#[tokio::test]
async fn an_answer_that_breaks_off_is_kept() {
    let bench = Bench::sqlite();
    let kind = ErrorKind::BrokenStream { problem: "it broke off".to_owned() };
    let message = AssistantMessage::text_only("so far");
    let partial = Completion { message, ..completion() };
    let broken = ModelError { kind, partial: Some(Box::new(partial)) };
    bench.script.add([Answer::Fails(broken), Answer::Says("whole")]);
    let report = bench.say("session/a", "hello").await;
    let TurnEnd::Failed { reason } = report.end else { panic!("{report:?}") };
    assert!(reason.contains("broke off"), "{reason}");
    assert_eq!(bench.say("session/a", "go on").await.end, answered("whole"));
    let asked = bench.script.asked.lock();
    assert_eq!(*asked[1].messages[1], Message::Assistant(AssistantMessage::text_only("so far")));
}
