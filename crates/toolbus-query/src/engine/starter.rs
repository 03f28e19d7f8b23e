//! Starts workers from one thread that lives as long as the engine.
//!
//! A worker asks the kernel to be killed when its parent is gone, and to the kernel its parent is
//! the thread that started it. A runtime's threads come and go.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use tokio::process::{Child, Command};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct Starter {
    requests: SyncSender<StartRequest>,
}

struct StartRequest {
    command: Command,
    /// The runtime that will wait for the worker.
    runtime: Handle,
    reply: oneshot::Sender<io::Result<Child>>,
}

impl Starter {
    /// Starts the thread. It ends when the value is dropped.
    pub(super) fn new(workers: usize) -> io::Result<Self> {
        let (requests, received) = sync_channel(workers);
        std::thread::Builder::new()
            .name("query-starter".to_owned())
            .spawn(move || start_workers(&received))?;
        Ok(Self { requests })
    }

    pub(super) async fn start(&self, command: Command) -> io::Result<Child> {
        let (reply, child) = oneshot::channel();
        let request = StartRequest { command, runtime: Handle::current(), reply };
        // There is room for as many as may run.
        self.requests.try_send(request).map_err(io::Error::other)?;
        child.await.map_err(io::Error::other)?
    }
}

fn start_workers(requests: &Receiver<StartRequest>) {
    while let Ok(StartRequest { mut command, runtime, reply }) = requests.recv() {
        let _entered = runtime.enter();
        // A runtime that is being shut down panics.
        let child = catch_unwind(AssertUnwindSafe(|| command.spawn()))
            .unwrap_or_else(|_| Err(io::Error::other("the runtime is shut down")));
        // Where nobody waits for it any more, this drops the worker, which kills it.
        let _ = reply.send(child);
    }
}
