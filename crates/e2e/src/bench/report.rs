//! The report of a benchmark: a table for people, the same as JSON for machines, and the verdict.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::benchmark::tell;
use super::{Machine, Rounds};

/// What a benchmark found so far. All of it is written as `NAME.md` and `NAME.json` whenever a row
/// is added.
#[derive(Debug)]
pub struct Report {
    name: &'static str,
    folder: PathBuf,
    /// In the order of the table.
    parts: Vec<&'static str>,
    /// The part that is being measured; none of notes about all of them.
    part: String,
    kept: Kept,
    /// How long parts took in the run before.
    seconds_before: BTreeMap<String, f64>,
}

/// A report as it is kept.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    machine: String,
    rows: Vec<KeptRow>,
    notes: Vec<KeptNote>,
    /// How long each part took.
    seconds: BTreeMap<String, f64>,
    /// Parts that are wanted and not measured, or not to their end, and why.
    missing: BTreeMap<String, String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptRow {
    part: String,
    cells: [String; COLUMNS.len()],
    #[serde(flatten)]
    row: serde_json::Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptNote {
    part: String,
    text: String,
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
    /// Begins the report of the benchmark of this name, on this machine, with these parts. Of those
    /// that are not wanted, what is in the folder is kept.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub(super) fn begin(
        name: &'static str,
        folder: &Path,
        parts: &[&'static str],
        wanted: &[&'static str],
    ) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let before = fs::read(folder.join(format!("{name}.json")));
        let before: Option<Kept> =
            before.ok().and_then(|before| serde_json::from_slice(&before).ok());
        let mut kept = before.unwrap_or_default();
        let seconds_before = kept.seconds.clone();
        let is_kept = |part: &str| parts.contains(&part) && !wanted.contains(&part);
        kept.rows.retain(|row| is_kept(&row.part));
        kept.notes.retain(|note| is_kept(&note.part));
        kept.missing.retain(|part, _| is_kept(part));
        kept.missing.extend(wanted.iter().map(|part| (String::from(*part), "not yet".to_owned())));
        if kept.rows.is_empty() {
            kept.machine = Machine::here().to_string();
        }

        let (parts, folder) = (parts.to_vec(), folder.to_owned());
        let report = Self { name, folder, parts, part: String::new(), kept, seconds_before };
        report.write()?;
        Ok(report)
    }

    pub(super) fn begin_part(&mut self, part: &str) {
        part.clone_into(&mut self.part);
    }

    /// What was measured of a part stays, also when it failed.
    pub(super) fn end_part(&mut self, part: &str, took: Duration, failure: Option<String>) {
        self.part.clear();
        match failure {
            None => {
                self.kept.missing.remove(part);
                self.kept.seconds.insert(part.to_owned(), took.as_secs_f64());
            }
            Some(failure) => {
                self.kept.missing.insert(part.to_owned(), failure);
            }
        }
        self.write_or_tell();
    }

    /// How long a part took in the run before.
    pub(super) fn took_before(&self, part: &str) -> Option<Duration> {
        let seconds = self.seconds_before.get(part)?;
        Duration::try_from_secs_f64(*seconds).ok()
    }

    /// Adds a row: prints it, and writes all there are.
    pub fn add(&mut self, row: Row) {
        let cells = row.table_cells();
        tell(&summary(&cells));
        let Value::Object(json) = row.to_json() else { return };
        self.kept.rows.push(KeptRow { part: self.part.clone(), cells, row: json });
        self.write_or_tell();
    }

    /// Adds a sentence that a reader of the numbers must know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.kept.notes.push(KeptNote { part: self.part.clone(), text: note.into() });
        self.write_or_tell();
    }

    /// Where the report is written; what belongs to it goes there, too.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether every wanted part was measured to its end and every goal is reached.
    pub(super) fn holds(&self) -> bool {
        let holds = |row: &KeptRow| row.row.get("holds") == Some(&Value::Bool(true));
        self.kept.missing.is_empty() && self.kept.rows.iter().all(holds)
    }

    fn write_or_tell(&self) {
        if let Err(error) = self.write() {
            tell(&format!("{}: not written: {error}", self.folder.display()));
        }
    }

    fn write(&self) -> io::Result<()> {
        let json = serde_json::to_string_pretty(&self.kept)?;
        fs::write(self.folder.join(format!("{}.json", self.name)), json + "\n")?;
        fs::write(self.folder.join(format!("{}.md", self.name)), self.to_markdown())
    }

    /// The place of a part in the table; what belongs to no part comes last.
    fn place(&self, part: &str) -> usize {
        self.parts.iter().position(|known| *known == part).unwrap_or(self.parts.len())
    }

    pub(super) fn to_markdown(&self) -> String {
        let mut rows: Vec<_> = self.kept.rows.iter().collect();
        rows.sort_by_key(|row| self.place(&row.part));
        let mut lines = vec![COLUMNS.map(str::to_owned)];
        lines.extend(rows.iter().map(|row| row.cells.clone()));
        let width = |column: usize| {
            lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0)
        };

        let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
        lines.insert(1, std::array::from_fn(|column| "-".repeat(widths[column])));
        let mut text = format!("{}: {}\n\n", self.name, self.kept.machine);
        let mut add = |line: std::fmt::Arguments<'_>| {
            text.write_fmt(line).expect("a string takes every text");
        };

        for cells in lines {
            for (cell, width) in cells.iter().zip(&widths) {
                add(format_args!("| {cell:width$} "));
            }
            add(format_args!("|\n"));
        }
        add(format_args!("\n"));

        let mut notes: Vec<_> = self.kept.notes.iter().collect();
        notes.sort_by_key(|note| self.place(&note.part));
        for note in notes {
            add(format_args!("- {}\n", note.text));
        }
        for (part, why) in &self.kept.missing {
            add(format_args!("- Not measured to its end: {part}, {why}\n"));
        }
        text
    }
}

/// A row as it is printed when it is measured.
fn summary(cells: &[String; COLUMNS.len()]) -> String {
    let [name, unit, ours, _, p99, _, peer, _, ratio, goal, holds] = cells;
    let mut text = format!("  {name}: {ours} {unit}").trim_end().to_owned();
    for (what, cell) in [("p99", p99), ("peer", peer), ("ratio", ratio), ("goal", goal)] {
        if !cell.is_empty() {
            write!(text, ", {what} {cell}").expect("a string takes every text");
        }
    }
    if holds == "NO" {
        text.push_str(": missed");
    }
    text
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
