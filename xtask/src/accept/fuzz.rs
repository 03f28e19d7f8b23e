//! `cargo xtask accept fuzz`: each parser of bytes from outside runs for ten processor minutes
//! under libFuzzer.
//!
//! The fuzzer is led by what code an input reaches. The compiler marks that code with flags that
//! are stable; no other toolchain is needed, only a compiler of C++ for libFuzzer itself. A target
//! runs in slices, and its row and its inputs are kept after each, so a run continues where it was
//! interrupted.

mod corpus;
mod page;

use std::collections::VecDeque;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use self::page::{Page, Row};
use super::results;
use crate::workspace;

/// Processor time of each target.
const CPU_SECONDS: u64 = 600;
/// Targets at a time.
const AT_ONCE: usize = 2;
/// How long a target runs until its row is written.
const SLICE_SECONDS: u64 = 60;
/// How often the processor time of a run is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(200);
/// Longest input, in bytes, as `fuzz::INPUT_BYTES_MAX` has it.
const INPUT_BYTES_MAX: u64 = 64 << 10;
/// How long one input may take, in seconds.
const INPUT_SECONDS_MAX: u64 = 10;
/// Memory of a run, in MiB.
const MEMORY_MIB_MAX: u64 = 1 << 10;
/// Clock ticks of Linux in a second, in which `/proc` counts processor time.
const TICKS_PER_SECOND: u64 = 100;

/// What has the compiler mark the code that runs.
const COVERAGE_FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs targets until each has its processor time: `[--target NAME]... [--minutes N]`. A target
/// that is named runs as if it had not run before. After the minutes, no slice begins.
pub(super) fn run(arguments: &[&str]) -> anyhow::Result<ExitCode> {
    let (mut chosen, mut minutes) = (Vec::new(), None);
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match *argument {
            "--target" => chosen.push(*arguments.next().context("--target takes a name")?),
            "--minutes" => {
                let number = arguments.next().context("--minutes takes a number")?;
                minutes = Some(number.parse::<u64>().context("--minutes takes a number")?);
            }
            other => bail!("unknown argument {other}: expected --target or --minutes"),
        }
    }

    let fuzzer = Fuzzer::build()?;
    let targets = fuzzer.list_targets()?;
    for name in &chosen {
        ensure!(targets.iter().any(|target| target == name), "there is no target {name}");
    }

    let mut page = Page::read(targets.clone());
    page.forget(&chosen);
    let is_chosen = |name: &String| chosen.is_empty() || chosen.contains(&name.as_str());
    let pending =
        targets.iter().filter(|name| is_chosen(name) && page.cpu_seconds(name) < CPU_SECONDS);
    let pending: VecDeque<String> = pending.cloned().collect();
    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs(minutes * 60));
    let state = Mutex::new(State { pending, page, end, failures: Vec::new() });

    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| fuzzer.work(&state));
        }
    });

    let State { page, failures, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    print!("{}", page.text());
    for failure in &failures {
        eprintln!("{failure}");
    }
    Ok(if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the threads share.
struct State {
    /// Targets whose processor time is not over.
    pending: VecDeque<String>,
    page: Page,
    end: Option<Instant>,
    failures: Vec<String>,
}

/// The program with all targets, and where it keeps what it finds.
struct Fuzzer {
    program: PathBuf,
    folder: PathBuf,
    commit: String,
}

impl Fuzzer {
    fn build() -> anyhow::Result<Self> {
        let rustc = workspace::read_output(Command::new("rustc").arg("-vV"))?;
        let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.context("rustc -vV names no host")?;
        let target = workspace::target_folder()?.join("fuzz");

        // With a platform named, the flags do not apply to build scripts and macros.
        let arguments = ["build", "--locked", "--package", "fuzz", "--bin", "fuzz"];
        let mut build = workspace::cargo_command(&arguments);
        build.args(["--features", "libfuzzer", "--profile", "fuzz", "--target", host]);
        build.arg("--target-dir").arg(&target).env("RUSTFLAGS", COVERAGE_FLAGS);
        workspace::run_command(&mut build)?;

        let program = target.join(host).join("fuzz").join("fuzz");
        Ok(Self { program, folder: target.join("found"), commit: results::commit()? })
    }

    fn list_targets(&self) -> anyhow::Result<Vec<String>> {
        let listed =
            workspace::read_output(Command::new(&self.program).env("FUZZ_TARGET", "list"))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    /// Takes target after target until none is left.
    fn work(&self, state: &Mutex<State>) {
        loop {
            let next = {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                let is_over = state.end.is_some_and(|end| Instant::now() >= end);
                if is_over { None } else { state.pending.pop_front() }
            };
            let Some(target) = next else { return };

            let slice = self.run_slice(&target);
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            let kept = slice.and_then(|slice| {
                let has_failed = slice.failures > 0;
                state.page.add(&target, slice)?;
                Ok(has_failed)
            });
            match kept {
                Ok(false) if state.page.cpu_seconds(&target) < CPU_SECONDS => {
                    state.pending.push_front(target);
                }
                Ok(false) => {}
                Ok(true) => {
                    let folder = self.folder.join(&target);
                    let log = folder.join("log");
                    state.failures.push(format!("{target} has failed: see {}", log.display()));
                }
                Err(error) => state.failures.push(format!("{target}: {error:#}")),
            }
        }
    }

    /// Runs a target for some time, and keeps the inputs that reach new code.
    fn run_slice(&self, target: &str) -> anyhow::Result<Row> {
        let folder = self.folder.join(target);
        let inputs = folder.join("inputs");
        let kept = workspace::root().join(format!("crates/fuzz/corpus/{target}.txt"));
        corpus::unpack(&kept, &inputs)?;

        let log = folder.join("log");
        let mut command = self.command(target, &log)?;
        command.arg(format!("-max_total_time={SLICE_SECONDS}"));
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        command.arg(format!("-artifact_prefix={}/", folder.display()));
        command.args(["-print_final_stats=1", "-use_value_profile=1"]).arg(&inputs);
        let (status, cpu_seconds) = wait_counting(command.spawn().context("the fuzzer")?)?;
        let said = fs::read_to_string(&log).with_context(|| log.display().to_string())?;

        if status.success() {
            self.reduce(target, &inputs, &folder)?;
        }
        let kept_inputs = corpus::pack(&inputs, &kept)?;
        Ok(Row {
            target: target.to_owned(),
            cpu_seconds,
            executions: number_after(&said, "stat::number_of_executed_units:").unwrap_or(0),
            edges: said.lines().filter_map(|line| number_after(line, "cov:")).max().unwrap_or(0),
            kept_inputs,
            peak_mib: number_after(&said, "stat::peak_rss_mb:").unwrap_or(0),
            failures: u64::from(!status.success()),
            commit: self.commit.clone(),
        })
    }

    /// Leaves the inputs that reach, all together, what all of them reach.
    fn reduce(&self, target: &str, inputs: &Path, folder: &Path) -> anyhow::Result<()> {
        let reduced = folder.join("reduced");
        fs::create_dir_all(&reduced)?;
        let mut command = self.command(target, &folder.join("reduce.log"))?;
        command.arg(format!("-max_len={INPUT_BYTES_MAX}"));
        workspace::run_command(command.arg("-merge=1").arg(&reduced).arg(inputs))?;

        fs::remove_dir_all(inputs)?;
        fs::rename(&reduced, inputs)?;
        Ok(())
    }

    fn command(&self, target: &str, log: &Path) -> anyhow::Result<Command> {
        let log = File::create(log).with_context(|| log.display().to_string())?;
        let mut command = Command::new(&self.program);
        command.env("FUZZ_TARGET", target).current_dir(&self.folder);
        command.arg(format!("-timeout={INPUT_SECONDS_MAX}"));
        command.arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"));
        command.stdout(log.try_clone()?).stderr(log);
        Ok(command)
    }
}

/// Waits for a program, and says how many seconds of a processor it took.
fn wait_counting(mut child: Child) -> anyhow::Result<(ExitStatus, u64)> {
    let stat = format!("/proc/{}/stat", child.id());
    let mut ticks = 0;
    loop {
        if let Some(now) = fs::read_to_string(&stat).ok().and_then(|stat| cpu_ticks(&stat)) {
            ticks = now;
        }
        if let Some(status) = child.try_wait()? {
            return Ok((status, ticks / TICKS_PER_SECOND));
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

/// User and system time of a process, from its line in `/proc`: members 14 and 15, of which the
/// second, the name, may have blanks.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut times = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    Some(times.next()?.ok()? + times.next()?.ok()?)
}

/// The number that follows a word, the first time that it is there.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let (_, rest) = text.split_once(word)?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests;
