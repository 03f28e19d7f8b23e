//! Reloading: files that list servers are followed, and what changes in them changes the servers.
//!
//! A change is noticed by watching the folders and, because not every change can be watched, by
//! looking every few seconds. What counts is the content alone: a file that was only touched, or
//! that says the same in a new copy, changes nothing. A file that makes no sense changes nothing
//! either, and is reported once; of one entry that makes no sense the same holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::config::Config;
use crate::registration_rules::RegistrationRules;
use crate::registrations::Registrations;
use crate::server_pool::{DesiredServers, ServerPool, WeakServerPool};

mod list_file;
mod watch;

use list_file::{ListContent, ListFile, read_list};
use watch::FolderWatch;

/// How often files are looked at without a reason.
const POLL_INTERVAL: Duration = Duration::from_secs(5);
/// How long a file has to stay the same before what it says counts.
const SETTLE_INTERVAL: Duration = Duration::from_millis(250);
/// How often in a row it is waited for that. A file that changes all the time is taken later.
const SETTLE_TRIES: u32 = 20;

/// What servers are made of: the operator's file and that of agents.
pub(crate) struct Sources {
    operator: ListFile,
    agents: ListFile,
    registrations: Arc<Registrations>,
    rules: RegistrationRules,
}

impl Sources {
    /// Those of a set whose servers of the operator are `config`, read from `path`; `text` is what
    /// was read, if the file was there.
    pub(crate) fn new(
        path: PathBuf,
        text: Option<String>,
        config: Config,
        registrations: Arc<Registrations>,
        rules: RegistrationRules,
    ) -> Self {
        let seen = text.map_or(ListContent::Missing, ListContent::Text);
        let agents = ListFile::of_agents(registrations.path().to_owned());
        let operator = ListFile::operators(path, seen, config);
        Self { operator, agents, registrations, rules }
    }

    /// Starts what agents have registered, and follows the files from now on until the set is
    /// closed. Blocks for a moment. Needs a tokio runtime to be running.
    pub(crate) fn follow_files(self, set: &ServerPool) {
        self.follow_and_poll(POLL_INTERVAL, set);
    }

    fn follow_and_poll(mut self, pause: Duration, set: &ServerPool) {
        self.update_registered();
        set.apply(&self.wanted_servers());
        let (tracker, stop) = set.tasks();

        // A pipe, for example, cannot be read twice.
        let is_file = |path: &Path| std::fs::metadata(path).map_or(true, |found| found.is_file());
        if !is_file(self.operator.path()) {
            tracing::info!(
                "the list of MCP servers is not a regular file; changes of it are not followed"
            );
            return;
        }

        // From here on, not from when the task is first run.
        let watch = FolderWatch::for_files(self.paths().iter().map(PathBuf::as_path));
        let set = set.to_weak();
        tracker.spawn(async move {
            stop.run_until_cancelled(follow_files(self, watch, pause, set)).await;
        });
    }

    fn paths(&self) -> [PathBuf; 2] {
        [self.operator.path().to_owned(), self.agents.path().to_owned()]
    }

    fn differs_from(&self, seen: &[ListContent; 2]) -> bool {
        self.operator.differs_from(&seen[0]) || self.agents.differs_from(&seen[1])
    }

    /// Looks at the files once more and makes the servers what they say. Blocks.
    fn reload_lists(&mut self, set: &ServerPool) {
        self.operator.update_from(read_list(self.operator.path()));
        let registrations = Arc::clone(&self.registrations);
        // A registration that is being written down is in the file after this turn or before it.
        let _turn = registrations.take_turn();
        self.update_registered();
        set.apply(&self.wanted_servers());
    }

    fn update_registered(&mut self) {
        let seen = read_list(self.agents.path());
        if self.agents.differs_from(&seen) {
            self.agents.update_from(seen);
            // What was allowed when it was registered need not be any more.
            for entry in &self.agents.config.servers {
                if let Err(reason) = self.rules.check(entry) {
                    tracing::warn!(server = %entry.name, %reason, "registered server not started");
                }
            }
        }
    }

    fn wanted_servers(&self) -> DesiredServers {
        let unclear = self.operator.config.mistakes.iter();
        let registered = self.agents.config.servers.iter();
        DesiredServers {
            operators: self.operator.config.servers.clone(),
            unclear: unclear.filter_map(|mistake| mistake.server.clone()).collect(),
            registered: registered
                .filter(|entry| self.rules.check(entry).is_ok())
                .cloned()
                .collect(),
        }
    }
}

async fn follow_files(
    mut sources: Sources,
    watch: FolderWatch,
    poll_interval: Duration,
    set: WeakServerPool,
) {
    let paths = sources.paths();
    loop {
        // Nothing is lost of what is not waited for any more: the files are looked at next.
        tokio::select! {
            // Not every time, in a folder where much happens.
            () = watch.wait_changed() => sleep(SETTLE_INTERVAL).await,
            () = sleep_until(Instant::now() + poll_interval) => watch.watch_again(),
        }

        let Some(seen) = read_lists(&paths).await else { return };
        if sources.differs_from(&seen) && !wait_until_settled(&watch, &paths, seen).await {
            continue;
        }

        // Also when they say what they said: what there is may be something else by now.
        let Some(set) = set.upgrade() else { return };
        let reloaded = tokio::task::spawn_blocking(move || {
            sources.reload_lists(&set);
            sources
        });

        // An error is the end of the runtime.
        let Ok(reloaded) = reloaded.await else { return };
        sources = reloaded;
    }
}

/// Waits until the files stay as they are: who writes one may not be done yet.
async fn wait_until_settled(
    watch: &FolderWatch,
    paths: &[PathBuf; 2],
    mut seen: [ListContent; 2],
) -> bool {
    for _ in 0..SETTLE_TRIES {
        sleep(SETTLE_INTERVAL).await;
        let Some(now) = read_lists(paths).await else { return false };
        if now == seen {
            return true;
        }
        seen = now;
    }

    tracing::info!("a list of MCP servers keeps changing; reading it later");
    watch.watch_again();
    false
}

async fn read_lists(paths: &[PathBuf; 2]) -> Option<[ListContent; 2]> {
    let paths = paths.clone();
    tokio::task::spawn_blocking(move || [read_list(&paths[0]), read_list(&paths[1])]).await.ok()
}

#[cfg(test)]
mod tests;
