//! What outlives a process, and what processes at one store share.

use std::time::Duration;

use serde_json::json;
use toolbus_discovery::{DiscoveryConfig, DiscoveryLimits, MIGRATIONS};
use toolbus_store::LazyStore;
use toolbus_testkit::state::StatePlace;
use toolbus_testkit::{eventually, quiet_for};
use toolbus_tools::Scope;
use toolbus_wire::name::AgentName;

use crate::support::{WAIT_TIMEOUT, World, user, user_with_id};

const TOOLS: [(&str, &str); 2] = [("x", "weather one"), ("y", "weather two")];

struct Process {
    world: World,
    store: LazyStore,
    _sky: toolbus_tools::registry::Provider,
}

impl Process {
    async fn new(place: &StatePlace) -> Self {
        Self::with(place, DiscoveryLimits::default()).await
    }

    async fn with(place: &StatePlace, limits: DiscoveryLimits) -> Self {
        let location = place.location.parse().expect("a location");
        let store = LazyStore::new(location, &[MIGRATIONS]);
        let config = DiscoveryConfig { limits, ..DiscoveryConfig::default() };
        let world = World::with(Some(store.clone()), config);
        let sky = world.serve("sky", &TOOLS).await;
        Self { world, store, _sky: sky }
    }

    fn runs(&self, tool: &str) -> (u64, u64) {
        let known = self.world.discovery.statistics(&user("ann"), tool).expect("it is there");
        known.map_or((0, 0), |known| {
            let failed = (known.error_rate * known.runs as f64).round();
            (known.runs, failed as u64)
        })
    }

    /// Waits until that many runs and failures of a tool are known here.
    async fn until_runs(&self, tool: &str, runs: (u64, u64)) {
        eventually(WAIT_TIMEOUT, async || match self.runs(tool) {
            known if known == runs => Ok(()),
            known => Err(format!("{known:?}")),
        })
        .await;
    }

    async fn user_history(&self, name: &str, tool: &str) -> f64 {
        self.history_of(&user(name), tool).await
    }

    async fn history_of(&self, scope: &Scope, tool: &str) -> f64 {
        let found = self.world.find(scope, "weather").await;
        let found = found.tools.iter().find(|found| found.entry.tool.name == tool);
        found.expect("it is found").factors.expect("factors").user_history
    }

    async fn close(self) {
        self.world.discovery.close().await;
        self.store.close().await;
    }
}

#[tokio::test]
async fn what_was_learned_outlives_the_process() {
    for place in StatePlace::all().await {
        let process = Process::new(&place).await;
        let ann = user("ann");
        process.world.use_times(&ann, "sky__x", 3).await;
        process.world.use_times(&ann, "sky__y", 1).await;
        process.world.call(&ann, "sky__x", json!({"fail": true})).await.expect_err("it fails");
        process.world.find(&ann, "weather").await;
        let before = process.world.discovery.statistics(&ann, "x").expect("there");
        process.close().await;

        let process = Process::new(&place).await;
        process.until_runs("x", (4, 1)).await;
        process.until_runs("y", (1, 0)).await;
        let after = process.world.discovery.statistics(&ann, "x").expect("there");
        assert_eq!(before, after, "{}", place.location);
        assert!(process.user_history("ann", "sky__x").await > 0.9);
        assert_eq!(process.user_history("bob", "sky__x").await, 0.0);
        let executions = process.world.discovery.executions(100).await.expect("a store");
        assert_eq!(executions.len(), 5, "{}", place.location);
        assert!(!process.world.discovery.queries(100).await.expect("a store").is_empty());
        process.close().await;
    }
}

/// A key that is issued again under the name of a revoked key is another owner, in the running
/// process and after a restart. A caller without an id has the history that its name had before
/// owners had ids.
#[tokio::test]
async fn a_reissued_name_does_not_inherit_history() {
    for place in StatePlace::all().await {
        let (old, new) = (user_with_id("ci", Some("1")), user_with_id("ci", Some("2")));
        let local = Scope::local(AgentName::standard());
        let process = Process::new(&place).await;
        for scope in [&old, &local, &user("ann")] {
            process.world.use_times(scope, "sky__x", 2).await;
        }
        assert!(process.history_of(&old, "sky__x").await > 0.9);
        assert_eq!(process.history_of(&new, "sky__x").await, 0.0);
        process.close().await;

        let process = Process::new(&place).await;
        process.until_runs("x", (6, 0)).await;
        for scope in [&old, &local, &user("ann")] {
            assert!(process.history_of(scope, "sky__x").await > 0.9, "{:?}", scope.principal);
        }
        for scope in [&new, &user("ci"), &user_with_id("ann", Some("3"))] {
            assert_eq!(process.history_of(scope, "sky__x").await, 0.0, "{:?}", scope.principal);
        }
        process.close().await;
    }
}

#[tokio::test]
async fn processes_at_one_store_add_to_the_same_totals() {
    for place in StatePlace::all().await {
        let (one, two) = (Process::new(&place).await, Process::new(&place).await);
        let (ann, bob) = (user("ann"), user("bob"));
        one.world.use_times(&ann, "sky__x", 3).await;
        two.world.use_times(&bob, "sky__x", 2).await;
        two.world.call(&bob, "sky__x", json!({"fail": true})).await.expect_err("it fails");
        one.until_runs("x", (6, 1)).await;
        two.until_runs("x", (6, 1)).await;

        // Both go on from there, and none counts what the other has counted.
        one.world.use_times(&ann, "sky__x", 2).await;
        two.world.use_times(&ann, "sky__x", 2).await;
        one.until_runs("x", (10, 1)).await;
        two.until_runs("x", (10, 1)).await;
        assert_eq!(one.user_history("ann", "sky__x").await, 1.0);
        assert_eq!(two.user_history("ann", "sky__x").await, 1.0);
        one.close().await;
        two.close().await;

        let three = Process::new(&place).await;
        three.until_runs("x", (10, 1)).await;
        three.close().await;
    }
}

#[tokio::test]
async fn rows_are_bounded_and_the_least_used_go() {
    for place in StatePlace::all().await {
        let process = Process::new(&place).await;
        process.world.use_times(&user("often"), "sky__x", 3).await;
        for n in 0..30 {
            process.world.use_times(&user(&format!("user{n}")), "sky__x", 1).await;
        }
        process.close().await;

        let limits = DiscoveryLimits { uses_max: 5, events_max: 4, ..DiscoveryLimits::default() };
        let process = Process::with(&place, limits).await;
        eventually(WAIT_TIMEOUT, async || {
            match process.world.discovery.executions(100).await.map(|events| events.len()) {
                Ok(count) if count <= 4 => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
        process.close().await;

        let process = Process::new(&place).await;
        process.until_runs("x", (33, 0)).await;
        let mut known = 0;
        for n in 0..30 {
            let history = process.user_history(&format!("user{n}"), "sky__x").await;
            known += u32::from(history > 0.0);
        }
        assert!(known <= 4, "{known} at {}", place.location);
        assert!(process.user_history("often", "sky__x").await > 0.9);
        process.close().await;
    }
}

#[tokio::test]
async fn what_is_learned_waits_for_a_database_that_is_away() {
    let Some(mut server) = toolbus_testkit::postgres::server().await else { return };
    let location = server.database().expect("a database");
    let place = || location.parse().expect("a location");
    let world = World::with(Some(LazyStore::new(place(), &[MIGRATIONS])), Default::default());
    let _sky = world.serve("sky", &TOOLS).await;
    let ann = user("ann");
    world.use_times(&ann, "sky__x", 2).await;
    let stored = async |count: usize| {
        eventually(Duration::from_secs(30), async || {
            let reader =
                World::with(Some(LazyStore::new(place(), &[MIGRATIONS])), Default::default());
            match reader.discovery.executions(100).await {
                Ok(events) if events.len() == count => Ok(()),
                other => Err(format!("{other:?}")),
            }
        })
        .await;
    };
    stored(2).await;
    server.stop().await.expect("it stops");
    world.use_times(&ann, "sky__x", 3).await;
    // Longer than from one attempt to the next.
    quiet_for(Duration::from_millis(1_200), async || match world.discovery.state().dropped {
        0 => Ok(()),
        dropped => Err(dropped),
    })
    .await;
    server.run().await.expect("it runs again");
    stored(5).await;
    let known = world.discovery.statistics(&ann, "x").expect("there").expect("known");
    assert_eq!((known.runs, world.discovery.state().dropped), (5, 0));
    world.discovery.close().await;
}
