//! What stands before a call: how long a decision takes with as many rules as there may be, how
//! long such a book takes to be read and checked, what a call costs with policy, budget and audit
//! log, and how long an approval takes to be answered among a million that wait.
//!
//! `cargo bench --profile measured -p e2e --bench policy`. Prints a table, writes it as `target/bench/policy.md` and
//! `policy.json`, and exits 1 when a goal is missed.

mod approvals;
mod calls;

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use e2e::bench::{Benchmark, Goal, Report, Rounds, Row};
use tikv_jemallocator::Jemalloc;
use toolbus::policy::{Effect, RULES_MAX, RuleSettings};
use toolbus::{Door, PolicyRequest, PolicySettings, Principal, RuleBook, Scope, Subject, Tool};
use toolbus_wire::name::AgentName;

/// What ships allocates with jemalloc, so what is measured does: see
/// docs/adr/0017-one-allocator-for-every-service.md.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

const ROUNDS: usize = 9;
const DECISIONS_A_ROUND: u32 = 20_000;

/// What one decision may take.
const GOAL_MICROSECONDS: f64 = 5.0;

fn main() -> anyhow::Result<ExitCode> {
    let parts = ["decisions", "reading", "calls", "approvals"];
    let mut benchmark = Benchmark::begin("policy", env!("CARGO_TARGET_TMPDIR"), &parts)?;
    benchmark.part("decisions", |report| {
        measure_all_decisions(report);
        Ok(())
    });
    benchmark.part("reading", |report| {
        measure_reading(report);
        Ok(())
    });
    benchmark.part("calls", calls::measure);
    benchmark.part("approvals", approvals::measure);
    Ok(benchmark.finish())
}

fn measure_all_decisions(report: &mut Report) {
    let no_rules = book(0, |_| (None, None));
    measure_decisions(report, "no rules", &no_rules);
    let ids = book(RULES_MAX, |at| (Some(format!("mcp:server{at}/tool")), None));
    measure_decisions(report, "1,000 rules, an id each", &ids);
    let prefixes = book(RULES_MAX, |at| (Some(format!("mcp:server{at}/*")), None));
    measure_decisions(report, "1,000 rules, a prefix each", &prefixes);

    let suffixes = book(RULES_MAX, |at| (Some(format!("*/tool_{at}")), None));
    measure_decisions(report, "1,000 rules, an end each", &suffixes);
    let people = book(RULES_MAX, |at| (None, Some(format!("token:https://id.example/user{at}"))));
    measure_decisions(report, "1,000 rules, a principal each", &people);
    let both = book(RULES_MAX, |at| {
        (Some(format!("mcp:server{}/*", at % 50)), Some(format!("claimed:*-team{at}")))
    });
    measure_decisions(report, "1,000 rules, a prefix and a principal each", &both);
}

/// So many rules, each about this tool and this principal.
fn settings(
    count: usize,
    about: impl Fn(usize) -> (Option<String>, Option<String>),
) -> PolicySettings {
    let rule = |at| {
        let (tool, principal) = about(at);
        RuleSettings {
            name: format!("rule-{at}"),
            effect: Effect::Allow,
            reason: None,
            doors: None,
            principals: principal.map(|principal| vec![principal]),
            agents: None,
            sessions: None,
            tools: tool.map(|tool| vec![tool]),
            risk: None,
            read_only: None,
            idempotent: None,
            destructive: None,
        }
    };
    PolicySettings { rules: (0..count).map(rule).collect(), ..PolicySettings::default() }
}

fn book(count: usize, about: impl Fn(usize) -> (Option<String>, Option<String>)) -> RuleBook {
    RuleBook::new(&settings(count, about)).expect("no rule covers another one")
}

/// Calls that no rule decides, which is the most that a book has to look for.
fn measure_decisions(report: &mut Report, what: &str, book: &RuleBook) {
    let principal = Principal::claimed("somebody-of-team");
    let scope = Scope::new(Door::Bus, principal, AgentName::standard());
    let subjects: Vec<Subject> =
        (0..16).map(|at| subject("mcp:github", &format!("create_issue_{at}"))).collect();

    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        for at in 0..DECISIONS_A_ROUND {
            let subject = &subjects[at as usize % subjects.len()];
            black_box(book.decide(black_box(&PolicyRequest { scope: &scope, subject })));
        }
        rounds.add(microseconds(started.elapsed()) / f64::from(DECISIONS_A_ROUND));
    }
    let row = Row::new(format!("decision, {what}"), "µs", rounds);
    report.add(row.with_goal(Goal::AtMost(GOAL_MICROSECONDS)));
}

fn measure_reading(report: &mut Report) {
    let settings = settings(RULES_MAX, |at| {
        (Some(format!("mcp:server{at}/*")), Some(format!("claimed:*-team{at}")))
    });
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let started = Instant::now();
        black_box(RuleBook::new(black_box(&settings))).expect("no rule covers another one");
        rounds.add(microseconds(started.elapsed()) / 1_000.0);
    }
    report.add(Row::new("reading and checking 1,000 rules", "ms", rounds));
}

fn subject(provider: &'static str, name: &str) -> Subject {
    let tool = Tool::new(name, "", provider);
    Subject {
        id: toolbus::tools::id::ToolId::of(provider, name),
        definition: None,
        annotations: tool.annotations,
        risk: tool.risk_at_gates(),
        audience: tool.audience,
    }
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
