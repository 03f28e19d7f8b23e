use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

const HOUR_MS: i64 = 3_600_000;

fn at(text: &str) -> i64 {
    text.parse::<Timestamp>().unwrap().as_millisecond()
}

fn shown(ms: i64) -> String {
    Timestamp::from_millisecond(ms).unwrap().to_string()
}

/// A task by its expression, rule and next time, in UTC.
#[derive(Clone)]
struct Case {
    cron: CronExpression,
    zone: TimeZone,
    run_once: bool,
    missed: MissedRule,
    next_ms: Option<i64>,
    accounted_ms: Option<i64>,
}

impl Case {
    fn new(cron: &str, missed: MissedRule, next: &str) -> Self {
        let (cron, zone) = (cron.parse().unwrap(), TimeZone::UTC);
        let next_ms = Some(at(next));
        Self { cron, zone, run_once: false, missed, next_ms, accounted_ms: None }
    }

    fn armed(&self) -> Armed<'_> {
        let Self { cron, zone, run_once, missed, next_ms, accounted_ms } = self;
        Armed {
            cron,
            zone,
            run_once: *run_once,
            missed: *missed,
            next_ms: *next_ms,
            accounted_ms: *accounted_ms,
        }
    }

    fn firing(&self, now: &str) -> Firing {
        match self.armed().decide(at(now)) {
            Decision::Fire(firing) => firing,
            other => panic!("{other:?}"),
        }
    }

    /// What is run, and what is missed: the first, the last, and how many.
    fn check(&self, now: &str, runs: &[&str], missed: Option<(&str, &str, u64)>) {
        let firing = self.firing(now);
        let ran: Vec<_> = firing.runs.iter().map(|due| shown(*due)).collect();
        assert_eq!(ran, runs);
        let span = firing.missed.map(|m| (shown(m.first_ms), shown(m.last_ms), m.fires));
        let expected = missed.map(|(first, last, n)| (first.to_owned(), last.to_owned(), n));
        assert_eq!(span, expected);
    }
}

#[test]
fn what_is_due_fires_and_is_armed_for_the_next_time() {
    let hourly = Case::new("0 * * * *", MissedRule::Skip, "2026-11-27T09:00:00Z");
    assert_eq!(hourly.armed().decide(at("2026-11-27T08:59:59.999Z")), Decision::Nothing);
    hourly.check("2026-11-27T09:00:00Z", &["2026-11-27T09:00:00Z"], None);
    let firing = hourly.firing("2026-11-27T09:00:00Z");
    assert_eq!(firing.next_ms.map(shown).as_deref(), Some("2026-11-27T10:00:00Z"));
    assert_eq!(shown(firing.accounted_ms), "2026-11-27T09:00:00Z");
    // A minute late is on time, and more is missed.
    hourly.check("2026-11-27T09:01:00Z", &["2026-11-27T09:00:00Z"], None);
    let one = ("2026-11-27T09:00:00Z", "2026-11-27T09:00:00Z", 1);
    hourly.check("2026-11-27T09:01:01Z", &[], Some(one));
}

#[test]
fn missed_fires_go_by_the_rule() {
    let now = "2026-11-27T12:30:00Z";
    let case = |rule| Case::new("0 * * * *", rule, "2026-11-27T09:00:00Z");
    let four = ("2026-11-27T09:00:00Z", "2026-11-27T12:00:00Z", 4);
    case(MissedRule::Skip).check(now, &[], Some(four));
    case(MissedRule::RunOnce).check(
        now,
        &["2026-11-27T12:00:00Z"],
        Some(("2026-11-27T09:00:00Z", "2026-11-27T11:00:00Z", 3)),
    );
    case(MissedRule::RunAll { max: 3 }).check(
        now,
        &["2026-11-27T10:00:00Z", "2026-11-27T11:00:00Z", "2026-11-27T12:00:00Z"],
        Some(("2026-11-27T09:00:00Z", "2026-11-27T09:00:00Z", 1)),
    );
    case(MissedRule::RunAll { max: 10 }).check(
        now,
        &[
            "2026-11-27T09:00:00Z",
            "2026-11-27T10:00:00Z",
            "2026-11-27T11:00:00Z",
            "2026-11-27T12:00:00Z",
        ],
        None,
    );
    // What is on time among them runs by any rule.
    case(MissedRule::Skip).check(
        "2026-11-27T12:00:30Z",
        &["2026-11-27T12:00:00Z"],
        Some(("2026-11-27T09:00:00Z", "2026-11-27T11:00:00Z", 3)),
    );
    assert_eq!(MissedRule::of("run_all", 1_000).max(), RUN_ALL_MAX);
}

#[test]
fn a_task_that_runs_once_is_not_armed_again() {
    let mut once = Case::new("0 17 24 12 *", MissedRule::RunOnce, "2026-12-24T17:00:00Z");
    once.run_once = true;
    let firing = once.firing("2026-12-24T17:00:00Z");
    assert_eq!((firing.runs.len(), firing.next_ms, firing.ends_task), (1, None, false));
    // A reminder is late rather than never.
    once.check("2026-12-25T08:00:00Z", &["2026-12-24T17:00:00Z"], None);

    once.missed = MissedRule::Skip;
    let firing = once.firing("2026-12-25T08:00:00Z");
    assert_eq!((firing.runs.len(), firing.ends_task), (0, true));
    assert_eq!(firing.missed.unwrap().fires, 1);

    // All that is missed of it is one time, by any rule; and what went by during another run of it
    // is not skipped.
    let mut seconds =
        Case::new("* * * * * *", MissedRule::RunAll { max: 9 }, "2026-12-24T17:00:00Z");
    seconds.run_once = true;
    let last = ("2026-12-24T17:00:00Z", "2026-12-24T17:00:04Z", 5);
    seconds.check("2026-12-24T17:00:05Z", &["2026-12-24T17:00:05Z"], Some(last));
    assert_eq!(seconds.armed().overrun(at("2026-12-24T17:00:05Z")), None);

    once.next_ms = None;
    assert_eq!(once.armed().decide(at("2027-01-01T00:00:00Z")), Decision::Nothing);
}

#[test]
fn a_great_many_missed_fires_are_counted_in_part() {
    let case = Case::new("* * * * * *", MissedRule::RunAll { max: 2 }, "2025-11-27T00:00:00Z");
    case.check(
        "2026-11-27T00:02:00.5Z",
        &["2026-11-27T00:01:59Z", "2026-11-27T00:02:00Z"],
        Some(("2025-11-27T00:00:00Z", "2026-11-27T00:01:58Z", COUNTED_MAX)),
    );
    let february = Case::new("* * * 2 *", MissedRule::RunOnce, "2026-02-01T00:00:00Z");
    let firing = february.firing("2026-12-01T00:00:00Z");
    assert_eq!(firing.runs.into_iter().map(shown).collect::<Vec<_>>(), ["2026-02-28T23:59:00Z"]);
}

#[test]
fn another_zone_arms_it_anew() {
    let mut daily = Case::new("0 9 * * *", MissedRule::Skip, "2026-11-27T09:00:00Z");
    let now = at("2026-11-27T07:30:00Z");
    assert_eq!(daily.armed().decide(now), Decision::Nothing);
    daily.zone = TimeZone::get("Europe/Berlin").unwrap();
    let next_ms = Some(at("2026-11-27T08:00:00Z"));
    assert_eq!(daily.armed().decide(now), Decision::Rearm { next_ms });
    daily.zone = TimeZone::get("America/Chicago").unwrap();
    let next_ms = Some(at("2026-11-27T15:00:00Z"));
    assert_eq!(daily.armed().decide(now), Decision::Rearm { next_ms });
}

#[test]
fn a_clock_that_is_set_back_repeats_nothing() {
    let mut daily = Case::new("0 9 * * *", MissedRule::Skip, "2026-11-28T09:00:00Z");
    daily.accounted_ms = Some(at("2026-11-27T09:00:00Z"));
    assert_eq!(daily.armed().decide(at("2026-11-27T09:00:10Z")), Decision::Nothing);
    assert_eq!(daily.armed().decide(at("2026-11-27T08:00:00Z")), Decision::Nothing);
    // A clock that was years ahead is not waited for.
    daily.next_ms = Some(at("2030-01-02T09:00:00Z"));
    daily.accounted_ms = Some(at("2030-01-01T09:00:00Z"));
    let next_ms = Some(at("2026-11-27T09:00:00Z"));
    assert_eq!(daily.armed().decide(at("2026-11-27T08:00:00Z")), Decision::Rearm { next_ms });
}

#[test]
fn what_went_by_during_a_run_is_skipped() {
    let hourly = Case::new("0 * * * *", MissedRule::RunAll { max: 9 }, "2026-11-27T10:00:00Z");
    assert_eq!(hourly.armed().overrun(at("2026-11-27T09:59:59Z")), None);
    let overrun = hourly.armed().overrun(at("2026-11-27T12:10:00Z")).unwrap();
    let (first_ms, last_ms) = (at("2026-11-27T10:00:00Z"), at("2026-11-27T12:00:00Z"));
    assert_eq!(overrun.skipped, Span { first_ms, last_ms, fires: 3 });
    assert_eq!(overrun.next_ms, Some(at("2026-11-27T13:00:00Z")));
}

#[test]
fn what_a_process_has_left_goes_by_the_rule() {
    let now = 10 * HOUR_MS;
    let left = Left {
        state: OccurrenceState::Fired,
        cause: Cause::Schedule,
        due_ms: now - HOUR_MS,
        is_retried: false,
        is_newest: true,
    };
    let all = MissedRule::RunAll { max: 3 };
    for (left, rule, expected) in [
        (left, MissedRule::Skip, Recovered::Missed),
        (left, MissedRule::RunOnce, Recovered::Keep),
        (left, all, Recovered::Keep),
        (Left { is_newest: false, ..left }, MissedRule::RunOnce, Recovered::Missed),
        (Left { is_newest: false, ..left }, all, Recovered::Keep),
        (Left { due_ms: now - 1_000, ..left }, MissedRule::Skip, Recovered::Keep),
        (Left { is_retried: true, ..left }, MissedRule::Skip, Recovered::Keep),
        (Left { cause: Cause::Asked, ..left }, MissedRule::Skip, Recovered::Keep),
    ] {
        assert_eq!(left.recover(rule, now), expected, "{left:?} {rule:?}");
        // What was begun is never run again.
        let running = Left { state: OccurrenceState::Running, ..left };
        assert_eq!(running.recover(rule, now), Recovered::Lost);
    }
}

#[test]
fn a_run_is_put_off_so_often() {
    assert_eq!(PutOff::after(0, 15), PutOff::Retry { attempts: 1 });
    assert_eq!(PutOff::after(14, 15), PutOff::Retry { attempts: 15 });
    assert_eq!(PutOff::after(15, 15), PutOff::GiveUp);
}

fn rule() -> impl Strategy<Value = MissedRule> {
    prop_oneof![
        Just(MissedRule::Skip),
        Just(MissedRule::RunOnce),
        (1..20_u32).prop_map(|max| MissedRule::RunAll { max }),
    ]
}

/// All times after this one until another.
fn times(case: &Case, after_ms: i64, until_ms: i64) -> Vec<i64> {
    let next = |at: i64| next_ms(&case.cron, at, &case.zone);
    let all = std::iter::successors(next(after_ms), |at| next(*at));
    all.take_while(|at| *at <= until_ms).collect()
}

proptest! {
    /// However long nobody looks, each time is accounted for once, in order.
    #[test]
    fn every_time_is_accounted_for_once(
        cron in prop_oneof![Just("*/7 * * * *"), Just("30 1-3 * * *"), Just("*/20 * * * * *")],
        rule in rule(),
        steps in proptest::collection::vec((0..9_000_000_i64, any::<bool>()), 1..12),
    ) {
        // Over the change of the clocks of 2026-10-25.
        let began = at("2026-10-24T20:00:00Z");
        let mut case = Case::new(cron, rule, "2026-10-24T20:00:00Z");
        case.zone = TimeZone::get("Europe/Berlin").unwrap();
        case.next_ms = next_ms(&case.cron, began, &case.zone);
        let spread = |case: &Case, span: Span| {
            let times = times(case, span.first_ms - 1, span.last_ms);
            assert_eq!(times.len() as u64, span.fires);
            times
        };

        let (mut now, mut accounted) = (began, Vec::new());
        for (step, runs_over) in steps {
            now += step;
            let overrun = case.armed().overrun(now).filter(|_| runs_over);
            if let Some(overrun) = overrun {
                accounted.extend(spread(&case, overrun.skipped));
                case.accounted_ms = Some(overrun.skipped.last_ms);
                case.next_ms = overrun.next_ms;
                continue;
            }
            match case.armed().decide(now) {
                Decision::Nothing => {}
                Decision::Rearm { .. } => panic!("nothing has changed"),
                Decision::Fire(firing) => {
                    let missed = firing.missed.map(|span| spread(&case, span));
                    accounted.extend(missed.unwrap_or_default());
                    assert!(firing.runs.len() <= rule.max().max(1) as usize);
                    accounted.extend(firing.runs);
                    case.accounted_ms = Some(firing.accounted_ms);
                    case.next_ms = firing.next_ms;
                }
            }
        }
        prop_assert_eq!(accounted, times(&case, began, now));
    }
}
