use std::time::Duration;

use toolbus_tools::budget::RunLimits;
use toolbus_tools::policy::Policy as _;
use toolbus_tools::{Door, Scope};
use toolbus_wire::name::AgentName;

use crate::{LivePolicy, PolicySettings, RuleBook, parse_principal};

const BOOK: &str = r#"
[[budgets]]
name = "strangers"
calls = 5
time = "2m"
doors = ["bus", "mcp"]
principals = ["claimed:*"]
[[budgets]]
name = "all"
turns = 10
tokens = 100000
cost_usd = 0.5
"#;

fn settings(toml: &str) -> PolicySettings {
    toml::from_str(toml).unwrap()
}

fn scope(door: Door, principal: &str) -> Scope {
    Scope::new(door, parse_principal(principal).unwrap(), AgentName::standard())
}

#[test]
fn the_first_budget_that_a_run_meets_is_its_own() {
    let book = RuleBook::new(&settings(BOOK)).unwrap();
    assert_eq!(book.budget_count(), 2);
    let stranger = scope(Door::Bus, "claimed:x");
    assert_eq!(book.budget_of(&stranger), Some("strangers"));
    let time = Some(Duration::from_secs(120));
    let expected = RunLimits { calls: Some(5), time, ..RunLimits::default() };
    assert_eq!(book.run_limits(&stranger), expected);

    let local = scope(Door::CommandLine, "local:local");
    assert_eq!(book.budget_of(&local), Some("all"));
    let expected = RunLimits {
        turns: Some(10),
        tokens: Some(100_000),
        cost_micro_usd: Some(500_000),
        ..RunLimits::default()
    };
    assert_eq!(book.run_limits(&local), expected);
}

#[test]
fn a_run_without_a_budget_has_no_limit() {
    let book = RuleBook::new(&PolicySettings::default()).unwrap();
    let scope = scope(Door::Bus, "claimed:x");
    assert_eq!(book.budget_of(&scope), None);
    assert_eq!(book.run_limits(&scope), RunLimits::default());
}

#[test]
fn runs_that_begin_after_a_reload_have_the_new_budget() {
    let policy = LivePolicy::new(RuleBook::new(&settings(BOOK)).unwrap());
    let stranger = scope(Door::Bus, "claimed:x");
    assert_eq!(policy.run_limits(&stranger).calls, Some(5));
    assert_eq!(policy.replace(&settings("[[budgets]]\nname = 'one'\ncalls = 1")), Ok(true));
    assert_eq!(policy.run_limits(&stranger).calls, Some(1));
}

#[test]
fn mistakes_are_told_with_the_budget_and_where_they_are() {
    for (toml, expected) in [
        (
            "[[budgets]]\nname = 'a'\ndoors = ['bus']",
            "budgets[0].calls: budget 'a': a budget limits something: calls, turns, tokens, cost_usd \
             or time",
        ),
        (
            "[[budgets]]\nname = 'a'\ntime = '0s'",
            "budgets[0].time: budget 'a': a run has some time, and at most 366 days",
        ),
        (
            "[[budgets]]\nname = 'a'\ntime = '367d'",
            "budgets[0].time: budget 'a': a run has some time, and at most 366 days",
        ),
        (
            "[[budgets]]\nname = 'a'\ncost_usd = -1.0",
            "budgets[0].cost_usd: budget 'a': it is 0 to a billion dollars",
        ),
        (
            "[[budgets]]\nname = 'a'\ncost_usd = nan",
            "budgets[0].cost_usd: budget 'a': it is 0 to a billion dollars",
        ),
        (
            "[[budgets]]\nname = 'a'\ncalls = 1\n[[budgets]]\nname = 'b'\ncalls = 2\ndoors = ['bus']",
            "budgets[1]: budget 'b' is never reached: budget 'a' before it takes every run that \
             meets its conditions",
        ),
        (
            "[[budgets]]\nname = 'a'\ncalls = 1\nprincipals = []",
            "budgets[0].principals: budget 'a': an empty list would match nothing; leave it out to \
             match everything",
        ),
    ] {
        let mistakes = RuleBook::new(&settings(toml)).unwrap_err();
        let told: Vec<String> =
            mistakes.iter().map(|mistake| format!("{}: {}", mistake.key, mistake.what)).collect();
        assert_eq!(told, [expected], "{toml}");
    }
}
