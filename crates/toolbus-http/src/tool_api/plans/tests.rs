use super::{Plan, Span, end_of_month};

/// 2024-01-31T23:59:30Z.
const LATE_IN_JANUARY: i64 = 1_706_745_570_000;

#[test]
fn a_month_ends_with_the_calendar() {
    assert_eq!(end_of_month(LATE_IN_JANUARY), Some(LATE_IN_JANUARY + 30_000));
    let leap_february = end_of_month(LATE_IN_JANUARY + 30_000);
    assert_eq!(leap_february, Some(LATE_IN_JANUARY + 30_000 + 29 * 86_400_000));
}

#[test]
fn spans_of_a_moment_have_its_number() {
    let plan = Plan::FREE;
    let (before, after) =
        (Span::month(plan, LATE_IN_JANUARY), Span::month(plan, LATE_IN_JANUARY + 30_000));
    assert_eq!(before.number + 1, after.number);

    let minute = Span::minute(plan, LATE_IN_JANUARY);
    assert_eq!(minute.end_ms, LATE_IN_JANUARY + 30_000);
    assert_eq!(minute.standing(3).remaining, 7);
    assert_eq!(minute.standing(11).remaining, 0);
    assert_eq!(minute.exceeded(LATE_IN_JANUARY).wait.as_secs(), 30);
}
