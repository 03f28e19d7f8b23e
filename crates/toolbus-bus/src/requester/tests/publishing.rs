//! What becomes of a request that the broker does not take, or does not confirm.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_request_that_no_queue_takes_fails_at_once() {
    let stage = Stage::start().await;
    let started = Instant::now();
    let end = stage.ask("c", 60 * SECOND).await;
    assert_eq!(end, Err(Error::Publish(PublishError::Unroutable(stage.topic.clone()))));
    assert_eq!(started.elapsed(), Duration::ZERO);
    assert_eq!(stage.requester.stats().pending, 0);
}

#[tokio::test(start_paused = true)]
async fn a_harmless_message_whose_confirm_was_lost_is_sent_again_as_the_same_message() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    stage.bus.fail([
        Fault::Fails(PublishError::Unconfirmed),
        Fault::ArrivesBut(PublishError::Unconfirmed),
    ]);
    let answering = async {
        // The second copy comes while the first is being worked at.
        let requests = worker.received(2).await;
        stage.answer(&requests[0]).await;
        stage.answer(&requests[1]).await;
        requests
    };

    let (end, requests) = tokio::join!(stage.ask_harmless("c", 60 * SECOND), answering);
    assert!(end.is_ok());
    assert_eq!(stage.bus.published(&stage.topic).len(), 3);
    let with_its_expiry =
        Envelope { expires_after: requests[0].expires_after, ..requests[1].clone() };
    assert_eq!(requests[0], with_its_expiry);
    until("the second answer", || stage.requester.stats().late == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_confirm_that_never_comes_ends_at_the_deadline() {
    let stage = Stage::start().await;
    let _worker = stage.silent_worker().await;
    stage.bus.fail((0..1_000).map(|_| Fault::Fails(PublishError::Unconfirmed)));
    let end = within("the deadline", stage.ask_harmless("c", 5 * SECOND)).await;
    assert_eq!(end, Err(Error::Timeout { asked: 5 * SECOND }));
    let tries = stage.bus.published(&stage.topic).len();
    assert!((10..=100).contains(&tries), "{tries} tries in five seconds");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_went_away_with_a_message_is_waited_for() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let away = || Fault::Fails(PublishError::Unavailable("no route to host".to_owned()));
    stage.bus.fail([Fault::ArrivesBut(PublishError::Unconfirmed), away(), away()]);
    let answering = async {
        until("the tries", || stage.bus.published(&stage.topic).len() == 3).await;
        stage.answer(&worker.received(1).await[0]).await;
    };

    let (end, ()) = tokio::join!(stage.ask_harmless("c", 60 * SECOND), answering);
    assert!(end.is_ok(), "{end:?}");

    // What may have been taken is never said not to have been.
    let refused = PublishError::Refused("no queue had room for it".to_owned());
    stage.bus.fail([Fault::Fails(PublishError::Unconfirmed), Fault::Fails(refused)]);
    assert_eq!(stage.ask_harmless("d", 60 * SECOND).await, Err(Error::Unconfirmed));
}

/// A second copy could go to another worker, which knows nothing of the first.
#[tokio::test(start_paused = true)]
async fn what_may_not_repeat_is_published_once_whatever_becomes_of_its_confirm() {
    for fault in [Fault::ArrivesBut as fn(_) -> _, Fault::Fails] {
        let stage = Stage::start().await;
        let worker = stage.silent_worker().await;
        stage.bus.fail([fault(PublishError::Unconfirmed)]);
        let began = Instant::now();
        assert_eq!(stage.ask("c", 60 * SECOND).await, Err(Error::Unconfirmed));
        assert!(began.elapsed() < 20 * SECOND, "{:?}", began.elapsed());
        assert_eq!(stage.bus.published(&stage.topic).len(), 1);

        // Where a worker has it, its answer is waited for as ever.
        stage.bus.fail([Fault::ArrivesBut(PublishError::Unconfirmed)]);
        let before = worker.len();
        let working = async {
            let request = worker.received(before + 1).await.pop().unwrap();
            for _ in 0..40 {
                stage.sign(&["d"]).await;
                tokio::time::sleep(SECOND).await;
            }
            stage.answer(&request).await;
        };
        let (end, ()) = tokio::join!(stage.ask("d", 60 * SECOND), working);
        assert!(end.is_ok(), "{end:?}");
    }
}

/// One of several queues may refuse what another takes.
#[tokio::test(start_paused = true)]
async fn a_request_that_a_queue_refuses_may_run_all_the_same() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let full = || PublishError::Refused("no queue had room for it".to_owned());
    stage.bus.fail([Fault::ArrivesBut(full())]);
    let working = async {
        let request = worker.received(1).await.remove(0);
        stage.sign(&["c"]).await;
        tokio::time::sleep(3 * SECOND).await;
        stage.answer(&request).await;
    };
    let (end, ()) = tokio::join!(stage.ask("c", 60 * SECOND), working);
    assert!(end.is_ok(), "{end:?}");

    // Nobody speaks of it: it is withdrawn from whoever may get it yet.
    let cancels = Inbox::open(&*stage.bus, topic::TOOL_CANCEL.as_str()).await;
    stage.bus.fail([Fault::Fails(full())]);
    let began = Instant::now();
    let refused = Error::Refused("no queue had room for it".to_owned());
    assert_eq!(stage.ask("d", 60 * SECOND).await, Err(refused));
    assert!(began.elapsed() < 4 * SECOND, "{:?}", began.elapsed());
    // Its reply is asked for a last time before.
    let withdrawn = cancels.received(2).await.remove(1);
    assert_eq!(json::read::<ToolCancel>(&withdrawn.body).unwrap().tool_call_id, "d");
}

#[tokio::test(start_paused = true)]
async fn a_message_that_was_not_sent_is_not_sent_again() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let away = PublishError::Unavailable("no route to host".to_owned());
    stage.bus.fail([Fault::Fails(away.clone())]);
    assert_eq!(stage.ask("c", SECOND).await, Err(Error::Publish(away)));
    assert_eq!(worker.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_overtakes_its_confirm_is_taken() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    stage.bus.fail([Fault::ArrivesAndHangs]);
    let answering = async { stage.answer(&worker.received(1).await[0]).await };
    let (end, ()) = tokio::join!(stage.ask("c", 60 * SECOND), answering);
    assert!(end.is_ok());
}
