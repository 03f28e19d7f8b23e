//! What is cached, and for how long.

use super::*;

fn key(cache: &AnswerCache, query: &str) -> CacheKey {
    CacheKey {
        owner: Some("local:ann".into()),
        permissions: cache.fingerprint(&[true, false]),
        query: query.to_owned(),
        server: None,
        category: None,
        score_min: None,
        limit: 5,
        has_factors: false,
        previous_server: None,
        is_after_hours: false,
        index_version: 1,
        epochs: (0, 0),
    }
}

fn answer(by_words_alone: bool) -> CachedAnswer {
    let answer = Retrieved {
        tools: Vec::new(),
        took: Duration::ZERO,
        searched: 0,
        by_words_alone,
        recommended_servers: Vec::new(),
    };
    CachedAnswer { answer, retrieved: Arc::new([]), scores: Arc::default() }
}

fn cache(entries: usize, bytes: usize, ttl: Duration) -> AnswerCache {
    AnswerCache::new(DiscoveryLimits {
        cache_entries_max: entries,
        cache_bytes_max: bytes,
        cache_ttl: ttl,
        words_cache_ttl: Duration::ZERO,
        ..DiscoveryLimits::default()
    })
}

const HOUR: Duration = Duration::from_secs(3_600);

#[test]
fn rule_3c_7_an_answer_depends_on_all_of_its_key() {
    let mut cache = cache(100, 1 << 20, HOUR);
    let known = key(&cache, "q");
    cache.insert(known.clone(), answer(false));
    assert!(cache.find(&known).is_some());

    let more = cache.fingerprint(&[true, true]);
    let others = [
        CacheKey { owner: None, ..known.clone() },
        CacheKey { permissions: more, ..known.clone() },
        CacheKey { query: "r".to_owned(), ..known.clone() },
        CacheKey { server: Some("a".to_owned()), ..known.clone() },
        CacheKey { category: Some(Category::Custom), ..known.clone() },
        CacheKey { score_min: Some(0), ..known.clone() },
        CacheKey { limit: 6, ..known.clone() },
        CacheKey { has_factors: true, ..known.clone() },
        CacheKey { previous_server: Some("a".to_owned()), ..known.clone() },
        CacheKey { is_after_hours: true, ..known.clone() },
        CacheKey { index_version: 2, ..known.clone() },
        CacheKey { epochs: (1, 0), ..known.clone() },
        CacheKey { epochs: (0, 1), ..known.clone() },
    ];
    for other in others {
        assert!(cache.find(&other).is_none(), "{other:?}");
    }
}

#[test]
fn answers_are_bounded_in_number_and_bytes_and_the_least_used_go() {
    let mut few = cache(2, 1 << 20, HOUR);
    let keys = ["a", "b", "c"].map(|query| key(&few, query));
    few.insert(keys[0].clone(), answer(false));
    few.insert(keys[1].clone(), answer(false));
    assert!(few.find(&keys[0]).is_some());
    few.insert(keys[2].clone(), answer(false));
    let there = keys.each_ref().map(|key| few.find(key).is_some());
    assert_eq!(there, [true, false, true]);

    let mut small = cache(100, 2 * ENTRY_BYTES + 100, HOUR);
    for key in &keys {
        small.insert(key.clone(), answer(false));
        assert!(small.bytes <= 2 * ENTRY_BYTES + 100);
    }
    assert_eq!(small.answers.len(), 2);
    let long = key(&small, &"x".repeat(4 * ENTRY_BYTES));
    small.insert(long.clone(), answer(false));
    assert!(small.find(&long).is_none());
    small.clear();
    assert_eq!((small.bytes, small.answers.len()), (0, 0));
}

#[test]
fn an_answer_is_forgotten_in_time_and_one_without_a_model_sooner() {
    let mut old = cache(10, 1 << 20, Duration::ZERO);
    let known = key(&old, "q");
    old.insert(known.clone(), answer(false));
    assert!(old.find(&known).is_none());

    let mut fresh = cache(10, 1 << 20, HOUR);
    let known = key(&fresh, "q");
    fresh.insert(known.clone(), answer(true));
    assert!(fresh.find(&known).is_none());
}
