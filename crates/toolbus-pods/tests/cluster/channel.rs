//! Requests of scripts to their caller, where managers and streams are lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use toolbus_pods::KubernetesRunner;
use toolbus_scripts::conformance::channel::{FRAMES, PRELUDE};
use toolbus_scripts::runner::{Channel, Ending, Run, Runner, Script};

use crate::once::{LIMIT, Place, same};
use crate::proxy::Proxy;
use crate::support::{bystander, client, script, settings, unwatched};

/// A script that sends three requests, one after another.
fn asking() -> Script {
    let source = format!("{FRAMES}\nfor number in range(3): print(ask(7, b'%d' % number)[1])");
    Script { prelude: Some(PRELUDE.to_owned()), ..script(&source) }
}

const ANSWERED: &str = "b'0'\nb'1'\nb'2'\n";

/// Echoes requests, and keeps their numbers. The second is answered when `released` fires.
fn echo(released: CancellationToken) -> (Channel, Arc<Mutex<Vec<u32>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let asking = Arc::clone(&asked);
    let channel = Channel::to(move |number, body: Bytes| {
        asking.lock().push(number);
        let released = released.clone();
        async move {
            if number == 1 {
                released.cancelled().await;
            }
            body
        }
    });
    (channel, asked)
}

/// Waits until the second request was sent.
async fn second_asked(asked: &Mutex<Vec<u32>>) {
    while !asked.lock().contains(&1) {
        // sleeps: looks again until the script asks.
        sleep(Duration::from_millis(5)).await;
    }
}

fn released() -> CancellationToken {
    let token = CancellationToken::new();
    token.cancel();
    token
}

#[tokio::test]
async fn a_manager_that_adopts_a_script_answers_what_is_open() {
    let Some(place) = Place::new("requests").await else { return };
    let client = client().await.expect("a cluster");
    let (first, second) = (place.runner(client.clone()).await, place.runner(client).await);

    // The first stops while a request is open, and leaves the script to the second.
    let (channel, asked) = echo(CancellationToken::new());
    let run = Run { channel: Some(channel), ..Run::alone("call_1") };
    let (channel, asked_again) = echo(released());
    let again = Run { channel: Some(channel), ..same(&run, true) };
    let stopping = async {
        second_asked(&asked).await;
        // Its log tells so, by which the other manager knows.
        place.started().await;
        first.prepare_stop(tokio::time::Instant::now());
    };
    tokio::select! {
        outcome = first.run(asking(), run) => panic!("it ended early: {outcome:?}"),
        () = stopping => {}
    }

    let outcome = second.run(asking(), again).await.expect("an outcome");
    assert_eq!((outcome.output.text.as_str(), outcome.ending), (ANSWERED, Ending::Exited(0)));
    assert_eq!(*asked.lock(), [0, 1]);
    assert_eq!(*asked_again.lock(), [1, 2]);
    first.idle().await;
    second.idle().await;
    place.is_empty(LIMIT).await;
    assert_eq!(place.ever(), 1);
}

#[tokio::test]
async fn requests_outlive_streams_that_are_cut() {
    let Some((proxy, client)) = Proxy::to_cluster().await else { return };
    let runner = KubernetesRunner::start(client.clone(), settings()).await.expect("a runner");
    let release = CancellationToken::new();
    let (channel, asked) = echo(release.clone());
    let run = Run { channel: Some(channel), ..unwatched() };
    let cutting = async {
        second_asked(&asked).await;
        proxy.cut();
        // sleeps: the answer comes after the cut.
        sleep(Duration::from_millis(100)).await;
        release.cancel();
    };

    let (outcome, (), ()) = tokio::join!(runner.run(asking(), run), cutting, bystander());
    let outcome = outcome.expect("an outcome");
    assert_eq!((outcome.output.text.as_str(), outcome.ending), (ANSWERED, Ending::Exited(0)));
    assert_eq!(*asked.lock(), [0, 1, 2]);
    runner.idle().await;
}
