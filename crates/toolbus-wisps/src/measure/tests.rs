use serde_json::json;

use super::*;

#[test]
fn texts_members_and_levels_count() {
    let size = measure(&json!({"ab": ["cde", 1, null], "f": {}}));
    assert_eq!(size, Size { bytes: 6, values: 6, depth: 3 });
    assert_eq!(measure(&json!(1)), Size { bytes: 0, values: 1, depth: 1 });
}

#[test]
fn a_value_of_many_levels_takes_no_stack() {
    let mut value = Value::Array(Vec::new());
    for _ in 0..2_000 {
        value = Value::Array(vec![value]);
    }
    assert_eq!(measure(&value).depth, 2_001);
}
