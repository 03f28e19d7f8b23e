//! Callers that are asked over a broker.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_approvals::ApprovalConfig;
use toolbus_bus::Asker;
use toolbus_testkit::rabbit;
use toolbus_tools::call::Outcome;
use toolbus_tools::{Door, Principal, Scope};
use toolbus_wire::message::toolbus::AskKind;

use crate::bus::{answer_requests, caller_on};
use crate::kill::connect;
use crate::support::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_on_the_bus_is_asked_and_only_a_clear_yes_is_one() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let broker = vhost.amqp_url();
    let place = Place::sqlite();
    let config = ApprovalConfig { allow_self_approval: true, ..ApprovalConfig::default() };
    let host = Host::new(place.store(), config);
    let responders = answer_requests(&host, connect(&broker).await).await;
    let caller = caller_on(connect(&broker).await).await;

    let questions: Arc<Mutex<Vec<Value>>> = Arc::default();
    let call = async |to: &str, answer: Value| -> Outcome {
        let questions = Arc::clone(&questions);
        let asker = Asker::to(move |question| {
            assert_eq!(question.kind, AskKind::Approval);
            questions.lock().push(question.params);
            std::future::ready(Ok(answer.clone()))
        });
        let scope = Scope::new(Door::CommandLine, Principal::local(), agent());
        let call = call_of(scope, "pay", json!({"to": to}));
        caller.invoke(call.with_asker(asker.with_kinds([AskKind::Approval]))).await
    };

    assert_eq!(text(call("alice", json!({"action": "approve"})).await), "paid");
    let other = json!({"action": "modify", "modifiedArguments": {"to": "bob"}});
    assert_eq!(text(call("mallory", other).await), "paid");
    for no in [json!({"action": "deny"}), json!({"action": "perhaps"}), json!("approve"), json!({})]
    {
        denied(call("carol", no).await);
    }
    assert_eq!(host.ran(), [json!({"to": "alice"}), json!({"to": "bob"})]);

    let asked = questions.lock().clone();
    assert_eq!(asked.len(), 6, "{asked:?}");
    assert_eq!(asked[1]["arguments"], json!({"to": "mallory"}));
    assert_eq!(asked[1]["rule"], "payments");
    drop(responders);
    host.approvals.close().await;
}
