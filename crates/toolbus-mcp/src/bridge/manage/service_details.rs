//! The details of one server: its tools, its prompts and how it describes itself.

use toolbus_bus::port::BODY_BYTES_MAX;
use toolbus_bus::responder::Context;
use toolbus_tools::id::ToolId;
use toolbus_wire::ErrorCode;
use toolbus_wire::message::mcp::{
    McpGetServiceDetailsRequest, McpGetServiceDetailsResponse, McpResponse as _, McpToolDetails,
};

use super::{ManageRequest, ManageService};

/// Longest page of tools, in bytes of its JSON: a quarter of a message. A longer tool has a page of
/// its own.
const PAGE_BYTES_MAX: usize = BODY_BYTES_MAX / 4;

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

        let Some(details) = service.set.details(&server_name) else {
            let error = format!("Server '{server_name}' is not connected");
            return McpGetServiceDetailsResponse {
                server_name,
                ..McpGetServiceDetailsResponse::from_error(ErrorCode::ExecutionFailed, error)
            };
        };

        match self.tools_from {
            Some(from) => page_of(details, from),
            None => details,
        }
    }
}

/// The page of tools that begins with the one at `from`.
fn page_of(all: McpGetServiceDetailsResponse, from: u32) -> McpGetServiceDetailsResponse {
    let start = usize::try_from(from).unwrap_or(usize::MAX).min(all.tools.len());
    let rest = &all.tools[start..];
    let mut bytes = 0;
    let fits = |tool: &&McpToolDetails| {
        bytes += serde_json::to_vec(tool).map_or(0, |text| text.len());
        bytes <= PAGE_BYTES_MAX
    };
    let count = rest.iter().take_while(fits).count().max(1).min(rest.len());

    let end = start + count;
    let tools_next = (end < all.tools.len()).then_some(end);
    let mut page = match from {
        0 => all,
        _ => McpGetServiceDetailsResponse {
            server_name: all.server_name,
            tools: all.tools,
            ..McpGetServiceDetailsResponse::default()
        },
    };
    page.tools.truncate(end);
    page.tools.drain(..start);
    page.tools_next = tools_next.and_then(|next| u32::try_from(next).ok());

    page
}

#[cfg(test)]
mod tests;
