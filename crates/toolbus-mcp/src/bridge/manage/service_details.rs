//! The details of one server: its tools, its prompts and how it describes itself.

use std::time::Duration;

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
/// How long before the end of its caller's time a request is answered, though the server that it is
/// about is still being connected.
const ANSWER_GRACE: Duration = Duration::from_secs(2);

impl ManageRequest for McpGetServiceDetailsRequest {
    type Response = McpGetServiceDetailsResponse;

    fn subject(&self) -> Option<ToolId> {
        None
    }

    fn server(&self) -> Option<&str> {
        Some(&self.server_name)
    }

    async fn handle(self, service: &ManageService, context: Context) -> Self::Response {
        let server_name = self.server_name;

        // The answer has to be there before the time is up.
        let limit = context.call.deadline.left().saturating_sub(ANSWER_GRACE);
        let details = match service.set.details_once_connected(&server_name, limit).await {
            Ok(details) => details,
            Err(why) => {
                let error = format!("Server '{server_name}' is not connected{why}");
                return McpGetServiceDetailsResponse {
                    server_name,
                    ..McpGetServiceDetailsResponse::from_error(ErrorCode::ExecutionFailed, error)
                };
            }
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
