//! The table of the runs, as `docs/benchmarks/chaos.md` has it.

use std::fmt::Write as _;
use std::fs;
use std::thread;

use crate::broker::NodeCount;
use crate::driver::{FaultRun, RunConfig};
use crate::judge::Verdict;

#[cfg(test)]
mod tests;

const HEADINGS: [&str; 9] = [
    "fault",
    "calls",
    "ok",
    "unknown true/false",
    "doubled (I2)",
    "lies (I3/I4/I5)",
    "lost (I1)",
    "begun after end (I7)",
    "notes",
];

/// The whole page: the machine, the table and how to read it.
#[must_use]
pub fn write_page(runs: &[FaultRun], config: &RunConfig) -> String {
    let RunConfig { seed, calls, bridges, managers, callers, in_flight, pause, .. } = config;
    let scripts = config.script_percent;
    let machine = describe_machine();
    let table = write_table(runs);

    format!(
        "chaos: {machine}\n\n{table}\n\
         - {calls} calls a fault by {callers} callers, {in_flight} at a time each with a mean pause \
         of {} ms between two of a lane, over RabbitMQ (one node with classic queues; where the \
         notes say so, three with quorum queues) and {bridges} bridges to one MCP server that keeps \
         a ledger, and {managers} managers of scripts. Seed {seed}. Where there are managers, {scripts} % \
         of the calls are scripts in the local sandbox, which tell their start and end to the same \
         ledger; of the others 60 % may not be repeated, 20 % only read, 20 % are idempotent; \
         effects take 0 to 3 s, answers have 100 B to \
         1 MB, deadlines are 2 to 60 s, 5 % are cancelled by their caller.\n\
         - Unknown: `outcome_unknown`, true where the process that held the call was killed or the \
         effect has no end, false where the effect ended or never began. Lies: `ok` without its \
         effect (I3), told as not started and ran (I4), retryable and ran though it may not be \
         repeated (I5). Lost: no outcome, or two, for a caller that lives. In the notes: calls told \
         as `timeout` whose effect had ended 2 s before (I1), and outcomes that came 2 s after the \
         deadline (I1).\n",
        pause.as_millis()
    )
}

/// The table alone, in Markdown, its columns in line.
#[must_use]
pub fn write_table(runs: &[FaultRun]) -> String {
    let mut rows = vec![HEADINGS.map(str::to_owned)];
    rows.extend(runs.iter().map(write_row));
    let mut widths = [0; HEADINGS.len()];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }

    let mut table = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        write_line(&mut table, &cells.collect::<Vec<_>>());
        if number == 0 {
            write_line(&mut table, &widths.map(|width| "-".repeat(width)));
        }
    }
    table
}

fn write_line(table: &mut String, cells: &[String]) {
    writeln!(table, "| {} |", cells.join(" | ")).expect("a text takes any text");
}

fn write_row(run: &FaultRun) -> [String; HEADINGS.len()] {
    let Verdict { calls, ok, unknown_true, doubled, lost, begun_after_end, .. } = run.verdict;
    let verdict = &run.verdict;
    let started = verdict.ok_without_effect + verdict.ok_with_wrong_text;
    let lies = format!("{started}/{}/{}", verdict.not_started_but_ran, verdict.retryable_but_ran);

    [
        run.name.clone(),
        calls.to_string(),
        ok.to_string(),
        format!("{unknown_true}/{}", verdict.unknown_false()),
        doubled.to_string(),
        lies,
        lost.to_string(),
        begun_after_end.to_string(),
        write_notes(run),
    ]
}

/// What has no column, where there is any.
fn write_notes(run: &FaultRun) -> String {
    let verdict = &run.verdict;
    let mut notes = vec![format!("{} strikes in {} s", run.strikes, run.took.as_secs())];
    if run.nodes == NodeCount::Three {
        notes.push("3 nodes".to_owned());
    }
    let codes = verdict.codes.iter().filter(|(code, _)| *code != "outcome_unknown");
    notes.extend(codes.map(|(code, count)| format!("{code} {count}")));

    let counts = [
        ("unknown and never ran", verdict.unknown_but_never_ran),
        ("timeout and had ended", verdict.ended_but_timed_out),
        ("repeated and may", verdict.repeated),
        ("late", verdict.late),
        ("over memory", verdict.over_memory),
        ("left in queues", verdict.messages_left),
        ("dead letters", verdict.dead_letters),
        ("slow to stop", verdict.slow_stops),
    ];
    let counts = counts.into_iter().filter(|(_, count)| *count > 0);
    notes.extend(counts.map(|(what, count)| format!("{what} {count}")));
    notes.join(", ")
}

/// The findings of a run, one in each line.
#[must_use]
pub fn write_findings(run: &FaultRun) -> String {
    let findings = run.verdict.findings.iter();
    let lines = findings.flat_map(|(invariant, texts)| {
        texts.iter().map(move |text| format!("  {invariant}: {text}\n"))
    });
    lines.collect()
}

fn describe_machine() -> String {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let processors = read("/proc/cpuinfo");
    let processor = processors
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "))
        .map_or(std::env::consts::ARCH, |(_, name)| name);
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");

    format!(
        "{processor}, {cores} cores, Linux {}, load {} at the end",
        kernel.trim(),
        load.split(' ').next().unwrap_or_default()
    )
}
