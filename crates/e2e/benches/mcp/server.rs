//! The MCP servers of the benchmark, as this program started again: streamable HTTP, made with the
//! protocol's own library.
//!
//! `/mcp` has a tool that repeats its text and one that waits. `/many/N` has [`TOOLS_OF_EACH`]
//! tools and takes [`SLOW`] to list them. `/large` has long results, see [`large`].

use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use crate::large;

/// Repeats the argument `text`.
pub(crate) const ECHO: &str = "echo";
/// Waits until it is cancelled, a minute at the most.
pub(crate) const WAIT: &str = "wait";
/// Servers under `/many`.
pub(crate) const MANY: usize = 50;
/// Tools of each of them.
pub(crate) const TOOLS_OF_EACH: usize = 40;
/// How long each of them takes to list its tools.
pub(crate) const SLOW: Duration = Duration::from_millis(300);

/// A tool's name: no two servers have the same.
pub(crate) fn tool_name(server: usize, tool: usize) -> String {
    format!("tool_{server}_{tool}")
}

/// Serves until the listener fails.
pub(crate) async fn serve(listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let mut router = axum::Router::new()
        .route_service("/mcp", service(Tools::Busy))
        .route("/large", axum::routing::post(large::answer));
    for server in 0..MANY {
        let path = format!("/many/{server}");
        router = router.route_service(&path, service(Tools::Many(server)));
    }
    axum::serve(listener, router).await
}

fn service(tools: Tools) -> StreamableHttpService<Tools, LocalSessionManager> {
    let config = StreamableHttpServerConfig::default().with_sse_keep_alive(None);
    StreamableHttpService::new(move || Ok(tools), Arc::default(), config)
}

/// What a server offers.
#[derive(Debug, Clone, Copy)]
enum Tools {
    Busy,
    Many(usize),
}

impl Tools {
    fn names(self) -> Vec<String> {
        match self {
            Self::Busy => vec![ECHO.to_owned(), WAIT.to_owned()],
            Self::Many(server) => (0..TOOLS_OF_EACH).map(|tool| tool_name(server, tool)).collect(),
        }
    }
}

impl ServerHandler for Tools {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if matches!(self, Self::Many(_)) {
            tokio::time::sleep(SLOW).await;
        }
        let schema = Arc::new(JsonObject::from_iter([("type".to_owned(), "object".into())]));
        let tool = |name| Tool::new(name, "A tool of the benchmark.", Arc::clone(&schema));
        Ok(ListToolsResult::with_all_items(self.names().into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if request.name == WAIT {
            // Either way the call is over.
            let _ = tokio::time::timeout(Duration::from_secs(60), context.ct.cancelled()).await;
        }
        let text = request.arguments.as_ref().and_then(|arguments| arguments.get("text")?.as_str());
        let content = ContentBlock::text(text.unwrap_or_default());
        Ok(CallToolResult::success(vec![content]).into())
    }
}
