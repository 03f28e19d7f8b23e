//! Long-term memory, rules and the time zone, by what their tools say.

use serde_json::json;
use toolbus_memory::{MemoryConfig, MemoryOwner, Preferences, Rules};

use crate::support::{Bench, call, mask, say, scope, scope_of};

/// The id in a text.
fn id_in(text: &str, before: &str) -> String {
    let rest = text.split_once(before).unwrap().1;
    rest[..12].to_owned()
}

#[tokio::test]
async fn memories_are_saved_found_and_deleted() {
    for bench in Bench::all().await {
        assert_text!(bench.say("list_categories", json!({})).await,
            @"No categories yet. A memory that is saved with a category makes one.");
        assert_text!(bench.say("search_memory", json!({})).await,
            @"No memories found matching the search criteria.");

        let tea = json!({"content": "Prefers tea\nto coffee", "category": "preferences/food", "tags": "drinks"});
        let saved = bench.say("save_memory", tea).await;
        assert_text!(mask(&saved, "id '", "'"), @"Memory saved with id '…'.");
        let id = id_in(&saved, "id '");
        bench.say("SaveMemory", json!({"content": "Lives in Bonn"})).await;

        let found = bench.say("search_memory", json!({"query": "tea food"})).await;
        assert_text!(found.replace(&id, "ID"), @r"
        Found 1 memory entries:
        - [ID] (preferences/food, remembered just now): Prefers tea
          to coffee
        ");
        let newest = bench.say("search_memory", json!({})).await;
        assert_text!(mask(newest.lines().next().unwrap(), "[", "]"), @"Found 2 memory entries:");
        assert!(newest.contains("(uncategorized, remembered just now): Lives in Bonn"), "{newest}");
        let other = bench.say("search_memory", json!({"query": "tea", "category": "work"})).await;
        assert!(other.starts_with("No memories found"), "{other}");
        assert_text!(bench.say("list_categories", json!({})).await, @r"
        Categories (1):
        - preferences/food (1 memory)
        ");

        bench
            .say("save_memory", json!({"content": "Oat milk", "category": "preferences/food"}))
            .await;
        assert_text!(bench.say("list_categories", json!({})).await, @r"
        Categories (1):
        - preferences/food (2 memories)
        ");

        let deleted = bench.say("delete_memory", json!({"id": id})).await;
        assert_text!(deleted.replace(&id, "ID"),
            @r#"Deleted memory entry 'ID': "Prefers tea to coffee""#);
        let again = bench.say("DeleteMemory", json!({"id": id})).await;
        assert_text!(again.replace(&id, "ID"),
            @"No memory entry found with id 'ID'. Use SearchMemory to find the correct ID.");
    }
}

#[tokio::test]
async fn memory_is_of_a_principal_and_spans_sessions() {
    for bench in Bench::all().await {
        bench.say("save_memory", json!({"content": "Likes cheese"})).await;
        bench.say("add_rule", json!({"rule": "Be brief"})).await;
        let other_session = scope("session/s2");
        let found = say(&bench.invoker, &other_session, "search_memory", json!({})).await;
        assert!(found.contains("Likes cheese"), "{found}");

        let stranger = scope_of("stranger", Some("session/s1"));
        let found = say(&bench.invoker, &stranger, "search_memory", json!({})).await;
        assert!(found.starts_with("No memories found"), "{found}");
        let rules = say(&bench.invoker, &stranger, "list_rules", json!({})).await;
        assert_eq!(rules, "No active rules. Use add_rule to add one.");
    }
}

#[tokio::test]
async fn rules_are_added_listed_and_removed() {
    for bench in Bench::all().await {
        assert_text!(bench.say("list_rules", json!({})).await,
            @"No active rules. Use add_rule to add one.");
        let rule = json!({"rule": " Answer in\n German "});
        assert_text!(bench.say("add_rule", rule.clone()).await, @r#"Rule added: "Answer in German""#);
        bench.say("AddRule", rule).await;
        bench.say("add_rule", json!({"rule": "Be brief"})).await;
        assert_text!(bench.say("list_rules", json!({})).await, @r"
        Active rules (2):
        - Answer in German
        - Be brief
        ");

        let owner = MemoryOwner::of(&scope("session/s9"));
        let listed = Rules::new(bench.store.clone()).list(&owner).await.unwrap();
        assert_eq!(listed, ["Answer in German", "Be brief"]);

        let rule = json!({"rule": "answer in german"});
        assert_text!(bench.say("remove_rule", rule.clone()).await,
            @r#"Rule removed: "Answer in German""#);
        assert_text!(bench.say("remove_rule", rule).await,
            @r#"No rule found: "answer in german". Use list_rules to see the active rules."#);
    }
}

#[tokio::test]
async fn rules_are_bounded() {
    let bench = Bench::sqlite(MemoryConfig::default());
    for at in 0..50 {
        bench.say("add_rule", json!({"rule": format!("rule {at}")})).await;
    }
    assert_text!(bench.refusal("add_rule", json!({"rule": "one more"})).await,
        @"nothing was saved: there are 50 rules already, the most there may be. Remove those that do not hold any more (remove_rule)");
    bench.say("add_rule", json!({"rule": "RULE 7"})).await;
}

#[tokio::test]
async fn the_time_zone_is_one_that_there_is() {
    for bench in Bench::all().await {
        let owner = MemoryOwner::of(&scope("session/s1"));
        let preferences = Preferences::new(bench.store.clone());
        assert_eq!(preferences.timezone(&owner).await.unwrap(), None);
        assert_text!(bench.say("set_timezone", json!({"timezoneId": "america/chicago"})).await,
            @"Timezone updated to America/Chicago.");
        for other in ["Mars/Olympus", "", "../../etc/passwd", "CST; DROP TABLE"] {
            let said = bench.say("SetTimezone", json!({"timezoneId": other})).await;
            assert_eq!(
                said,
                format!(
                    "Unknown timezone '{other}'. Use an IANA timezone ID such as 'America/Chicago' or 'Europe/London'."
                )
            );
        }
        let zone = preferences.timezone(&owner).await.unwrap();
        assert_eq!(zone.as_deref(), Some("America/Chicago"));
    }
}

#[tokio::test]
async fn these_tools_need_no_session() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let nobody = scope_of("model", None);
    for tool in ["search_memory", "list_categories", "list_rules", "list_skills"] {
        call(&bench.invoker, &nobody, tool, json!({})).await.unwrap();
        let registered = bench.invoker.registry().find(tool).unwrap();
        assert!(registered.tool.annotations.read_only, "{tool}");
    }
    for tool in ["save_memory", "delete_memory", "add_rule", "remove_rule", "save_skill"] {
        let registered = bench.invoker.registry().find(tool).unwrap();
        assert!(!registered.tool.annotations.read_only, "{tool}");
    }
}
