use super::*;
use crate::resolve::{read_id, subject_of};

#[test]
fn a_tool_that_has_the_subject_of_a_method_is_recognized() {
    for method in METHODS {
        let read = read_id("github", method);
        let hidden: String = method.chars().flat_map(|c| ['\u{1}', c]).collect();
        for tool in [method.to_owned(), format!("{method}\u{0}"), hidden] {
            assert_eq!(subject_of(None, "GitHub", &tool).id, read);
            assert!(is_method_name(&tool), "{tool:?}");
        }
        assert!(is_method_name(&method.to_uppercase()), "{method}");
    }
}

#[test]
fn other_names_are_those_of_tools() {
    let names = ["", "read", "resources", "resources/", "resources/reader", "a/resources/read"];
    for name in names.into_iter().chain(["tools_list", "ping", "tasks/list"]) {
        assert!(!is_method_name(name), "{name:?}");
    }
}
