//! A wisp has at most the rights of its caller: every call of a step passes every gate.

use std::sync::Arc;

use serde_json::json;
use toolbus_store::sqlx::{self, Row as _};
use toolbus_testkit::eventually;
use toolbus_tools::Budget;
use toolbus_tools::policy::{Decision, PolicyRequest};
use toolbus_wire::ErrorCode;

use crate::support::{Bench, LIMIT, Setup, mcp, scope, scope_of, script, search, wisp, with};

#[tokio::test]
async fn a_policy_decides_about_what_a_step_is_really_about() {
    let denies = |request: &PolicyRequest<'_>| match request.subject.id.as_str() {
        "mcp:secret/dump" => Decision::Deny("it is secret".into()),
        _ => Decision::Allow,
    };
    let bench = Bench::build(Setup::default(), |builder| builder.policy(denies));
    let output = bench
        .spawn(json!([
            wisp(vec![mcp("a", "secret", "dump", json!({}))]),
            wisp(vec![mcp("a", "alias", "dump", json!({}))]),
            wisp(vec![mcp("a", "open", "dump", json!({}))]),
        ]))
        .await;
    let text = output.to_text();
    assert!(text.starts_with("PARTIAL FAILURE: 2 of 3"), "{text}");
    assert_eq!(text.matches("(Structural): 'mcp:secret/dump' is not allowed").count(), 2, "{text}");
    assert_eq!(bench.calls().len(), 1);
}

#[tokio::test]
async fn what_the_caller_does_not_see_its_wisps_do_not_see() {
    let bench = Bench::new();
    let view = scope().view.without(["*/web_search", "mcp:secret/*"]);
    let scope = Arc::new((*scope()).clone().with_view(view));
    let output = bench
        .spawn_in(
            &scope,
            json!([
                wisp(vec![search("a", "x")]),
                wisp(vec![mcp("a", "secret", "read", json!({}))]),
                wisp(vec![script("a", "x")]),
            ]),
        )
        .await
        .unwrap();
    let text = output.to_text();
    assert!(text.starts_with("PARTIAL FAILURE: 2 of 3"), "{text}");
    assert!(text.contains("(Structural): Tool 'web_search' is not registered."), "{text}");
    assert_eq!(bench.calls().len(), 1);
}

/// What a definition narrows, it narrows also where a name leads elsewhere.
#[tokio::test]
async fn tools_of_a_definition_hold_for_what_a_call_is_about() {
    let bench = Bench::new();
    let narrowed = |server: &str| {
        json!({
            "description": "d", "tools": [format!("{server}/dump")],
            "steps": [mcp("a", server, "dump", json!({}))],
        })
    };
    let output = bench.spawn(json!([narrowed("alias"), narrowed("Open")])).await;
    let text = output.to_text();
    assert!(text.starts_with("PARTIAL FAILURE: 1 of 2"), "{text}");
    let calls = bench.calls();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].arguments["server_name"], "Open");
}

#[tokio::test]
async fn a_gateway_whose_tool_is_not_there_fails() {
    let bench = Bench::with(Setup { only: Some("web_search"), ..Setup::default() });
    let output =
        bench.spawn(json!([wisp(vec![script("a", "x")]), wisp(vec![search("a", "x")])])).await;
    let text = output.to_text();
    assert!(
        text.contains("(Structural): Tool 'execute_python_script' is not registered."),
        "{text}"
    );
    assert!(text.contains("(1 succeeded, 1 failed"), "{text}");
}

#[tokio::test]
async fn a_budget_of_calls_holds_for_all_steps() {
    let bench = Bench::new();
    // The call of the tool itself counts, too.
    let scope = Arc::new((*scope()).clone().with_budget(Budget::calls(3)));
    let steps = vec![search("a", "x"), search("b", "x"), search("c", "x"), search("d", "x")];
    let output = bench.spawn_in(&scope, json!([wisp(steps)])).await.unwrap();
    let text = output.to_text();
    assert!(
        text.contains("Failed at step `c` (Structural): the budget of calls is spent: 3 used of 3"),
        "{text}"
    );
    assert_eq!(bench.calls().len(), 2);
}

#[tokio::test]
async fn wisps_that_keep_failing_are_not_started_any_more() {
    let bench = Bench::new();
    let failing: Vec<_> = (0..15).map(|_| wisp(vec![search("a", "fail:x")])).collect();
    bench.spawn(json!(failing)).await;
    bench.spawn(json!([wisp(vec![search("a", "x")])])).await;
    bench.spawn(json!(failing)).await;

    let made = bench.calls().len();
    let refused = bench.try_spawn(json!([wisp(vec![search("a", "x")])])).await.unwrap_err();
    assert_eq!(refused.code, ErrorCode::RateLimited);
    assert!(refused.message.contains("30 wisps have failed within 5 minutes"), "{refused}");
    let wait = refused.retry_after.unwrap().as_secs();
    assert!((280..=300).contains(&wait), "{wait}");
    assert_eq!(bench.calls().len(), made);

    let other = bench.spawn_in(&scope_of("other"), json!([wisp(vec![search("a", "x")])])).await;
    assert!(!other.unwrap().is_error);
}

/// What a call of a step has pinned for its chain is let go when the wisps have ended.
#[tokio::test]
async fn large_results_are_artifacts_for_as_long_as_others_are() {
    let bench = Bench::with(Setup { has_artifacts: true, ..Setup::default() });
    let pins = async || {
        let store = bench.store.open().await.unwrap();
        let text = "SELECT COUNT(*) AS pins FROM artifacts_pins";
        let row = sqlx::query(text).fetch_one(store.readers()).await.unwrap();
        row.try_get::<i64, _>("pins").unwrap()
    };
    let input = json!({"input_from": "a"});
    let hanging =
        wisp(vec![search("a", "big:50000"), search("b", "wait"), with(script("c", "x"), input)]);
    let letting = async {
        eventually(LIMIT, async || match pins().await {
            1 => Ok(()),
            other => Err(other),
        })
        .await;
        bench.world.gate.add_permits(1);
    };
    let (output, ()) = tokio::join!(bench.spawn(json!([hanging])), letting);
    assert!(!output.is_error);
    bench.tasks.close();
    bench.tasks.wait().await;
    assert_eq!(pins().await, 0);

    // A step gets the whole, and not what a caller reads in its place.
    let calls = bench.calls();
    assert_eq!(calls[2].arguments["input_data"].as_str().unwrap().len(), 50_000);
    let large =
        wisp(vec![search("a", "big:3000000"), with(script("b", "x"), json!({"input_from": "a"}))]);
    bench.spawn(json!([large])).await;
    let input = bench.calls().last().unwrap().arguments["input_data"].to_string();
    assert!(
        input.len() < 300_000 && input.contains("all of its 3000000 bytes are in art_"),
        "{}",
        input.len()
    );
}
