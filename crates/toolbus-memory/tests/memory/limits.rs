//! What working memory may keep: what does not fit is refused, and nothing makes room.

use std::time::Duration;

use serde_json::json;
use toolbus_memory::{MemoryConfig, MemoryOwner, Namespace, NewEntry};

use toolbus_testkit::eventually;

use crate::support::{Bench, call, say, scope};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(120);

fn config() -> MemoryConfig {
    MemoryConfig {
        entries_max: 3,
        entry_bytes_max: 100,
        entries_bytes_max: 150,
        ..MemoryConfig::default()
    }
}

#[tokio::test]
async fn an_entry_too_many_is_refused() {
    for bench in Bench::all_with(&config()).await {
        for key in ["a", "b", "c"] {
            bench.say("save_to_working_memory", json!({"key": key, "data": "x"})).await;
        }
        let fourth = json!({"key": "d", "data": "x"});
        assert_text!(bench.refusal("save_to_working_memory", fourth.clone()).await,
            @"nothing was saved: working memory would keep 4 entries with this in 'session/s1', and may keep 3 entries. Delete what is no longer needed (delete_from_working_memory), or wait until it expires");
        bench.say("save_to_working_memory", json!({"key": "A", "data": "written anew"})).await;
        say(&bench.invoker, &scope("session/s2"), "save_to_working_memory", fourth.clone()).await;

        bench.say("delete_from_working_memory", json!({"key": "b"})).await;
        bench.say("save_to_working_memory", fourth).await;
        let listed = bench.say("list_working_memory", json!({})).await;
        assert!(listed.starts_with("Working memory 'session/s1' (3 entries):"), "{listed}");
    }
}

#[tokio::test]
async fn bytes_are_bounded() {
    for bench in Bench::all_with(&config()).await {
        let save = |key: &str, bytes: usize| json!({"key": key, "data": "x".repeat(bytes)});
        assert_text!(bench.refusal("save_to_working_memory", save("a", 101)).await,
            @"the value has 101 bytes, and may have 100");
        bench.say("save_to_working_memory", save("a", 100)).await;
        bench.say("save_to_working_memory", save("b", 50)).await;
        let refused = bench.refusal("save_to_working_memory", save("c", 1)).await;
        assert!(refused.contains("151 bytes of entries with this"), "{refused}");
        bench.say("save_to_working_memory", save("a", 99)).await;
        bench.say("save_to_working_memory", save("c", 1)).await;
    }
}

/// Namespaces of subagents are a session's to write, and no way around the limits.
#[tokio::test]
async fn all_namespaces_together_are_bounded() {
    let all = MemoryConfig { owner_entries_max: 5, owner_bytes_max: 200, ..config() };
    for bench in Bench::all_with(&all).await {
        let save = |at: usize, data: &str| json!({"key": format!("wisp/{at}/k"), "data": data});
        for at in 0..5 {
            bench.say("save_to_working_memory", save(at, "x")).await;
        }
        assert_text!(bench.refusal("save_to_working_memory", save(5, "x")).await,
            @"nothing was saved: working memory would keep 6 entries with this in all namespaces together, and may keep 5 entries. Delete what is no longer needed (delete_from_working_memory), or wait until it expires");
        bench.say("save_to_working_memory", save(0, &"x".repeat(100))).await;
        let refused = bench.refusal("save_to_working_memory", save(1, &"x".repeat(98))).await;
        assert!(refused.contains("201 bytes of entries with this in all namespaces"), "{refused}");
        bench.say("save_to_working_memory", save(1, &"x".repeat(97))).await;
    }
}

#[tokio::test]
async fn a_search_says_what_it_did_not_read() {
    let config = MemoryConfig { searched_bytes_max: 250, ..MemoryConfig::default() };
    for bench in Bench::all_with(&config).await {
        for key in ["a", "b", "c"] {
            let entry = json!({"key": key, "data": "word ".repeat(20)});
            bench.say("save_to_working_memory", entry).await;
        }
        let found = bench.say("search_working_memory", json!({"query": "word"})).await;
        assert!(found.contains("2 result(s)"), "{found}");
        assert_text!(found.lines().last().unwrap(), @"1 older entries were not searched: there is too much");
    }
}

#[tokio::test]
async fn what_is_over_is_not_there_and_makes_room() {
    for bench in Bench::all_with(&config()).await {
        let scope = scope("session/s1");
        let (owner, namespace) = (MemoryOwner::of(&scope), Namespace::of(&scope).unwrap());
        let short = Duration::from_millis(50);
        for key in ["a", "b", "c"] {
            let entry = NewEntry::new(namespace.path_of(key).unwrap(), "x").with_ttl(short);
            bench.memory.save(&owner, entry).await.unwrap();
        }
        eventually(PATIENCE, async || {
            let list = bench.say("list_working_memory", json!({})).await;
            if list == "Working memory is empty." { Ok(()) } else { Err(list) }
        })
        .await;
        let read = bench.say("get_from_working_memory", json!({"key": "a"})).await;
        assert!(read.ends_with("not found or has expired."), "{read}");
        let found = bench.say("search_working_memory", json!({})).await;
        assert!(found.starts_with("No working memory entries"), "{found}");

        bench.say("save_to_working_memory", json!({"key": "d", "data": "x"})).await;
        assert_eq!(bench.memory.sweep().await.unwrap(), 0, "they made room");
        let other = NewEntry::new(namespace.path_of("subagent/1f/e").unwrap(), "x").with_ttl(short);
        bench.memory.save(&owner, other).await.unwrap();
        eventually(PATIENCE, async || match bench.memory.sweep().await.unwrap() {
            1 => Ok(()),
            swept => Err(swept),
        })
        .await;
        assert_eq!(bench.say("get_from_working_memory", json!({"key": "d"})).await, "x");
    }
}

#[tokio::test]
async fn what_is_kept_outlives_a_process() {
    for bench in Bench::all_with(&config()).await {
        bench.say("save_to_working_memory", json!({"key": "a", "data": "kept"})).await;
        bench.say("save_skill", json!({"name": "s", "content": "how"})).await;
        bench.store.close().await;
        let (other, scope) = (bench.other(), scope("session/s1"));
        let read = say(&other, &scope, "get_from_working_memory", json!({"key": "a"})).await;
        assert_eq!(read, "kept");
        assert_eq!(say(&other, &scope, "get_skill", json!({"name": "S"})).await, "how");
    }
}

/// Two processes that write at once keep no more than one may.
#[tokio::test]
async fn two_processes_share_the_limit() {
    for bench in Bench::all_with(&config()).await {
        let other = bench.other();
        for invoker in [&bench.invoker, &other] {
            say(invoker, &scope("session/s"), "list_working_memory", json!({})).await;
        }

        for round in 0..20 {
            let scope = scope(&format!("session/{round}"));
            let saves = (0..8).map(|at| {
                let entry = json!({"key": at.to_string(), "data": "x"});
                let invoker = if at % 2 == 0 { &bench.invoker } else { &other };
                call(invoker, &scope, "save_to_working_memory", entry)
            });
            let outcomes = futures_util::future::join_all(saves).await;
            assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 3);
            let listed = say(&other, &scope, "list_working_memory", json!({})).await;
            assert!(listed.contains("(3 entries)"), "{listed}");
        }
    }
}

#[tokio::test]
async fn a_store_that_is_gone_is_told_without_its_secrets() {
    let bench = Bench::sqlite(config());
    bench.say("list_working_memory", json!({})).await;
    bench.store.close().await;
    for tool in ["list_working_memory", "list_rules", "list_skills", "list_categories"] {
        assert_eq!(
            bench.refusal(tool, json!({})).await,
            "the memory of this agent cannot be used now"
        );
    }
}

/// Results may be kept for a shorter time than they were to be, and not for a longer one.
#[tokio::test]
async fn what_is_kept_is_shortened_and_never_lengthened() {
    for bench in Bench::all().await {
        let owner = MemoryOwner::of(&scope("session/s1"));
        let namespace = Namespace::of(&scope("session/s1")).unwrap();
        let path = |key: &str| namespace.path_of(key).unwrap();
        let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
        let entry =
            |key: &str, ttl: u64| NewEntry::new(path(key), "x").with_ttl(minutes(ttl)).of_result();
        let entries = vec![entry("long", 60), entry("short", 1), entry("other", 60)];
        bench.memory.save_all(&owner, entries).await.unwrap();

        let paths = vec![path("long"), path("short"), path("absent")];
        bench.memory.shorten(&owner, paths, minutes(5)).await.unwrap();
        for (key, expected) in [("long", 5), ("short", 1), ("other", 60)] {
            let info = bench.memory.find(&owner, &path(key)).await.unwrap().unwrap().info;
            let left_ms = info.expires_ms - info.stored_ms;
            let expected_ms = expected * 60_000;
            assert!((expected_ms..expected_ms + 10_000).contains(&left_ms), "{key}: {left_ms} ms");
        }

        let mallory = MemoryOwner::of(&crate::support::scope_of("mallory", Some("session/s1")));
        bench.memory.shorten(&mallory, vec![path("other")], minutes(1)).await.unwrap();
        let other = bench.memory.find(&owner, &path("other")).await.unwrap().unwrap();
        assert!(other.info.expires_ms - other.info.stored_ms >= 60 * 60_000);
    }
}
