use proptest::prelude::*;

use super::*;

/// A tracker of so many slots, and agents to fill it with.
fn tracker(agents_max: usize) -> SpawnTracker {
    SpawnTracker::new(SpawnLimits { agents_max, may_pause: true })
}

fn agents<const N: usize>() -> [RunId; N] {
    std::array::from_fn(|_| RunId::random())
}

#[test]
fn rv_b2_the_first_agent_counts_and_only_high_priority_makes_room() {
    let mut tracker = tracker(3);
    assert_eq!(tracker.active(), 1);
    let [low, normal, more, high, critical, last] = agents();
    assert_eq!(tracker.acquire(low.clone(), Priority::Low), Ok(Spawned { paused: None }));
    assert!(tracker.acquire(normal.clone(), Priority::Normal).is_ok());

    let refused = tracker.acquire(more, Priority::Normal).unwrap_err();
    assert_eq!(refused, SpawnRefused { active: 3, agents_max: 3 });
    assert!(refused.to_string().starts_with("3 agents are active of 3"));

    // The one that matters least goes first, and the total stays.
    let spawned = tracker.acquire(high.clone(), Priority::High).unwrap();
    assert_eq!((spawned.paused, tracker.active()), (Some(low.clone()), 3));
    let spawned = tracker.acquire(critical, Priority::Critical).unwrap();
    assert_eq!((spawned.paused, tracker.active()), (Some(normal), 3));
    let spawned = tracker.acquire(last.clone(), Priority::Critical).unwrap();
    assert_eq!(spawned.paused, Some(high));

    // Nobody is left below.
    let [one_more] = agents();
    assert!(tracker.acquire(one_more, Priority::Critical).is_err());
    assert!(tracker.is_paused(&low) && !tracker.is_paused(&last));
}

#[test]
fn rv_b3_a_release_frees_a_slot_once() {
    let mut tracker = tracker(2);
    let [one, two, unknown] = agents();
    tracker.acquire(one.clone(), Priority::Normal).unwrap();
    tracker.release(&unknown);
    assert_eq!(tracker.active(), 2);

    tracker.release(&one);
    tracker.release(&one);
    assert_eq!(tracker.active(), 1);
    assert!(tracker.acquire(two, Priority::Normal).is_ok());
}

#[test]
fn rv_b4_another_priority_pauses_and_goes_on() {
    let mut tracker = tracker(2);
    let [one, unknown] = agents();
    tracker.acquire(one.clone(), Priority::Normal).unwrap();
    assert!(!tracker.reprioritize(&unknown, Priority::High));

    assert!(!tracker.reprioritize(&one, Priority::Low));
    assert!(tracker.is_paused(&one));
    assert!(tracker.reprioritize(&one, Priority::Normal));
    assert!(!tracker.is_paused(&one));

    // Where there is room, nobody is paused.
    let mut roomy = self::tracker(3);
    roomy.acquire(one.clone(), Priority::Normal).unwrap();
    assert!(roomy.reprioritize(&one, Priority::Background));
}

/// The slot of a paused agent is taken by another one, and its end or its return makes no second.
#[test]
fn rv_1c_30_a_paused_agent_holds_no_slot_and_is_not_paused_again() {
    let mut tracker = tracker(2);
    let [low, high, other, critical] = agents();
    tracker.acquire(low.clone(), Priority::Low).unwrap();
    tracker.acquire(high.clone(), Priority::High).unwrap();
    assert!(tracker.acquire(other, Priority::High).is_err(), "the paused one is no candidate");
    assert!(!tracker.reprioritize(&low, Priority::Normal), "all slots are taken");

    tracker.release(&low);
    assert_eq!(tracker.active(), 2);
    assert_eq!(tracker.acquire(critical, Priority::Critical).unwrap().paused, Some(high));
}

#[test]
fn rv_1c_31_without_pausing_high_priority_is_refused_too() {
    let mut tracker = SpawnTracker::new(SpawnLimits { agents_max: 2, may_pause: false });
    let [low, high, critical] = agents();
    tracker.acquire(low, Priority::Low).unwrap();
    assert!(tracker.acquire(high, Priority::High).is_err());
    assert!(tracker.acquire(critical, Priority::Critical).is_err());
}

#[test]
fn an_agent_that_is_there_is_not_counted_again() {
    let mut tracker = tracker(2);
    let [one] = agents();
    tracker.acquire(one.clone(), Priority::Normal).unwrap();
    assert_eq!(tracker.acquire(one, Priority::Critical), Ok(Spawned { paused: None }));
    assert_eq!(tracker.active(), 2);
}

const PRIORITIES: [Priority; 5] =
    [Priority::Background, Priority::Low, Priority::Normal, Priority::High, Priority::Critical];

proptest! {
    #[test]
    fn there_are_never_more_active_than_may_be(
        steps in proptest::collection::vec((0..3_u8, 0..8_usize, 0..5_usize), 0..60),
        agents_max in 1..6_usize,
    ) {
        let mut tracker = tracker(agents_max);
        let agents: [RunId; 8] = agents();
        for (step, agent, priority) in steps {
            let (agent, priority) = (&agents[agent], PRIORITIES[priority]);
            match step {
                0 => drop(tracker.acquire(agent.clone(), priority)),
                1 => tracker.release(agent),
                _ => drop(tracker.reprioritize(agent, priority)),
            }
            prop_assert!(tracker.active() >= 1 && tracker.active() <= agents_max);
        }
    }
}
