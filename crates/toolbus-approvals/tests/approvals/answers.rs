//! Answers at once, too late, and to something else.

use std::time::Duration;

use serde_json::json;
use toolbus_approvals::{Answer, ApprovalState, Approve, Error};
use toolbus_store::sqlx;
use toolbus_tools::Principal;

use crate::support::*;

const ROUNDS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_two_who_answer_at_once_the_first_holds_and_the_second_is_told_what_is() {
    for place in Place::all().await {
        let host = Host::new(place.store(), with_operator());
        let [alice, bob] = [place.operator(), place.operator()];
        let mut yes = 0;
        for _ in 0..ROUNDS {
            let answering = async {
                let asked = alice.asked().await;
                let say = |who: &str, verdict| Answer::new(verdict, &Principal::claimed(who));
                tokio::join!(
                    alice.store.answer(&asked.id, say("alice", Approve::ONCE)),
                    bob.store.answer(&asked.id, say("bob", Approve::No)),
                )
            };
            let call = host.invoker.invoke(pay(json!({"to": "alice"})));
            let (outcome, answers) = tokio::join!(call, answering);
            match answers {
                (Ok(approved), Err(Error::AlreadyAnswered(told))) => {
                    assert_eq!(approved.state, ApprovalState::Approved);
                    assert_eq!(told.answered_by.as_deref(), Some("alice (claimed)"));
                    assert_eq!(text(outcome), "paid");
                    yes += 1;
                }
                (Err(Error::AlreadyAnswered(told)), Ok(denial)) => {
                    assert_eq!(denial.state, ApprovalState::Denied);
                    assert_eq!(told.answered_by.as_deref(), Some("bob (claimed)"));
                    assert!(denied(outcome).contains("bob"));
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(host.ran().len(), yes);
        println!("{}: {yes} of {ROUNDS} were approved", place.location);
        host.approvals.close().await;
    }
}

/// One changed byte: whoever can write the store puts other arguments in the place of those that
/// were approved, or an approval in the place of another.
#[tokio::test]
async fn an_approval_of_something_else_lets_nothing_run() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let answering = async {
            let asked = operator.asked().await;
            let other = asked.binding.with_arguments(json!({"to": "alice", "amount": 6}));
            let store = place.store();
            let store = store.open().await.unwrap();
            let id = asked.id.clone();
            let replaced = store.write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    sqlx::query(
                        "UPDATE approvals SET state = 'approved', digest = $2, binding = $3,
                             expires_ms = $4 WHERE id = $1",
                    )
                    .bind(id)
                    .bind(other.digest())
                    .bind(other.text())
                    .bind(now + 60_000)
                    .execute(transaction.connection())
                    .await?;
                    transaction.notify("approvals");
                    Ok(())
                })
            });
            replaced.await.unwrap();
        };
        let call = host.invoker.invoke(pay(json!({"to": "alice", "amount": 5})));
        let (outcome, ()) = tokio::join!(call, answering);
        let told = denied(outcome);
        assert!(told.contains("its approval is for something else"), "{told}");
        assert!(host.ran().is_empty());
        host.approvals.close().await;
    }
}

#[tokio::test]
async fn the_time_of_the_store_decides_whether_an_answer_is_too_late() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let answering = async {
            let asked = operator.asked().await;
            let store = place.store();
            let store = store.open().await.unwrap();
            let id = asked.id.clone();
            // As if the store's clock had jumped ahead.
            let jump = store.write(move |transaction| {
                Box::pin(async move {
                    let now = transaction.now_ms().await?;
                    let past = sqlx::query("UPDATE approvals SET expires_ms = $2 WHERE id = $1");
                    past.bind(id).bind(now - 1).execute(transaction.connection()).await?;
                    Ok(())
                })
            });
            jump.await.unwrap();
            let answer = Answer::new(Approve::ONCE, &Principal::local());
            let error = operator.store.answer(&asked.id, answer).await.unwrap_err();
            let Error::AlreadyAnswered(told) = error else { panic!("{error}") };
            assert_eq!(told.state, ApprovalState::Expired);
        };
        let call = host.invoker.invoke(pay(json!({"to": "alice"})));
        let limit = tokio::time::timeout(Duration::from_secs(10), call);
        let (outcome, ()) = tokio::join!(limit, answering);
        denied(outcome.expect("it is woken"));
        assert!(host.ran().is_empty());
        host.approvals.close().await;
    }
}

#[tokio::test]
async fn approvals_are_found_by_the_beginning_of_their_ids() {
    let place = Place::sqlite();
    let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
    let finding = async {
        let asked = operator.asked().await;
        let found = operator.store.find(&asked.id[..8]).await.unwrap();
        assert_eq!(found.id, asked.id);
        let error = operator.store.find(&asked.id[..3]).await.unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
        let error = operator.store.find("zzzz").await.unwrap_err();
        assert_eq!(error.to_string(), "there is no approval 'zzzz'");
        operator.say(&asked, Approve::No).await;
    };
    tokio::join!(host.invoker.invoke(pay(json!({"to": "a"}))), finding).0.unwrap_err();
}
