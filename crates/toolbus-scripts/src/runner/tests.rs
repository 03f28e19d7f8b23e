//! How long a call waits for its script to begin.

use std::future::pending;

use super::*;

fn run(budget: Duration) -> Run {
    Run { deadline: Deadline::after(budget), ..Run::alone("call_1") }
}

#[tokio::test(start_paused = true)]
async fn what_a_script_waits_for_is_given_up_in_time_to_tell_why() {
    let check = |budget: u64, begin: u64, turn: u64| {
        let run = run(Duration::from_millis(budget));
        let left = |at: Instant| at.saturating_duration_since(Instant::now());
        assert_eq!(left(run.start_deadline()), Duration::from_millis(begin), "{budget}");
        assert_eq!(
            left(run.wait_deadline(Duration::from_secs(60))),
            left(run.start_deadline()),
            "{budget}"
        );

        assert_eq!(left(run.wait_deadline(Duration::from_millis(10))), Duration::from_millis(10));
        assert_eq!(left(run.queue_deadline()), Duration::from_millis(turn), "{budget}");
    };

    check(40_000, 39_500, 37_500);
    check(11_000, 10_500, 9_400);

    // Whoever has little time does not lose half of it.
    check(1_000, 900, 800);
}

#[tokio::test(start_paused = true)]
async fn a_turn_comes_in_time_or_not_at_all() {
    let late = run(Duration::ZERO);
    assert_eq!(
        late.with_queue_deadline(std::future::ready(1)).await,
        Ok(1),
        "nothing was waited for"
    );
    let start = Instant::now();
    let busy = run(Duration::from_secs(11)).with_queue_deadline(pending::<()>()).await;
    let text = "no other script made room within 9.4s";

    assert_eq!(busy, Err(Error::Busy(text.to_owned())));
    assert_eq!(start.elapsed(), Duration::from_millis(9400));
}
