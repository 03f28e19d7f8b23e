//! Answers that hold for calls to come.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_approvals::{Answer, Approve, Remember};
use toolbus_store::sqlx;
use toolbus_tools::{Call, Principal};

use crate::support::*;

const HOUR: Duration = Duration::from_secs(3_600);

fn call(name: &str, session: Option<&str>, arguments: Value) -> Call {
    call_of(stranger(name, session), "pay", arguments)
}

/// Has a call approved so.
async fn approve(host: &Host, operator: &Operator, call: Call, remember: Remember, time: Duration) {
    let answering = async {
        let asked = operator.asked().await;
        operator.say(&asked, Approve::Yes { remember, remember_for: time }).await;
    };
    let (outcome, ()) = tokio::join!(host.invoker.invoke(call), answering);
    assert_eq!(text(outcome), "paid");
}

/// Has an hour pass for what is remembered for less than that. What is remembered for an hour
/// from before it has some left.
async fn pass_time(place: &Place) {
    let store = place.store();
    let passed = store.open().await.unwrap().write(|transaction| {
        Box::pin(async move {
            let update = "UPDATE approvals_remembered SET expires_ms = expires_ms - 3570000";
            sqlx::query(update).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    passed.await.unwrap();
    store.close().await;
}

/// Whether a call runs without being asked for.
async fn runs(host: &Host, operator: &Operator, call: Call) -> bool {
    let invoking = host.invoker.invoke(call);
    let refusing = async {
        let asked = operator.asked().await;
        operator.say(&asked, Approve::No).await;
        std::future::pending().await
    };
    tokio::select! {
        outcome = invoking => outcome.is_ok(),
        () = refusing => unreachable!("it refuses once"),
    }
}

#[tokio::test]
async fn a_yes_is_remembered_as_far_as_it_was_said() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let (a, s) = (json!({"to": "a"}), Some("session/s"));
        let of = |name, session, arguments: &Value| call(name, session, arguments.clone());
        for (remember, other_arguments, other_session) in [
            (Remember::Once, false, false),
            (Remember::Session, true, false),
            (Remember::Tool, true, true),
            (Remember::Arguments, false, true),
        ] {
            approve(&host, &operator, of("alice", s, &a), remember, HOUR).await;
            let same = remember != Remember::Once;
            assert_eq!(runs(&host, &operator, of("alice", s, &a)).await, same, "{remember:?}");
            let b = json!({"to": "b"});
            let expected = (other_arguments, other_session, false);
            let found = (
                runs(&host, &operator, of("alice", s, &b)).await,
                runs(&host, &operator, of("alice", None, &a)).await,
                runs(&host, &operator, of("bob", s, &a)).await,
            );
            assert_eq!(found, expected, "{remember:?}");

            for remembered in operator.store.remembered().await.unwrap() {
                assert_eq!(remembered.remember, remember);
                assert_eq!(remembered.binding.subject, "test/pay");
                assert_eq!(operator.store.revoke(&remembered.id).await.unwrap(), 1);
            }
            assert!(!runs(&host, &operator, of("alice", s, &a)).await, "it was taken back");
        }
        host.approvals.close().await;
    }
}

#[tokio::test]
async fn what_is_remembered_is_of_one_definition_and_ends() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let a = || call("alice", None, json!({"to": "a"}));
        approve(&host, &operator, a(), Remember::Tool, HOUR).await;
        assert!(runs(&host, &operator, a()).await);
        let changed = Host::with_description(place.store(), with_operator(), policy, "Pays more.");
        assert!(!runs(&changed, &operator, a()).await, "it is another tool");

        approve(&changed, &operator, a(), Remember::Tool, Duration::from_secs(59 * 60)).await;
        assert!(runs(&changed, &operator, a()).await);
        pass_time(&place).await;
        assert!(!runs(&changed, &operator, a()).await, "its time is over");
        assert_eq!(operator.store.remembered().await.unwrap().len(), 1);

        // A no is not remembered, nor a yes to other arguments.
        let none = Answer::new(Approve::No, &Principal::local());
        assert_eq!(none.verdict, Approve::No);
        host.approvals.close().await;
        changed.approvals.close().await;
    }
}
