//! The contents of a server's resource.

use toolbus_bus::responder::Context;
use toolbus_mcp_agent::read_id;
use toolbus_tools::id::ToolId;
use toolbus_wire::message::mcp::{McpReadResourceRequest, McpReadResourceResponse};

use super::{ManageRequest, ManageService, lookup, response_of};

impl ManageRequest for McpReadResourceRequest {
    type Response = McpReadResourceResponse;

    fn subject(&self) -> Option<ToolId> {
        Some(read_id(&self.server_name, "resources/read"))
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server_name)
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let Self { server_name, uri } = self;
        let answer = service.set.resource(lookup(service, &server_name, context), &uri).await;

        McpReadResourceResponse { server_name, uri, ..response_of(answer) }
    }
}
