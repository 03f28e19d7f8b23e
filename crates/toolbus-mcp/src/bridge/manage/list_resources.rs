//! One page of a server's resources.

use toolbus_bus::responder::Context;
use toolbus_mcp_agent::read_id;
use toolbus_tools::id::ToolId;
use toolbus_wire::message::mcp::{McpListResourcesRequest, McpListResourcesResponse};

use super::{ManageRequest, ManageService, lookup, response_of};

impl ManageRequest for McpListResourcesRequest {
    type Response = McpListResourcesResponse;

    fn subject(&self) -> Option<ToolId> {
        Some(read_id(&self.server_name, "resources/list"))
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server_name)
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let Self { server_name, cursor } = self;
        let answer = service.set.resources(lookup(service, &server_name, context), cursor).await;

        McpListResourcesResponse { server_name, ..response_of(answer) }
    }
}
