//! The way of one call.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use toolbus_approvals::{Answer, ApprovalConfig, ApprovalState, Approve, Error, Remember};
use toolbus_bus::{Asker, Question};
use toolbus_tools::call::{Arguments, CallTime};
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::json::RawJson;
use toolbus_wire::message::toolbus::{AskError, AskErrorCode, AskKind};

use crate::support::*;

#[tokio::test]
async fn rv_i7_without_anybody_to_ask_a_call_is_denied_and_says_how_to_allow_it() {
    for place in Place::all().await {
        let host = Host::new(place.store(), ApprovalConfig::default());
        let told = denied(host.invoker.invoke(pay(json!({"to": "alice"}))).await);
        for part in [
            "'test/pay'",
            "money moves",
            "rule 'payments'",
            "there is nobody to ask",
            "agent-host approvals",
            "change the rule",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        assert!(!told.contains("chain"), "{told}");

        let chain = Scope::new(Door::Chain, Principal::local(), agent());
        let told = denied(host.invoker.invoke(call_of(chain, "pay", json!({"to": "a"}))).await);
        assert!(told.ends_with("call it directly, outside the chain"), "{told}");
        assert!(place.operator().states().await.is_empty(), "nobody was asked");
        assert!(host.ran().is_empty());

        // What needs none passes.
        let free = Scope::new(Door::Chain, Principal::local(), agent());
        assert_eq!(text(host.invoker.invoke(call_of(free, "free", json!({}))).await), "free");
    }
}

#[tokio::test]
async fn an_approved_call_runs_once_and_the_next_one_is_asked_for_again() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        for round in 0..2 {
            let answering = async {
                let asked = operator.asked().await;
                assert_eq!(asked.binding.subject, "test/pay");
                assert_eq!(asked.binding.arguments, json!({"to": "alice", "amount": 5}));
                assert_eq!((&*asked.reason, &*asked.risk), ("money moves", "high"));
                assert_eq!(asked.digest, asked.binding.digest());
                assert!(host.ran().len() == round, "it waits");
                operator.say(&asked, Approve::ONCE).await;
                asked
            };
            let call = pay(json!({"amount": 5, "to": "alice"}));
            let (outcome, asked) = tokio::join!(host.invoker.invoke(call), answering);
            assert_eq!(text(outcome), "paid");
            let done = operator.store.find(&asked.id).await.unwrap();
            assert_eq!(done.state, ApprovalState::Consumed);
            assert_eq!(done.answered_by.as_deref(), Some("local (local)"));
        }
        assert_eq!(
            host.ran(),
            [json!({"to": "alice", "amount": 5}), json!({"to": "alice", "amount": 5})]
        );
        host.approvals.close().await;
    }
}

#[tokio::test]
async fn rv_i9_a_no_denies_and_says_who_said_it() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let answering = async {
            let asked = operator.asked().await;
            let answer = Answer::new(Approve::No, &Principal::claimed("bob"));
            let answer = answer.with_note(Some("not on a Friday".to_owned()));
            operator.store.answer(&asked.id, answer).await.unwrap();
        };
        let call = host.invoker.invoke(pay(json!({"to": "alice"})));
        let (outcome, ()) = tokio::join!(call, answering);
        assert_eq!(denied(outcome), "'test/pay' was denied by bob (claimed): not on a Friday");
        assert!(host.ran().is_empty());
    }
}

#[tokio::test]
async fn rv_i8_a_call_that_nobody_answers_is_denied_and_says_how_to_allow_it() {
    for place in Place::all().await {
        let timeout = Duration::from_millis(300);
        let config = ApprovalConfig { timeout, ..with_operator() };
        let (host, operator) = (Host::new(place.store(), config), place.operator());
        let told = denied(host.invoker.invoke(pay(json!({"to": "alice"}))).await);
        assert!(told.contains("nobody answered in time") && told.contains("To allow it"), "{told}");
        assert_eq!(operator.states().await, [ApprovalState::Expired]);

        // A caller that waits for less is told the same, not that it ran out of time.
        let host = Host::new(place.store(), with_operator());
        let call = pay(json!({"to": "bob"})).with_time(CallTime::within(Duration::from_secs(3)));
        let told = denied(host.invoker.invoke(call).await);
        assert!(told.contains("nobody answered in time"), "{told}");
        assert!(host.ran().is_empty());
    }
}

#[tokio::test]
async fn rv_i10_waiting_takes_nothing_from_the_tools_own_time() {
    let place = Place::sqlite();
    let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
    let answering = async {
        let asked = operator.asked().await;
        // sleeps: waiting takes longer than the tool has, which is real time.
        tokio::time::sleep(Duration::from_millis(600)).await;
        operator.say(&asked, Approve::ONCE).await;
    };
    let time = CallTime::of_execution(Duration::from_millis(500));
    let call = pay(json!({"to": "alice", "ms": 100})).with_time(time);
    let (outcome, ()) = tokio::join!(host.invoker.invoke(call), answering);
    assert_eq!(text(outcome), "paid");
}

#[tokio::test]
async fn rv_i12_a_call_that_is_cancelled_while_it_waits_is_not_run() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let call = pay(json!({"to": "alice"}));
        let cancelled = call.cancelled.clone();
        let cancelling = async {
            let asked = operator.asked().await;
            cancelled.cancel();
            asked
        };
        let (outcome, asked) = tokio::join!(host.invoker.invoke(call), cancelling);
        assert_eq!(refusal(outcome).0, "cancelled");
        operator.pending(0).await;

        let late = Answer::new(Approve::ONCE, &Principal::local());
        let error = operator.store.answer(&asked.id, late).await.unwrap_err();
        let told = format!("the approval '{}' is expired already", asked.id);
        assert_eq!(error.to_string(), told);
        assert!(host.ran().is_empty());
    }
}

#[tokio::test]
async fn rv_i9_modified_arguments_are_what_runs_and_what_is_recorded() {
    for place in Place::all().await {
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let answering = async {
            let asked = operator.asked().await;
            operator.say(&asked, Approve::With(json!({"to": "alice", "amount": 1}))).await;
            asked
        };
        let call = host.invoker.invoke(pay(json!({"to": "alice", "amount": 1000})));
        let (outcome, asked) = tokio::join!(call, answering);
        assert_eq!(text(outcome), "paid");
        let runs = json!({"to": "alice", "amount": 1});
        assert_eq!(host.ran(), std::slice::from_ref(&runs));

        let done = operator.store.find(&asked.id).await.unwrap();
        assert_eq!((done.state, &done.binding.arguments), (ApprovalState::Consumed, &runs));
        assert_eq!(done.digest, asked.binding.with_arguments(runs).digest());
        assert_eq!(done.asked_arguments, Some(json!({"to": "alice", "amount": 1000})));
    }
}

#[tokio::test]
async fn modified_arguments_fit_the_schema_and_are_about_the_same_tool() {
    let place = Place::sqlite();
    let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
    let relay = |tool: &str| {
        let scope = Scope::new(Door::CommandLine, Principal::local(), agent());
        call_of(scope, "relay", json!({"tool": tool}))
    };
    for (call, arguments, why) in [
        (pay(json!({"to": "alice"})), json!({"to": 7}), "cannot be used"),
        (relay("balance"), json!({"tool": "transfer"}), "they are about 'mcp:bank/transfer'"),
    ] {
        let answering = async {
            let asked = operator.asked().await;
            operator.say(&asked, Approve::With(arguments.clone())).await;
        };
        let (outcome, ()) = tokio::join!(host.invoker.invoke(call), answering);
        let told = denied(outcome);
        assert!(told.contains(why), "{told}");
    }
    assert!(host.ran().is_empty());
}

/// A number that no double holds is read as another. What was shown to the approver is what the
/// tool is sent.
#[tokio::test]
async fn the_tool_is_sent_what_was_approved_not_what_was_written() {
    let place = Place::sqlite();
    let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
    let written = r#"{"to": "alice", "amount": 0.10000000000000000000001}"#;
    let params = format!(r#"{{"name": "pay", "_meta": {{"a": 1}}, "arguments": {written}}}"#);
    let seen = Arc::new(parking_lot::Mutex::new(None));
    let registry = Arc::clone(host.invoker.registry());
    let keeping = Arc::clone(&seen);
    let show = move |call: toolbus_tools::call::Invocation| {
        let params = call.params("pay", &json!(call.arguments));
        *keeping.lock() = Some(params.text().to_owned());
        std::future::ready(Ok(toolbus_tools::Output::text("shown")))
    };
    registry.register(toolbus_tools::Tool::new("show", "", "test"), show).unwrap();
    let answering = async {
        let asked = operator.asked().await;
        operator.say(&asked, Approve::ONCE).await;
    };
    let scope = Scope::new(Door::Mcp, Principal::local(), agent());
    let mut call = call_of(scope, "show", json!({}));
    call.arguments = Arguments::Text(Some(written.to_owned()));
    let call = call.with_mcp_params(RawJson::parse(params).unwrap());
    let (outcome, ()) = tokio::join!(host.invoker.invoke(call), answering);
    assert_eq!(text(outcome), "shown");
    let sent = seen.lock().clone().unwrap();
    assert!(sent.contains(r#""amount":0.1}"#) && sent.contains("_meta"), "{sent}");
}

/// Whoever is asked by the call itself.
fn asker(
    answers: serde_json::Value,
    kinds: &[AskKind],
) -> (Asker, Arc<parking_lot::Mutex<Vec<Question>>>) {
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let keeping = Arc::clone(&asked);
    let asker = Asker::to(move |question| {
        keeping.lock().push(question);
        std::future::ready(Ok(answers.clone()))
    });
    (asker.with_kinds(kinds.to_vec()), asked)
}

#[tokio::test]
async fn the_local_person_is_asked_by_the_call_and_may_approve_it() {
    for place in Place::all().await {
        let host = Host::new(place.store(), ApprovalConfig::default());
        let (local, asked) = asker(json!({"action": "approve"}), &[AskKind::Approval]);
        let call = pay(json!({"to": "alice"})).with_asker(local);
        assert_eq!(text(host.invoker.invoke(call).await), "paid");
        let question = asked.lock().remove(0);
        assert_eq!(question.kind, AskKind::Approval);
        assert_eq!(question.params["arguments"], json!({"to": "alice"}));
        assert_eq!(question.params["subject"], "test/pay");

        let (form, asked) = asker(
            json!({"action": "accept", "content": {"decision": "deny"}}),
            &[AskKind::Elicitation],
        );
        let call = pay(json!({"to": "alice"})).with_asker(form);
        denied(host.invoker.invoke(call).await);
        let question = asked.lock().remove(0);
        assert_eq!(question.kind, AskKind::Elicitation);
        let message = question.params["message"].as_str().unwrap();
        assert!(message.contains("alice") && message.contains("money moves"), "{message}");
    }
}

#[tokio::test]
async fn who_has_made_a_call_may_not_approve_it() {
    for place in Place::all().await {
        let yes = || asker(json!({"action": "approve"}), &[AskKind::Approval]);
        let call = || call_of(stranger("mallory", None), "pay", json!({"to": "mallory"}));
        let host = Host::new(place.store(), ApprovalConfig::default());
        let (asking, asked) = yes();
        let told = denied(host.invoker.invoke(call().with_asker(asking)).await);
        assert!(told.contains("there is nobody to ask"), "{told}");
        assert!(asked.lock().is_empty());

        // Nor at the store.
        let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
        let answering = async {
            let asked = operator.asked().await;
            let own = Answer::new(Approve::ONCE, &Principal::claimed("mallory"));
            let error = operator.store.answer(&asked.id, own).await.unwrap_err();
            assert!(matches!(error, Error::OwnCall(_)), "{error}");
            operator.say(&asked, Approve::No).await;
        };
        let (outcome, ()) = tokio::join!(host.invoker.invoke(call()), answering);
        denied(outcome);

        // Where the operator has said that they may, they may.
        let config = ApprovalConfig { allow_self_approval: true, ..ApprovalConfig::default() };
        let host = Host::new(place.store(), config);
        let (asking, _) = yes();
        assert_eq!(text(host.invoker.invoke(call().with_asker(asking)).await), "paid");
    }
}

#[tokio::test]
async fn a_caller_that_cannot_answer_is_nobody_to_ask() {
    let place = Place::sqlite();
    let host = Host::new(place.store(), ApprovalConfig::default());
    let gone = || {
        let gone = |_| {
            let error = AskError::new(AskErrorCode::Unroutable, "the client is away");
            std::future::ready(Err::<serde_json::Value, _>(error))
        };
        Asker::to(gone).with_kinds([AskKind::Approval])
    };
    let told = denied(host.invoker.invoke(pay(json!({"to": "a"})).with_asker(gone())).await);
    assert!(
        told.contains("nobody could be asked") && told.contains("the client is away"),
        "{told}"
    );
    assert_eq!(place.operator().states().await, [ApprovalState::Expired]);

    // Others may answer.
    let (host, operator) = (Host::new(place.store(), with_operator()), place.operator());
    let answering = async {
        let asked = operator.asked().await;
        let forever = Approve::Yes { remember: Remember::Session, remember_for: PATIENCE };
        let answer = Answer::new(forever, &Principal::local());
        let error = operator.store.answer(&asked.id, answer).await.unwrap_err();
        assert_eq!(error, Error::NoSession);
        operator.say(&asked, Approve::ONCE).await;
    };
    let call = host.invoker.invoke(pay(json!({"to": "a"})).with_asker(gone()));
    let (outcome, ()) = tokio::join!(call, answering);
    assert_eq!(text(outcome), "paid");
}
