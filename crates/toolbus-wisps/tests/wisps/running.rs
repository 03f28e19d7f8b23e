//! Wisps that run to their end.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use toolbus_testkit::eventually;
use toolbus_tools::Door;
use toolbus_wisps::WispsConfig;

use crate::support::{Bench, LIMIT, mask, mcp, scope, script, search, wisp, wisp_ids, with};

#[tokio::test]
async fn steps_run_in_order_and_use_what_earlier_ones_gave() {
    let bench = Bench::new();
    let output = bench
        .spawn(json!([wisp(vec![
            search("find", r#"give:{"items": [{"n": 1, "name": "say \"hi\""}]}"#),
            mcp("read", "GitHub", "read_issue", json!({
                "n": "{{steps.find.result.items.0.n}}", "do": "arguments",
                "name": "<{{steps.find.result.items.0.name}}>", "key": "{{steps.find.output_to}}",
            })),
            script("end", "give:done"),
        ])]))
        .await;
    assert!(!output.is_error);
    let text = output.to_text().into_owned();
    insta::assert_snapshot!(mask(&text), @r#"
    1 wisp(s) completed (1 succeeded, 0 failed, 0.0s total):
    - `wisp-ID`: "A wisp" [ok] (0ms)
      Output: done
      Output key: `wisp/wisp-ID/end/output`

    Batch ID: batch-ID
    Summary key: wisp/batch-ID/summary
    "#);

    let id = &wisp_ids(&text)[0];
    let calls = bench.calls();
    let ids: Vec<_> = calls.iter().map(|call| call.id.clone()).collect();
    assert_eq!(ids, [format!("{id}-find"), format!("{id}-read"), format!("{id}-end")]);
    assert_eq!(
        calls[1].arguments,
        json!({
            "server_name": "GitHub", "tool_name": "read_issue",
            "arguments": {
                "n": 1, "do": "arguments", "name": "<say \"hi\">", "key": format!("wisp/{id}/find/output"),
            },
        })
    );
    for call in &calls {
        assert_eq!((call.scope.door, call.scope.depth), (Door::Chain, 1));
        assert_eq!(call.scope.principal, scope().principal);
        assert_eq!(call.scope.session, scope().session);
    }
}

#[tokio::test]
async fn what_wisps_give_is_in_working_memory() {
    let bench = Bench::new();
    let definitions = json!([
        wisp(vec![search("a", "give:alpha")]),
        wisp(vec![search("a", "give:beta"), script("b", "fail:timed out")]),
    ]);
    let text = bench.spawn(definitions).await.to_text().into_owned();
    assert!(text.starts_with("PARTIAL FAILURE: 1 of 2 wisp(s) failed."), "{text}");
    let ids = wisp_ids(&text);

    let minutes = |entry: &toolbus_memory::Entry| {
        (entry.info.expires_ms - entry.info.stored_ms) as f64 / 60_000.0
    };
    let good = bench.kept(&format!("wisp/{}/a/output", ids[0])).await.unwrap();
    assert_eq!(good.value, "alpha");
    assert!((4.9..5.1).contains(&minutes(&good)), "{good:?}");
    let bad = bench.kept(&format!("wisp/{}/a/output", ids[1])).await.unwrap();
    assert_eq!(bad.value, "beta");
    assert!((59.9..60.1).contains(&minutes(&bad)), "{bad:?}");

    let key = text.lines().last().unwrap().strip_prefix("Summary key: ").unwrap();
    assert!(key.starts_with("wisp/batch-") && key.ends_with("/summary"), "{key}");
    let summary = bench.kept(key).await.unwrap();
    assert!((59.9..60.1).contains(&minutes(&summary)));
    let summary: Value = serde_json::from_str(&summary.value).unwrap();
    assert_eq!(format!("wisp/{}/summary", summary["batchId"].as_str().unwrap()), key);
    assert_eq!(
        (&summary["total"], &summary["succeeded"], &summary["failed"]),
        (&json!(2), &json!(1), &json!(1))
    );
    assert_eq!(summary["wisps"][1]["failedStep"], "b");
    assert_eq!(summary["wisps"][1]["category"], "External");
    assert!(summary["durationMs"].is_u64());
}

#[tokio::test]
async fn a_failure_ends_a_wisp_or_skips_to_a_later_step() {
    let bench = Bench::new();
    let skip = json!({"on_failure": {"action": "skip_to", "skip_to": "c"}});
    let output = bench
        .spawn(json!([
            wisp(vec![
                with(search("a", "fail:no results"), skip.clone()),
                search("b", "b1"),
                search("c", "c1")
            ]),
            wisp(vec![search("a", "fail:x"), search("b", "b2")]),
            wisp(vec![with(search("a", "a3"), skip), search("b", "fail:json"), search("c", "c3")]),
        ]))
        .await;
    insta::assert_snapshot!(mask(&output.to_text()), @r#"
    PARTIAL FAILURE: 2 of 3 wisp(s) failed. Read the failures below, and do not take the whole for done.

    3 wisp(s) completed (1 succeeded, 2 failed, 0.0s total):
    - `wisp-ID`: "A wisp" [ok] (0ms)
      Skipped over step `a` (Data): it failed: no results
      Output: web_search: c1
      Output key: `wisp/wisp-ID/c/output`
    - `wisp-ID`: "A wisp" [failed] (0ms)
      Failed at step `a` (External): it failed: x
    - `wisp-ID`: "A wisp" [failed] (0ms)
      Failed at step `b` (Data): it failed: json
      Output: web_search: a3
      Output key: `wisp/wisp-ID/a/output`

    Batch ID: batch-ID
    Summary key: wisp/batch-ID/summary
    "#);
    let mut told = bench.told();
    told.sort();
    assert!(
        !told.iter().any(|told| told.contains("b1") || told.contains("b2") || told.contains("c3")),
        "{told:?}"
    );
}

#[tokio::test]
async fn what_was_skipped_or_failed_has_no_result() {
    let bench = Bench::new();
    let skip = json!({"on_failure": {"skip_to": "c"}});
    let steps = |named: &str| {
        wisp(vec![
            with(search("a", "fail:x"), skip.clone()),
            search("b", "b"),
            search("c", &format!("{{{{steps.{named}.result}}}}")),
        ])
    };
    let text = bench.spawn(json!([steps("a"), steps("b")])).await;
    let text = text.to_text();
    assert!(text.contains("(Data): step 'a' has no result: it failed or was skipped"), "{text}");
    assert!(text.contains("(Data): step 'b' has no result"), "{text}");
}

#[tokio::test]
async fn nothing_but_failures_is_an_error() {
    let output = Bench::new().spawn(json!([wisp(vec![search("a", "fail:x")])])).await;
    assert!(output.is_error);
    assert!(output.to_text().starts_with("1 wisp(s) completed (0 succeeded, 1 failed, "));
}

#[tokio::test]
async fn ten_wisps_run_at_a_time() {
    let bench = Bench::new();
    let wisps: Vec<_> = (0..25).map(|_| wisp(vec![search("a", "wait")])).collect();
    let running = bench.spawn(json!(wisps));
    let opening = async {
        let world = &bench.world;
        eventually(LIMIT, async || match world.running.load(Ordering::SeqCst) {
            10 => Ok(()),
            other => Err(other),
        })
        .await;
        world.gate.add_permits(25);
    };
    let (output, ()) = tokio::join!(running, opening);
    assert!(output.to_text().starts_with("25 wisp(s) completed (25 succeeded, 0 failed"));
    assert_eq!(bench.world.running_max.load(Ordering::SeqCst), 10);

    let one = WispsConfig { concurrent_max: 1.try_into().unwrap(), ..WispsConfig::default() };
    let bench = Bench::with_config(one);
    let wisps: Vec<_> = (0..5).map(|_| wisp(vec![search("a", "x")])).collect();
    bench.spawn(json!(wisps)).await;
    assert_eq!(bench.world.running_max.load(Ordering::SeqCst), 1);
}

/// The speed that is aimed at: a hundred wisps at once on two cores, without failures.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_wisps_run_without_a_failure() {
    let bench = Bench::new();
    let wisps: Vec<_> = (0..100)
        .map(|n| {
            let input = json!({"input_from": "a"});
            wisp(vec![
                search("a", &format!("give:{n}")),
                with(script("b", "input:"), input),
                script("c", "give:end"),
            ])
        })
        .collect();
    let began = Instant::now();
    let text = bench.spawn(json!(wisps)).await.to_text().into_owned();
    println!("100 wisps of 3 steps took {:?}", began.elapsed());
    assert!(text.starts_with("100 wisp(s) completed (100 succeeded, 0 failed, "), "{text}");
    assert_eq!(bench.calls().len(), 300);
    // The wisps are told in the order of their definitions, whichever ended first.
    let inputs = bench.calls().into_iter().filter(|call| call.tool == "execute_python_script");
    let by_id: std::collections::HashMap<_, _> =
        inputs.map(|call| (call.id.clone(), call.arguments["input_data"].clone())).collect();
    for (n, id) in wisp_ids(&text).iter().enumerate() {
        assert_eq!(by_id[&format!("{id}-b")], json!(n.to_string()));
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn mcp_servers_are_waited_for_where_there_are_such_steps() {
    let mut setup = crate::support::Setup::default();
    setup.world.servers_come = false;
    setup.config.mcp_ready_timeout = Duration::from_millis(300);
    let bench = Bench::with(setup);

    bench.spawn(json!([wisp(vec![search("a", "x")])])).await;
    assert!(bench.world.servers.lock().is_empty());

    let began = Instant::now();
    let read = |server: &str| mcp("a", server, "read", json!({"do": "give:x"}));
    let output = bench
        .spawn(json!([wisp(vec![read("b")]), wisp(vec![read("a")]), wisp(vec![read("b")])]))
        .await;
    assert!(!output.is_error, "they are called all the same: {output:?}");
    assert!(began.elapsed() >= Duration::from_millis(300));
    assert_eq!(*bench.world.servers.lock(), [["a", "b"]]);
}
