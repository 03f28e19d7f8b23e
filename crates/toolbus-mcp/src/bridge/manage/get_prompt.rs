//! A prompt of a server, filled in.

use toolbus_bus::responder::Context;
use toolbus_mcp_agent::read_id;
use toolbus_tools::id::ToolId;
use toolbus_wire::message::mcp::{McpGetPromptRequest, McpGetPromptResponse};

use super::{ManageRequest, ManageService, lookup, response_of};

impl ManageRequest for McpGetPromptRequest {
    type Response = McpGetPromptResponse;

    fn subject(&self) -> Option<ToolId> {
        Some(read_id(&self.server_name, "prompts/get"))
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server_name)
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let Self { server_name, prompt_name, arguments } = self;
        let lookup = lookup(service, &server_name, context);
        let answer = service.set.prompt(lookup, &prompt_name, arguments).await;

        McpGetPromptResponse { server_name, prompt_name, ..response_of(answer) }
    }
}
