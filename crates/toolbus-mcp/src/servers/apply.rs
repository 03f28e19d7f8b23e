//! What is wanted becomes what there is: a difference, so that a server that is to stay as it is
//! keeps its connection and the calls on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Set, Shared};
use crate::config::Entry;
use crate::server::{Origin, Server};

/// Which servers there should be.
#[derive(Debug, Default, Clone)]
pub(crate) struct Wanted {
    /// Those of the operator.
    pub(crate) operators: Vec<Entry>,
    /// Names that the operator has entries for which make no sense: those servers stay as they are.
    pub(crate) unclear: Vec<String>,
    /// Those that agents have registered and that are written down. The operator's come first.
    pub(crate) registered: Vec<Entry>,
}

impl Set {
    /// Adds, replaces and removes servers, so that there are those that are wanted, and those that
    /// agents have registered only now or for the time being. Calls on a server that is replaced or
    /// removed may end as if it were not. Needs a tokio runtime to be running.
    pub(crate) fn apply(&self, wanted: &Wanted) {
        let shared = &self.0.shared;
        let mut servers = self.0.servers.write();
        if shared.stop.is_cancelled() {
            return;
        }
        let mut change =
            Change { shared, before: std::mem::take(&mut *servers), now: Vec::new(), told: false };
        for entry in &wanted.operators {
            change.put(entry, Origin::Operator);
        }
        for entry in &wanted.registered {
            if !change.now.iter().any(|server| server.entry.name.looks_like(&entry.name)) {
                change.put(entry, Origin::Agent);
            }
        }
        let told = change.finish(&wanted.unclear, &mut servers);
        drop(servers);
        if told {
            shared.announce();
        }
    }
}

struct Change<'a> {
    shared: &'a Arc<Shared>,
    before: Vec<Arc<Server>>,
    now: Vec<Arc<Server>>,
    told: bool,
}

impl Change<'_> {
    /// Puts a server where it belongs: the one there is, if it is the same.
    fn put(&mut self, entry: &Entry, origin: Origin) {
        let known = self.before.iter().position(|server| server.entry.name == entry.name);
        let known = known.map(|index| self.before.remove(index));
        match known {
            Some(server) if server.origin == origin && server.entry == *entry => {
                server.is_kept.store(true, Ordering::Relaxed);
                self.now.push(server);
            }
            // An agent is just replacing what is written down; it writes that down next.
            Some(server) if origin == Origin::Agent && !server.is_kept.load(Ordering::Relaxed) => {
                self.now.push(server);
            }
            known => {
                let what = if known.is_some() { "changed" } else { "new" };
                tracing::info!(server = %entry.name, what, "a server of the configuration");
                known.into_iter().for_each(|server| self.retire(server));
                let server = Server::new(entry.clone(), origin, Arc::clone(self.shared));
                server.is_kept.store(true, Ordering::Relaxed);
                self.shared.means.tracker.spawn(Arc::clone(&server).keep());
                self.now.push(server);
                self.told = true;
            }
        }
    }

    /// Removes what nobody wants any more, and tells whether anything has changed.
    fn finish(mut self, unclear: &[String], servers: &mut Vec<Arc<Server>>) -> bool {
        for server in std::mem::take(&mut self.before) {
            let name = &server.entry.name;
            let stays = match server.origin {
                Origin::Operator => unclear.iter().any(|unclear| name.matches(unclear)),
                // Not written down, so it cannot have been taken out either.
                Origin::Agent => !server.is_kept.load(Ordering::Relaxed),
            };
            if stays {
                self.now.push(server);
            } else {
                tracing::info!(server = %name, "a server is no longer configured");
                self.shared.claims.release(server.position);
                self.retire(server);
            }
        }
        *servers = self.now;
        self.told
    }

    fn retire(&mut self, server: Arc<Server>) {
        self.told = true;
        let grace = server.longest_call();
        self.shared.means.tracker.spawn(async move { server.close(grace).await });
    }
}
