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
fn the_long_run_has_its_resets_and_alarms_and_each_other_fault_once() {
    let strikes = Fault::draw_long_run(&mut Random::new(1));
    let count = |is_wanted: fn(Fault) -> bool| {
        strikes.iter().filter(|strike| is_wanted(strike.fault)).count()
    };
    assert!(count(|fault| fault == Fault::CallerReset) >= 1_000);
    assert!(count(|fault| fault.name().ends_with("-alarm-35s")) >= 20);
    for once in [Fault::WorkerKill, Fault::ManagerTerm, Fault::BrokerKill, Fault::Scale] {
        assert_eq!(strikes.iter().filter(|strike| strike.fault == once).count(), 1);
    }
    assert_eq!(count(|fault| fault.clock_error().is_some() || fault == Fault::NodeCut), 0);
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
