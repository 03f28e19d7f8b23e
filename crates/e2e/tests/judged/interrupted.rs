//! Calls of turns that one host starts and another host finishes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokio::sync::Semaphore;
use toolbus::tools::registry::Offer;
use toolbus_store::{LazyStore, sqlx};
use toolbus_tools::call::{Invocation, Output};
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Tool};

use super::begin::draw_calls;
use super::chains::{add_chains, open_runner};
use super::draws::Draws;
use super::ledger::{self, Happened, Ledger, Ran};
use super::rows::compare_with_rows;
use super::turns::{Turns, turn_of};
use super::world::{LINEAGES, World};

/// Number of generated calls of a host.
const CALLS: usize = 10;
/// The tool that is in flight when a host is lost.
const HANG: &str = "hang";

/// Makes one call of a tool hang each time it is armed.
#[derive(Clone)]
struct Hang {
    is_armed: Arc<AtomicBool>,
    /// Gains one permit when a call hangs.
    hangs: Arc<Semaphore>,
}

impl Hang {
    fn new() -> Self {
        Self { is_armed: Arc::default(), hangs: Arc::new(Semaphore::new(0)) }
    }

    /// Returns the tool. It is read-only, so a host that resumes a turn calls it again.
    fn offer(&self, ledger: &Ledger) -> Offer {
        let tool = Tool::new(HANG, "A tool.", "test").read_only();
        let tool = tool.with_parameters(json!({"type": "object"}));
        let (this, ledger) = (self.clone(), ledger.clone());
        Offer::new(tool, move |call: Invocation| {
            let subject = call.subject.id.as_str().to_owned();
            ledger.add(Happened::Ran(Ran { subject, asked: Value::Object(call.arguments) }));
            let is_last = this.is_armed.swap(false, Ordering::SeqCst);
            let hangs = is_last.then(|| Arc::clone(&this.hangs));
            async move {
                if let Some(hangs) = hangs {
                    hangs.add_permits(1);
                    std::future::pending::<()>().await;
                }
                Ok(Output::text("done"))
            }
        })
    }

    async fn until_it_hangs(&self) {
        self.hangs.acquire().await.unwrap().forget();
    }
}

/// Expires all leases, as if their host had been lost some time ago.
async fn expire_leases(store: &LazyStore) {
    let expired = store.open().await.unwrap().write(|transaction| {
        Box::pin(async move {
            let expire = "UPDATE leases SET until_ms = 0";
            sqlx::query(expire).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    expired.await.unwrap();
}

#[tokio::test]
async fn calls_of_turns_that_another_host_resumes_run_as_they_were_judged() {
    let mut draws = Draws::new();
    let runner = open_runner().await;
    let hang = Hang::new();
    let world = World::open_with(|builder, parts| {
        add_chains(builder, parts, runner).tool(hang.offer(&parts.ledger))
    });
    let world = world.await;
    let mut checked = Vec::new();
    for doors in LINEAGES {
        let (lost, next) = (Turns::default(), Turns::default());
        lost.begin(&world);
        next.begin(&world);
        let scope = world.scope(doors);
        lost.plan(&scope, &draw_calls(&mut draws, CALLS)).await;
        lost.plan_call(HANG, json!({}));
        hang.is_armed.store(true, Ordering::SeqCst);
        tokio::select! {
            report = lost.agent().say(turn_of(scope.clone()), "work".to_owned()) => {
                panic!("it has an end: {report:?}")
            }
            () = hang.until_it_hangs() => {}
        }
        let doors_of_turn = scope.doors.union(DoorSet::of(&[Door::Turn]));
        let begun = ledger::check(&world.parts.ledger.take(), doors_of_turn);
        checked.extend(begun.unwrap_or_else(|what| panic!("{what}\n{doors:?}")));

        // Another host resumes the turn for a caller who has more rights.
        expire_leases(&world.parts.store).await;
        next.plan(&scope, &draw_calls(&mut draws, CALLS)).await;
        let wide = world.scope(&[Door::Embedded]);
        let report = next.agent().resume(turn_of(wide)).await.unwrap();
        next.check_end(&report.expect("a turn was interrupted"));
        let resumed = ledger::check(&world.parts.ledger.take(), doors_of_turn);
        let resumed = resumed.unwrap_or_else(|what| panic!("{what}\n{doors:?}"));
        assert!(resumed.iter().any(|call| call.tool == HANG && call.ran), "{resumed:#?}");
        ledger::check_probes(&resumed, doors_of_turn, |_| true);
        checked.extend(resumed);
    }

    compare_with_rows(&checked, &world.audit_rows().await);
}
