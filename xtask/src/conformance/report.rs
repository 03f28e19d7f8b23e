//! The document: tables of what passes where, why the rest does not, and what is not run.

use std::fmt::Write as _;

use super::differences::Differences;
use super::not_run::NotRunList;
use super::{ERAS, Era, ResultColumn, SuiteTarget};

const HEAD: &str = "\
# Conformance

Made by `cargo xtask conformance --keep` and checked in CI, where the run fails when a scenario goes
otherwise than this page says. The suite is the official one, `@modelcontextprotocol/conformance`, in
the release for each era of the protocol; of its scenarios, all that belong to the era, and at the
end of a table those of extensions and of earlier revisions that are ours to pass. The last section
names every other one.

*Direct* is `conformance-server`, a server of ours that offers what the scenarios name. *Behind the
hop* is the same server, reached by the MCP face of `agent-host` → RabbitMQ → `mcp-bridge`. The
client is that of the bridge. A number in brackets leads to the cause below.
";

/// The whole page.
pub(super) fn document(
    columns: &[ResultColumn],
    differences: &Differences,
    left_out: &NotRunList,
) -> String {
    let mut page = Page { text: HEAD.to_owned(), columns, differences };
    for era in ERAS {
        page.table(&format!("Server scenarios, {}", era.version), era, &SERVER);
    }
    for era in ERAS {
        page.table(&format!("Client scenarios, {}", era.version), era, &CLIENT);
    }
    page.causes();
    page.left_out(left_out);
    page.text
}

const SERVER: [(SuiteTarget, &str); 2] =
    [(SuiteTarget::Direct, "direct"), (SuiteTarget::Hop, "behind the hop")];
const CLIENT: [(SuiteTarget, &str); 1] = [(SuiteTarget::Client, "the bridge's client")];

struct Page<'a> {
    text: String,
    columns: &'a [ResultColumn],
    differences: &'a Differences,
}

impl Page<'_> {
    fn table(&mut self, title: &str, era: Era, places: &[(SuiteTarget, &str)]) {
        let of = |place| self.columns.iter().find(|c| c.era == era && c.place == place);
        let columns: Vec<&ResultColumn> =
            places.iter().filter_map(|(place, _)| of(*place)).collect();
        let Some(first) = columns.first() else { return };
        let heads: Vec<&str> = places.iter().map(|(_, head)| *head).collect();
        let mut text = format!("\n## {title}\n\n| scenario | {} |\n", heads.join(" | "));
        text.push_str(&format!("|---|{}\n", "---|".repeat(columns.len())));

        for scenario in first.results.iter() {
            let cells = columns.iter().map(|column| self.cell(column, &scenario.name));
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(text, "| `{}` | {} |", scenario.name, cells.join(" | "));
        }

        let sums = columns
            .iter()
            .map(|column| format!("**{} of {}**", column.results.passed(), column.results.len()));
        let sums: Vec<String> = sums.collect();
        let _ = writeln!(text, "| **pass** | {} |", sums.join(" | "));
        self.text.push_str(&text);
    }

    fn cell(&self, column: &ResultColumn, name: &str) -> String {
        let Some(scenario) = column.results.find(name) else { return "did not run".to_owned() };
        match (scenario.passes, scenario.warnings) {
            (true, 0) => "passes".to_owned(),
            (true, 1) => "passes, 1 warning".to_owned(),
            (true, warnings) => format!("passes, {warnings} warnings"),
            (false, _) => match self.differences.cause(column, name) {
                Some(cause) => format!("no [{}]", cause + 1),
                None => "no".to_owned(),
            },
        }
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
