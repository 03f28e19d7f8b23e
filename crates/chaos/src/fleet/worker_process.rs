//! A worker: `mcp-bridge` with the effects server, which it calls in its own name.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;
use tokio::time::Instant;
use toolbus_testkit::process::{Launch, Service};
use toolbus_wire::clock::SHIFT_VARIABLE;

use super::memory::MemoryWatch;
use super::{ProcessPlace, STOP_TIMEOUT, span_until_now};
use crate::caller::SERVER_NAME;
use crate::effects::WORKER_HEADER;
use crate::judge::{Span, StopEvidence};
use crate::record::now_ms;

/// What the chart gives a bridge.
const MEMORY_LIMIT_MIB: u64 = 512;

/// A worker's place, and the process that has it now. Each process in it has a name of its own.
#[derive(Debug)]
pub struct WorkerProcess {
    /// Where it is.
    pub place: ProcessPlace,
    effects: SocketAddr,
    service: Option<Service>,
    launches: u32,
    killed: Vec<(String, Span)>,
}

impl WorkerProcess {
    pub(super) fn new(place: ProcessPlace, effects: SocketAddr) -> Self {
        Self { place, effects, service: None, launches: 0, killed: Vec::new() }
    }

    /// Starts the next process here, unless one runs.
    pub(super) fn launch(&mut self, memory: &MemoryWatch) -> anyhow::Result<()> {
        if self.is_running() {
            return Ok(());
        }

        self.launches += 1;
        let name = self.process_name();
        let servers = self.place.folder.join("mcp.json");
        let entry = json!({
            "type": "http",
            "url": format!("http://{}/mcp", self.effects),
            "headers": {WORKER_HEADER: name},
        });
        std::fs::write(&servers, json!({"mcpServers": {SERVER_NAME: entry}}).to_string())?;

        let launch = Launch::new("mcp-bridge")
            .env(SHIFT_VARIABLE, self.place.clock_shift_ms.to_string())
            .arg("--bus")
            .arg(&self.place.broker);
        let mut service = launch.arg("--mcp-config").arg(&servers).start()?;
        memory.add(service.process().id(), &name, MEMORY_LIMIT_MIB);
        self.service = Some(service);
        Ok(())
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
