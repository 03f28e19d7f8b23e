use super::*;

fn reply_to(correlation_id: &str) -> Envelope {
    Envelope::new("Test", "worker", bytes::Bytes::new()).with_correlation_id(correlation_id)
}

fn is_empty(pending: &Pending) -> bool {
    let table = pending.table.lock();
    table.by_correlation.is_empty() && table.by_call.is_empty()
}

#[test]
fn however_a_request_ends_its_places_are_given_up() {
    let pending = Arc::new(Pending::default());
    let add = || pending.add("c", Progress::none(), Asker::none()).unwrap();
    let (answered, _reply) = add();
    let (lost, _) = add();
    let (dropped, _) = add();
    pending.answer(reply_to(answered.correlation_id()));
    drop(dropped);
    pending.take_heartbeat(&Alive {
        instance: String::new(),
        calls: vec!["c".to_owned()],
        ..Alive::default()
    });

    for _ in 0..=SILENT_CHECKS_MAX {
        pending.count_silence();
    }

    assert!(is_empty(&pending));
    drop((answered, lost));
    assert!(is_empty(&pending));
}

#[test]
fn a_worker_that_was_heard_may_take_longer_to_come_back_after_an_outage() {
    let pending = Arc::new(Pending::default());
    let alive = Alive { instance: String::new(), calls: vec!["c".to_owned()], ..Alive::default() };
    let (_waiting, mut reply) = pending.add("c", Progress::none(), Asker::none()).unwrap();
    pending.take_heartbeat(&alive);
    pending.forgive_silence();
    (0..SILENT_CHECKS_MAX).for_each(|_| drop(pending.count_silence()));
    assert!(reply.try_recv().is_err(), "it still waits");

    // Once it is back, it is expected to be heard as before.
    pending.take_heartbeat(&alive);
    (0..SILENT_CHECKS_MAX).for_each(|_| drop(pending.count_silence()));
    assert!(reply.try_recv().is_err(), "it still waits");
    pending.count_silence();
    assert!(matches!(reply.try_recv(), Ok(Err(Error::WorkerLost))));
}

#[test]
fn a_call_that_is_kept_outlives_a_worker_that_is_silent() {
    let pending = Arc::new(Pending::default());
    let (_waiting, mut reply) = pending.add("c", Progress::none(), Asker::none()).unwrap();
    let calls = vec!["c".to_owned()];
    let alive = Alive { calls: calls.clone(), kept: calls, ..Alive::default() };
    pending.take_heartbeat(&alive);
    (0..=SILENT_CHECKS_MAX).for_each(|_| drop(pending.count_silence()));
    pending.forgive_silence();
    (0..=SILENT_CHECKS_MAX).for_each(|_| drop(pending.count_silence()));
    assert!(reply.try_recv().is_err(), "it still waits");

    // Another worker runs it now.
    pending.take_heartbeat(&Alive { kept: Vec::new(), ..alive });
    (0..=SILENT_CHECKS_MAX).for_each(|_| drop(pending.count_silence()));
    assert!(matches!(reply.try_recv(), Ok(Err(Error::WorkerLost))));
}

#[test]
fn calls_of_one_id_each_end_for_themselves() {
    let pending = Arc::new(Pending::default());
    let (first, _) = pending.add("c", Progress::none(), Asker::none()).unwrap();
    let (second, mut reply) = pending.add("c", Progress::none(), Asker::none()).unwrap();
    drop(first);
    assert_eq!(pending.len(), 1);
    assert!(matches!(pending.answer(reply_to(second.correlation_id())), Answer::Taken));
    assert!(reply.try_recv().unwrap().is_ok());
}

#[test]
fn what_has_ended_is_remembered_for_a_while_and_never_without_bound() {
    let pending = Arc::new(Pending::default());
    let end = |count: usize| {
        let mut first = None;
        for _ in 0..count {
            let (waiting, _) = pending.add("c", Progress::none(), Asker::none()).unwrap();
            first.get_or_insert_with(|| waiting.correlation_id().to_owned());
        }
        first.unwrap()
    };

    let oldest = end(EXPIRED_MAX);
    assert!(matches!(pending.answer(reply_to(&oldest)), Answer::Late(_)));
    end(1);
    assert!(matches!(pending.answer(reply_to(&oldest)), Answer::Unknown(id) if id == oldest));
    assert_eq!(pending.table.lock().expired.len(), EXPIRED_MAX);

    // Answers, however many, do not push out what ended without one.
    let late = end(1);
    for _ in 0..2 * ANSWERED_MAX {
        let (waiting, _reply) = pending.add("c", Progress::none(), Asker::none()).unwrap();
        pending.answer(reply_to(waiting.correlation_id()));
    }

    assert!(matches!(pending.answer(reply_to(&late)), Answer::Late(_)));
    assert_eq!(pending.table.lock().answered.len(), ANSWERED_MAX);
}
