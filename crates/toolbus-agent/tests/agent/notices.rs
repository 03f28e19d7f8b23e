//! What happens beside a session, and how its model is told.

use futures_util::future::join;
use serde_json::json;
use toolbus_agent::{Event, Notice, Noticed, TurnContext, TurnEnd, TurnEvent};
use toolbus_bus::Asker;
use toolbus_models::{Message, ModelEvent};

use crate::support::{Answer, Bench, at, scope};

fn notice(id: &str) -> Notice {
    Notice::new(id, "agent B", &format!("[notice {id}]"))
}

fn context<'a>() -> TurnContext<'a> {
    TurnContext { scope: scope("session/a"), asker: Asker::none(), on_event: &|_| {} }
}

/// Returns the texts from outside in the last request to the model, without answers, results of its
/// own calls and the words that announce the texts.
fn told(bench: &Bench) -> Vec<String> {
    let asked = bench.script.asked.lock();
    let said = asked.last().unwrap().messages.iter().flat_map(|message| match &**message {
        Message::User { text } if text.starts_with("[There is news: ") => Vec::new(),
        Message::User { text } => vec![text.clone()],
        Message::Results { results } => {
            let fenced = results.iter().filter(|result| result.text.starts_with("<<outside "));
            fenced.map(|result| result.text.lines().nth(1).unwrap().to_owned()).collect()
        }
        Message::Assistant(_) => Vec::new(),
    });
    said.collect()
}

fn answered(text: &str) -> TurnEnd {
    TurnEnd::Answered { text: text.to_owned(), limit: None }
}

#[tokio::test]
async fn the_turn_that_is_under_way_takes_a_notice_once() {
    for bench in Bench::all().await {
        bench
            .script
            .add([Answer::Calls(vec![("1", "late", json!({"after": 300}))]), Answer::Says("done")]);
        let tell = async {
            bench.agent.until_turn(&at("session/a")).await;
            assert_eq!(bench.agent.notify(context(), notice("1")).await.unwrap(), Noticed::InTurn);
            assert!(bench.agent.notify_turn(&at("session/a"), notice("1")).await, "told before");
            assert!(!bench.agent.notify_turn(&at("session/b"), notice("2")).await, "no turn");
        };
        let (report, ()) = join(bench.say("session/a", "hello"), tell).await;
        assert_eq!(report.end, answered("done"));
        assert_eq!(told(&bench), ["hello", "[notice 1]"]);
        assert!(!bench.agent.notify_turn(&at("session/a"), notice("3")).await, "it is over");

        // Nor does another process tell it again, or a turn of its own.
        let next = bench.again();
        assert_eq!(next.agent.notify(context(), notice("1")).await.unwrap(), Noticed::InTurn);
        assert_eq!(next.script.asked.lock().len(), 0);
        let noticed = |event: &Event| matches!(event, Event::Noticed { .. });
        assert_eq!(next.events_of_all().await.iter().filter(|event| noticed(event)).count(), 1);
    }
}

/// What is shown while it comes is what the turn ends with.
#[tokio::test]
async fn an_answer_that_did_not_know_is_followed_by_another() {
    let bench = Bench::sqlite();
    bench.script.add([Answer::SaysLate("one"), Answer::Says("two")]);
    let shown = parking_lot::Mutex::new(String::new());
    let on_event = |event| {
        if let TurnEvent::Model(ModelEvent::Text { delta }) = event {
            shown.lock().push_str(&delta);
        }
    };
    let tell = async {
        bench.agent.until_turn(&at("session/a")).await;
        assert!(bench.agent.notify_turn(&at("session/a"), notice("1")).await);
        bench.script.release.notify_one();
    };
    let turn = TurnContext { on_event: &on_event, ..context() };
    let (report, ()) = join(bench.agent.say(turn, "hello".to_owned()), tell).await;
    assert_eq!(report.unwrap().end, answered("one\n\ntwo"));
    assert_eq!(*shown.lock(), "one\n\ntwo");
}

#[tokio::test]
async fn where_no_turn_is_under_way_a_notice_begins_one() {
    let bench = Bench::sqlite();
    bench.script.add([Answer::Says("I see.")]);
    let noticed = bench.agent.notify(context(), notice("1")).await.unwrap();
    let Noticed::Turn(report) = noticed else { panic!("{noticed:?}") };
    assert_eq!(report.end, answered("I see."));
    assert_eq!(told(&bench), ["[notice 1]"]);

    // It has the same answer when it is told again.
    let next = bench.again();
    let noticed = next.agent.notify(context(), notice("1")).await.unwrap();
    assert!(matches!(&noticed, Noticed::Turn(report) if report.end == answered("I see.")));
    assert_eq!(next.script.asked.lock().len(), 0);
}

#[tokio::test]
async fn a_note_is_read_in_the_next_turn() {
    let bench = Bench::sqlite();
    for _ in 0..2 {
        bench.agent.note(&at("session/a"), notice("1")).await.unwrap();
    }
    assert_eq!(bench.script.asked.lock().len(), 0);
    let next = bench.again();
    next.script.add([Answer::Says("hi")]);
    next.say("session/a", "hello").await;
    assert_eq!(told(&next), ["hello", "[notice 1]"]);
}
