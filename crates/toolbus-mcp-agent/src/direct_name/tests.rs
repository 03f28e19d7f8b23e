//! What every name promises, for any server and any tool.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn name(server: &str, tool: &str) -> String {
    direct_name(&ServerName::parse(server).expect("a server's name"), tool)
}

/// MX-M1.
#[test]
fn names_stand_as_they_are_where_they_can() {
    assert_eq!(name("todo", "add_task"), "todo__add_task");
    assert_eq!(name("Todo-2", "Add-Task"), "Todo-2__Add-Task");
    assert_eq!(name("todo", "_private"), "todo___private");
    assert_ne!(name("todo_", "private"), "todo___private");
    assert_eq!(name("a.b", "c"), "a_b__c_c5fadf81b0");
    assert_eq!(name("todo", "поиск"), "todo________7fce107e01");
    let long = name("server", &"t".repeat(100));
    assert_eq!(long.len(), LENGTH_MAX);
    assert!(long.starts_with("server__tttttttt"));
}

proptest! {
    #[test]
    fn every_name_can_be_used_and_is_one_tools(
        pairs in prop::collection::vec(
            ("[a-z0-9][a-zA-Z0-9.-]{0,40}_?", "[ -~é-ü_]{1,80}|[a-z_]{1,6}|_[a-z]"), 1..60
        )
    ) {
        let mut owners: HashMap<String, (String, String)> = HashMap::new();
        for (server, tool) in pairs {
            let made = name(&server, &tool);
            prop_assert!(made.len() <= LENGTH_MAX && made.chars().all(is_allowed), "{}", made);
            prop_assert_eq!(&made, &name(&server, &tool));
            let owner = (server.to_lowercase(), tool);
            let first = owners.entry(made).or_insert_with(|| owner.clone());
            prop_assert_eq!(&*first, &owner);
            let server = ServerName::parse(&server).expect("a name");
            prop_assert_ne!(marked_name(&server, &owner.1, 1), marked_name(&server, &owner.1, 2));
        }
    }
}
