//! A caller: this program again, as an agent that makes calls.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use toolbus_testkit::process::{Launch, Process};
use toolbus_wire::clock::SHIFT_VARIABLE;

use super::memory::MemoryWatch;
use super::{FleetConfig, ProcessPlace, span_until_now};
use crate::judge::{CallerEvidence, Span};
use crate::ledger;
use crate::record::{CallRecord, now_ms};

/// What the chart gives an agent.
const MEMORY_LIMIT_MIB: u64 = 256;

/// A caller's place, and the processes that have had it. Each has a ledger of its own.
#[derive(Debug)]
pub struct CallerProcess {
    /// Where it is.
    pub place: ProcessPlace,
    seed: u64,
    quota: u64,
    in_flight: u64,
    pause: Duration,
    script_percent: u64,
    end_file: PathBuf,
    process: Option<Process>,
    launches: Vec<CallerLaunch>,
}

#[derive(Debug)]
struct CallerLaunch {
    name: String,
    ledger: PathBuf,
    was_killed: bool,
    pauses: Vec<Span>,
}

impl CallerProcess {
    pub(super) fn new(place: ProcessPlace, config: &FleetConfig, quota: u64) -> Self {
        let FleetConfig { seed, in_flight, pause, .. } = *config;
        let script_percent = config.script_percent();
        let end_file = config.end_file();
        Self {
            place,
            seed,
            quota,
            in_flight,
            pause,
            script_percent,
            end_file,
            process: None,
            launches: Vec::new(),
        }
    }

    /// Starts a process for the calls that are left; where none are, there is none.
    pub(super) fn launch(&mut self, memory: &MemoryWatch) -> anyhow::Result<()> {
        let left = self.quota.saturating_sub(self.count_intents()?);
        if left == 0 {
            return Ok(());
        }

        let name = format!("{}.{}", self.place.name, self.launches.len() + 1);
        let ledger = self.place.folder.join(format!("{name}.jsonl"));
        let logs = self.place.folder.join(&name);
        std::fs::create_dir_all(&logs)?;
        let process = Launch::new("chaos")
            .env(SHIFT_VARIABLE, self.place.clock_shift_ms.to_string())
            .args(["caller", "--broker", &self.place.broker, "--name", &name])
            .args(["--seed", &self.seed.to_string(), "--calls", &left.to_string()])
            .args(["--in-flight", &self.in_flight.to_string()])
            .args(["--script-percent", &self.script_percent.to_string()])
            .args(["--pause-ms", &self.pause.as_millis().to_string(), "--ledger"])
            .arg(&ledger)
            .arg("--end-file")
            .arg(&self.end_file)
            .spawn(&logs)?;

        memory.add(process.id(), &name, MEMORY_LIMIT_MIB);
        self.process = Some(process);
        self.launches.push(CallerLaunch { name, ledger, was_killed: false, pauses: Vec::new() });
        Ok(())
    }

    /// Whether it still makes calls.
    ///
    /// # Errors
    /// When it ended otherwise than it should.
    pub fn is_calling(&mut self) -> anyhow::Result<bool> {
        let Some(process) = &mut self.process else { return Ok(false) };
        let Some(status) = process.exit_status() else { return Ok(true) };
        let name = &self.place.name;
        ensure!(status.success(), "{name} failed: {status}: {}", process.stderr());
        Ok(false)
    }

    /// How many calls have been made here.
    ///
    /// # Errors
    /// When a ledger cannot be read.
    pub fn count_intents(&self) -> anyhow::Result<u64> {
        let mut count = 0;
        for launch in &self.launches {
            let records: Vec<CallRecord> = ledger::read(&launch.ledger)?;
            count += records.iter().filter(|one| matches!(one, CallRecord::Intent(_))).count();
        }
        Ok(count as u64)
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill();
            if let Some(launch) = self.launches.last_mut() {
                launch.was_killed = true;
            }
        }
    }

    /// Stops it in its tracks for so long.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn pause(&mut self, time: Duration) -> anyhow::Result<()> {
        let process = self.process.as_mut().context("the caller does not run")?;
        let from_ms = now_ms();
        process.pause()?;
        tokio::time::sleep(time).await;
        process.resume()?;

        if let Some(launch) = self.launches.last_mut() {
            launch.pauses.push(span_until_now(from_ms));
        }
        Ok(())
    }

    pub(super) fn read_evidence(&self) -> anyhow::Result<Vec<CallerEvidence>> {
        let read = |launch: &CallerLaunch| {
            Ok(CallerEvidence {
                name: launch.name.clone(),
                records: ledger::read(&launch.ledger)?,
                was_killed: launch.was_killed,
                pauses: launch.pauses.clone(),
            })
        };
        self.launches.iter().map(read).collect()
    }
}
