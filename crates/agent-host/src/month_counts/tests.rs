use serde_json::json;
use toolbus_policy::{PolicySettings, RuleBook};
use toolbus_testkit::state::StatePlace;
use toolbus_tools::call::{Call, Invocation, Output};
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

use super::*;

/// A process with a limit of three calls a month for each principal.
struct Process {
    counts: MonthCounts,
    store: LazyStore,
    invoker: Invoker,
}

impl Process {
    async fn start(location: &str) -> Self {
        let limit = json!({"name": "few", "calls": 3, "per": "month", "by": ["principal"]});
        let settings: PolicySettings = serde_json::from_value(json!({"limits": [limit]})).unwrap();
        let policy = LivePolicy::new(RuleBook::new(&settings).unwrap());
        let store = LazyStore::new(location.parse().unwrap(), &[MIGRATIONS]);
        let counts = MonthCounts::start(policy.clone(), store.clone()).await;

        let registry = Registry::new();
        let work = |_: Invocation| std::future::ready(Ok(Output::text("done")));
        registry.register(Tool::new("work", "", "test"), work).unwrap();
        let invoker = Invoker::builder(Arc::new(registry)).gate(policy.rate_limit()).build();
        Self { counts, store, invoker }
    }

    /// How many of these calls may run.
    async fn calls(&self, name: &str, count: usize) -> usize {
        let mut ran = 0;
        for _ in 0..count {
            let scope = Scope::new(Door::Bus, Principal::claimed(name), AgentName::standard());
            let call = Call::by_name(&Arc::new(scope), "work", json!({})).unwrap();
            ran += usize::from(self.invoker.invoke(call).await.is_ok());
        }
        ran
    }

    async fn end(self) {
        self.counts.close().await;
        self.store.close().await;
    }
}

/// Returns an empty place for each database that this build has.
async fn places() -> Vec<StatePlace> {
    match cfg!(feature = "postgres") {
        true => StatePlace::all().await,
        false => vec![StatePlace::sqlite()],
    }
}

#[tokio::test]
async fn a_process_goes_on_from_what_the_last_one_has_counted() {
    for place in places().await {
        let first = Process::start(&place.location).await;
        assert_eq!(first.calls("alice", 2).await, 2);
        first.end().await;

        let second = Process::start(&place.location).await;
        assert_eq!((second.calls("alice", 2).await, second.calls("bob", 2).await), (1, 2));
        second.end().await;
        let third = Process::start(&place.location).await;
        assert_eq!((third.calls("alice", 2).await, third.calls("bob", 2).await), (0, 1));
        third.end().await;
    }
}

#[tokio::test]
async fn processes_at_one_store_share_a_count() {
    for place in places().await {
        let (one, other) =
            (Process::start(&place.location).await, Process::start(&place.location).await);
        assert_eq!((one.calls("alice", 1).await, other.calls("alice", 1).await), (1, 1));
        one.counts.keeper.save().await;
        other.counts.keeper.save().await;
        // It knows of both, and the first one does with its next.
        assert_eq!(other.calls("alice", 2).await, 1);
        other.counts.keeper.save().await;
        assert_eq!(one.calls("alice", 1).await, 1);
        one.counts.keeper.save().await;
        assert_eq!((one.calls("alice", 1).await, other.calls("alice", 1).await), (0, 0));
        one.end().await;
        other.end().await;
    }
}

#[tokio::test]
async fn calls_go_on_where_nothing_can_be_kept() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("no-folder"), "").unwrap();
    let location = format!("sqlite:{}", folder.path().join("no-folder/state.db").display());
    let process = Process::start(&location).await;
    assert_eq!(process.calls("alice", 2).await, 2);
    process.counts.keeper.save().await;
    assert_eq!(process.calls("alice", 2).await, 1);
    process.end().await;
}
