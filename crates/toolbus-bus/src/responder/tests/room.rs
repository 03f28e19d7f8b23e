//! Large requests, for which there is no room.

use super::delivery::redelivered;
use super::*;

/// A request that takes up a third of the room.
fn large(call: &str, tool: &str) -> Envelope {
    let request = request(call, tool, &" ".repeat(BODY_BYTES_MAX - 1_024));
    assert!(request.body.len() <= BODY_BYTES_MAX);
    request
}

async fn take_up_all_room(stage: &Stage) {
    for call in ["a", "b", "c"] {
        stage.publish(large(call, "held")).await;
    }
    stage.service.started(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_large_call_without_room_is_busy_and_a_copy_of_one_that_runs_is_not() {
    let stage = Stage::start(64).await;
    take_up_all_room(&stage).await;

    stage.publish(large("more", "echo")).await;
    assert_eq!(stage.outcomes(1).await, ["more: Busy"]);
    // Asking again makes no other outcome of it.
    stage.publish(large("more", "echo")).await;
    assert_eq!(stage.outcomes(2).await[1], "more: Busy");
    stage.publish(request("small", "echo", "")).await;
    assert_eq!(stage.outcomes(3).await[2], "small was run RockBot");

    stage.publish(large("a", "held")).await;
    tokio::time::sleep(SECOND).await;
    assert_eq!(stage.replies.len(), 3);
    stage.service.release("a");
    assert_eq!(stage.outcomes(5).await[3..], ["a was run RockBot"; 2]);
    tokio::time::sleep(SECOND).await;
    stage.publish(large("later", "echo")).await;
    assert_eq!(stage.outcomes(6).await[5], "later was run RockBot");
}

/// Another worker may have begun it.
#[tokio::test(start_paused = true)]
async fn a_large_call_that_comes_again_and_finds_no_room_is_unknown() {
    let stage = Stage::start(4).await;
    take_up_all_room(&stage).await;
    // With all its handlers at work, it leaves the request to a worker that dies.
    stage.publish(request("small", "held", "")).await;
    stage.service.started(4).await;
    redelivered(&stage.bus, large("lost", "harmless")).await;

    stage.service.release("small");
    assert_eq!(stage.outcomes(2).await[1], "lost: OutcomeUnknown");
}

#[tokio::test(start_paused = true)]
async fn a_responder_says_how_much_room_it_has() {
    let (bus, service) = (Faulty::new(), Scripted::default());
    let replies = Inbox::open(&*bus, "replies").await;
    let listen = Listen { large_requests_bytes: BODY_BYTES_MAX, ..listen("one", 64) };
    let responder = Responder::start(bus.clone(), listen, service.clone()).await.unwrap();

    bus.publish(&topic(WORK), large("a", "held")).await.unwrap();
    service.started(1).await;
    bus.publish(&topic(WORK), large("b", "held")).await.unwrap();

    assert_eq!(outcome(&replies.received(1).await[0]), "b: Busy");
    responder.stop(Duration::ZERO).await;
}
