//! How long a worker may be silent, and when its silence counts.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_worker_that_gave_one_sign_and_then_none_is_lost_after_fifteen() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let signing = async {
        worker.received(1).await;
        tokio::time::sleep(2 * SECOND).await;
        stage.sign(&["c"]).await;
        Instant::now()
    };

    let asking = async {
        let end = stage.ask("c", 60 * SECOND).await;
        (end, Instant::now())
    };

    let ((end, ended), signed) = tokio::join!(asking, signing);
    assert_eq!(end, Err(Error::WorkerLost));
    let silence = ended - signed;
    assert!(silence > 14 * SECOND && silence < 17 * SECOND, "{silence:?}");

    // What the worker says after all is late, not a stray.
    stage.answer(&worker.received(1).await[0]).await;
    until("a late reply", || stage.requester.stats().late == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_keeps_signing_is_waited_for_until_the_deadline() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let signing = async {
        worker.received(1).await;
        loop {
            stage.sign(&["c"]).await;
            // Two signs of three are lost on the way.
            tokio::time::sleep(3 * SECOND).await;
        }
    };

    let started = Instant::now();
    let end = tokio::select! {
        end = stage.ask("c", 30 * SECOND) => end,
        () = signing => unreachable!(),
    };

    assert_eq!(end, Err(Error::Timeout { asked: 30 * SECOND }));
    assert!(started.elapsed() >= 30 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_no_worker_has_taken_is_never_lost() {
    let stage = Stage::start().await;
    let _queue = stage.silent_worker().await;
    let end = stage.ask("c", 30 * SECOND).await;
    assert_eq!(end, Err(Error::Timeout { asked: 30 * SECOND }));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_its_worker_no_longer_names_is_lost_and_the_others_are_not() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let signing = async {
        worker.received(2).await;
        stage.sign(&["dropped", "kept"]).await;
        loop {
            tokio::time::sleep(SECOND).await;
            stage.sign(&["kept", "of somebody else"]).await;
        }
    };

    let asking =
        async { tokio::join!(stage.ask("dropped", 20 * SECOND), stage.ask("kept", 20 * SECOND)) };
    let (dropped, kept) = tokio::select! {
        ends = asking => ends,
        () = signing => unreachable!(),
    };

    assert_eq!(dropped, Err(Error::WorkerLost));
    assert_eq!(kept, Err(Error::Timeout { asked: 20 * SECOND }));
}

#[tokio::test(start_paused = true)]
async fn silence_does_not_count_while_the_bus_is_down() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let outage = async {
        worker.received(1).await;
        stage.sign(&["c"]).await;
        // Most of the patience is used up when the broker goes away.
        tokio::time::sleep(3 * SECOND).await;
        stage.bus.set_health(Health::Down { reason: "restart".to_owned() });
        tokio::time::sleep(20 * SECOND).await;
        stage.bus.set_health(Health::Up);

        Instant::now()
    };

    let asking = async {
        let end = stage.ask("c", 60 * SECOND).await;
        (end, Instant::now())
    };

    let ((end, ended), up_again) = tokio::join!(asking, outage);
    assert_eq!(end, Err(Error::WorkerLost));
    let silence = ended - up_again;
    // A longer patience: the worker may come back later than its caller.
    assert!(silence > 14 * SECOND && silence < 17 * SECOND, "{silence:?}");
}

#[tokio::test(start_paused = true)]
async fn progress_is_a_sign_of_life() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let working = async {
        worker.received(1).await;
        stage.sign(&["c"]).await;
        loop {
            tokio::time::sleep(2 * SECOND).await;
            stage.news(&progress_of("c", "still at it")).await;
        }
    };

    let end = tokio::select! {
        end = stage.ask("c", 20 * SECOND) => end,
        () = working => unreachable!(),
    };

    assert_eq!(end, Err(Error::Timeout { asked: 20 * SECOND }));
}

/// A worker whose connection was lost is alive and goes on with its call; another got the request.
#[tokio::test(start_paused = true)]
async fn an_answer_over_the_head_of_a_living_worker_is_not_taken() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let working = async {
        let request = worker.received(1).await.remove(0);
        stage.sign(&["c"]).await;
        stage.answer_tentatively(&request).await;
        tokio::time::sleep(2 * SECOND).await;
        for _ in 0..10 {
            stage.sign(&["c"]).await;
            tokio::time::sleep(SECOND).await;
        }
        stage.answer(&request).await;
    };
    let (end, ()) = tokio::join!(stage.ask("c", 60 * SECOND), working);
    assert_eq!(end.unwrap().message_type, "Test");
}

#[tokio::test(start_paused = true)]
async fn an_answer_in_place_of_a_lost_worker_is_taken_once_that_is_silent() {
    for was_heard in [false, true] {
        let stage = Stage::start().await;
        let worker = stage.silent_worker().await;
        let dying = async {
            let request = worker.received(1).await.remove(0);
            if was_heard {
                stage.sign(&["c"]).await;
            }
            stage.answer_tentatively(&request).await;
        };
        let began = Instant::now();
        let (end, ()) = tokio::join!(stage.ask("c", 60 * SECOND), dying);
        assert_eq!(end.unwrap().message_type, "Tentative");
        assert!(began.elapsed() < 17 * SECOND, "{was_heard}: {:?}", began.elapsed());
    }
}

/// Its broker takes no messages and does not say so, or its connection hangs: nobody can be heard.
#[tokio::test(start_paused = true)]
async fn a_caller_that_does_not_hear_itself_blames_no_worker() {
    let stage = Stage::start().await;
    let worker = stage.silent_worker().await;
    let working = async {
        let request = worker.received(1).await.remove(0);
        stage.sign(&["c"]).await;
        // Every message to ourselves is held up for half a minute.
        stage.bus.fail((0..30).map(|_| Fault::Hangs));
        tokio::time::sleep(25 * SECOND).await;
        stage.bus.clear_faults();
        stage.sign(&["c"]).await;
        stage.answer(&request).await;
    };
    let (end, ()) = tokio::join!(stage.ask("c", 60 * SECOND), working);
    assert!(end.is_ok(), "{end:?}");
}
