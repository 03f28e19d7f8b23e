use std::sync::Arc;

use serde_json::json;
use toolbus_tools::call::{Call, Invocation, Output};
use toolbus_tools::{Door, Invoker, Principal, Registry, Scope, Tool};
use toolbus_wire::name::AgentName;

use crate::{LivePolicy, PolicySettings, RuleBook};

/// A process with a limit of three calls a month for each principal.
struct Process {
    policy: LivePolicy,
    invoker: Invoker,
}

impl Process {
    fn new() -> Self {
        let limit = "[[limits]]\nname = 'few'\ncalls = 3\nper = 'month'\nby = ['principal']";
        let settings: PolicySettings = toml::from_str(limit).unwrap();
        let policy = LivePolicy::new(RuleBook::new(&settings).unwrap());
        let registry = Registry::new();
        let work = |_: Invocation| std::future::ready(Ok(Output::text("done")));
        registry.register(Tool::new("work", "", "test"), work).unwrap();
        let invoker = Invoker::builder(Arc::new(registry)).gate(policy.rate_limit()).build();
        Self { policy, invoker }
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
}

#[tokio::test]
async fn a_process_goes_on_from_what_was_kept() {
    let first = Process::new();
    assert!(first.policy.has_month_limits());
    assert_eq!(first.calls("alice", 2).await, 2);
    assert_eq!(first.calls("bob", 1).await, 1);
    let mut taken = first.policy.take_unsaved();
    taken.sort_by_key(|calls| calls.key());
    let of: Vec<_> = taken
        .iter()
        .map(|calls| format!("{} {} {}", calls.limit(), calls.key(), calls.calls()))
        .collect();
    assert_eq!(of, ["few principal claimed:alice 2", "few principal claimed:bob 1"]);
    assert!(first.policy.take_unsaved().is_empty());

    let second = Process::new();
    for calls in &taken {
        second.policy.restore(calls.limit(), &calls.key(), calls.month(), calls.calls());
    }
    assert_eq!(second.calls("alice", 5).await, 1);
    assert_eq!(second.calls("bob", 5).await, 2);
    // Only what was counted there is new.
    let new: u32 = second.policy.take_unsaved().iter().map(super::UnsavedCalls::calls).sum();
    assert_eq!(new, 3);
}

#[tokio::test]
async fn what_others_have_counted_counts_here_once_it_is_known() {
    let process = Process::new();
    assert_eq!(process.calls("alice", 1).await, 1);
    let [taken] = process.policy.take_unsaved().try_into().unwrap();
    // One more while that was written, and another process has counted one.
    assert_eq!(process.calls("alice", 1).await, 1);
    process.policy.saved(&taken, 2);
    assert_eq!(process.calls("alice", 1).await, 0);
}

#[tokio::test]
async fn what_could_not_be_kept_is_taken_again() {
    let process = Process::new();
    assert_eq!(process.calls("alice", 2).await, 2);
    let [taken] = process.policy.take_unsaved().try_into().unwrap();
    process.policy.not_saved(&taken);
    let [again] = process.policy.take_unsaved().try_into().unwrap();
    assert_eq!(again.calls(), 2);
}

#[tokio::test]
async fn what_is_kept_of_an_earlier_month_is_not_counted() {
    let process = Process::new();
    assert_eq!(process.calls("alice", 1).await, 1);
    let [taken] = process.policy.take_unsaved().try_into().unwrap();
    process.policy.restore("few", "principal claimed:bob", taken.month() - 1, 3);
    process.policy.restore("other", "principal claimed:bob", taken.month(), 3);
    assert_eq!(process.calls("bob", 3).await, 3);
}
