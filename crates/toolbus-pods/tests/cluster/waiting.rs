//! Notes of calls that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::BoxFuture;
use kube::api::PostParams;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use toolbus_scripts::runner::{CallKey, Error, Runner};
use toolbus_testkit::eventually;

use crate::fault_proxy::{Fate, FaultProxy};
use crate::once::{LIMIT, Place};
use crate::support::client;

/// Lets `runner` wait for a call until `turn` comes.
fn waiting(
    tasks: &mut JoinSet<Result<(), Error>>,
    runner: &(impl Runner + Clone),
    (key, turn): (CallKey, &Arc<Notify>),
) {
    let (runner, turn) = (runner.clone(), Arc::clone(turn));
    tasks.spawn(async move {
        let turn: BoxFuture<'_, ()> = Box::pin(async move { turn.notified().await });
        runner.wait(key, turn).await
    });
}

/// Waits until there is a note of a call. Whoever finds it has taken it.
async fn taken(runner: &impl Runner, key: CallKey) {
    eventually(LIMIT, async || match runner.claim_unstarted(key).await {
        Ok(true) => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn a_call_that_waits_has_not_begun_and_only_one_hears_of_it() {
    let Some(place) = Place::new("notes").await else { return };
    let client = client().await.expect("a cluster");
    let (first, second) = (place.runner(client.clone()).await, place.runner(client).await);
    let (key, turn) = (CallKey::unique(), Arc::new(Notify::new()));
    let mut tasks = JoinSet::new();
    assert_eq!(second.claim_unstarted(key).await, Ok(false), "nobody has it");

    // Its turn comes: it has begun, as far as anybody can know.
    waiting(&mut tasks, &first, (key, &turn));
    noted(&place, 1).await;
    turn.notify_one();
    assert_eq!(tasks.join_next().await.expect("a task").expect("no panic"), Ok(()));
    assert_eq!(second.claim_unstarted(key).await, Ok(false), "it may have begun");

    // It comes again while its first manager still has it: one of the two may begin it.
    waiting(&mut tasks, &first, (key, &turn));
    taken(&second, key).await;
    assert_eq!(second.claim_unstarted(key).await, Ok(false), "it was taken already");
    turn.notify_one();
    let waited = tasks.join_next().await.expect("a task").expect("no panic");
    assert!(matches!(waited, Err(Error::OutcomeUnknown(_))), "{waited:?}");
}

/// Waits until there are as many notes.
async fn noted(place: &Place, count: usize) {
    eventually(LIMIT, async || match place.notes().await {
        notes if notes == count => Ok(()),
        other => Err(other),
    })
    .await;
}

#[tokio::test]
async fn a_call_whose_note_cannot_be_taken_back_for_certain_does_not_begin() {
    let Some(place) = Place::new("notes-lost").await else { return };
    let fault_proxy = FaultProxy::new();
    let runner = place.runner(fault_proxy.client(None).await.expect("a cluster")).await;
    let mut tasks = JoinSet::new();
    let renewals_too = |method: &str, path: &str| method == "PATCH" && path.contains("/leases/");
    // The note is written down, and the answer to its taking back is lost: the mark tells.
    let (key, turn) = (CallKey::unique(), Arc::new(Notify::new()));
    waiting(&mut tasks, &runner, (key, &turn));
    noted(&place, 1).await;
    let lost = move |method: &str, path: &str| {
        if renewals_too(method, path) { Fate::Lost } else { Fate::Pass }
    };
    fault_proxy.judge(lost);
    turn.notify_one();
    assert_eq!(tasks.join_next().await.expect("a task").expect("no panic"), Ok(()));
    assert_eq!(place.notes().await, 0);
    fault_proxy.judge(|_, _| Fate::Pass);
    // Of no use any more, it is gone with the next renewal.
    eventually(LIMIT, async || match place.annotations().await {
        names if names.is_empty() => Ok(()),
        names => Err(names),
    })
    .await;

    // The same, and the mark cannot be looked for.
    waiting(&mut tasks, &runner, (key, &turn));
    noted(&place, 1).await;
    let asked = AtomicU32::new(0);
    fault_proxy.judge(move |method, path| match lost(method, path) {
        Fate::Lost => {
            asked.fetch_add(1, Ordering::Relaxed);
            Fate::Lost
        }
        _ if path.contains("/leases") && asked.load(Ordering::Relaxed) > 0 => Fate::Refused(403),
        fate => fate,
    });
    turn.notify_one();
    let waited = tasks.join_next().await.expect("a task").expect("no panic");
    assert!(matches!(waited, Err(Error::OutcomeUnknown(_))), "{waited:?}");
    fault_proxy.judge(|_, _| Fate::Pass);
    noted(&place, 0).await;

    // It is written down by a request whose answer is lost: it is taken back all the same.
    let lost = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&lost);
    fault_proxy.judge(move |method, path| {
        let is_lost = renewals_too(method, path) && count.fetch_add(1, Ordering::Relaxed) < 8;
        if is_lost { Fate::Lost } else { Fate::Pass }
    });
    let (key, turn) = (CallKey::unique(), Arc::new(Notify::new()));
    waiting(&mut tasks, &runner, (key, &turn));
    noted(&place, 1).await;
    fault_proxy.judge(|_, _| Fate::Pass);
    turn.notify_one();
    assert_eq!(tasks.join_next().await.expect("a task").expect("no panic"), Ok(()));
    assert_eq!(place.notes().await, 0);

    // Where no notes can be had, calls wait without.
    fault_proxy
        .judge(|_, path| if path.contains("/leases") { Fate::Refused(403) } else { Fate::Pass });
    waiting(&mut tasks, &runner, (CallKey::unique(), &turn));
    turn.notify_one();
    assert_eq!(tasks.join_next().await.expect("a task").expect("no panic"), Ok(()));
}

#[tokio::test]
async fn the_lease_of_a_dead_manager_stays_for_the_notes_in_it() {
    let Some(place) = Place::new("notes-left").await else { return };
    let runner = place.runner(client().await.expect("a cluster")).await;
    let key = CallKey::unique();
    let mut label = key.to_string();
    label.truncate(32);
    for (name, annotations) in
        [("with", json!({format!("waiting.toolbus.dev/{label}"): ""})), ("without", json!({}))]
    {
        let lease = json!({
            "metadata": {"name": name, "annotations": annotations, "labels": {
                "app.kubernetes.io/managed-by": "toolbus-scripts-manager",
                "toolbus.dev/manager": name,
            }},
        });
        let lease = serde_json::from_value(lease).expect("a Lease");
        place.leases.create(&PostParams::default(), &lease).await.expect("a Lease");
    }
    let gone = async |name: &str| {
        eventually(LIMIT, async || match place.leases.get_opt(name).await {
            Ok(None) => Ok(()),
            other => Err(other.map(|_| "it is there").map_err(|error| error.to_string())),
        })
        .await;
    };
    gone("without").await;
    assert_eq!(runner.claim_unstarted(key).await, Ok(true));
    // Nothing is in it any more.
    gone("with").await;
}
