use super::*;

#[test]
fn the_id_is_found_in_what_the_tool_says() {
    let check = |told: &str, expected: Option<&str>| assert_eq!(task_id_of(told), expected);
    let told = "Task dispatched to agent 'x' with task_id: 0af3-b_1. The result will arrive";
    check(told, Some("0af3-b_1"));
    check("task_id: abc", Some("abc"));
    check("task_id: .", None);
    check("no agent named 'x'", None);
}
