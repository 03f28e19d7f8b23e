//! Reloading the policy without a restart: all of the new rule book, or nothing of it.
//!
//! The settings are read again on SIGHUP, unless that would say that the terminal is gone, and when
//! the settings file has changed and stayed the same for a moment. Of what was read only the policy
//! is taken; all other settings hold until the next start. Settings with a mistake anywhere change
//! nothing, and are reported once.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::signal::unix::{self, SignalKind};
use tokio::time::sleep;
use toolbus_config::{Environment, Errors, Setting, on_one_line};
use toolbus_policy::LivePolicy;
use toolbus_runtime::arguments::CommonArguments;
use toolbus_runtime::service::{self, Program, Shutdown};

use crate::settings::Settings;

/// How often the file is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long the file has to stay the same before what it says counts.
const SETTLE_INTERVAL: Duration = Duration::from_millis(250);
/// How much of the file is compared. It is read as settings only up to this size.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Where the settings of this process come from.
pub(crate) struct SettingsSource {
    pub(crate) program: Program,
    pub(crate) common: CommonArguments,
    pub(crate) own: Vec<Setting>,
}

impl SettingsSource {
    /// The settings as they are now.
    fn read(&self) -> Result<Settings, Errors> {
        let environment = Environment::of_process();
        let loaded = service::configure::<Settings>(
            &self.program,
            &self.common,
            self.own.clone(),
            &environment,
        );
        loaded.map(|loaded| loaded.settings)
    }

    /// The settings file, which may not exist.
    pub(crate) fn file(&self) -> Option<PathBuf> {
        self.common.file(&Environment::of_process()).path().map(Path::to_owned)
    }
}

/// Replaces the policy whenever the settings say so, until the process stops.
///
/// # Errors
/// When the signal cannot be listened for.
pub(crate) fn follow(
    policy: LivePolicy,
    source: SettingsSource,
    shutdown: &Shutdown,
) -> io::Result<()> {
    // At a terminal the signal says that it was closed, and the process ends with it.
    let is_service = !io::stdin().is_terminal();
    let hangup = is_service.then(|| unix::signal(SignalKind::hangup())).transpose()?;
    let stop = shutdown.requested().clone();
    // As it is now, not as it is when the task is first run.
    let watch = FileWatch::of(source.file());
    shutdown.tasks().spawn(async move {
        stop.run_until_cancelled(follow_settings(policy, source, watch, hangup)).await;
    });
    Ok(())
}

async fn follow_settings(
    policy: LivePolicy,
    mut source: SettingsSource,
    mut watch: FileWatch,
    mut hangup: Option<unix::Signal>,
) {
    loop {
        // Both arms only wait: a signal that comes meanwhile is kept.
        let is_asked = tokio::select! {
            () = wait_for_signal(hangup.as_mut()) => true,
            () = sleep(POLL_INTERVAL) => false,
        };
        if !watch.has_changed().await && !is_asked {
            continue;
        }

        let policy = policy.clone();
        let reloaded = tokio::task::spawn_blocking(move || {
            reload(&policy, &source);
            source
        });
        // An error is the end of the runtime.
        let Ok(same) = reloaded.await else { return };
        source = same;
    }
}

/// Waits for the signal, where it is listened for.
async fn wait_for_signal(hangup: Option<&mut unix::Signal>) {
    let received = match hangup {
        Some(hangup) => hangup.recv().await,
        None => None,
    };
    if received.is_none() {
        std::future::pending::<()>().await;
    }
}

/// Reads the settings, and replaces the policy where they have another one. Blocks.
fn reload(policy: &LivePolicy, source: &SettingsSource) {
    let outcome = match source.read() {
        Ok(settings) => policy.replace(&settings.policy).map_err(|error| on_one_line(&error)),
        Err(errors) => Err(on_one_line(&errors)),
    };

    let book = policy.book();
    let revision = book.revision();
    match outcome {
        Ok(true) => {}
        Ok(false) => tracing::info!(%revision, "read the settings: the policy is the same"),
        Err(error) => {
            tracing::error!(%revision, error, "the settings have mistakes: the policy is kept");
        }
    }
}

/// A file, and what was in it last.
struct FileWatch {
    path: Option<PathBuf>,
    seen: Option<Vec<u8>>,
}

impl FileWatch {
    fn of(path: Option<PathBuf>) -> Self {
        let seen = path.as_ref().and_then(read_bytes);
        Self { path, seen }
    }

    /// Whether the file says something else than last time, and stays like that.
    async fn has_changed(&mut self) -> bool {
        let Some(now) = self.read().await else { return false };
        if now == self.seen {
            return false;
        }

        sleep(SETTLE_INTERVAL).await;
        if self.read().await.as_ref() != Some(&now) {
            // Whoever writes it is not done yet; it is looked at again soon.
            return false;
        }
        self.seen = now;
        true
    }

    /// What is in the file: nothing where there is none. `None` at the end of the runtime.
    async fn read(&self) -> Option<Option<Vec<u8>>> {
        let path = self.path.clone();
        let read = tokio::task::spawn_blocking(move || path.as_ref().and_then(read_bytes));
        read.await.ok()
    }
}

fn read_bytes(path: &PathBuf) -> Option<Vec<u8>> {
    let file = File::open(path).ok()?;
    // A pipe, for example, cannot be read twice.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}
