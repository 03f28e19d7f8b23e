//! The report of a benchmark: a table for people, the same as JSON for machines, and the verdict.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::{fs, io};

use serde_json::{Value, json};

use super::{Machine, Rounds};

/// What a benchmark found.
#[derive(Debug)]
pub struct Report {
    name: &'static str,
    machine: Machine,
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// One line of the report.
#[derive(Debug, Clone)]
pub struct Row {
    name: String,
    unit: &'static str,
    ours: Rounds,
    peer: Option<Rounds>,
    goal: Option<Goal>,
}

/// What a row must reach, by its median over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Goal {
    /// Ours is this at most.
    AtMost(f64),
    /// Ours is this at least.
    AtLeast(f64),
    /// Ours over the peer's is this at most.
    RatioAtMost(f64),
    /// Ours over the peer's is this at least.
    RatioAtLeast(f64),
    /// Ours is more than the peer's by this at most.
    ExcessAtMost(f64),
}

impl Row {
    /// A row that tells without a goal.
    #[must_use]
    pub fn new(name: impl Into<String>, unit: &'static str, ours: Rounds) -> Self {
        Self { name: name.into(), unit, ours, peer: None, goal: None }
    }

    /// The same row, measured in turns with a peer.
    #[must_use]
    pub fn beside(self, peer: Rounds) -> Self {
        Self { peer: Some(peer), ..self }
    }

    /// The same row with what it must reach.
    #[must_use]
    pub fn with_goal(self, goal: Goal) -> Self {
        Self { goal: Some(goal), ..self }
    }

    fn ratio(&self) -> Option<Rounds> {
        self.peer.as_ref().map(|peer| self.ours.over(peer))
    }

    /// Whether the goal is reached. A row without one holds; one that was not measured does not.
    fn holds(&self) -> bool {
        let ratio = || self.ratio().map_or(f64::NAN, |ratio| ratio.median());
        match self.goal {
            None => true,
            Some(Goal::AtMost(limit)) => self.ours.median() <= limit,
            Some(Goal::AtLeast(limit)) => self.ours.median() >= limit,
            Some(Goal::RatioAtMost(limit)) => ratio() <= limit,
            Some(Goal::RatioAtLeast(limit)) => ratio() >= limit,
            Some(Goal::ExcessAtMost(limit)) => {
                self.peer.as_ref().is_some_and(|peer| self.ours.above(peer).median() <= limit)
            }
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "unit": self.unit,
            "ours": self.ours.median(),
            "peer": self.peer.as_ref().map(Rounds::median),
            "ratio": self.ratio().map(|ratio| ratio.median()),
            "goal": self.goal.map(|goal| goal.describe(self.unit)),
            "holds": self.holds(),
        })
    }

    fn table_cells(&self) -> [String; COLUMNS.len()] {
        let tail = self.ours.tail();
        let spread = |rounds: &Rounds| {
            let (least, most) = rounds.spread();
            format!("{}–{}", format_number(least), format_number(most))
        };

        [
            self.name.clone(),
            self.unit.to_owned(),
            format_number(self.ours.median()),
            tail.map_or_else(String::new, |(p90, _)| format_number(p90)),
            tail.map_or_else(String::new, |(_, p99)| format_number(p99)),
            spread(&self.ours),
            self.peer.as_ref().map_or_else(String::new, |peer| format_number(peer.median())),
            self.peer.as_ref().map_or_else(String::new, spread),
            self.ratio().map_or_else(String::new, |ratio| format!("{:.2}", ratio.median())),
            self.goal.map_or_else(String::new, |goal| goal.describe(self.unit)),
            match (self.goal, self.holds()) {
                (None, _) => "",
                (Some(_), true) => "yes",
                (Some(_), false) => "NO",
            }
            .to_owned(),
        ]
    }
}

impl Goal {
    fn describe(self, unit: &str) -> String {
        match self {
            Self::AtMost(limit) => format!("≤ {} {unit}", format_number(limit)),
            Self::AtLeast(limit) => format!("≥ {} {unit}", format_number(limit)),
            Self::RatioAtMost(limit) => format!("ratio ≤ {limit:.2}"),
            Self::RatioAtLeast(limit) => format!("ratio ≥ {limit:.2}"),
            Self::ExcessAtMost(limit) => format!("≤ peer + {} {unit}", format_number(limit)),
        }
    }
}

/// Latencies are p50 over the calls of a round.
const COLUMNS: [&str; 11] = [
    "what",
    "unit",
    "ours",
    "p90",
    "p99",
    "rounds",
    "peer",
    "its rounds",
    "ratio",
    "goal",
    "holds",
];

impl Report {
    /// An empty report of the benchmark of this name, on this machine.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, machine: Machine::here(), rows: Vec::new(), notes: Vec::new() }
    }

    /// Adds a row.
    pub fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Adds a sentence that a reader of the numbers must know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Prints the table, writes it as `NAME.md` and as `NAME.json` into `folder`, and tells by the
    /// exit code whether every goal is reached.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish(&self, folder: &Path) -> io::Result<ExitCode> {
        let table = self.to_markdown();
        // Nobody may be there to read it; the files are written all the same.
        let _ = io::stdout().write_all(table.as_bytes());
        fs::create_dir_all(folder)?;
        let json = serde_json::to_string_pretty(&self.to_json())?;
        fs::write(folder.join(format!("{}.json", self.name)), json + "\n")?;
        fs::write(folder.join(format!("{}.md", self.name)), table)?;
        Ok(if self.rows.iter().all(Row::holds) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }

    fn to_json(&self) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::to_json).collect();
        json!({"machine": self.machine.to_string(), "rows": rows})
    }

    fn to_markdown(&self) -> String {
        let mut lines = vec![COLUMNS.map(str::to_owned)];
        lines.extend(self.rows.iter().map(Row::table_cells));
        let width = |column: usize| {
            lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        };

        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        lines.insert(1, std::array::from_fn(|column| "-".repeat(widths[column])));
        let mut text = format!("{}: {}\n\n", self.name, self.machine);

        for cells in lines {
            for (cell, width) in cells.iter().zip(&widths) {
                write!(text, "| {cell:width$} ").expect("a string takes every text");
            }
            text.push_str("|\n");
        }

        text.push('\n');
        for note in &self.notes {
            writeln!(text, "- {note}").expect("a string takes every text");
        }

        text
    }
}

/// A number with as many digits as anybody wants to read.
fn format_number(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }

    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }

    let digits = format!("{value:.0}");
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }

    grouped
}

#[cfg(test)]
mod tests;
