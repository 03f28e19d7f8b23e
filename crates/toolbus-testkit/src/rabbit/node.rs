//! A private RabbitMQ node: a broker of its own ports, data, log, cookie and name, which can be
//! stopped, crashed, paused and made to block publishers.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use tokio::time::Instant;

use super::home::Home;
use super::management::{Broker, Management};
use super::vhost::Vhost;
use crate::process::Process;

/// Where Debian and Ubuntu have the scripts themselves; those on `PATH` there insist on the user
/// `rabbitmq`.
const DEBIAN_SCRIPTS: &str = "/usr/lib/rabbitmq/bin";

/// A start takes about four seconds on an idle core; a machine that compiles may need many more.
const START_TIMEOUT: Duration = Duration::from_secs(90);
/// An orderly stop takes about six seconds, most of it after everything has been closed.
const STOP_TIMEOUT: Duration = Duration::from_secs(60);
/// One command of rabbitmqctl takes less than a second.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// A port may be taken between the choice and its use.
const ATTEMPTS: usize = 3;
/// The name of the file with a node's settings.
const SETTINGS_FILE: &str = "rabbitmq.conf";

/// Bytes of memory that make the alarm go off: plenty for tests, little enough for the machine.
const MEMORY_LIMIT: &str = "1GB";

/// A private broker, or a node of one. Killed, with all its data, when this is dropped.
#[derive(Debug)]
pub struct Node {
    // In the order in which they must go: a broker without its folder complains.
    server: Option<Process>,
    ports: Ports,
    broker: Broker,
    folder: PathBuf,
    home: Arc<Home>,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    amqp: u16,
    api: u16,
    metrics: u16,
    distribution: u16,
}

impl Node {
    /// Whether RabbitMQ is on this machine.
    pub fn is_installed() -> bool {
        find_script("rabbitmq-server").is_some()
    }

    /// Starts a node and waits until it takes AMQP connections.
    ///
    /// # Errors
    /// When RabbitMQ is not installed, or ends or is not ready in time; the error has its output.
    pub async fn start() -> anyhow::Result<Self> {
        retry_taken_ports(Self::try_start).await
    }

    async fn try_start() -> anyhow::Result<Self> {
        let home = Arc::new(Home::create()?);
        let folder = home.folder().to_owned();
        let mut node = Self::prepare(home, folder)?;
        node.start_server().await?;
        Ok(node)
    }

    /// A node that does not run yet.
    pub(super) fn prepare(home: Arc<Home>, folder: PathBuf) -> anyhow::Result<Self> {
        let [amqp, api, metrics, distribution] = crate::ports::free()?;
        let ports = Ports { amqp, api, metrics, distribution };
        write_settings(&folder, ports)?;
        let broker = Broker::on_loopback(amqp, api)?;
        Ok(Self { server: None, ports, broker, folder, home })
    }

    /// Adds to the settings of a node that does not run yet.
    pub(super) fn add_settings(&self, settings: &str) -> anyhow::Result<()> {
        let file = self.folder.join(SETTINGS_FILE);
        let all = fs::read_to_string(&file)? + settings;
        Ok(fs::write(file, all)?)
    }

    /// What Erlang calls it.
    pub fn name(&self) -> String {
        format!("toolbus-{}@localhost", self.ports.amqp)
    }

    /// The broker's addresses.
    pub fn broker(&self) -> &Broker {
        &self.broker
    }

    /// Where its own metrics are, `HOST:PORT` for Prometheus to scrape.
    pub fn metrics_address(&self) -> String {
        format!("127.0.0.1:{}", self.ports.metrics)
    }

    /// A new virtual host on this node.
    ///
    /// # Errors
    /// When the node does not answer.
    pub async fn vhost(&self) -> anyhow::Result<Vhost> {
        self.broker.vhost().await
    }

    /// A new virtual host whose queues are quorum queues unless they say otherwise.
    ///
    /// # Errors
    /// When the node does not answer.
    pub async fn quorum_vhost(&self) -> anyhow::Result<Vhost> {
        self.broker.quorum_vhost().await
    }

    /// Ends the broker as a crash would (SIGKILL). What it had confirmed is still there after
    /// [`Node::start_again`], and so are the queues that were declared before this call: the broker
    /// answers a declaration up to two seconds before it is on disk, and that of a quorum queue,
    /// whose messages are lost with it, even longer. So that is waited for.
    ///
    /// # Errors
    /// When the broker does not answer before its end.
    pub async fn crash(&mut self) -> anyhow::Result<()> {
        let write = "mnesia:sync_log(), [dets:sync(Table) || Table <- dets:all()], ok.";
        let written = self.ctl(&["eval", write]).await.map(drop);
        self.server = None;
        written
    }

    /// Stops the broker in order: clients are told, queues are flushed.
    ///
    /// # Errors
    /// When it is not running or does not stop within a minute; then it is killed.
    pub async fn stop(&mut self) -> anyhow::Result<()> {
        let mut server = self.server.take().context("the broker is not running")?;
        server.terminate(STOP_TIMEOUT).await.map(drop)
    }

    /// Starts the broker after [`Node::crash`] or [`Node::stop`]: the same data, the same ports.
    ///
    /// # Errors
    /// When it is running, ends or is not ready in time.
    pub async fn start_again(&mut self) -> anyhow::Result<()> {
        ensure!(self.server.is_none(), "the broker is running");
        let mut attempt = 1;
        loop {
            match self.start_server().await {
                // Another test looks whether a port is free by holding it for a moment.
                Err(error) if attempt < ATTEMPTS && is_taken_port(&error) => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// Stops the broker in order and starts it again.
    ///
    /// # Errors
    /// As [`Node::stop`] and [`Node::start_again`].
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        self.stop().await?;
        self.start_again().await
    }

    /// Freezes the broker: connections stay open, nothing answers.
    ///
    /// # Errors
    /// When it is not running.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.running()?.pause()
    }

    /// Lets a frozen broker go on.
    ///
    /// # Errors
    /// When it is not running.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.running()?.resume()
    }

    /// Sets off the memory alarm: a connection that publishes is told `connection.blocked` and no
    /// longer read from.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn block_publishers(&self) -> anyhow::Result<()> {
        self.ctl(&["set_vm_memory_high_watermark", "0"]).await.map(drop)
    }

    /// Ends what [`Node::block_publishers`] began.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub async fn unblock_publishers(&self) -> anyhow::Result<()> {
        self.ctl(&["set_vm_memory_high_watermark", "absolute", MEMORY_LIMIT]).await.map(drop)
    }

    /// Runs `rabbitmqctl` on this node and returns what it printed.
    ///
    /// # Errors
    /// When it fails, or takes longer than a minute.
    pub async fn ctl(&self, args: &[&str]) -> anyhow::Result<String> {
        let mut command = self.command("rabbitmqctl")?;
        command.args(args).stdin(Stdio::null());
        let mut command = tokio::process::Command::from(command);
        let output = tokio::time::timeout(COMMAND_TIMEOUT, command.kill_on_drop(true).output())
            .await
            .with_context(|| format!("rabbitmqctl {args:?}: no end after {COMMAND_TIMEOUT:?}"))?
            .with_context(|| format!("rabbitmqctl {args:?}"))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "rabbitmqctl {args:?}: {stdout}{stderr}");
        Ok(stdout)
    }

    fn running(&mut self) -> anyhow::Result<&mut Process> {
        self.server.as_mut().context("the broker is not running")
    }

    pub(super) async fn start_server(&mut self) -> anyhow::Result<()> {
        let mut command = self.command("rabbitmq-server")?;
        // Makes the script become the Erlang machine instead of waiting for it, so that signals
        // reach the broker itself.
        command.env("detached", "1").stdin(Stdio::null());
        let mut server = Process::spawn("rabbitmq", &mut command, &self.folder)?;
        let management = Management::new(self.broker.clone())?;
        let check = format!("{}", self.ports.amqp);
        let end = Instant::now() + START_TIMEOUT;

        loop {
            if let Some(status) = server.exit_status() {
                bail!("rabbitmq-server ended: {status}\n{}", server.logs());
            }
            let answer = management.get(&["health", "checks", "port-listener", &check]).await;
            if answer.is_ok_and(|answer| answer["status"] == "ok") {
                self.server = Some(server);
                return Ok(());
            }
            ensure!(Instant::now() < end, "not ready in {START_TIMEOUT:?}\n{}", server.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// One of RabbitMQ's scripts with an environment in which it knows only this node.
    fn command(&self, name: &str) -> anyhow::Result<Command> {
        let script = find_script(name).with_context(|| format!("{name} is not installed"))?;
        let folder = &self.folder;
        let mut command = Command::new(script);
        let on_loopback = "-kernel inet_dist_use_interface {127,0,0,1}";
        self.home
            .set_environment(&mut command)
            .env("RABBITMQ_CONF_ENV_FILE", "/dev/null")
            .env("RABBITMQ_NODENAME", self.name())
            .env("RABBITMQ_DIST_PORT", self.ports.distribution.to_string())
            .env("RABBITMQ_CONFIG_FILE", folder.join(SETTINGS_FILE))
            .env("RABBITMQ_ADVANCED_CONFIG_FILE", folder.join("advanced.config"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
            .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", format!("{on_loopback} -noinput"))
            .env("RABBITMQ_CTL_ERL_ARGS", on_loopback);

        Ok(command)
    }
}

/// Starts a broker, and again with other ports where one was taken.
pub(super) async fn retry_taken_ports<T>(
    start: impl AsyncFn() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut attempt = 1;
    loop {
        match start().await {
            Err(error) if attempt < ATTEMPTS && is_taken_port(&error) => attempt += 1,
            outcome => return outcome,
        }
    }
}

fn is_taken_port(error: &anyhow::Error) -> bool {
    format!("{error:?}").contains("eaddrinuse")
}

fn write_settings(folder: &Path, ports: Ports) -> anyhow::Result<()> {
    let Ports { amqp, api, metrics, .. } = ports;
    // Statistics are gathered more often than the usual five seconds, and no answer is repeated for
    // five times as long as it took to gather, so that tests need not wait.
    let settings = format!(
        "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
         management.tcp.ip = 127.0.0.1\n\
         management.tcp.port = {api}\n\
         prometheus.tcp.ip = 127.0.0.1\n\
         prometheus.tcp.port = {metrics}\n\
         collect_statistics_interval = 500\n\
         management.db_cache_multiplier = 0\n\
         vm_memory_high_watermark.absolute = {MEMORY_LIMIT}\n\
         disk_free_limit.absolute = 50MB\n"
    );
    fs::write(folder.join(SETTINGS_FILE), settings)?;
    // Quorum queues report by a clock of their own, which has no name in the other file.
    fs::write(folder.join("advanced.config"), "[{rabbit, [{quorum_tick_interval, 500}]}].\n")?;
    fs::write(folder.join("enabled_plugins"), "[rabbitmq_management,rabbitmq_prometheus].\n")?;

    Ok(())
}

fn find_script(name: &str) -> Option<PathBuf> {
    let debian = Path::new(DEBIAN_SCRIPTS).join(name);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(OsStr::new(&path)).map(|folder| folder.join(name));
    std::iter::once(debian).chain(on_path).find(|candidate| candidate.is_file())
}
