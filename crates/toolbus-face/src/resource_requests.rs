//! Requests for prompts and resources of one MCP server: sent over the bus, answered in the
//! protocol's types.
//!
//! Nothing is suspended here, and nothing is cut in silence: who reads a resource has it whole or not.

use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, Prompt, PromptMessage, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate, Role,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Asker;
use toolbus_mcp_agent::McpDirectory;
use toolbus_tools::call::CallError;
use toolbus_wire::message::mcp::{
    McpCompleteRequest, McpGetPromptRequest, McpListResourcesRequest, McpListResourcesResponse,
    McpPromptMessage, McpReadResourceRequest, McpResource, McpResourceContents,
    McpResourceTemplate,
};

use crate::outcome;
use crate::pending_call::{CallOutcome, Reply};

/// One server, for one request.
pub(crate) struct ServerRequests<'a> {
    pub(crate) directory: &'a McpDirectory,
    pub(crate) server: &'a str,
    /// Fires when the client wants no answer any more.
    pub(crate) cancelled: &'a CancellationToken,
}

/// What a server may ask something for before it gives it.
pub(crate) enum ReadRequest {
    Prompt(GetPromptRequestParams),
    /// The resource at this address.
    Resource(String),
}

impl ServerRequests<'_> {
    pub(crate) async fn read(&self, wanted: ReadRequest, asker: &Asker) -> CallOutcome {
        match wanted {
            ReadRequest::Prompt(wanted) => self.prompt(wanted, asker).await.map(Reply::Prompt),
            ReadRequest::Resource(uri) => self.resource(uri, asker).await.map(Reply::Resource),
        }
    }

    /// All prompts: they are few, so there is one page of them.
    pub(crate) async fn prompts(
        &self,
        cursor: Option<String>,
    ) -> Result<ListPromptsResult, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params("the cursor is none", None));
        }
        let details = self.directory.details(self.server).await.map_err(error)?;
        let prompts = details.prompts.into_iter().flatten();
        // What is no prompt is nothing that a client could ask for.
        let prompts = prompts.filter_map(|prompt| serde_json::from_value::<Prompt>(prompt).ok());
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn prompt(
        &self,
        wanted: GetPromptRequestParams,
        asker: &Asker,
    ) -> Result<GetPromptResult, ErrorData> {
        let wanted = McpGetPromptRequest {
            server_name: self.server.to_owned(),
            prompt_name: wanted.name,
            arguments: wanted.arguments.unwrap_or_default(),
        };
        let answer = self.directory.prompt(&wanted, self.cancelled, asker).await.map_err(error)?;
        let mut prompt = GetPromptResult::new(answer.messages.into_iter().map(message).collect());
        prompt.description = answer.description;
        Ok(prompt)
    }

    pub(crate) async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = self.page(cursor).await?;
        let resources = page.resources.into_iter().map(resource).collect();
        let mut listed = ListResourcesResult::with_all_items(resources);
        listed.next_cursor = page.next_cursor;
        Ok(listed)
    }

    /// All templates, which come with the first page of resources.
    pub(crate) async fn templates(
        &self,
        cursor: Option<String>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params("the cursor is none", None));
        }
        let page = self.page(None).await?;
        let templates = page.templates.into_iter().map(template).collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn page(&self, cursor: Option<String>) -> Result<McpListResourcesResponse, ErrorData> {
        let wanted = McpListResourcesRequest { server_name: self.server.to_owned(), cursor };
        let page = self.directory.resources(&wanted, self.cancelled).await.map_err(error)?;
        if let Some(left_out) = page.left_out {
            tracing::warn!(server = self.server, left_out, "a page of resources is not whole");
        }
        Ok(page)
    }

    pub(crate) async fn complete(
        &self,
        wanted: CompleteRequestParams,
    ) -> Result<CompleteResult, ErrorData> {
        let wanted = wanted_completion(self.server, wanted)?;
        let answer = self.directory.complete(&wanted, self.cancelled).await.map_err(error)?;
        let mut completion = CompletionInfo::default();
        (completion.total, completion.has_more) = (answer.total, answer.has_more);
        completion.values = answer.values;
        completion.values.truncate(CompletionInfo::MAX_VALUES);
        Ok(CompleteResult::new(completion))
    }

    async fn resource(&self, uri: String, asker: &Asker) -> Result<ReadResourceResult, ErrorData> {
        let wanted = McpReadResourceRequest { server_name: self.server.to_owned(), uri };
        let answer = self.directory.resource(&wanted, self.cancelled, asker).await;
        let answer = answer.map_err(|failed| {
            let mut error = error(failed);
            error.data = Some(json!({"uri": wanted.uri}));
            error
        })?;
        if let Some(bytes) = answer.left_out_bytes {
            let text = format!("the resource is too large: {bytes} bytes of it do not fit");
            return Err(ErrorData::internal_error(text, Some(json!({"uri": wanted.uri}))));
        }
        Ok(ReadResourceResult::new(answer.contents.into_iter().map(contents).collect()))
    }
}

/// A completion as it is asked of a bridge.
fn wanted_completion(
    server: &str,
    wanted: CompleteRequestParams,
) -> Result<McpCompleteRequest, ErrorData> {
    let (prompt_name, uri_template) = match wanted.r#ref {
        Reference::Prompt(prompt) => (Some(prompt.name), None),
        Reference::Resource(template) => (None, Some(template.uri)),
        _ => return Err(ErrorData::invalid_params("there is nothing of this kind", None)),
    };
    let decided = wanted.context.and_then(|context| context.arguments).unwrap_or_default();
    Ok(McpCompleteRequest {
        server_name: server.to_owned(),
        prompt_name,
        uri_template,
        argument_name: wanted.argument.name,
        argument_value: wanted.argument.value,
        arguments: decided.into_iter().map(|(name, value)| (name, value.into())).collect(),
    })
}

/// What the client did wrong is told with the server's own code. Everything else is not its fault.
pub(crate) fn error(error: CallError) -> ErrorData {
    match outcome::of_server(&error) {
        Some((ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY, text)) => outcome::incapable(text),
        Some((code @ (ErrorCode::INVALID_PARAMS | ErrorCode::RESOURCE_NOT_FOUND), text)) => {
            ErrorData::new(code, text.to_owned(), None)
        }
        _ => ErrorData::internal_error(format!("{}: {}", error.code, error.message), None),
    }
}

fn message(message: McpPromptMessage) -> PromptMessage {
    let role = if message.role == "assistant" { Role::Assistant } else { Role::User };
    let content = match message.block {
        Some(block) => outcome::block(block),
        None => ContentBlock::text(message.content.unwrap_or_default()),
    };
    PromptMessage::new(role, content)
}

fn resource(told: McpResource) -> Resource {
    let mut resource = Resource::new(told.uri, told.name);
    resource.title = told.title;
    resource.description = told.description;
    resource.mime_type = told.mime_type;
    resource.size = told.size;
    resource
}

fn template(told: McpResourceTemplate) -> ResourceTemplate {
    let mut template = ResourceTemplate::new(told.uri_template, told.name);
    template.title = told.title;
    template.description = told.description;
    template.mime_type = told.mime_type;
    template
}

fn contents(told: McpResourceContents) -> ResourceContents {
    let McpResourceContents { uri, mime_type, text, blob } = told;
    match (text, blob) {
        (None, Some(blob)) => {
            ResourceContents::BlobResourceContents { uri, mime_type, blob, meta: None }
        }
        (text, _) => ResourceContents::TextResourceContents {
            uri,
            mime_type,
            text: text.unwrap_or_default(),
            meta: None,
        },
    }
}

#[cfg(test)]
mod tests;
