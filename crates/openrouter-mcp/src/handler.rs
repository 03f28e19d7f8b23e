//! The methods of the MCP server. Each is passed on to the module that serves it; nothing is
//! decided here.

use std::sync::Arc;

use opentelemetry::global;
use rmcp::model::{
    CallToolRequestMethod, CallToolRequestParams, CallToolResponse, CallToolResult,
    CompleteRequestMethod, CompleteRequestParams, CompleteResult, ConstString as _, ContentBlock,
    ErrorData, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use toolbus_config::on_one_line;
use toolbus_telemetry::mcp::{About, Failure, Recorder, Transport};
use tracing::Instrument as _;

use crate::error::Error;
use crate::openrouter::OpenRouter;
use crate::tools::OpenRouterTool;

/// The purpose of this server, as clients show it to models.
const INSTRUCTIONS: &str = "Reads what an OpenRouter account says of itself: credits, API keys, \
    models and generations. Nothing can be changed or spent. Results are OpenRouter's own JSON.";

/// Serves MCP clients. Clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    openrouter: Arc<OpenRouter>,
    recorder: Recorder,
}

impl Handler {
    /// Must be created after telemetry was started, or it records nothing.
    pub(crate) fn new(openrouter: Arc<OpenRouter>, transport: Transport) -> Self {
        let recorder = Recorder::new(&global::meter(env!("CARGO_PKG_NAME")), transport);
        Self { openrouter, recorder }
    }

    async fn fetch_for_tool(
        &self,
        tool: OpenRouterTool,
        request: CallToolRequestParams,
    ) -> Result<String, Error> {
        let endpoint = tool.endpoint(request.arguments.unwrap_or_default())?;
        self.openrouter.fetch(endpoint).await
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let program = Implementation::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(program.with_title("OpenRouter account, read only"))
            .with_instructions(INSTRUCTIONS)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        OpenRouterTool::by_name(name).map(OpenRouterTool::definition)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = OpenRouterTool::ALL.map(OpenRouterTool::definition);
        Ok(ListToolsResult::with_all_items(tools.to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = OpenRouterTool::by_name(&request.name) else {
            let what = format!("there is no tool {:?}", request.name);
            return Err(ErrorData::invalid_params(what, None));
        };

        let about = About::Tool { name: tool.name(), is_listed: true };
        let recorded = self.recorder.begin(CallToolRequestMethod::VALUE, about, &context.meta);
        let call = self.fetch_for_tool(tool, request).instrument(recorded.span().clone());
        // Both arms only wait: a read that was cancelled is dropped wherever it is.
        let outcome = tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(Error::Cancelled),
            outcome = call => outcome,
        };

        if let Err(error) = &outcome {
            let _entered = recorded.span().enter();
            tracing::info!(
                tool = tool.name(),
                code = error.code(),
                error = on_one_line(error),
                "tool call failed"
            );
        }

        let failure = outcome.as_ref().err().map(|error| Failure::Because(error.code()));
        recorded.end(failure);

        let result = match outcome {
            Ok(json) => CallToolResult::success(vec![ContentBlock::text(json)]),
            Err(error) => error.to_tool_result(),
        };

        Ok(result.into())
    }

    // Methods that are not offered do not exist; by rmcp's defaults they would return empty lists.

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourcesRequestMethod>())
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListResourceTemplatesRequestMethod>())
    }

    async fn complete(
        &self,
        _request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }
}
