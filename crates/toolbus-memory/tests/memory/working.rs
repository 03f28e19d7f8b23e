//! Working memory, by what its tools say.

use std::sync::Arc;

use serde_json::{Value, json};
use toolbus_tools::{Door, Scope};

use crate::support::{Bench, call, mask, say, scope, scope_of};

const ALIASES: [(&str, &str, bool); 5] = [
    ("save_to_working_memory", "SaveToWorkingMemory", false),
    ("get_from_working_memory", "GetFromWorkingMemory", true),
    ("delete_from_working_memory", "DeleteFromWorkingMemory", false),
    ("list_working_memory", "ListWorkingMemory", true),
    ("search_working_memory", "SearchWorkingMemory", true),
];

#[tokio::test]
async fn the_tools_have_both_names_and_say_what_they_change() {
    let bench = Bench::sqlite(toolbus_memory::MemoryConfig::default());
    for (name, alias, reads) in ALIASES {
        let tool = bench.invoker.registry().find(alias).unwrap();
        assert_eq!(tool.tool.name, name);
        assert_eq!(tool.tool.annotations.read_only, reads, "{name}");
        assert_eq!(tool.tool.reads_stored, reads, "{name}");
    }
}

#[tokio::test]
async fn an_entry_is_saved_read_listed_and_deleted() {
    for bench in Bench::all().await {
        let entry = json!({
            "key": "Plan", "data": "1. read", "ttl_minutes": 10, "category": "notes",
            "tags": "report,  q3 , Report"
        });
        assert_text!(bench.say("save_to_working_memory", entry).await,
            @"Saved to working memory under key 'session/s1/Plan'.");
        assert_eq!(bench.say("get_from_working_memory", json!({"key": "plan"})).await, "1. read");
        let absolute = json!({"key": "SESSION/S1/PLAN"});
        assert_eq!(bench.say("get_from_working_memory", absolute).await, "1. read");

        bench.say("save_to_working_memory", json!({"key": "b/c", "data": "x"})).await;
        let listed = bench.say("list_working_memory", json!({})).await;
        assert!(listed.contains("in 9m5") || listed.contains("in 10m0s"), "{listed}");
        assert_text!(mask(&listed, "expires in ", "s"), @r"
        Working memory 'session/s1' (2 entries):
        - session/s1/b/c (expires in …s)
        - session/s1/Plan (expires in …s, category: notes, tags: report, q3)
        ");

        let deleted = bench.say("delete_from_working_memory", json!({"key": "plan"})).await;
        assert_text!(&*deleted, @"Working memory entry 'session/s1/plan' deleted.");
        let again = bench.say("delete_from_working_memory", json!({"key": "plan"})).await;
        assert_eq!(again, deleted);
        assert_text!(bench.say("get_from_working_memory", json!({"key": "plan"})).await,
            @"Working memory entry 'session/s1/plan' not found or has expired.");
    }
}

#[tokio::test]
async fn nothing_is_listed_where_nothing_is() {
    for bench in Bench::all().await {
        let list = async |arguments: Value| bench.say("list_working_memory", arguments).await;
        assert_text!(list(json!({})).await, @"Working memory is empty.");
        assert_text!(list(json!({"namespace": "session/s1"})).await, @"Working memory is empty.");
        assert_text!(list(json!({"namespace": "subagent"})).await,
            @"No entries found in namespace 'subagent'.");
        assert_text!(list(json!({"namespace": "notes"})).await,
            @"No entries found in namespace 'session/s1/notes'.");
    }
}

async fn search(bench: &Bench, arguments: Value) -> String {
    mask(&bench.say("search_working_memory", arguments).await, "expires in ", ")")
}

#[tokio::test]
async fn a_search_finds_by_words_category_and_tags() {
    for bench in Bench::all().await {
        let save = async |key: &str, data: String, category: &str, tags: &str| {
            let entry = json!({"key": key, "data": data, "category": category, "tags": tags});
            bench.say("save_to_working_memory", entry).await;
        };
        save("concert_list", "rock music\nin summer ".repeat(20), "web", "a,b").await;
        save("other", "concert without notes".to_owned(), "web-page", "b").await;
        save("last", "nothing".to_owned(), "", "").await;

        assert_text!(search(&bench, json!({"query": "rock music"})).await, @r"
        Working memory search (query='rock music') in 'session/s1' — 1 result(s):
        - session/s1/concert_list (expires in …): rock music in summer rock music in summer rock music in summer rock music in summer rock music in summer rock music in s…
        ");
        let found =
            search(&bench, json!({"query": "concert", "category": "WEB", "tags": "B"})).await;
        assert_text!(found.lines().next().unwrap(),
            @"Working memory search (query='concert', category='WEB', tags='B') in 'session/s1' — 2 result(s):");
        assert!(!found.contains("last"), "{found}");
        let all = search(&bench, json!({})).await;
        assert_text!(all.lines().next().unwrap(),
            @"Working memory search (no filters) in 'session/s1' — 3 result(s):");
        assert_text!(search(&bench, json!({"query": "unheard", "tags": "a, b"})).await,
            @"No working memory entries matched (query='unheard', tags='a, b') in namespace 'session/s1'.");
        assert_text!(search(&bench, json!({"namespace": "wisp/1"})).await,
            @"No working memory entries matched (no filters) in namespace 'wisp/1'.");
    }
}

/// A session named like the beginning of another does not see that one's entries.
#[tokio::test]
async fn namespaces_end_at_segments() {
    for bench in Bench::all().await {
        let entry = json!({"key": "k", "data": "of ten"});
        say(&bench.invoker, &scope("session/s10"), "save_to_working_memory", entry).await;
        bench.say("save_to_working_memory", json!({"key": "k", "data": "of one"})).await;

        let own = bench.say("list_working_memory", json!({})).await;
        assert!(own.contains("(1 entries)") && !own.contains("s10"), "{own}");
        let found = search(&bench, json!({"query": "ten"})).await;
        assert!(found.starts_with("No working memory entries matched"), "{found}");
        let all = bench.say("list_working_memory", json!({"namespace": "session"})).await;
        assert!(all.contains("(2 entries)"), "{all}");
    }
}

#[tokio::test]
async fn another_session_is_read_and_not_changed() {
    for bench in Bench::all().await {
        let (own, other) = (scope("session/s1"), scope("session/s2"));
        let entry = json!({"key": "k", "data": "theirs"});
        say(&bench.invoker, &other, "save_to_working_memory", entry).await;
        let key = json!({"key": "session/s2/k"});
        assert_eq!(bench.say("get_from_working_memory", key.clone()).await, "theirs");

        assert_text!(bench.refusal("delete_from_working_memory", key).await,
            @"'session/s2/k' belongs to another session: it can be read here, and only that session changes it");
        bench.refusal("save_to_working_memory", json!({"key": "session/s2/k", "data": "x"})).await;

        let found = json!({"key": "subagent/1f/found", "data": "it"});
        assert_text!(say(&bench.invoker, &own, "save_to_working_memory", found).await,
            @"Saved to working memory under key 'subagent/1f/found'.");
        let read = json!({"key": "found"});
        let subagent = scope("subagent/1f");
        let read = say(&bench.invoker, &subagent, "get_from_working_memory", read).await;
        assert_eq!(read, "it");
    }
}

#[tokio::test]
async fn another_principal_sees_nothing() {
    for bench in Bench::all().await {
        bench.say("save_to_working_memory", json!({"key": "k", "data": "secret"})).await;
        let stranger = scope_of("stranger", Some("session/s1"));
        let key = json!({"key": "session/s1/k"});
        let read = say(&bench.invoker, &stranger, "get_from_working_memory", key).await;
        assert!(read.ends_with("not found or has expired."), "{read}");
        let listed = say(&bench.invoker, &stranger, "list_working_memory", json!({})).await;
        assert_eq!(listed, "Working memory is empty.");
    }
}

#[tokio::test]
async fn a_call_without_a_session_has_no_working_memory() {
    let bench = Bench::sqlite(toolbus_memory::MemoryConfig::default());
    let nobody = scope_of("model", None);
    let refused = call(&bench.invoker, &nobody, "list_working_memory", json!({})).await;
    assert_text!(refused.unwrap_err().message,
        @"working memory belongs to a session, and this call has none");
}

#[tokio::test]
async fn what_models_write_instead_of_texts_is_taken() {
    for bench in Bench::all().await {
        let entry = json!({
            "key": "k", "data": {"a": [1, null]}, "ttl_minutes": "30", "tags": ["x", "y"],
            "category": null
        });
        bench.say("SaveToWorkingMemory", entry).await;
        assert_eq!(
            bench.say("GetFromWorkingMemory", json!({"key": "k"})).await,
            r#"{"a":[1,null]}"#
        );
        let listed = bench.say("ListWorkingMemory", json!({})).await;
        assert!(
            (listed.contains("in 29m5") || listed.contains("in 30m0"))
                && listed.contains("tags: x, y"),
            "{listed}"
        );

        bench.say("SaveToWorkingMemory", json!({"key": "k", "data": 1, "ttl_minutes": 90.0})).await;
        let listed = bench.say("ListWorkingMemory", json!({})).await;
        assert!(listed.contains("in 89m5") || listed.contains("in 90m0"), "{listed}");

        for minutes in [json!(1.5), json!(0), json!(-1), json!(1_000_000), json!("soon")] {
            let entry = json!({"key": "k", "data": "x", "ttl_minutes": minutes});
            bench.refusal("save_to_working_memory", entry).await;
        }
    }
}

#[tokio::test]
async fn a_long_entry_is_read_in_parts() {
    let bench = Bench::sqlite(toolbus_memory::MemoryConfig::default());
    let text: String = (0..6_000).map(|at| format!("{at:06} ")).collect();
    bench.say("save_to_working_memory", json!({"key": "k", "data": text})).await;

    let (mut whole, mut offset) = (String::new(), 0);
    while offset < text.len() {
        let part = json!({"key": "k", "offset": offset});
        let part = bench.say("get_from_working_memory", part).await;
        let (content, note) = part.rsplit_once("\n[characters ").unwrap();
        assert!(content.len() <= 20_000, "{}", content.len());
        whole.push_str(content);
        offset = note.split(' ').nth(2).unwrap().parse().unwrap();
    }
    assert_eq!(whole, text);
}

/// A program reads all of it, and a list is no longer than what is read of an entry.
#[tokio::test]
async fn what_is_read_at_a_time_depends_on_the_reader() {
    let bench = Bench::sqlite(toolbus_memory::MemoryConfig::default());
    let text = "x".repeat(30_000);
    bench.say("save_to_working_memory", json!({"key": "k", "data": text})).await;
    let turn = scope("session/s1");
    let chain = Arc::new(Scope { door: Door::Chain, ..(*turn).clone() });
    let read = say(&bench.invoker, &chain, "get_from_working_memory", json!({"key": "k"})).await;
    assert_eq!(read, text);

    for at in 0..49 {
        let entry = json!({"key": format!("{}{at}", "x".repeat(480)), "data": "x"});
        bench.say("save_to_working_memory", entry).await;
    }
    let listed = bench.say("list_working_memory", json!({})).await;
    assert!(listed.len() <= 20_000, "{}", listed.len());
    let (_, more) = listed.split_once("\n… and ").unwrap();
    let shown = listed.lines().filter(|line| line.starts_with("- ")).count();
    assert_eq!(more, format!("{} more: name a namespace, or search", 50 - shown));
}
