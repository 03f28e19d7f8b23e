//! A benchmark as a program: its parts, which of them are wanted, how far it is, and what becomes
//! of it when it is broken off.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::{Report, broken_off};

/// The option that names a part.
const ONLY: &str = "--only";

/// A benchmark that is running. Each of its rows is printed and written when it is measured; a part
/// that fails takes no other with it.
#[derive(Debug)]
pub struct Benchmark {
    report: Report,
    parts: Vec<&'static str>,
    wanted: Vec<&'static str>,
    /// Of the wanted parts, those that are over.
    over: usize,
    began: Instant,
}

impl Benchmark {
    /// Begins the benchmark of this name, with all of its parts or with those that the command line
    /// names by `--only PART`; what the others gave before is kept. `target_tmp` is the folder
    /// `CARGO_TARGET_TMPDIR` of the benchmark.
    ///
    /// From here on, SIGINT, SIGTERM, SIGHUP and the end of whoever started it by `cargo xtask
    /// bench` end what this process started, then the process.
    ///
    /// # Errors
    /// When the command line names a part that there is not, or when nothing can be written.
    pub fn begin(
        name: &'static str,
        target_tmp: &str,
        parts: &[&'static str],
    ) -> anyhow::Result<Self> {
        let wanted = wanted_parts(std::env::args().skip(1), parts)?;
        Self::begin_with(name, target_tmp, parts, wanted)
    }

    /// The same with the parts that are wanted, for programs that read their command line
    /// themselves.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn begin_with(
        name: &'static str,
        target_tmp: &str,
        parts: &[&'static str],
        wanted: Vec<&'static str>,
    ) -> anyhow::Result<Self> {
        broken_off::watch()?;
        let target = Path::new(target_tmp).parent().context("the target folder has a parent")?;
        let report = Report::begin(name, &target.join("bench"), parts, &wanted)?;
        let parts = parts.to_vec();
        Ok(Self { report, parts, wanted, over: 0, began: Instant::now() })
    }

    /// Whether any of these parts is wanted.
    #[must_use]
    pub fn wants(&self, parts: &[&str]) -> bool {
        parts.iter().any(|part| self.wanted.contains(part))
    }

    /// Whether parts were named, so that what they need must be there.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.wanted.len() < self.parts.len()
    }

    /// Measures a part, if it is wanted. When it fails this is told and noted, and the benchmark
    /// goes on.
    pub fn part(
        &mut self,
        part: &'static str,
        measure: impl FnOnce(&mut Report) -> anyhow::Result<()>,
    ) {
        debug_assert!(self.parts.contains(&part), "{part}");
        if !self.wants(&[part]) {
            return;
        }
        tell(&self.progress(part));
        let began = Instant::now();
        self.report.begin_part(part);

        let measured = measure(&mut self.report);
        broken_off::wait_where_under_way();
        self.over += 1;
        let failure = measured.err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            tell(&format!("{part}: not measured to its end: {failure}"));
        }
        self.report.end_part(part, began.elapsed(), failure);
    }

    /// Adds a sentence that a reader of all the numbers must know.
    pub fn note(&mut self, note: impl Into<String>) {
        self.report.note(note);
    }

    /// Prints the table, and tells by the exit code whether every part was measured to its end and
    /// every goal is reached.
    #[must_use]
    pub fn finish(self) -> ExitCode {
        broken_off::clean_up();
        let table = self.report.to_markdown();
        // Nobody may be there to read it; it has been written all the same.
        let _ = io::stdout().write_all(table.as_bytes());
        if self.report.holds() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Which part comes, and how long the rest may take: as long as it took before, where that is
    /// known.
    fn progress(&self, part: &str) -> String {
        let (at, count) = (self.over + 1, self.wanted.len());
        let took = format_minutes(self.began.elapsed());
        let coming = self.wanted.iter().skip(self.over);
        let known: Option<Duration> = coming.map(|part| self.report.took_before(part)).sum();
        let left = known
            .map_or_else(String::new, |known| format!(", about {} left", format_minutes(known)));
        format!("{part}: part {at} of {count}, {took} so far{left}")
    }
}

/// The parts that `--only` names, all of them where it is not there. What cargo and benchmarks have
/// beside it is not looked at.
fn wanted_parts(
    mut arguments: impl Iterator<Item = String>,
    parts: &[&'static str],
) -> anyhow::Result<Vec<&'static str>> {
    let mut named = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument != ONLY {
            ensure!(argument.starts_with('-'), "'{argument}': a part is named by {ONLY} PART");
            continue;
        }
        let part = arguments.next().with_context(|| format!("{ONLY} names no part"))?;
        if !parts.contains(&part.as_str()) {
            bail!("there is no part '{part}': the parts are {}", parts.join(", "));
        }
        named.push(part);
    }
    let is_wanted = |part: &&&str| named.is_empty() || named.iter().any(|named| named == **part);
    Ok(parts.iter().filter(is_wanted).copied().collect())
}

fn format_minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    if seconds < 60 {
        format!("{seconds} s")
    } else {
        format!("{} min {} s", seconds / 60, seconds % 60)
    }
}

/// Progress is not what the benchmark prints.
pub(super) fn tell(line: &str) {
    // Nobody may be there to read it.
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests;
