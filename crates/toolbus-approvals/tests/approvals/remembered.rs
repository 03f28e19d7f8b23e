//! Answers that hold for calls to come.

use std::time::Duration;

use serde_json::{Value, json};
use toolbus_approvals::{Answer, Approve, Remember};
use toolbus_store::{LazyStore, sqlx};
use toolbus_tools::policy::{ApprovalDemand, Decision, PolicyRequest};
use toolbus_tools::{Call, Door, Principal, Scope};
use toolbus_wire::name::AgentName;

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

/// Starts a process whose rule asks once per tool.
fn once_host(store: LazyStore, description: &str) -> Host {
    let policy = |_: &PolicyRequest<'_>| {
        Decision::Ask(ApprovalDemand::new("others", "it may change something").once_per_tool())
    };
    Host::with_description(store, with_operator(), policy, description)
}

/// Creates a call of `pay` for an agent.
fn call_for(agent: &str, name: &str, arguments: Value) -> Call {
    let agent = AgentName::parse(agent).unwrap();
    call_of(Scope::new(Door::Turn, Principal::claimed(name), agent), "pay", arguments)
}

/// Approves a call with a plain yes.
async fn approve_plainly(host: &Host, operator: &Operator, call: Call) {
    let answering = async {
        let asked = operator.asked().await;
        let yes = Approve::yes(&asked.binding, None, None, HOUR);
        operator.say(&asked, yes).await;
    };
    let (outcome, ()) = tokio::join!(host.invoker.invoke(call), answering);
    assert_eq!(text(outcome), "paid");
}

#[tokio::test]
async fn a_rule_that_asks_once_per_tool_asks_each_owner_agent_and_definition_once() {
    for place in Place::all().await {
        let operator = place.operator();
        let host = once_host(place.store(), "Pays.");
        let a = || call_for("one", "alice", json!({"to": "a"}));
        assert!(!runs(&host, &operator, a()).await);
        assert!(!runs(&host, &operator, a()).await, "a no is not remembered");
        approve_plainly(&host, &operator, a()).await;
        host.approvals.close().await;

        // Another process with the same store, hours later.
        let host = once_host(place.store(), "Pays.");
        pass_time(&place).await;
        assert!(runs(&host, &operator, a()).await);
        assert!(runs(&host, &operator, call_for("one", "alice", json!({"to": "b"}))).await);
        assert!(!runs(&host, &operator, call_for("one", "bob", json!({"to": "a"}))).await);
        assert!(!runs(&host, &operator, call_for("two", "alice", json!({"to": "a"}))).await);

        let changed = once_host(place.store(), "Pays more.");
        assert!(!runs(&changed, &operator, a()).await, "it is another tool");
        let remembered = operator.store.remembered().await.unwrap();
        assert_eq!(remembered.len(), 1);
        operator.store.revoke(&remembered[0].id).await.unwrap();
        assert!(!runs(&host, &operator, a()).await, "it was taken back");
        host.approvals.close().await;
        changed.approvals.close().await;
    }
}

/// A turn may make several calls of one tool at the same time.
#[tokio::test]
async fn one_yes_for_a_tool_answers_all_calls_that_wait_for_it() {
    for place in Place::all().await {
        let operator = place.operator();
        let host = once_host(place.store(), "Pays.");
        let call =
            |name: &str, to: &str| host.invoker.invoke(call_for("one", name, json!({"to": to})));

        let answering = async {
            let pending = operator.pending(3).await;
            let own = |asked: &&toolbus_approvals::Approval| asked.requester().name == "alice";
            let asked = pending.iter().find(own).unwrap();
            operator.say(asked, Approve::yes(&asked.binding, None, None, HOUR)).await;
            // The call of another owner keeps waiting.
            let left = operator.asked().await;
            assert_eq!(left.requester().name, "bob");
            operator.say(&left, Approve::No).await;
        };
        let (a, b, other, ()) =
            tokio::join!(call("alice", "a"), call("alice", "b"), call("bob", "a"), answering);
        assert_eq!((&*text(a), &*text(b)), ("paid", "paid"));
        denied(other);
        host.approvals.close().await;
    }
}

/// The error of a call that nobody can approve names the setting that would allow its tool.
#[tokio::test]
async fn the_error_of_an_unasked_call_names_the_setting() {
    let place = Place::sqlite();
    let policy = |_: &PolicyRequest<'_>| {
        let demand = ApprovalDemand::new("careful.others", "it may change something");
        Decision::Ask(demand.once_per_tool().of_preset(Some("careful")))
    };
    let host = Host::with_policy(place.store(), Default::default(), policy);
    let told = denied(host.invoker.invoke(call_for("one", "alice", json!({"to": "a"}))).await);
    for part in [
        "there is nobody to ask",
        "policy.preset = \"careful\" and policy.rules = [{ name = \"allow\", effect = \"allow\", \
         tools = [\"test/pay\"] }]",
        "policy.preset = \"open\"",
        "approvals.wait_for_operator",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    host.approvals.close().await;
}
