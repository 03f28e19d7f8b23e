//! Hints are short, and the best comes first.

use super::*;

#[test]
fn the_nearest_come_first_and_there_are_few() {
    let names = ["list_tasks", "add_task", "delete_task", "addTasks"];
    assert_eq!(nearest_names("AddTask", names.into_iter())[..2], ["add_task", "addTasks"]);
    let many: Vec<String> = (0..50_000).map(|number| format!("tool{number}")).collect();
    let near = nearest_names("tool7", many.iter().map(String::as_str));
    assert_eq!((near.len(), near[0]), (NAMES_MAX, "tool7"));
    let long = "x".repeat(100_000);
    assert_eq!(nearest_names(&long, ["a"].into_iter()), ["a"]);
}

#[test]
fn only_one_is_one() {
    assert_eq!(only_match([1, 2, 3].into_iter(), |n| *n == 2), Some(2));
    assert_eq!(only_match([1, 2, 2].into_iter(), |n| *n == 2), None);
    assert_eq!(only_match([1].into_iter(), |n| *n == 2), None);
}
