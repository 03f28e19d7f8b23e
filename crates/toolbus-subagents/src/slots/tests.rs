use proptest::prelude::*;

use super::*;

/// Rows such as `a:normal b:low:paused`.
fn rows(text: &str) -> Vec<SlotRow> {
    let row = |word: &str| {
        let mut parts = word.split(':');
        let id = parts.next().unwrap_or_default().to_owned();
        let priority = match parts.next() {
            Some("low") => Priority::Low,
            Some("high") => Priority::High,
            Some("critical") => Priority::Critical,
            _ => Priority::Normal,
        };
        SlotRow { id, priority, is_paused: parts.next() == Some("paused") }
    };
    text.split_whitespace().map(row).collect()
}

fn check_admit(there: &str, priority: Priority, expected: Result<Option<&str>, usize>) {
    let admitted = Slots::new(rows(there), 3).admit(priority);
    let expected = expected.map(|id| id.map(str::to_owned));
    assert_eq!(admitted.map_err(|refused| refused.active), expected, "{there} + {priority:?}");
}

fn check_resume(there: &str, expected: &[&str]) {
    assert_eq!(Slots::new(rows(there), 3).resume(), expected, "{there}");
}

#[test]
fn the_fourth_is_refused_unless_it_matters_more() {
    check_admit("", Priority::Low, Ok(None));
    check_admit("a:low b:low", Priority::Low, Ok(None));
    check_admit("a:low b:low c:low", Priority::Normal, Err(4));
    check_admit("a:low b:normal c:low", Priority::High, Ok(Some("c")));
    check_admit("a:high b:high c:high", Priority::High, Err(4));
    check_admit("a:high b:high c:high", Priority::Critical, Ok(Some("c")));
    check_admit("a:critical b:critical c:critical", Priority::Critical, Err(4));
}

#[test]
fn who_is_paused_has_no_slot_and_is_not_paused_again() {
    check_admit("a:low:paused b:high c:high", Priority::Low, Ok(None));
    check_admit("a:low:paused b:high c:high d:high", Priority::High, Err(4));
    check_admit("a:low:paused b:high c:high d:high", Priority::Critical, Ok(Some("d")));
}

#[test]
fn who_matters_most_goes_on_first() {
    check_resume("a:low:paused b:normal c:normal d:normal", &[]);
    check_resume("a:low:paused b:normal:paused c:normal d:normal", &["b"]);
    check_resume("a:low:paused b:low:paused c:high d:high", &["a"]);
    check_resume("a:low:paused b:high:paused c:normal:paused", &["b", "c", "a"]);
}

/// There are never so many that are paused that somebody could fill the store with them.
#[test]
fn those_that_are_paused_are_bounded() {
    let many: Vec<_> = (0..12).map(|at| format!("p{at}:low:paused")).collect();
    check_admit(&many.join(" "), Priority::Critical, Err(1));
}

#[test]
fn priorities_are_kept_by_their_numbers() {
    let all = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
    for priority in all {
        assert_eq!(priority_of(priority as i64), priority);
    }
    assert_eq!(priority_of(77), Priority::Normal);
}

proptest! {
    /// Whatever comes and ends in whatever order, no more than three are active.
    #[test]
    fn no_more_than_three_are_active(steps in prop::collection::vec((0_usize..5, 0_usize..12), 0..60)) {
        let mut there: Vec<SlotRow> = Vec::new();
        let priorities = [Priority::Low, Priority::Normal, Priority::High, Priority::Critical];
        for (number, (kind, at)) in steps.into_iter().enumerate() {
            match priorities.get(kind) {
                Some(priority) => {
                    if let Ok(paused) = Slots::new(there.clone(), 3).admit(*priority) {
                        for row in there.iter_mut().filter(|row| Some(&row.id) == paused.as_ref()) {
                            prop_assert!(row.priority < *priority && !row.is_paused);
                            row.is_paused = true;
                        }
                        let id = number.to_string();
                        there.push(SlotRow { id, priority: *priority, is_paused: false });
                    }
                }
                None if at < there.len() => drop(there.remove(at)),
                None => {}
            }
            if kind >= priorities.len() {
                let resumed = Slots::new(there.clone(), 3).resume();
                for row in there.iter_mut().filter(|row| resumed.contains(&row.id)) {
                    row.is_paused = false;
                }
            }
            prop_assert!(there.iter().filter(|row| !row.is_paused).count() <= 3);
            prop_assert!(there.len() <= 12);
        }
    }
}
