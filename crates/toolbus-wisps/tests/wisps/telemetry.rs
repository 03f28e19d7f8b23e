//! What operators see of wisps.

use serde_json::json;
use toolbus_testkit::metrics::Metrics;

use crate::support::{Bench, search, wisp};

#[tokio::test]
async fn wisps_are_counted_by_how_they_ended() {
    let metrics = Metrics::of_process();
    let bench = Bench::new();
    let before = metrics.values();
    let wisps = json!([
        wisp(vec![search("a", "well")]),
        wisp(vec![search("a", "fail:no results"), search("b", "never")]),
    ]);
    bench.spawn(wisps).await;

    // Other tests of the process count theirs, too.
    let now = metrics.values();
    for key in ["runs ok", "runs failed data", "run.duration ok", "run.duration failed"] {
        let key = format!("toolbus.wisps.{key}");
        assert!(now.get(&key) > before.get(&key), "{key} of {now:?}");
    }
}
