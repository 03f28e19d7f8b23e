use futures_util::FutureExt as _;

use super::*;

fn is_probe_due(watch: &HangWatch) -> bool {
    watch.probe_due.notified().now_or_never().is_some()
}

#[test]
fn the_third_call_without_an_answer_in_a_row_has_the_server_probed() {
    let watch = HangWatch::default();
    for _ in 0..2 {
        watch.record_unanswered(7);
        watch.record_unanswered(7);
        assert!(!is_probe_due(&watch));
        watch.record_unanswered(7);
        assert!(is_probe_due(&watch));
    }
}

#[test]
fn each_message_begins_the_row_again() {
    let watch = HangWatch::default();
    for messages in 1..10 {
        watch.record_unanswered(messages);
        watch.record_unanswered(messages);
    }
    assert!(!is_probe_due(&watch));
}
