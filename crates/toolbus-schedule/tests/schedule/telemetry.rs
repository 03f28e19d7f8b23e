//! What operators see of schedules.

use futures_util::FutureExt as _;
use toolbus_schedule::{MissedRule, NewTask, OccurrenceState, RunEnd};
use toolbus_testkit::metrics::Metrics;

use crate::support::*;

#[tokio::test]
async fn occurrences_are_counted_by_what_became_of_them() {
    let metrics = Metrics::of_process();
    for bench in Bench::all().await {
        let before = metrics.values();
        bench.put(NewTask { missed: Some(MissedRule::Skip), ..soon("gone") }).await;
        bench.sabotage("UPDATE schedule_tasks SET next_ms = next_ms - 3600000").await;
        let runner = Runner::new(|fire, _| {
            let end = match fire.name.as_str() {
                "bad" => RunEnd::Failed("as it is told".to_owned()),
                _ => RunEnd::Done,
            };
            std::future::ready(end).boxed()
        });
        let scheduler = bench.start(&runner);
        bench.eventually_in(OccurrenceState::Missed).await;
        bench.put(soon("good")).await;
        bench.put(soon("bad")).await;
        bench.eventually_in(OccurrenceState::Done).await;
        bench.eventually_in(OccurrenceState::Failed).await;
        scheduler.close().await;

        // Other tests of the process count theirs, too.
        let now = metrics.values();
        for key in ["done", "failed", "missed"] {
            let key = format!("toolbus.schedule.occurrences {key}");
            assert!(now.get(&key) > before.get(&key), "{key} of {now:?}");
        }
        let late = "toolbus.schedule.start.lateness";
        assert!(now.get(late) > before.get(late), "{now:?}");
    }
}
