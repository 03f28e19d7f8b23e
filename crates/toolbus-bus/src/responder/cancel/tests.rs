use super::*;

#[test]
fn of_two_calls_of_one_name_each_keeps_its_own_token() {
    for first_ends in [true, false] {
        let cancels = Arc::new(Cancels::default());
        let first = cancels.register("a", "c");
        let second = cancels.register("a", "c");
        let (ends, stays) = if first_ends { (first, second) } else { (second, first) };
        drop(ends);
        assert!(!stays.token().is_cancelled());
        cancels.cancel("a", "c");
        assert!(stays.token().is_cancelled());
        drop(stays);
        assert!(cancels.table.lock().running.is_empty());
    }
}

#[test]
fn a_cancel_reaches_every_call_of_its_name_and_none_of_another() {
    let cancels = Arc::new(Cancels::default());
    let calls = [cancels.register("a", "c"), cancels.register("a", "c")];
    let others = [cancels.register("a", "d"), cancels.register("b", "c")];
    cancels.cancel("a", "c");
    assert!(calls.iter().all(|call| call.token().is_cancelled()));
    assert!(others.iter().all(|call| !call.token().is_cancelled()));
    assert!(cancels.table.lock().early.is_empty(), "it has reached its call");
}

#[test]
fn early_cancels_are_bounded() {
    let cancels = Arc::new(Cancels::default());
    for number in 0..=EARLY_MAX {
        cancels.cancel("a", &number.to_string());
    }
    assert_eq!(cancels.table.lock().early.len(), EARLY_MAX);
    assert!(!cancels.register("a", "0").token().is_cancelled());
    assert!(cancels.register("a", "1").token().is_cancelled());
}

/// No call can have such a name, and a message may be of any size.
#[test]
fn early_cancels_of_long_names_are_not_kept() {
    let cancels = Arc::new(Cancels::default());
    cancels.cancel("a", &"x".repeat(ID_BYTES_MAX + 1));
    cancels.cancel(&"x".repeat(SOURCE_BYTES_MAX + 1), "c");
    assert!(cancels.table.lock().early.is_empty());

    // One that runs is reached under any name.
    let source = "x".repeat(SOURCE_BYTES_MAX + 1);
    let running = cancels.register(&source, "c");
    cancels.cancel(&source, "c");
    assert!(running.token().is_cancelled());
}
