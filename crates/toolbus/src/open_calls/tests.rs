use super::*;

#[test]
fn a_call_is_counted_before_it_is_asked_whether_it_may_run() {
    let calls = OpenCalls::default();
    let mut seen = None;
    let running = calls.admit(|| {
        // Whoever closes now must find this call to wait for.
        seen = Some(calls.running.len());
        false
    });
    assert_eq!((seen, calls.running.len()), (Some(1), 1));
    drop(running);
    assert_eq!(calls.running.len(), 0);

    assert!(calls.admit(|| true).is_none());
    assert_eq!(calls.running.len(), 0, "a call that is refused keeps nobody waiting");
}
