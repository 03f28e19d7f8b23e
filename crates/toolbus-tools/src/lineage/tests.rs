use toolbus_wire::name::AgentName;

use super::*;
use crate::artifact::ArtifactSet;
use crate::budget::{BudgetLimits, Exceeded, TurnUsage, Usage};
use crate::id::{CallId, ToolId};

fn agent() -> AgentName {
    AgentName::parse("RockBot").unwrap()
}

fn narrow_scope() -> Scope {
    let scope = Scope::new(Door::Mcp, Principal::claimed("client"), agent())
        .with_budget(Budget::calls(10))
        .with_view(View::all().only(["mcp:github/*"]));
    let child = scope.child(Door::Chain, &CallId::random()).unwrap();
    let budget = child.budget.child(BudgetLimits { calls: Some(4), ..BudgetLimits::default() });
    let reach: ArtifactSet = [ArtifactRef::parse("art_1").unwrap()].into_iter().collect();
    let view = child.view.without(["*/delete_*"]).inside("subagent");
    let artifacts = ArtifactReach::Only(reach);
    Scope { artifacts, ..child.with_budget(budget).with_view(view) }
}

fn restore(lineage: &Lineage) -> Scope {
    let text = serde_json::to_string(lineage).unwrap();
    let read: Lineage = serde_json::from_str(&text).unwrap();
    assert_eq!(&read, lineage);
    let run_account = read
        .run_account()
        .map_or_else(Budget::unlimited, |state| Budget::unlimited().restore(state));
    read.restore(Principal::claimed("client"), agent(), None, run_account).unwrap()
}

#[test]
fn a_restored_scope_has_no_more_than_the_one_that_was_kept() {
    let scope = narrow_scope();
    scope.budget.charge_call().unwrap();
    let restored = restore(&Lineage::of(&scope));

    assert_eq!((restored.door, restored.doors), (scope.door, scope.doors));
    assert_eq!(restored.doors.to_string(), "mcp,chain", "the first one is first");
    assert_eq!((&restored.run, restored.depth), (&scope.run, 1));
    let sees = |tool: &str| restored.view.sees(&ToolId::parse(tool).unwrap());
    assert!(sees("mcp:github/get_issue") && !sees("inside:subagent/report_progress"));
    assert!(!sees("mcp:github/delete_repo") && !sees("mcp:gitlab/get_issue"));
    assert!(restored.artifacts.contains(&ArtifactRef::parse("art_1").unwrap()));
    assert!(!restored.artifacts.contains(&ArtifactRef::parse("art_2").unwrap()));
    assert_eq!(restored.budget.accounts(), scope.budget.accounts());

    // One of the four calls of the child is spent.
    for _ in 0..3 {
        restored.budget.charge_call().unwrap();
    }
    let refused = restored.budget.charge_call().unwrap_err();
    assert_eq!(refused, Exceeded::Calls { used: 4, cap: 4 });
    assert_eq!(restored.budget.run_account().usage().calls, 4);
}

#[test]
fn work_of_one_run_spends_of_one_account() {
    let scope =
        Scope::new(Door::Bus, Principal::claimed("a"), agent()).with_budget(Budget::calls(3));
    let lineage = Lineage::of(&scope);
    let account = scope.budget.run_account();
    let [one, two] = [(), ()].map(|()| {
        lineage.clone().restore(Principal::claimed("a"), agent(), None, account.clone()).unwrap()
    });
    for budget in [&one.budget, &two.budget, &scope.budget] {
        budget.charge_call().unwrap();
    }
    assert!(one.budget.charge_call().is_err() && two.budget.charge_call().is_err());
    account.add_spent(Usage { calls: 2, ..Usage::default() });
    assert_eq!(scope.budget.usage().calls, 5);
}

#[test]
fn new_runs_keep_doors_and_view_and_not_what_was_spent() {
    let scope = narrow_scope();
    let lineage = Lineage::of(&scope).for_new_runs();
    assert_eq!(lineage.run_account(), None);
    let restored = restore(&lineage);
    assert_eq!((restored.doors, restored.depth), (scope.doors, 0));
    assert!(!restored.view.sees(&ToolId::parse("mcp:github/delete_repo").unwrap()));
}

#[test]
fn what_is_not_understood_is_refused() {
    let scope = narrow_scope();
    let whole = serde_json::to_value(Lineage::of(&scope)).unwrap();
    let mut newer = whole.clone();
    newer["ceiling"] = 1.into();
    assert!(serde_json::from_value::<Lineage>(newer).is_err());
    let mut unknown = whole.clone();
    unknown["doors"][0] = "window".into();
    assert!(serde_json::from_value::<Lineage>(unknown).is_err());
    let mut deep = whole.clone();
    deep["depth"] = (DEPTH_MAX + 1).into();
    let mut reach = whole;
    reach["artifacts"][0] = "a b".into();
    for value in [deep, reach] {
        let lineage: Lineage = serde_json::from_value(value).unwrap();
        let restored = lineage.restore(Principal::local(), agent(), None, Budget::unlimited());
        assert!(restored.is_err());
    }
}

#[test]
fn usage_since_is_what_came_later() {
    let usage = |calls, turns| Usage {
        calls,
        turns: TurnUsage { turns, tokens: turns * 10, cost_micro_usd: turns * 100 },
    };
    assert_eq!(usage(5, 3).since(usage(2, 1)), usage(3, 2));
    assert_eq!(usage(1, 1).since(usage(2, 2)), usage(0, 0));
}
