//! Requests for prompts and resources of one MCP server: sent over the bus, answered in the
//! protocol's types.
//!
//! Nothing is kept here, and nothing is cut in silence: who reads a resource has it whole or not.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use rmcp::model::{
    CompleteRequestParams, CompleteResult, CompletionInfo, ContentBlock, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, Prompt, PromptMessage, ReadResourceResult, Reference, Resource,
    ResourceContents, ResourceTemplate, Role,
};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_bus::Asker;
use toolbus_mcp_agent::read_subject;
use toolbus_mcp_agent::reads::{READ_TIMEOUT, READ_WITH_QUESTIONS_TIMEOUT};
use toolbus_tools::Scope;
use toolbus_tools::call::{Arguments, Call, CallError, CallTime};
use toolbus_tools::id::{CallId, ToolName};
use toolbus_tools::invoker::ReadContext;
use toolbus_wire::message::mcp::{
    McpCompleteRequest, McpGetPromptRequest, McpListResourcesRequest, McpListResourcesResponse,
    McpPromptMessage, McpReadResourceRequest, McpResource, McpResourceContents,
    McpResourceTemplate, McpServerError,
};

use crate::FaceDeps;
use crate::outcome;
use crate::pending_call::{CallOutcome, MethodResult};

/// One server, for one request. Every read passes the invoker's gates.
pub(crate) struct ServerRequests<'a> {
    pub(crate) deps: &'a FaceDeps,
    pub(crate) server: &'a str,
    /// The client.
    pub(crate) scope: &'a Arc<Scope>,
    /// Fires when the client wants no answer any more.
    pub(crate) cancelled: &'a CancellationToken,
}

/// What a server may ask something for before it gives it.
pub(crate) enum ClientRead {
    Prompt(GetPromptRequestParams),
    /// The resource at this address.
    Resource(String),
}

/// The call that a read is to the invoker, by the protocol's name of its method.
pub(crate) fn read_call(scope: &Arc<Scope>, method: &'static str) -> Call {
    let name = ToolName::parse(method).expect("a method's name is short");
    let time = CallTime { caller_deadline: None, execution: Some(READ_TIMEOUT) };
    Call::new(scope, CallId::random(), name, Arguments::Text(None)).with_time(time)
}

impl ServerRequests<'_> {
    /// Has a read pass the gates, and makes it.
    fn admit<'a, T, Fut>(
        &'a self,
        method: &'static str,
        asker: &Asker,
        read: impl FnOnce(ReadContext) -> Fut + Send + 'a,
    ) -> BoxFuture<'a, Result<T, CallError>>
    where
        T: Send + 'a,
        Fut: Future<Output = Result<T, CallError>> + Send + 'a,
    {
        let call = read_call(self.scope, method);
        let call = call.with_cancelled(self.cancelled.clone()).with_asker(asker.clone());
        // Somebody may have to be asked first.
        let call = if asker.is_there() {
            let execution = Some(READ_WITH_QUESTIONS_TIMEOUT);
            call.with_time(CallTime { caller_deadline: None, execution })
        } else {
            call
        };

        let subject = read_subject(self.server, method);
        self.deps.read(call, subject, read)
    }

    pub(crate) async fn read(&self, wanted: ClientRead, asker: &Asker) -> CallOutcome {
        match wanted {
            ClientRead::Prompt(wanted) => {
                self.prompt(wanted, asker).await.map(MethodResult::Prompt)
            }
            ClientRead::Resource(uri) => {
                self.resource(uri, asker).await.map(MethodResult::Resource)
            }
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
        let directory = &self.deps.directory;
        let listing = |_| directory.details(self.server);
        let details = self.admit("prompts/list", &Asker::none(), listing).await.map_err(error)?;
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
        let directory = &self.deps.directory;
        let read = |context| directory.prompt(&wanted, context);
        let answer = self.admit("prompts/get", asker, read).await.map_err(error)?;

        let mut prompt =
            GetPromptResult::new(answer.messages.into_iter().map(to_prompt_message).collect());
        prompt.description = answer.description;
        Ok(prompt)
    }

    pub(crate) async fn resources(
        &self,
        cursor: Option<String>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let page = self.page(cursor).await?;
        let resources = page.resources.into_iter().map(to_resource).collect();
        let mut listed = ListResourcesResult::with_all_items(resources);
        listed.next_cursor = page.next_cursor;
        Ok(listed)
    }

    /// All templates, which come with the first page of resources.
    pub(crate) async fn list_templates(
        &self,
        cursor: Option<String>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params("the cursor is none", None));
        }
        let page = self.page(None).await?;
        let templates = page.templates.into_iter().map(to_template).collect();
        Ok(ListResourceTemplatesResult::with_all_items(templates))
    }

    async fn page(&self, cursor: Option<String>) -> Result<McpListResourcesResponse, ErrorData> {
        let wanted = McpListResourcesRequest { server_name: self.server.to_owned(), cursor };
        let directory = &self.deps.directory;
        let read = |context| directory.resources(&wanted, context);
        let page = self.admit("resources/list", &Asker::none(), read).await.map_err(error)?;

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
        let directory = &self.deps.directory;
        let read = |context| directory.complete(&wanted, context);
        let answer =
            self.admit("completion/complete", &Asker::none(), read).await.map_err(error)?;

        let mut completion = CompletionInfo::default();
        (completion.total, completion.has_more) = (answer.total, answer.has_more);
        completion.values = answer.values;
        completion.values.truncate(CompletionInfo::MAX_VALUES);

        Ok(CompleteResult::new(completion))
    }

    async fn resource(&self, uri: String, asker: &Asker) -> Result<ReadResourceResult, ErrorData> {
        let wanted = McpReadResourceRequest { server_name: self.server.to_owned(), uri };
        let directory = &self.deps.directory;
        let read = |context| directory.resource(&wanted, context);
        let answer = self.admit("resources/read", asker, read).await;

        let answer = answer.map_err(|failed| {
            let mut error = error(failed);
            error.data = Some(json!({"uri": wanted.uri}));
            error
        })?;

        if let Some(bytes) = answer.left_out_bytes {
            let text = format!("the resource is too large: {bytes} bytes of it do not fit");
            return Err(ErrorData::internal_error(text, Some(json!({"uri": wanted.uri}))));
        }

        Ok(ReadResourceResult::new(answer.contents.into_iter().map(to_contents).collect()))
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
    match outcome::server_error(&error) {
        Some(error) if outcome::is_incapable(&error) => outcome::incapable_error(error),
        Some(error) if is_of_client(&error) => {
            ErrorData::new(ErrorCode(error.code), error.message, None)
        }
        _ => ErrorData::internal_error(format!("{}: {}", error.code, error.message), None),
    }
}

/// Whether the client asked for what is not there, or asked wrongly.
fn is_of_client(error: &McpServerError) -> bool {
    [ErrorCode::INVALID_PARAMS, ErrorCode::RESOURCE_NOT_FOUND].contains(&ErrorCode(error.code))
}

fn to_prompt_message(message: McpPromptMessage) -> PromptMessage {
    let role = if message.role == "assistant" { Role::Assistant } else { Role::User };
    let content = match message.block {
        Some(block) => outcome::to_content_block(block),
        None => ContentBlock::text(message.content.unwrap_or_default()),
    };
    PromptMessage::new(role, content)
}

fn to_resource(listed: McpResource) -> Resource {
    let mut resource = Resource::new(listed.uri, listed.name);
    resource.title = listed.title;
    resource.description = listed.description;
    resource.mime_type = listed.mime_type;
    resource.size = listed.size;
    resource
}

fn to_template(listed: McpResourceTemplate) -> ResourceTemplate {
    let mut template = ResourceTemplate::new(listed.uri_template, listed.name);
    template.title = listed.title;
    template.description = listed.description;
    template.mime_type = listed.mime_type;
    template
}

fn to_contents(contents: McpResourceContents) -> ResourceContents {
    let McpResourceContents { uri, mime_type, text, blob } = contents;
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
