use toolbus_tools::call::{Call, Invocation};
use toolbus_tools::{Door, Invoker, Principal, Registry};
use toolbus_wire::name::AgentName;

use super::*;

#[test]
fn an_open_request_is_never_forgotten_and_of_answers_the_last_are_kept() {
    let mut answers = Answers::default();
    let most = u32::try_from(ANSWERS_MAX).unwrap();
    // The first is open while many others are answered.
    for number in 0..most + 11 {
        answers.by_number.insert(number, watch::channel(None).1);
        if number > 0 {
            answers.forget_oldest_but(number);
        }
    }

    assert!(answers.by_number.contains_key(&0), "it would be made again");
    assert!(!answers.by_number.contains_key(&10) && answers.by_number.contains_key(&11));
    assert_eq!(answers.by_number.len(), ANSWERS_MAX + 1);
}

fn session_of(call: &Invocation) -> ChainSession {
    ChainSession::new(SessionDeps {
        calls: call.calls.clone(),
        scope: Arc::new(call.calls.scope(Door::Chain).unwrap()),
        policy: ChainPolicy::default(),
        artifacts: None,
        journal: None,
        is_dry_run: false,
        call: call.id.to_string(),
        progress: call.context.progress.clone(),
    })
}

/// RV-C15 and RV-C17 without a bridge: each run has a session of its own, and what is asked after
/// its end is answered as closed.
#[tokio::test]
async fn rv_c15_and_17_a_session_is_one_runs_and_over_with_it() {
    let registry = Registry::new();
    let run = |call: Invocation| async move {
        let session = session_of(&call);
        let open = session.answer(1, json!({"names": true})).await;
        session.close().await;
        let late = session.answer(2, json!({"call": "run", "arguments": {}})).await;
        let chain = session.0.deps.scope.chain();
        Ok(Output::text(json!([chain, open, late]).to_string()))
    };
    registry.register(Tool::new("run", "Runs.", "test"), run).unwrap();
    let invoker = Invoker::builder(Arc::new(registry)).build();
    let scope = Scope::new(Door::Turn, Principal::claimed("model"), AgentName::standard());
    let scope = Arc::new(scope);

    let mut chains = std::collections::BTreeSet::new();
    for _ in 0..2 {
        let call = Call::by_name(&scope, "run", json!({})).unwrap();
        let output = invoker.invoke(call).await.unwrap();
        let told: Value = serde_json::from_str(&output.content.unwrap()).unwrap();
        assert_eq!(
            (&told[1]["names"], &told[2]["error"]["code"]),
            (&json!(["run"]), &json!("closed"))
        );
        assert!(told[2]["error"]["message"].as_str().unwrap().contains("closed"));
        chains.insert(told[0].as_str().expect("a name").to_owned());
    }
    assert_eq!(chains.len(), 2);
}
