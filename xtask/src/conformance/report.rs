//! The document: tables of what passes where, why the rest does not, and what is not run.

use std::fmt::Write as _;

use super::crossing::crosses_bus;
use super::differences::Differences;
use super::not_run::NotRunList;
use super::suite::ScenarioResult;
use super::{ERAS, Era, ResultColumn, SuiteRun, SuiteTarget};

const HEAD: &str = "\
# Conformance

Made by `cargo xtask conformance --keep` and checked in CI, where the run fails when a scenario goes
otherwise than this page says. The suite is the official one, `@modelcontextprotocol/conformance`, in
the release for each era of the protocol; of its scenarios, all that belong to the era, and at the
end of a table those of extensions and of earlier revisions that are ours to pass. The last section
names every other one.

A cell counts the checks of a scenario that passed or only warn; whether those of `server-stateless`
warn depends on the machine's speed, and is left out. A scenario without a check that passed has not
passed, even where the suite says that nothing failed; one that is judged by the clock (`sse-retry`)
is run up to three times more. *No* and *lacks* lead by their number to the cause below; *lacks* says
that the scenario asks for a tool, a prompt or a resource that the server does not have.

What a column of the server scenarios runs against:

- *direct*: `conformance-server`, a server of ours that offers what the scenarios name, over HTTP.
- *behind the hop*: the same, reached by the MCP face of `agent-host` → RabbitMQ → `mcp-bridge`. The
  bridge speaks 2026-07-28 with it, whatever the suite speaks with the face. So it does in the next
  columns where the server can.
- *2025-11-25 server*: the same behind the hop, without any newer version of the protocol.
- *stdio*: the same behind the hop, as a child of the bridge.
- *Python SDK*: behind the hop, over stdio, a server that offers the same by the official Python SDK,
  without the tools that ask something.
- *server-everything*: behind the hop, over stdio, the reference server of the TypeScript SDK as it is
  published. It has tools and prompts of its own, so that it serves only what names none.
- *`/mcp`*: the agent's own view of `conformance-server`, with a tool of the agent for each of its
  tools (`direct_tools`). A proxy takes the server's name from the names of the tools; nothing else
  is changed.

*Bus* says whether the broker delivered a request to the bridge while the scenario ran behind the hop.
Where it did not, the face answered by itself, and the scenario says nothing about the hop.
`server-sse-multiple-streams` does not wait for what it asks for, so that its requests may be
delivered in the time of the next scenario; of it nothing is told.
";

/// The whole page.
pub(super) fn document(ran: &SuiteRun, differences: &Differences, left_out: &NotRunList) -> String {
    let mut page = Page { text: HEAD.to_owned(), ran, differences };
    for era in ERAS {
        page.table(&format!("Server scenarios, {}", era.version), era, &SERVER);
    }
    for era in ERAS {
        page.table(&format!("Client scenarios, {}", era.version), era, &[SuiteTarget::Client]);
    }
    page.causes();
    page.left_out(left_out);
    page.text
}

const SERVER: [SuiteTarget; 7] = [
    SuiteTarget::Direct,
    SuiteTarget::Hop,
    SuiteTarget::Initialize,
    SuiteTarget::Stdio,
    SuiteTarget::Python,
    SuiteTarget::Everything,
    SuiteTarget::Agent,
];

struct Page<'a> {
    text: String,
    ran: &'a SuiteRun,
    differences: &'a Differences,
}

impl Page<'_> {
    fn table(&mut self, title: &str, era: Era, places: &[SuiteTarget]) {
        let of = |place| self.ran.columns.iter().find(|c| c.era == era && c.place == place);
        let columns: Vec<&ResultColumn> = places.iter().filter_map(|place| of(*place)).collect();
        let Some(first) = columns.first() else { return };
        let hop = columns.iter().find(|column| column.place == SuiteTarget::Hop);

        let mut heads = vec!["scenario"];
        heads.extend(hop.map(|_| "bus"));
        heads.extend(columns.iter().map(|column| column.place.title()));
        let mut text = format!("\n## {title}\n\n| {} |\n", heads.join(" | "));
        text.push_str(&format!("|{}\n", "---|".repeat(heads.len())));

        for scenario in first.results.iter() {
            let mut cells = vec![format!("`{}`", scenario.name)];
            cells.extend(hop.map(|hop| self.crossing(hop, &scenario.name).to_owned()));
            cells.extend(columns.iter().map(|column| self.cell(column, &scenario.name)));
            let _ = writeln!(text, "| {} |", cells.join(" | "));
        }

        let mut sums = vec!["**pass**".to_owned()];
        sums.extend(hop.map(|_| String::new()));
        sums.extend(columns.iter().map(|column| self.sum(column)));
        let _ = writeln!(text, "| {} |", sums.join(" | "));
        self.text.push_str(&text);
    }

    fn crossing(&self, hop: &ResultColumn, name: &str) -> &'static str {
        match hop.results.find(name) {
            Some(_) if DOES_NOT_WAIT.contains(&name) => "not told",
            Some(scenario) if crosses_bus(self.ran, scenario) => "yes",
            _ => "no",
        }
    }

    fn cell(&self, column: &ResultColumn, name: &str) -> String {
        let Some(scenario) = column.results.find(name) else { return "did not run".to_owned() };
        if scenario.passes {
            return count_of_checks(scenario);
        }
        match self.differences.cause(column, name) {
            Some((number, difference)) if difference.lacks => format!("lacks [{}]", number + 1),
            Some((number, _)) => format!("no [{}]", number + 1),
            None => "no".to_owned(),
        }
    }

    /// How many pass of those that are asked of the server.
    fn sum(&self, column: &ResultColumn) -> String {
        let lacks = |scenario: &&ScenarioResult| {
            let found = self.differences.cause(column, &scenario.name);
            found.is_some_and(|(_, difference)| difference.lacks)
        };
        let lacking = column.results.iter().filter(lacks).count();
        format!("**{} of {}**", column.results.passed(), column.results.len() - lacking)
    }

    fn causes(&mut self) {
        self.text.push_str("\n## Why the rest does not pass\n\n");
        if self.differences.iter().next().is_none() {
            self.text.push_str("There is no rest.\n");
        }
        for (number, difference) in self.differences.iter().enumerate() {
            let whose = difference.of_what();
            let cause = &difference.cause;
            let _ = writeln!(self.text, "{}. *{whose}*: {cause}", number + 1);
        }
    }

    fn left_out(&mut self, left_out: &NotRunList) {
        self.text.push_str("\n## What is not run\n\n");
        for group in left_out.iter() {
            let names: Vec<_> = group.scenarios.iter().map(|name| format!("`{name}`")).collect();
            let kind = group.kind.name();
            let names = names.join(", ");
            let _ = writeln!(self.text, "- *{kind}*: {names}. {}", group.cause);
        }
    }
}

/// Scenarios of which it depends on the machine's speed whether checks warn.
const WARNINGS_VARY: [&str; 1] = ["server-stateless"];

/// Scenarios that end before what they asked for is answered.
const DOES_NOT_WAIT: [&str; 1] = ["server-sse-multiple-streams"];

/// What a cell says of a scenario that passes.
fn count_of_checks(scenario: &ScenarioResult) -> String {
    let plural = if scenario.checks == 1 { "check" } else { "checks" };
    let mut text = format!("{} {plural}", scenario.checks);
    if scenario.skipped > 0 {
        let _ = write!(text, ", {} skipped", scenario.skipped);
    }
    if scenario.warnings > 0 && !WARNINGS_VARY.contains(&scenario.name.as_str()) {
        text.push_str(", with warnings");
    }
    text
}
