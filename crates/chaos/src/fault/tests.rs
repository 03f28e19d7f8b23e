use super::Fault;
use crate::random::Random;

#[test]
fn every_fault_has_one_name_and_is_found_by_it() {
    for (fault, name) in Fault::ALL {
        assert_eq!(Fault::parse(name).unwrap(), fault);
        assert_eq!(fault.name(), name);
    }
    assert!(format!("{:?}", Fault::parse("rain").unwrap_err()).contains("caller-reset"));
}

#[test]
fn the_same_seed_draws_the_same_strikes() {
    let draw = |seed| {
        let strikes = Fault::WorkerStop.draw_strikes(&mut Random::new(seed));
        format!("{strikes:?}")
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
}

#[test]
fn a_strike_keeps_to_its_plan() {
    let mut random = Random::new(1);
    for (fault, _) in Fault::ALL {
        let plan = fault.plan();
        let strike = fault.draw_strike(&mut random);
        assert!(plan.hold_ms.contains(&(strike.hold.as_millis() as u64)), "{strike:?}");
        assert!(strike.after >= plan.interval / 2 && strike.after <= plan.interval * 3 / 2);
    }
}
