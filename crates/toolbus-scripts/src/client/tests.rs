//! What a client does beside sending.

use std::sync::Arc;

use parking_lot::Mutex;
use toolbus_wire::message::toolbus::ToolProgress;

use super::*;

#[test]
fn output_that_is_told_again_is_heard_once() {
    let heard: Arc<Mutex<Vec<String>>> = Arc::default();
    let sink = {
        let heard = Arc::clone(&heard);
        Progress::to(move |news| heard.lock().extend(news.text))
    };
    let progress = skip_repeated_progress(sink);
    let tell = |seq: u64, text: &str| {
        let text = Some(text.to_owned());
        progress.send(ToolProgress { seq, text, ..ToolProgress::default() });
    };

    // One is lost on its way; then another worker begins anew, and gets further.
    for (seq, text) in [(0, "a"), (1, "b"), (3, "d")] {
        tell(seq, text);
    }

    for (seq, text) in [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e"), (5, "f")] {
        tell(seq, text);
    }

    assert_eq!(*heard.lock(), ["a", "b", "d", "e", "f"]);
    assert!(!skip_repeated_progress(Progress::none()).is_wanted());
}
