//! What no honest model would write.

use serde_json::{Value, json};
use toolbus_memory::MemoryConfig;

use crate::support::{Bench, call, scope};

/// Zeros, control characters and characters of four bytes, which PostgreSQL has no text for or
/// counts in another way.
const ODD: &str =
    "a\0b\u{1b}[2J\u{7f}\r\n\u{FFFF}\u{1F980}\u{202E}'; DROP TABLE memory_entries; --";

#[tokio::test]
async fn values_are_given_back_as_they_were() {
    for bench in Bench::all().await {
        bench.say("save_to_working_memory", json!({"key": "k", "data": ODD})).await;
        assert_eq!(bench.say("get_from_working_memory", json!({"key": "k"})).await, ODD);
        bench.say("search_working_memory", json!({"query": ODD})).await;

        bench.say("save_skill", json!({"name": "s", "content": ODD})).await;
        assert_eq!(bench.say("get_skill", json!({"name": "s"})).await, ODD);
        bench.say("save_memory", json!({"content": ODD})).await;
        let found = bench.say("search_memory", json!({"query": "drop table"})).await;
        assert!(found.contains("a\0b"), "{found:?}");
    }
}

#[tokio::test]
async fn what_is_refused_is_refused_in_words() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let check = async |tool: &str, arguments: Value, expected: &str| {
        assert_eq!(bench.refusal(tool, arguments).await, expected);
    };
    let get = |key: String| json!({"key": key});
    let too_long = "the key has 601 bytes, and may have 512 with its namespace";
    check("get_from_working_memory", get("x".repeat(601)), too_long).await;
    let empty = "the key cannot be used: a segment of it is empty, or only dots";
    check("get_from_working_memory", get("a/../b".to_owned()), empty).await;
    let control = "the key cannot be used: it has a control character or a backtick";
    check("get_from_working_memory", get("a`".to_owned()), control).await;
    let deep = "the key cannot be used: it has too many segments";
    check("get_from_working_memory", get("a/".repeat(99) + "a"), deep).await;

    let save = |category: &str, tags: &str| json!({"key": "k", "data": "x", "category": category, "tags": tags});
    let control = "the category cannot be used: it has a control character";
    check("save_to_working_memory", save("a\0", ""), control).await;
    let long = "the tag cannot be used: it has 65 characters, and may have 64";
    check("save_to_working_memory", save("", &"x".repeat(65)), long).await;
    let tags: Vec<_> = (0..21).map(|at| at.to_string()).collect();
    let many = "the tags cannot be used: there are more than 20";
    check("save_to_working_memory", save("", &tags.join(",")), many).await;

    let empty = "the content cannot be used: it is empty";
    check("save_memory", json!({"content": " "}), empty).await;
    let empty = "the rule cannot be used: it is empty";
    check("add_rule", json!({"rule": " "}), empty).await;
    let large = "the content has 65537 bytes, and may have 65536";
    check("save_skill", json!({"name": "s", "content": "x".repeat(65_537)}), large).await;
    let missing = "Missing required argument: key; Missing required argument: data";
    check("save_to_working_memory", json!({}), missing).await;
}

#[tokio::test]
async fn texts_beside_values_are_lines() {
    for bench in Bench::all().await {
        let refused = [
            ("save_to_working_memory", json!({"key": ODD, "data": "x"})),
            ("save_to_working_memory", json!({"key": "k", "data": "x", "category": ODD})),
            ("save_to_working_memory", json!({"key": "k", "data": "x", "tags": "a,b\0"})),
            ("get_from_working_memory", json!({"key": "a\0"})),
            ("list_working_memory", json!({"namespace": "a\0"})),
            ("save_memory", json!({"content": " \n", "category": "c"})),
            ("save_memory", json!({"content": "c", "category": "c\0"})),
            ("add_rule", json!({"rule": "a\0"})),
            ("add_rule", json!({"rule": "x".repeat(501)})),
            ("save_skill", json!({"name": "a\0", "content": "x"})),
            ("save_skill", json!({"name": "x".repeat(101), "content": "x"})),
            ("save_skill", json!({"name": "s", "content": "x".repeat(70_000)})),
        ];
        for (tool, arguments) in refused {
            let message = bench.refusal(tool, arguments).await;
            assert!(message.len() < 300, "{message}");
        }
        for (tool, arguments) in [
            ("get_skill", json!({"name": ODD})),
            ("delete_skill", json!({"name": ODD})),
            ("delete_memory", json!({"id": ODD})),
            ("set_timezone", json!({"timezoneId": ODD})),
            ("search_memory", json!({"query": ODD, "category": ODD})),
        ] {
            let said = call(&bench.invoker, &scope("session/s1"), tool, arguments).await;
            said.unwrap_or_else(|error| panic!("{tool}: {error}"));
        }
    }
}

#[tokio::test]
async fn two_thousand_keys_do_not_fit() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let scope = scope("session/s1");
    let saves = (0..2_000).map(|at| {
        let entry = json!({"key": format!("key {at}"), "data": "x"});
        call(&bench.invoker, &scope, "save_to_working_memory", entry)
    });
    let outcomes = futures_util::future::join_all(saves).await;
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 50);
    let refused = outcomes.iter().filter_map(|outcome| outcome.as_ref().err());
    assert!(refused.map(|error| &error.message).all(|text| text.contains("may keep 50")));
}

#[tokio::test]
async fn a_value_of_any_size_is_answered() {
    let bench = Bench::sqlite(MemoryConfig::default());
    let large = json!({"key": "k", "data": "\u{1F980}".repeat(8 << 20)});
    let refused = bench.refusal("save_to_working_memory", large).await;
    assert!(refused.contains("and may have 1048576"), "{refused}");
    bench
        .refusal("save_to_working_memory", json!({"key": "k/".repeat(1_000_000), "data": "x"}))
        .await;
}

#[tokio::test]
async fn arguments_of_other_types_are_refused_or_read() {
    let bench = Bench::sqlite(MemoryConfig::default());
    for value in [json!([]), json!({}), json!(1.5), json!(true), Value::Null] {
        bench.refusal("get_from_working_memory", json!({"key": value})).await;
        bench.refusal("save_skill", json!({"name": value, "content": "x"})).await;
    }
    for offset in [json!(u64::MAX), json!("18446744073709551615")] {
        bench.say("save_to_working_memory", json!({"key": "k", "data": "x"})).await;
        let read = json!({"key": "k", "offset": offset});
        assert_eq!(bench.say("get_from_working_memory", read).await, "\n[characters 1 to 1 of 1]");
    }
    bench.refusal("get_from_working_memory", json!({"key": "k", "offset": -1})).await;
}
