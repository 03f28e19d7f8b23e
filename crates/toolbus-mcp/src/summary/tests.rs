use super::*;

fn check(count: usize, expected: &str) {
    let names: Vec<String> = (1..=count).map(|number| format!("t{number}")).collect();
    assert_eq!(summary(names.iter().map(String::as_str)), expected);
}

#[test]
fn none_some_and_many() {
    check(0, "No tools available.");
    check(2, "Provides 2 tool(s): t1, t2.");
    check(10, "Provides 10 tool(s): t1, t2, t3, t4, t5, t6, t7, t8, t9, t10.");
    check(12, "Provides 12 tool(s): t1, t2, t3, t4, t5, t6, t7, t8, t9, t10 and 2 more.");
}
