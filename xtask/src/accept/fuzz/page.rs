//! The page with a row for each target.

use std::fs;

use anyhow::Context as _;

use super::{AT_ONCE, CPU_SECONDS, INPUT_SECONDS_MAX, MEMORY_MIB_MAX};
use crate::workspace;

const PATH: &str = "docs/benchmarks/fuzz.md";

/// What became of one target in all its slices.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) target: String,
    pub(super) cpu_seconds: u64,
    pub(super) executions: u64,
    /// Edges between blocks of code that its inputs reach.
    pub(super) edges: u64,
    pub(super) kept_inputs: u64,
    pub(super) peak_mib: u64,
    /// Slices that ended with a failure.
    pub(super) failures: u64,
    /// The commit of the last slice.
    pub(super) commit: String,
}

/// All rows, in the order of the targets.
pub(super) struct Page {
    targets: Vec<String>,
    rows: Vec<Row>,
}

impl Page {
    pub(super) fn read(targets: Vec<String>) -> Self {
        let text = fs::read_to_string(workspace::root().join(PATH)).unwrap_or_default();
        Self::parse(&text, targets)
    }

    pub(super) fn parse(text: &str, targets: Vec<String>) -> Self {
        let rows = text.lines().filter_map(Row::parse);
        let rows = rows.filter(|row| targets.contains(&row.target)).collect();
        Self { targets, rows }
    }

    /// Forgets the rows of targets.
    pub(super) fn forget(&mut self, targets: &[&str]) {
        self.rows.retain(|row| !targets.contains(&row.target.as_str()));
    }

    pub(super) fn cpu_seconds(&self, target: &str) -> u64 {
        let row = self.rows.iter().find(|row| row.target == target);
        row.map_or(0, |row| row.cpu_seconds)
    }

    /// Adds a slice of a target to its row, and writes the page.
    pub(super) fn add(&mut self, target: &str, slice: Row) -> anyhow::Result<()> {
        match self.rows.iter_mut().find(|row| row.target == target) {
            None => self.rows.push(slice),
            Some(row) => {
                *row = Row {
                    cpu_seconds: row.cpu_seconds + slice.cpu_seconds,
                    executions: row.executions + slice.executions,
                    edges: row.edges.max(slice.edges),
                    peak_mib: row.peak_mib.max(slice.peak_mib),
                    failures: row.failures + slice.failures,
                    ..slice
                };
            }
        }
        fs::write(workspace::root().join(PATH), self.text()).context(PATH)
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "# Fuzzed parsers\n\nEach parser of bytes from outside runs for {CPU_SECONDS} processor \
             seconds under libFuzzer, {AT_ONCE} at a time. An input fails when the parser panics, \
             takes longer than {INPUT_SECONDS_MAX} s or more than {MEMORY_MIB_MAX} MiB. The inputs \
             that reach new code are kept under `crates/fuzz/corpus` and are among the tests. \
             Targets are listed in `crates/fuzz/src/targets.rs`. Made by `cargo xtask accept \
             fuzz`.\n\n| target | processor, s | executions | edges | inputs kept | peak memory, \
             MiB | failures | commit |\n| --- | --- | --- | --- | --- | --- | --- | --- |\n"
        );
        for target in &self.targets {
            match self.rows.iter().find(|row| row.target == *target) {
                Some(row) => text.push_str(&row.to_line()),
                None => text.push_str(&format!("| {target} | not run | | | | | | |\n")),
            }
        }
        text
    }
}

impl Row {
    fn to_line(&self) -> String {
        let Self { target, cpu_seconds, executions, edges, kept_inputs, .. } = self;
        let Self { peak_mib, failures, commit, .. } = self;
        format!(
            "| {target} | {cpu_seconds} | {executions} | {edges} | {kept_inputs} | {peak_mib} | \
             {failures} | {commit} |\n"
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", target, cpu, executions, edges, kept, peak, failures, commit, ""] = cells[..]
        else {
            return None;
        };
        Some(Self {
            target: target.to_owned(),
            cpu_seconds: cpu.parse().ok()?,
            executions: executions.parse().ok()?,
            edges: edges.parse().ok()?,
            kept_inputs: kept.parse().ok()?,
            peak_mib: peak.parse().ok()?,
            failures: failures.parse().ok()?,
            commit: commit.to_owned(),
        })
    }
}
