use std::time::Duration;

use super::{format_minutes, wanted_parts};

const PARTS: [&str; 3] = ["cold", "warm", "idle"];

fn wanted(arguments: &[&str]) -> Result<Vec<&'static str>, String> {
    let arguments = arguments.iter().map(|argument| (*argument).to_owned());
    wanted_parts(arguments, &PARTS).map_err(|error| error.to_string())
}

#[test]
fn without_names_every_part_is_wanted() {
    assert_eq!(wanted(&[]).unwrap(), PARTS);
    assert_eq!(wanted(&["--bench", "--quick"]).unwrap(), PARTS);
}

#[test]
fn named_parts_are_wanted_in_the_order_of_the_benchmark() {
    assert_eq!(wanted(&["--only", "idle", "--only", "cold", "--bench"]).unwrap(), ["cold", "idle"]);
}

#[test]
fn a_part_that_there_is_not_is_told_with_those_that_there_are() {
    assert_eq!(
        wanted(&["--only", "colt"]).unwrap_err(),
        "there is no part 'colt': the parts are cold, warm, idle"
    );
    assert_eq!(wanted(&["--only"]).unwrap_err(), "--only names no part");
    assert_eq!(wanted(&["cold"]).unwrap_err(), "'cold': a part is named by --only PART");
}

#[test]
fn times_are_told_in_minutes() {
    assert_eq!(format_minutes(Duration::from_millis(59_900)), "59 s");
    assert_eq!(format_minutes(Duration::from_secs(130)), "2 min 10 s");
}
