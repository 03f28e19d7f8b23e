//! The values that a server proposes for an argument.

use toolbus_bus::responder::Context;
use toolbus_mcp_agent::read_subject;
use toolbus_tools::id::ToolId;
use toolbus_wire::message::mcp::{McpCompleteRequest, McpCompleteResponse};

use super::{ManageRequest, ManageService, lookup, response_of};

impl ManageRequest for McpCompleteRequest {
    type Response = McpCompleteResponse;

    fn subject(&self) -> Option<ToolId> {
        Some(read_subject(&self.server_name, "completion/complete").id)
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let server_name = self.server_name.clone();
        let answer = service.set.complete(lookup(service, &server_name, context), self).await;

        McpCompleteResponse { server_name, ..response_of(answer) }
    }
}
