//! How much a caller may ask for.

use axum::body::Body;
use serde_json::json;
use toolbus_store::sqlx;
use toolbus_testkit::state::StatePlace;

use toolbus_http::tool_api::Plan;

use crate::bench::{ADMIN, Answer, Bench, CLIENT, config, request};

fn number(answer: &Answer, header: &str) -> i64 {
    answer.headers[header].to_str().unwrap().parse().unwrap()
}

#[tokio::test]
async fn cx_l1_a_minute_of_the_free_plan_has_10_requests() {
    for place in StatePlace::all().await {
        let (bench, other) = (Bench::new(&place), Bench::new(&place));
        let issued = bench.key(json!({"name": "free", "plan": "free"})).await;
        let key = issued["key"].as_str().unwrap();

        let first = bench.get(key, "/v1/servers").await;
        assert_eq!(number(&first, "x-ratelimit-limit"), 10);
        assert_eq!(number(&first, "x-ratelimit-remaining"), 9);
        // Both processes count together. Another minute may begin meanwhile.
        let mut allowed = 1;
        let refused = loop {
            let bench = if allowed % 2 == 0 { &bench } else { &other };
            let answer = bench.get(key, "/v1/servers").await;
            if answer.status != 200 {
                break answer;
            }
            allowed += 1;
            assert!(allowed <= 40, "nothing was refused");
        };
        assert!(allowed % 10 == 0 || allowed > 10, "{allowed}");
        let refused = refused.expect(429, "RATE_LIMITED");
        assert_eq!(number(&refused, "x-ratelimit-remaining"), 0);
        let wait = number(&refused, "retry-after");
        assert!((1..=60).contains(&wait));
        assert_eq!(refused.body["error"]["retry_after"], wait);
        let reset = number(&refused, "x-ratelimit-reset");
        assert_eq!(reset % 60, 0);
        // Nobody else is concerned.
        bench.get(CLIENT, "/v1/servers").await.data();
    }
}

#[tokio::test]
async fn cx_l1_a_month_that_is_used_up_is_a_quota() {
    for place in StatePlace::all().await {
        let bench = Bench::new(&place);
        let issued = bench.key(json!({"name": "tiny", "plan": "tiny"})).await;
        let key = issued["key"].as_str().unwrap();
        for remaining in [2, 1, 0] {
            let answer = bench.get(key, "/v1/servers").await;
            assert_eq!(number(&answer, "x-ratelimit-remaining"), remaining);
        }
        let refused = bench.get(key, "/v1/servers").await.expect(429, "QUOTA_EXCEEDED");
        assert_eq!(number(&refused, "x-ratelimit-limit"), 3);
        assert!(refused.body["error"]["retry_after"].as_i64().unwrap() >= 1);

        // A restart frees nobody.
        let again = Bench::new(&place);
        again.get(key, "/v1/servers").await.expect(429, "QUOTA_EXCEEDED");
    }
}

#[tokio::test]
async fn a_clock_that_was_ahead_locks_nobody_out() {
    let bench = Bench::new(&StatePlace::sqlite());
    let issued = bench.key(json!({"name": "tiny", "plan": "tiny"})).await;
    let key = issued["key"].as_str().unwrap();
    bench.get(key, "/v1/servers").await.data();
    let store = bench.store.open().await.unwrap();
    store
        .write(|transaction| {
            Box::pin(async move {
                sqlx::query(
                    "UPDATE http_counts SET number = number + 12, calls = 3 WHERE span = 'month'",
                )
                .execute(transaction.connection())
                .await?;
                Ok(())
            })
        })
        .await
        .unwrap();
    let answer = bench.get(key, "/v1/servers").await;
    assert_eq!(number(&answer, "x-ratelimit-remaining"), 2);
}

#[tokio::test]
async fn cx_l2_every_answer_has_the_limits() {
    let bench = Bench::new(&StatePlace::sqlite());
    let all = [
        ("GET", CLIENT, "/v1/tools", 200),
        ("HEAD", CLIENT, "/v1/tools", 200),
        ("GET", CLIENT, "/v1/tools/nothing", 404),
        ("GET", CLIENT, "/v1/nothing", 404),
        ("GET", CLIENT, "/v1/keys", 403),
        ("PUT", CLIENT, "/v1/tools", 405),
        ("POST", CLIENT, "/v1/execute_tool", 415),
        ("GET", "", "/v1/tools", 401),
        ("GET", "", "/v1/health", 200),
        ("GET", "", "/v1/openapi.json", 200),
        ("OPTIONS", "", "/v1/tools", 204),
    ];
    for (method, token, path, status) in all {
        let answer = bench.send(request(method, token, path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.status.as_u16(), status, "{method} {path}: {answer:#?}");
        for header in ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"] {
            assert!(answer.headers.contains_key(header), "{method} {path}");
        }
        if status >= 400 {
            assert_eq!(answer.body["success"], false, "{answer:#?}");
            assert!(answer.body["meta"]["request_id"].is_string());
        }
    }
}

#[tokio::test]
async fn cx_l3_a_tool_has_limits_of_its_own() {
    let bench = Bench::new(&StatePlace::sqlite());
    for (tool, code) in [("limited", "RATE_LIMITED"), ("monthly", "QUOTA_EXCEEDED")] {
        bench.call(tool, json!({"text": "1"})).await.data();
        let refused = bench.call(tool, json!({"text": "2"})).await.expect(429, code);
        assert!(refused.headers.contains_key("retry-after"));
        // The limit is the tool's, and not the caller's.
        bench.call("echo", json!({"text": "3"})).await.data();
    }
    bench.get(ADMIN, "/v1/tools").await.data();
}

#[tokio::test]
async fn a_request_that_is_refused_is_not_counted() {
    for place in StatePlace::all().await {
        let mut config = config();
        config.plans.insert("slow".to_owned(), Plan { per_minute: 1, per_month: 1_000 });
        let bench = Bench::with(&place, config, None);
        let issued = bench.key(json!({"name": "slow", "plan": "slow"})).await;
        let key = issued["key"].as_str().unwrap();
        let mut allowed = 0_i64;
        for _ in 0..6 {
            allowed += i64::from(bench.get(key, "/v1/servers").await.status == 200);
        }

        let counted = sqlx::query_scalar::<_, i64>(
            "SELECT calls FROM http_counts WHERE span = 'month' AND counted LIKE '%/slow#%'",
        );
        let store = bench.store.open().await.unwrap();
        assert_eq!(counted.fetch_one(store.readers()).await.unwrap(), allowed);
        assert!(allowed < 6);
    }
}
