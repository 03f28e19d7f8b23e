//! A million calls that wait.

use std::time::Instant;

use serde_json::json;
use toolbus_approvals::{Answer, ApprovalState, ApprovalStore, Approve};
use toolbus_store::sqlx::{self, AssertSqlSafe};
use toolbus_testkit::eventually;
use toolbus_testkit::memory::resident_bytes;
use toolbus_tools::Principal;

use crate::support::*;

const ROWS: u64 = 1_000_000;
const DECISIONS: usize = 100;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_million_pending_approvals_cost_no_memory_and_little_time() {
    let place = Place::sqlite();
    let store = place.store();
    let began = Instant::now();
    for part in 0..10 {
        let filled = store.open().await.unwrap().write(move |transaction| {
            Box::pin(async move {
                let (first, last) = (part * 100_000, (part + 1) * 100_000);
                let text = format!(
                    "WITH RECURSIVE n(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM n WHERE i + 1 < {last})
                     INSERT INTO approvals (id, state, call_key, asked_digest, digest, binding,
                         call_id, tool, subject, risk, door, agent, reason, asked_ms, expires_ms,
                         request)
                     SELECT printf('%032x', i * 7919 + 1), 'pending', printf('%064x', i), 'd', 'd',
                         '{{}}', 'c', 'pay', 'test/pay', 'high', 'bus', 'RockBot', 'r',
                         i, 4000000000000, '{{}}' FROM n"
                );
                sqlx::query(AssertSqlSafe(text)).execute(transaction.connection()).await?;
                Ok(())
            })
        });
        filled.await.unwrap();
    }
    println!("filled in {:?}", began.elapsed());

    // Nothing is brought back here: that is done by who answers requests.
    let before = resident_bytes() >> 10;
    // Who answers is in the same process: another one is heard of by looking at the file.
    let host = Host::new(store.clone(), with_operator());
    let operator = Operator { store: ApprovalStore::new(store.clone(), false) };
    let (mut answers, mut decisions) = (Vec::new(), Vec::new());
    for _ in 0..DECISIONS {
        let answering = async {
            // The million have no bindings, which is an error.
            let asked = eventually(PATIENCE, async || {
                let last = operator.store.list(Some(ApprovalState::Pending), 1).await;
                last.map(|mut last| last.remove(0))
            })
            .await;
            let began = Instant::now();
            let answer = Answer::new(Approve::ONCE, &Principal::local());
            operator.store.answer(&asked.id, answer).await.unwrap();
            (began, began.elapsed())
        };
        let call = host.invoker.invoke(pay(json!({"to": "alice"})));
        let (outcome, (began, answered)) = tokio::join!(call, answering);
        answers.push(answered);
        decisions.push(began.elapsed());
        assert_eq!(text(outcome), "paid");
    }
    answers.sort();
    decisions.sort();
    let grown = (resident_bytes() >> 10).saturating_sub(before);
    println!(
        "with {} pending: an answer p50 {:?}, p95 {:?}; answered and run p50 {:?}, p95 {:?}; memory \
         grew by {grown} KiB",
        operator.store.count_pending().await.unwrap(),
        answers[DECISIONS / 2],
        answers[DECISIONS * 95 / 100],
        decisions[DECISIONS / 2],
        decisions[DECISIONS * 95 / 100],
    );
    assert_eq!(operator.store.count_pending().await.unwrap(), ROWS);
    assert!(grown < 64 << 10, "{grown} KiB for approvals that wait elsewhere");
    host.approvals.close().await;
}
