//! What a rule book says, shown as door × principal × tool × decision.
//!
//! Every cell is what [`RuleBook::explain`] answers, which is the function that decides calls.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use toolbus_tools::policy::{ApprovalDemand, ApprovalExtent, Decision, PolicyRequest};
use toolbus_tools::scope::{Principal, Proof};
use toolbus_tools::{Door, Scope, Subject};
use toolbus_wire::name::AgentName;

use crate::book::{Explanation, RuleBook};
use crate::glob::Glob;
use crate::principal::{parse_principal, principal_text};

/// What stands for some text in a principal that stands for many.
const SOMEBODY: &str = "somebody";

/// One cell: what is said of the calls of one tool, by one principal, through one door.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Cell {
    /// Where calls come in.
    pub door: Door,
    /// Who calls, as operators write it.
    pub principal: String,
    /// The tool, by its id.
    pub tool: String,
    /// `allow`, `ask`, `ask-once` or `deny`.
    pub decision: &'static str,
    /// The rule that says so, `default`, or `approval_required_risk`.
    pub by: String,
}

/// What a book says of each tool, for each principal and door. Agent and session are those of a
/// call that no rule on them is about, unless it is about this agent.
#[must_use]
pub fn cells(book: &RuleBook, agent: &AgentName, tools: &[Subject]) -> Vec<Cell> {
    let principals = principals(book);
    let mut cells = Vec::new();
    for tool in tools {
        for principal in &principals {
            for door in Door::ALL {
                let scope = Scope::new(door, principal.clone(), agent.clone());
                let explanation = book.explain(&PolicyRequest { scope: &scope, subject: tool });
                cells.push(Cell::new(&scope, tool, &explanation));
            }
        }
    }
    cells
}

/// The principals that the rules of a book tell apart: one of each proof, and one for each pattern
/// that a rule has, in whose name `somebody` stands for each star.
#[must_use]
pub fn principals(book: &RuleBook) -> Vec<Principal> {
    let mut of_proofs = vec![Principal::local()];
    of_proofs.extend(Proof::NAMES.iter().filter(|proof| **proof != "local").map(|proof| {
        let text = format!("{proof}:{SOMEBODY}");
        parse_principal(&text)
            .or_else(|_| parse_principal(&format!("{text}/{SOMEBODY}")))
            .expect("every proof has one of these forms")
    }));

    let patterns =
        book.own_conditions().filter_map(|(_, conditions)| conditions.principals.as_ref());
    let samples = patterns.flatten().filter_map(|pattern| pattern.sample(SOMEBODY));
    let mut seen = BTreeSet::new();
    let all = of_proofs.into_iter().chain(samples);
    all.filter(|principal| seen.insert(principal_text(principal))).collect()
}

/// A glob of a rule that matches none of the tools there are.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnmatchedGlob {
    /// The rule.
    pub rule: Arc<str>,
    /// The glob.
    pub glob: String,
}

/// Returns the tool globs of the operator's rules that match none of these tools. Tools come and
/// go, so such a glob may still be correct.
#[must_use]
pub fn unmatched_globs(book: &RuleBook, tools: &[Subject]) -> Vec<UnmatchedGlob> {
    let is_unmatched = |glob: &&Glob| !tools.iter().any(|tool| glob.matches(tool.id.as_str()));
    let of_rule = |(rule, globs): (&Arc<str>, &Vec<Glob>)| {
        let unmatched = globs.iter().filter(is_unmatched);
        let tell = |glob: &Glob| UnmatchedGlob { rule: Arc::clone(rule), glob: glob.sample("*") };
        unmatched.map(tell).collect::<Vec<_>>()
    };
    let with_tools = |(rule, conditions): (_, &'_ crate::conditions::Conditions)| {
        conditions.tools.as_ref().map(|globs| of_rule((rule, globs)))
    };
    book.own_conditions().filter_map(with_tools).flatten().collect()
}

/// The cells as a table for people: a row for each tool, principal and decision, with the doors
/// that it is of.
#[must_use]
pub fn table(cells: &[Cell]) -> String {
    let mut rows = vec![["tool", "principal", "decision", "by", "doors"].map(str::to_owned)];
    for of_principal in
        cells.chunk_by(|one, next| (&one.tool, &one.principal) == (&next.tool, &next.principal))
    {
        let mut told: Vec<(&str, &str)> = Vec::new();
        for cell in of_principal {
            let answer = (cell.decision, cell.by.as_str());
            if told.contains(&answer) {
                continue;
            }
            told.push(answer);

            let same = of_principal.iter().filter(|other| (other.decision, &*other.by) == answer);
            let doors: Vec<&str> = same.map(|other| other.door.as_str()).collect();
            let doors =
                if doors.len() == Door::ALL.len() { "all".into() } else { doors.join(", ") };
            let Cell { tool, principal, by, .. } = cell;
            rows.push([tool.clone(), principal.clone(), answer.0.into(), by.clone(), doors]);
        }
    }
    as_columns(&rows)
}

/// What a decision is called.
#[must_use]
pub fn decision_name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask(ApprovalDemand { extent: ApprovalExtent::Tool, .. }) => "ask-once",
        Decision::Ask(_) => "ask",
        // One that is not known here lets nothing pass.
        _ => "deny",
    }
}

impl Cell {
    fn new(scope: &Scope, tool: &Subject, explanation: &Explanation) -> Self {
        Self {
            door: scope.door,
            principal: principal_text(&scope.principal),
            tool: tool.id.to_string(),
            decision: decision_name(&explanation.decision),
            by: explanation.by.to_string(),
        }
    }
}

fn as_columns(rows: &[[String; 5]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 5] = std::array::from_fn(|column| width(column).unwrap_or_default());

    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            write!(line, "{cell:width$}  ").expect("a string takes any text");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests;
