//! The details of one server: its tools, its prompts and how it describes itself.

use toolbus_bus::responder::Context;
use toolbus_tools::id::ToolId;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsRequest, McpGetServiceDetailsResponse, McpResponse as _,
};

use super::{ManageRequest, ManageService};

impl ManageRequest for McpGetServiceDetailsRequest {
    type Response = McpGetServiceDetailsResponse;

    fn subject(&self) -> Option<ToolId> {
        None
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server_name)
    }

    async fn handle(self, service: &ManageService, _: Context) -> Self::Response {
        let server_name = self.server_name;

        service.set.details(&server_name).unwrap_or_else(|| {
            let error = format!("Server '{server_name}' is not connected");
            McpGetServiceDetailsResponse {
                server_name,
                ..McpGetServiceDetailsResponse::from_error(ErrorCode::ExecutionFailed, error)
            }
        })
    }
}
