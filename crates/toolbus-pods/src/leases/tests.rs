//! Who is taken for dead, with a clock of the tests' own.

use super::*;

fn lease(manager: &str, version: u32) -> ManagerLease {
    ManagerLease {
        manager: manager.to_owned(),
        version: version.to_string(),
        name: String::new(),
        uid: String::new(),
    }
}

/// Looks every five seconds at what `seen` shows, and gives who was dead at the end and when the
/// first of them was noticed.
fn watch(
    liveness: &mut LivenessTracker,
    start: Instant,
    looks: u32,
    mut seen: impl FnMut(u32) -> Vec<ManagerLease>,
) -> (Vec<String>, Option<Duration>) {
    let owners = BTreeSet::from(["gone".to_owned()]);
    let (mut dead, mut first) = (BTreeSet::new(), None);
    for look in 0..looks {
        let passed = RENEW_INTERVAL * look;
        dead = liveness.observe_lease(&seen(look), &owners, start + passed);
        if !dead.is_empty() {
            first.get_or_insert(passed);
        }
    }
    (dead.into_iter().collect(), first)
}

#[test]
fn who_does_not_renew_is_dead_and_so_is_who_has_no_lease() {
    let seen = |look| vec![lease("living", look), lease("silent", 7)];
    let found = watch(&mut LivenessTracker::default(), Instant::now(), 20, seen);
    assert_eq!(found, (vec!["gone".to_owned(), "silent".to_owned()], Some(LEASE_TIMEOUT)));
}

#[test]
fn a_renewal_now_and_then_is_a_life() {
    // The version changes every twenty seconds.
    let seen = |look| vec![lease("slow", look / 4), lease("gone", look)];
    assert_eq!(watch(&mut LivenessTracker::default(), Instant::now(), 40, seen), (vec![], None));
}

#[test]
fn what_was_seen_before_an_interruption_proves_nothing() {
    let seen = |_| vec![lease("silent", 7), lease("gone", 7)];
    let mut liveness = LivenessTracker::default();
    let start = Instant::now();
    assert_eq!(watch(&mut liveness, start, 5, seen).0, Vec::<String>::new());
    // The cluster did not answer once.
    liveness.reset();
    let later = start + RENEW_INTERVAL * 5;
    assert_eq!(watch(&mut liveness, later, 5, seen).0, Vec::<String>::new());
    // The whole machine slept for an hour: everybody's Lease is as it was.
    let awake = later + Duration::from_secs(3600);
    assert_eq!(watch(&mut liveness, awake, 5, seen).0, Vec::<String>::new());
    // Looking on without an interruption proves it.
    assert_eq!(liveness.observe_lease(&seen(0), &BTreeSet::new(), awake + LEASE_TIMEOUT).len(), 2);
}
