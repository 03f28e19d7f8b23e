//! `chaos effects`: an MCP server over streamable HTTP whose tools leave each start and end in a
//! ledger. It is a process of its own that no fault touches, so its ledger is what happened.
//!
//! The start of an effect is on disk before the effect counts, its end before the answer goes out.
//! A call that is cancelled, or whose client is gone, leaves `aborted` instead of an end.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::json;

use crate::ledger::Ledger;
use crate::record::{EffectEvent, EffectRecord, ToolKind, now_ms, reply_text};
use crate::script_effects;

/// The header by which a worker names itself.
pub const WORKER_HEADER: &str = "x-chaos-worker";
/// Longest effect.
const SLEEP_TIMEOUT_MAX: Duration = Duration::from_secs(120);
/// Longest answer, in bytes.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// Prints where it listens and serves until the process is ended; scripts at `socket`.
///
/// # Errors
/// When the address, the socket or the ledger cannot be opened.
pub async fn serve(
    listen: SocketAddr,
    ledger: PathBuf,
    socket: Option<PathBuf>,
) -> anyhow::Result<()> {
    let ledger = Arc::new(Ledger::open(&ledger)?);
    let effects = Effects { ledger: Arc::clone(&ledger) };
    let config = StreamableHttpServerConfig::default().with_sse_keep_alive(None);
    let service: StreamableHttpService<Effects, LocalSessionManager> =
        StreamableHttpService::new(move || Ok(effects.clone()), Arc::default(), config);

    let router = axum::Router::new().route_service("/mcp", service);
    let listener = tokio::net::TcpListener::bind(listen)
        .await
        .with_context(|| format!("listening on {listen}"))?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;

    let scripts = async {
        match &socket {
            Some(socket) => script_effects::serve(socket, ledger).await,
            None => std::future::pending().await,
        }
    };
    // Neither ends but by an error.
    tokio::select! {
        served = axum::serve(listener, router) => Ok(served?),
        failed = scripts => failed,
    }
}

/// Serves MCP clients. Clones write into the same ledger.
#[derive(Debug, Clone)]
struct Effects {
    ledger: Arc<Ledger>,
}

#[derive(Debug, Deserialize)]
struct EffectArguments {
    id: String,
    sleep_ms: u64,
    reply_bytes: usize,
}

impl ServerHandler for Effects {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(define_tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let invalid = |text: String| ErrorData::invalid_params(text, None);
        let tool = serde_json::from_value(json!(request.name))
            .map_err(|_| invalid(format!("there is no tool {:?}", request.name)))?;
        let arguments = json!(request.arguments.unwrap_or_default());
        let arguments: EffectArguments =
            serde_json::from_value(arguments).map_err(|error| invalid(error.to_string()))?;

        let effect = Effect {
            ledger: Arc::clone(&self.ledger),
            id: arguments.id.clone(),
            tool,
            worker: name_worker(&context),
            is_open: false,
        };
        let ended = effect.run(&arguments, context).await;
        let is_ended = ended.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;

        let text = if is_ended {
            reply_text(&arguments.id, arguments.reply_bytes.min(REPLY_BYTES_MAX))
        } else {
            "aborted".to_owned()
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }
}

/// One effect. Dropped before its end, it leaves that it was aborted.
struct Effect {
    ledger: Arc<Ledger>,
    id: String,
    tool: ToolKind,
    worker: String,
    is_open: bool,
}

impl Effect {
    /// Runs to the end or until it is cancelled, and returns which.
    async fn run(
        mut self,
        arguments: &EffectArguments,
        context: RequestContext<RoleServer>,
    ) -> anyhow::Result<bool> {
        self.is_open = true;
        self.ledger.append(&self.record(EffectEvent::Start)).await?;

        let sleep = Duration::from_millis(arguments.sleep_ms).min(SLEEP_TIMEOUT_MAX);
        // Both only wait.
        let is_cancelled = tokio::time::timeout(sleep, context.ct.cancelled()).await.is_ok();

        let event = if is_cancelled { EffectEvent::Aborted } else { EffectEvent::End };
        self.is_open = false;
        self.ledger.append(&self.record(event)).await?;
        Ok(!is_cancelled)
    }

    fn record(&self, event: EffectEvent) -> EffectRecord {
        EffectRecord {
            id: self.id.clone(),
            tool: self.tool,
            event,
            at_ms: now_ms(),
            worker: self.worker.clone(),
        }
    }
}

impl Drop for Effect {
    fn drop(&mut self) {
        if self.is_open {
            // The judge takes an effect without an end for one that was aborted, too.
            let _ = self.ledger.append_later(&self.record(EffectEvent::Aborted));
        }
    }
}

fn define_tools() -> Vec<Tool> {
    let schema = json!({
        "type": "object",
        "properties": {
            "id": {"type": "string"},
            "sleep_ms": {"type": "integer"},
            "reply_bytes": {"type": "integer"}
        },
        "required": ["id", "sleep_ms", "reply_bytes"]
    });
    let schema: Arc<JsonObject> = Arc::new(schema.as_object().cloned().unwrap_or_default());
    let tool = |name, description| Tool::new(name, description, Arc::clone(&schema));

    vec![
        tool("act", "Does something that must not be done twice."),
        tool("look", "Reads something.")
            .with_annotations(ToolAnnotations::with_title("Look").read_only(true)),
        tool("put", "Sets something, which may be done again.")
            .with_annotations(ToolAnnotations::with_title("Put").read_only(false).idempotent(true)),
    ]
}

fn name_worker(context: &RequestContext<RoleServer>) -> String {
    let parts = context.extensions.get::<Parts>();
    let header = parts.and_then(|parts| parts.headers.get(WORKER_HEADER)?.to_str().ok());
    header.unwrap_or_default().to_owned()
}
