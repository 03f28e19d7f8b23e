//! A worker: `mcp-bridge` with the effects server, which it calls in its own name, or
//! `scripts-manager` with the local sandbox, whose interpreter has its name.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::time::Instant;
use toolbus_testkit::process::{Launch, Service};
use toolbus_testkit::script_python::ScriptPython;
use toolbus_wire::clock::SHIFT_VARIABLE;

use super::memory::MemoryWatch;
use super::{ProcessPlace, STOP_TIMEOUT, span_until_now};
use crate::caller::SERVER_NAME;
use crate::effects::WORKER_HEADER;
use crate::judge::{Span, StopEvidence};
use crate::record::now_ms;

/// What the chart gives a bridge and a manager.
const BRIDGE_MEMORY_LIMIT_MIB: u64 = 512;
const MANAGER_MEMORY_LIMIT_MIB: u64 = 256;
/// Scripts that one manager runs at a time, and that wait there, of one caller as of all.
const SCRIPTS_MAX: &str = "4";
const SCRIPTS_WAITING_MAX: &str = "16";

/// What a worker is, and what it needs to have effects.
#[derive(Debug, Clone)]
pub(super) enum WorkerKind {
    /// `mcp-bridge`, with the address of the effects server.
    Bridge(SocketAddr),
    /// `scripts-manager`, with the interpreter of its scripts.
    Manager(Arc<ScriptPython>),
}

/// A worker's place, and the process that has it now. Each process in it has a name of its own.
#[derive(Debug)]
pub struct WorkerProcess {
    /// Where it is.
    pub place: ProcessPlace,
    kind: WorkerKind,
    grace: Option<Duration>,
    service: Option<Service>,
    launches: u32,
    killed: Vec<(String, Span)>,
}

impl WorkerProcess {
    /// `grace` is how long it has to end its calls when it is asked to stop, where that is not
    /// the default.
    pub(super) fn new(place: ProcessPlace, kind: WorkerKind, grace: Option<Duration>) -> Self {
        Self { place, kind, grace, service: None, launches: 0, killed: Vec::new() }
    }

    /// Starts the next process here, unless one runs.
    pub(super) fn launch(&mut self, memory: &MemoryWatch) -> anyhow::Result<()> {
        if self.is_running() {
            return Ok(());
        }

        self.launches += 1;
        let name = self.process_name();
        let (launch, memory_limit_mib) = match &self.kind {
            WorkerKind::Bridge(effects) => {
                (self.prepare_bridge(*effects, &name)?, BRIDGE_MEMORY_LIMIT_MIB)
            }
            WorkerKind::Manager(python) => {
                (prepare_manager(&python.interpreter(&name)?), MANAGER_MEMORY_LIMIT_MIB)
            }
        };

        let mut launch = launch
            .env(SHIFT_VARIABLE, self.place.clock_shift_ms.to_string())
            .args(["--bus", &self.place.broker]);
        if let Some(grace) = self.grace {
            launch = launch.env("TOOLBUS_SHUTDOWN__GRACE", format!("{}ms", grace.as_millis()));
        }

        let mut service = launch.start()?;
        memory.add(service.process().id(), &name, memory_limit_mib);
        self.service = Some(service);
        Ok(())
    }

    fn prepare_bridge(&self, effects: SocketAddr, name: &str) -> anyhow::Result<Launch> {
        let servers = self.place.folder.join("mcp.json");
        let entry = json!({
            "type": "http",
            "url": format!("http://{effects}/mcp"),
            "headers": {WORKER_HEADER: name},
        });
        std::fs::write(&servers, json!({"mcpServers": {SERVER_NAME: entry}}).to_string())?;
        Ok(Launch::new("mcp-bridge").arg("--mcp-config").arg(&servers))
    }

    pub(super) async fn wait_ready(&mut self, limit: Duration) -> anyhow::Result<()> {
        let service = self.service.as_mut().context("the worker was not started")?;
        service.ready(limit).await.map(drop)
    }

    /// Whether a process is here.
    pub fn is_running(&mut self) -> bool {
        self.service.as_mut().is_some_and(|service| service.process().exit_status().is_none())
    }

    /// Kills it.
    pub fn kill(&mut self) {
        if let Some(mut service) = self.service.take() {
            let from_ms = now_ms();
            service.process().kill();
            self.killed.push((self.process_name(), span_until_now(from_ms)));
        }
    }

    /// Stops it in its tracks for so long.
    ///
    /// # Errors
    /// When it has ended.
    pub async fn pause(&mut self, time: Duration) -> anyhow::Result<()> {
        let service = self.service.as_mut().context("the worker does not run")?;
        service.process().pause()?;
        tokio::time::sleep(time).await;
        service.process().resume()
    }

    /// Asks it to stop, and kills it when that takes longer than the limit.
    pub(super) async fn stop(&mut self, limit: Duration) -> Option<StopEvidence> {
        let mut service = self.service.take()?;
        let start = Instant::now();
        let from_ms = now_ms();
        let stopped = service.process().terminate(limit).await;
        let took = start.elapsed();

        let process = self.process_name();
        if stopped.is_err() {
            self.killed.push((process.clone(), span_until_now(from_ms)));
        }
        Some(StopEvidence { process, took, limit: STOP_TIMEOUT })
    }

    /// The processes that were killed here, and when.
    pub(super) fn killed(&self) -> Vec<(String, Span)> {
        self.killed.clone()
    }

    fn process_name(&self) -> String {
        format!("{}.{}", self.place.name, self.launches)
    }
}

fn prepare_manager(python: &Path) -> Launch {
    Launch::new("scripts-manager")
        .env("TOOLBUS_SCRIPTS__PYTHON", python)
        .env("TOOLBUS_SCRIPTS__MAX_CONCURRENT", SCRIPTS_MAX)
        .env("TOOLBUS_AGENTS__MAX_CONCURRENT", SCRIPTS_MAX)
        .env("TOOLBUS_AGENTS__MAX_WAITING", SCRIPTS_WAITING_MAX)
}
