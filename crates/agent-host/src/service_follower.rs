//! Keeps what is known of services as the directories of MCP servers and of agents have it.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_a2a::Directory;
use toolbus_mcp_agent::McpDirectory;
use toolbus_search::{Ability, KnownServices, Service, ServiceKind};
use toolbus_store::until_changed;
use toolbus_wire::message::mcp::McpServerSummary;

/// Follows the directories until it is closed.
pub(crate) struct ServiceFollower {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl ServiceFollower {
    /// Follows them for these services.
    pub(crate) fn start(
        directory: &McpDirectory,
        agents: Option<Directory>,
        services: KnownServices,
    ) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (directory, stopped) = (directory.clone(), stop.clone());
        tasks.spawn(async move {
            let mut changes = agents.as_ref().map(Directory::changes);
            loop {
                let known = directory.servers();
                let mut found: Vec<_> = known.iter().map(service_of).collect();
                found.extend(agents.as_ref().map(Directory::services).unwrap_or_default());
                services.replace(found);

                let servers_changed = directory.until(|servers| *servers != *known);
                let agents_changed = until_changed(changes.as_mut());
                // Both only wait.
                let changed = async {
                    tokio::select! {
                        _ = servers_changed => {}
                        () = agents_changed => {}
                    }
                };
                if stopped.run_until_cancelled(changed).await.is_none() {
                    return;
                }
            }
        });
        tasks.close();
        Self { stop, tasks }
    }

    /// Follows no longer.
    pub(crate) async fn close(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

fn service_of(server: &McpServerSummary) -> Service {
    let ability = |name: &String| Ability { id: name.clone(), ..Ability::default() };
    Service {
        display_name: server.display_name.clone(),
        summary: server.summary.clone(),
        abilities: server.tool_names.iter().map(ability).collect(),
        ..Service::new(ServiceKind::McpServer, &*server.server_name)
    }
}
