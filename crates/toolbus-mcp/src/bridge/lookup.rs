//! The prompts and resources of servers, as agents ask for them at `mcp.manage`.

use toolbus_bus::responder::Context;
use toolbus_wire::message::mcp::{
    McpCompleteRequest, McpCompleteResponse, McpGetPromptRequest, McpGetPromptResponse,
    McpListResourcesRequest, McpListResourcesResponse, McpReadResourceRequest,
    McpReadResourceResponse,
};

use crate::lookup::Lookup;
use crate::servers::ServerPool;

fn lookup(server: &str, context: Context) -> Lookup {
    Lookup {
        server: server.to_owned(),
        deadline: context.deadline,
        cancelled: context.cancelled,
        asker: context.asker,
    }
}

pub(super) async fn prompt(
    set: &ServerPool,
    request: McpGetPromptRequest,
    context: Context,
) -> McpGetPromptResponse {
    let McpGetPromptRequest { server_name, prompt_name, arguments } = request;
    let found = set.prompt(lookup(&server_name, context), &prompt_name, arguments).await;
    let response = found.unwrap_or_else(|error| McpGetPromptResponse {
        error: Some(error.to_string()),
        ..McpGetPromptResponse::default()
    });
    McpGetPromptResponse { server_name, prompt_name, ..response }
}

pub(super) async fn resources(
    set: &ServerPool,
    request: McpListResourcesRequest,
    context: Context,
) -> McpListResourcesResponse {
    let McpListResourcesRequest { server_name, cursor } = request;
    let found = set.resources(lookup(&server_name, context), cursor).await;
    let response = found.unwrap_or_else(|error| McpListResourcesResponse {
        error: Some(error.to_string()),
        ..McpListResourcesResponse::default()
    });
    McpListResourcesResponse { server_name, ..response }
}

pub(super) async fn resource(
    set: &ServerPool,
    request: McpReadResourceRequest,
    context: Context,
) -> McpReadResourceResponse {
    let McpReadResourceRequest { server_name, uri } = request;
    let found = set.resource(lookup(&server_name, context), &uri).await;
    let response = found.unwrap_or_else(|error| McpReadResourceResponse {
        error: Some(error.to_string()),
        ..McpReadResourceResponse::default()
    });
    McpReadResourceResponse { server_name, uri, ..response }
}

pub(super) async fn completion(
    set: &ServerPool,
    request: McpCompleteRequest,
    context: Context,
) -> McpCompleteResponse {
    let server_name = request.server_name.clone();
    let found = set.complete(lookup(&server_name, context), request).await;
    let response = found.unwrap_or_else(|error| McpCompleteResponse {
        error: Some(error.to_string()),
        ..McpCompleteResponse::default()
    });
    McpCompleteResponse { server_name, ..response }
}
