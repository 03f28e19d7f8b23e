//! An agent takes a server out that an agent has registered.

use toolbus_bus::responder::Context;
use toolbus_config::on_one_line;
use toolbus_mcp_agent::{UNREGISTER_SERVER, management_id};
use toolbus_tools::id::ToolId;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::{
    McpResponse as _, McpUnregisterServerRequest, McpUnregisterServerResponse,
};

use super::{ManageRequest, ManageService};
use crate::server_pool::UnregisterError;

/// The refusal where agents may register nothing.
const OFF: &str = "registering and removing servers is turned off (mcp.registration)";

impl ManageRequest for McpUnregisterServerRequest {
    type Response = McpUnregisterServerResponse;

    fn subject(&self) -> Option<ToolId> {
        Some(management_id(UNREGISTER_SERVER))
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server_name)
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let server_name = self.server_name;
        if service.registration.is_off() {
            let response = Self::Response::from_error(ErrorCode::Denied, OFF.to_owned());
            return McpUnregisterServerResponse { server_name, ..response };
        }

        // To remove what is not there is a success too, as it is for the C# bridge.
        let response = match service.set.unregister(&server_name, context.source()).await {
            Ok(()) => McpUnregisterServerResponse { success: true, ..Self::Response::default() },
            Err(error @ UnregisterError::Operators(_)) => {
                tracing::warn!(
                    server = server_name,
                    "refused an agent's request to remove a server of the operator"
                );
                let error = format!("{error}, and agents cannot remove it");
                Self::Response::from_error(ErrorCode::Denied, error)
            }
            Err(error @ UnregisterError::OtherAgents(_)) => {
                tracing::warn!(
                    server = server_name,
                    "refused an agent's request to remove a server of another agent"
                );
                let error = format!("{error}, and only that agent can remove it");
                Self::Response::from_error(ErrorCode::Denied, error)
            }
            Err(error @ UnregisterError::Kept(_)) => {
                let chain = on_one_line(&error);
                tracing::warn!(server = server_name, error = chain, "registration not removed");
                Self::Response::from_error(ErrorCode::ExecutionFailed, error.to_string())
            }
        };

        McpUnregisterServerResponse { server_name, ..response }
    }
}
