//! Keeps what is known of services as the directory of MCP servers has it.

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolbus_mcp_agent::McpDirectory;
use toolbus_search::{Ability, KnownServices, Service, ServiceKind};
use toolbus_wire::message::mcp::McpServerSummary;

/// Follows the directory until it is closed.
pub(crate) struct ServiceFollower {
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl ServiceFollower {
    /// Follows it for these services.
    pub(crate) fn start(directory: &McpDirectory, services: KnownServices) -> Self {
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let (directory, stopped) = (directory.clone(), stop.clone());
        tasks.spawn(async move {
            loop {
                let known = directory.servers();
                services.replace(known.iter().map(service_of).collect());
                let changed = directory.until(|servers| *servers != *known);
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
