//! Answers that hold for calls which a chain has yet to make.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolbus_approvals::{Approval, Approve, Error, ForChain};
use toolbus_tools::id::CallId;
use toolbus_tools::{Call, Door, Scope};

use crate::support::*;

/// The scope of a chain's calls.
fn chain(of: &Scope, call: &str) -> Scope {
    of.child(Door::Chain, &CallId::parse(call).unwrap()).unwrap()
}

fn paying(scope: &Scope, to: &str) -> Call {
    call_of(scope.clone(), "pay", json!({"to": to, "amount": 1}))
}

fn more(calls: u32, arguments: Value) -> Approve {
    Approve::ForChain(ForChain { calls, arguments })
}

/// Has one call asked for and answered, and says whether it ran.
async fn asked(host: &Host, operator: &Operator, call: Call, verdict: Approve) -> bool {
    let answering = async {
        let asked = operator.asked().await;
        operator.say(&asked, verdict).await;
    };
    let (outcome, ()) = tokio::join!(host.invoker.invoke(call), answering);
    outcome.is_ok()
}

/// Runs a call that is not asked for.
async fn unasked(host: &Host, call: Call) {
    let calling = tokio::time::timeout(PATIENCE, host.invoker.invoke(call));
    assert_eq!(text(calling.await.expect("nobody is asked")), "paid");
}

#[tokio::test]
async fn a_loop_is_approved_as_far_as_its_pattern_and_its_number() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let turn = stranger("model", Some("session/s"));
        let scope = chain(&turn, "call_1");
        let yes = more(3, json!({"to": "*@example.com"}));
        assert!(asked(&host, &operator, paying(&scope, "a@example.com"), yes).await);

        // All at once: there are never more.
        let calls = (0..3).map(|n| unasked(&host, paying(&scope, &format!("{n}@example.com"))));
        join_all(calls).await;
        assert!(!asked(&host, &operator, paying(&scope, "b@example.com"), Approve::No).await);
        assert_eq!(host.ran().len(), 4);

        // Other arguments, another chain, another run of the same chain, and another tool ask.
        let yes = more(100, json!({"to": "a*"}));
        assert!(asked(&host, &operator, paying(&scope, "anna"), yes).await);
        unasked(&host, paying(&scope, "alice")).await;
        let other_run = chain(&stranger("model", Some("session/s")), "call_1");
        let other_tool = call_of(scope.clone(), "relay", json!({"tool": "transfer"}));
        for call in [
            paying(&scope, "bob"),
            paying(&chain(&turn, "call_2"), "alice"),
            paying(&other_run, "alice"),
            paying(&turn, "alice"),
            other_tool,
        ] {
            assert!(!asked(&host, &operator, call, Approve::No).await);
        }
        host.approvals.close().await;
    }
}

#[tokio::test]
async fn of_many_calls_at_once_as_many_run_as_were_approved() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let scope = Arc::new(chain(&stranger("model", None), "call_1"));
        assert!(asked(&host, &operator, paying(&scope, "a"), more(20, Value::Null)).await);

        let calls = join_all((0..30).map(|n| host.invoker.invoke(paying(&scope, &n.to_string()))));
        let refusing = async {
            let pending: Vec<Approval> = operator.pending(10).await;
            for asked in &pending {
                operator.say(asked, Approve::No).await;
            }
        };
        let (outcomes, ()) = tokio::join!(calls, refusing);
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 20);
        assert_eq!(host.ran().len(), 21);
        host.approvals.close().await;
    }
}

#[tokio::test]
async fn an_answer_for_a_chain_that_cannot_be_given_is_refused() {
    let place = Place::sqlite();
    let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
    let say = async |asked: &Approval, verdict: Approve| {
        let answer = toolbus_approvals::Answer::new(verdict, &toolbus_tools::Principal::local());
        operator.store.answer(&asked.id, answer).await
    };
    let scope = chain(&stranger("model", None), "call_1");
    let answering = async {
        let asked = operator.asked().await;
        let wrong = Err(Error::WrongPattern { calls_max: 10_000 });
        for verdict in [
            more(0, Value::Null),
            more(10_001, Value::Null),
            more(5, json!({"to": "somebody else"})),
            more(5, json!(["to"])),
        ] {
            assert_eq!(say(&asked, verdict).await, wrong);
        }
        let large = more(5, json!({"to": "*".repeat(20_000)}));
        assert!(matches!(say(&asked, large).await, Err(Error::TooLarge { .. })));
        say(&asked, Approve::No).await.unwrap();
    };
    tokio::join!(host.invoker.invoke(paying(&scope, "a")), answering).0.unwrap_err();

    let answering = async {
        let asked = operator.asked().await;
        assert_eq!(say(&asked, more(5, Value::Null)).await, Err(Error::NoChain));
        say(&asked, Approve::No).await.unwrap();
    };
    tokio::join!(host.invoker.invoke(pay(json!({"to": "a"}))), answering).0.unwrap_err();
    host.approvals.close().await;
}
