//! How an error with causes reads.

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Layer(&'static str, #[source] Option<Box<Layer>>);

#[test]
fn a_failure_is_one_block_without_repetitions() {
    let cause = Layer("connection refused", None);
    let same = Layer("cannot connect: connection refused", Some(Box::new(cause)));
    let error = Layer("cannot join the bus", Some(Box::new(same)));
    assert_eq!(
        in_lines(&error),
        "cannot join the bus\n  because: cannot connect: connection refused"
    );
    assert_eq!(on_one_line(&error), "cannot join the bus: cannot connect: connection refused");
}
