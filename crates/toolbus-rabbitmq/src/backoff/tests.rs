use super::*;

#[test]
fn waits_double_up_to_a_longest_one() {
    let mut backoff = Backoff::default();
    let bases = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000].map(Duration::from_millis);

    for base in bases {
        let wait = backoff.next();
        assert!(wait >= base.mul_f64(0.75) && wait <= base.mul_f64(1.25), "{wait:?} for {base:?}");
    }

    for _ in 0..1_000 {
        assert!(backoff.next() <= BACKOFF_MAX.mul_f64(1.25));
    }

    backoff.note_uptime(STABLE_GRACE / 2);
    assert!(backoff.next() >= BACKOFF_MAX.mul_f64(0.75));
    backoff.note_uptime(STABLE_GRACE);
    assert!(backoff.next() <= FIRST_BACKOFF.mul_f64(1.25));
}

#[test]
fn waits_are_spread() {
    let mut waits: Vec<_> = (0..64).map(|_| Backoff::default().next()).collect();
    waits.sort();
    waits.dedup();
    assert!(waits.len() > 32, "{} different waits out of 64", waits.len());
}

#[test]
fn only_a_whole_round_of_failures_waits_longer() {
    let mut backoff = Backoff::with_rounds_of(3);
    let bases = [100, 100, 100, 100, 100, 200, 100, 100, 400].map(Duration::from_millis);

    for base in bases {
        let wait = backoff.next();
        assert!(wait >= base.mul_f64(0.75) && wait <= base.mul_f64(1.25), "{wait:?} for {base:?}");
    }
}
