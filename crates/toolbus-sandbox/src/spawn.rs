//! The thread that starts sandboxes.
//!
//! A sandbox dies with the *thread* that started it, for that is whose death the kernel tells
//! bubblewrap of. So the thread lives as long as its runner does, which none of a runtime's threads
//! promises. It has a mount namespace of its own where the service is root (`staging`), and is in
//! the control group of a sandbox for the moment in which it starts it.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::cgroup::GroupHandle;

/// Most starts that wait for the thread, each a few milliseconds. Runs are bounded below it.
const JOBS_MAX: usize = 4096;

/// A process to start.
struct SpawnJob {
    command: Command,
    /// Control groups to start it in.
    groups: Vec<GroupHandle>,
    /// Who waits for its end.
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

/// A handle of the thread, which ends with the last one.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSpawner {
    jobs: SyncSender<SpawnJob>,
}

impl ProcessSpawner {
    /// Starts the thread and runs `prepare` on it first; its error ends the thread and is returned.
    pub(crate) async fn start<E: From<io::Error> + Send + 'static>(
        prepare: impl FnOnce() -> Result<(), E> + Send + 'static,
    ) -> Result<Self, E> {
        let (jobs, received) = sync_channel(JOBS_MAX);
        let (ready, prepared) = oneshot::channel();

        thread::Builder::new().name("sandbox-spawner".to_owned()).spawn(move || {
            let outcome = prepare();
            let is_ready = outcome.is_ok();
            if ready.send(outcome).is_ok() && is_ready {
                serve_jobs(&received);
            }
        })?;
        prepared.await.map_err(|_| io::Error::other("the spawning thread panicked"))??;

        Ok(Self { jobs })
    }

    /// Starts a process in these control groups.
    pub(crate) async fn spawn(
        &self,
        command: Command,
        groups: Vec<GroupHandle>,
    ) -> io::Result<Child> {
        let (reply, answer) = oneshot::channel();
        let gone = || io::Error::other("the spawning thread is gone");
        let job = SpawnJob { command, groups, runtime: Handle::current(), reply };
        self.jobs.try_send(job).map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

fn serve_jobs(jobs: &Receiver<SpawnJob>) {
    while let Ok(mut job) = jobs.recv() {
        let _entered = job.runtime.enter();
        let entered = job.groups.iter().try_for_each(GroupHandle::enter_group);
        let started = entered.and_then(|()| job.command.spawn());

        for group in &job.groups {
            // A thread that stays behind leaves with the next run; until then it is in the way of
            // nothing but the removal of the group, which is tried again.
            let _ = group.leave_group();
        }

        // One that nobody waits for any more is killed when it is dropped.
        let _ = job.reply.send(started);
    }
}
