//! What follows from the ends of calls.

use super::*;

const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
const NOW_MS: i64 = 1_000 * PERIOD_MS + 5 * DAY_MS;

fn id(text: &str) -> ToolId {
    ToolId::parse(text).expect("an id")
}

fn ended(tool: &str, owner: Option<&str>, verdict: Verdict) -> Ended {
    Ended {
        tool: id(tool),
        verdict,
        ran: Duration::from_millis(20),
        owner: owner.map(Into::into),
        session: None,
        is_self_promotion: false,
        at_ms: NOW_MS,
    }
}

fn learned() -> Learned {
    Learned::new(&DiscoveryLimits::default())
}

#[test]
fn cx_m6_the_history_of_one_principal_is_nobody_elses() {
    let mut learned = learned();
    learned.learn(&ended("a/x", Some("local:ann"), Verdict::Success));
    let of = |owner: &str| learned.history(&owner.into(), &id("a/x"), NOW_MS);
    assert_eq!(of("local:ann").successes, 1);
    assert_eq!(of("local:bob"), UserHistory::default());
    assert_eq!(learned.previous_server(&"local:ann".into(), None), Some("a"));
    assert_eq!(learned.previous_server(&"local:bob".into(), None), None);
}

#[test]
fn popularity_by_one_principal_or_by_many_who_only_say_who_they_are_is_bounded() {
    let mut learned = learned();
    for _ in 0..1_000 {
        learned.learn(&ended("evil/x", Some("token:here/evil-fan"), Verdict::Success));
        learned.learn(&ended("evil/y", None, Verdict::Success));
    }
    for user in 0..20 {
        let user = format!("token:here/{user}");
        learned.learn(&ended("good/x", Some(&user), Verdict::Success));
    }
    let weight = |tool: &str| learned.statistics(&id(tool), NOW_MS).weight();
    assert!(weight("good/x") > weight("evil/x"), "{}", weight("evil/x"));
    assert!(weight("good/x") > weight("evil/y"), "{}", weight("evil/y"));
}

#[test]
fn calls_of_a_servers_own_tools_do_not_make_it_popular_and_its_failures_count() {
    let mut learned = learned();
    let own =
        Ended { is_self_promotion: true, ..ended("evil/x", Some("local:a"), Verdict::Success) };
    learned.learn(&own);
    assert!(learned.statistics(&id("evil/x"), NOW_MS).is_empty());
    learned.learn(&Ended { verdict: Verdict::Failure, ..own });
    let statistics = learned.statistics(&id("evil/x"), NOW_MS);
    assert_eq!((statistics.errors(), statistics.weight), (1, 0));
}

#[test]
fn cx_m2_tools_that_are_used_one_after_the_other_are_counted_together() {
    let mut learned = learned();
    for tool in ["a/x", "b/y", "a/x", "b/y", "c/z"] {
        learned.learn(&ended(tool, Some("local:ann"), Verdict::Success));
    }
    // Somebody else's tool in between is another matter.
    learned.learn(&ended("d/w", Some("local:bob"), Verdict::Success));
    assert_eq!(learned.used_after(&id("a/x"), NOW_MS), [(id("b/y"), 2)]);
    assert_eq!(learned.used_after(&id("b/y"), NOW_MS), [(id("a/x"), 1), (id("c/z"), 1)]);
}

#[test]
fn what_was_long_ago_fades_and_is_known_to_have_been() {
    let mut learned = learned();
    learned.learn(&ended("a/x", Some("local:ann"), Verdict::Success));
    let later = NOW_MS + 70 * DAY_MS;
    assert!(learned.statistics(&id("a/x"), later).is_empty());
    assert_eq!(learned.history(&"local:ann".into(), &id("a/x"), later), UserHistory::default());
    let ago = learned.last_used(&id("a/x"), later).expect("it was used");
    assert_eq!(ago.as_secs(), 70 * 24 * 60 * 60);
    learned.forget_old(NOW_MS + 400 * DAY_MS);
    assert_eq!(learned.tools.len() + learned.uses.len(), 0);
}

#[test]
fn a_clock_that_goes_backwards_does_no_harm() {
    let mut learned = learned();
    learned.learn(&ended("a/x", Some("local:ann"), Verdict::Success));
    let before =
        Ended { at_ms: NOW_MS - DAY_MS, ..ended("a/x", Some("local:ann"), Verdict::Success) };
    learned.learn(&before);
    let earlier = NOW_MS - 2 * DAY_MS;
    assert_eq!(learned.last_used(&id("a/x"), earlier), Some(Duration::ZERO));
    assert_eq!(learned.statistics(&id("a/x"), earlier).successes, 2);
    let history = learned.history(&"local:ann".into(), &id("a/x"), earlier);
    assert_eq!((history.successes, history.last_used), (2, Some(Duration::ZERO)));
    learned.learn(&Ended { at_ms: i64::MIN, ..before.clone() });
    learned.learn(&Ended { at_ms: i64::MAX, ..before });
}

#[test]
fn everything_is_bounded() {
    let limits = DiscoveryLimits {
        tools_max: 16,
        uses_max: 16,
        pairs_max: 16,
        ..DiscoveryLimits::default()
    };
    let mut learned = Learned::new(&limits);
    for _ in 0..50 {
        learned.learn(&ended("good/x", Some("local:ann"), Verdict::Success));
    }
    for n in 0..11_000 {
        let user = format!("token:here/{n}");
        learned.learn(&ended(&format!("s{n}/x"), Some(&user), Verdict::Success));
        learned.learn(&ended(&format!("s{n}/y"), Some(&user), Verdict::Success));
    }
    assert!(learned.tools.len() <= 18 && learned.uses.len() <= 18 && learned.pairs.len() <= 18);
    assert!(learned.recent.len() <= RECENT_MAX && learned.own_epochs.len() <= RECENT_MAX);
    // The least used fall out.
    assert!(!learned.statistics(&id("good/x"), NOW_MS).is_empty());
}

#[test]
fn the_epoch_of_all_grows_once_in_a_second_and_ones_own_at_once() {
    let mut learned = learned();
    let ann: Arc<str> = "local:ann".into();
    assert_eq!(learned.epochs(Some(&ann)), (0, 0));
    learned.learn(&ended("a/x", Some("local:ann"), Verdict::Success));
    assert_eq!(learned.epochs(Some(&ann)), (1, 1));
    learned.learn(&ended("a/x", Some("local:ann"), Verdict::Success));
    assert_eq!(learned.epochs(Some(&ann)), (1, 2));
    assert_eq!(learned.epochs(None), (1, 0));
}
