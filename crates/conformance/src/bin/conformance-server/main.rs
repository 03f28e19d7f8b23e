//! An MCP server that offers what the server scenarios of the official conformance suite name. For
//! tests only. It ends with its standard input.
//!
//! `conformance-server PORT` speaks both eras of the protocol over streamable HTTP on 127.0.0.1,
//! `conformance-server PORT initialize` none after 2025-11-25, and `conformance-server stdio` both
//! over its standard input and output.

#![allow(deprecated, reason = "clients of the older era call what the newer one has dropped")]

mod offer;
mod questions;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use rmcp::model::*;
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{RoleServer, ServerHandler, ServiceExt as _};
use serde_json::{Value, json};
use tokio::sync::watch;

use offer::{Offer, QuestionRounds, ToolAction, ToolBehavior};
use questions::{AskOutcome, CallState, ask};

/// Time between two notifications of a tool, so that they arrive one by one.
const NOTIFICATION_INTERVAL: Duration = Duration::from_millis(50);

#[derive(Clone)]
struct Server {
    offer: Arc<Offer>,
    /// Makes seals that only this process can make.
    secret: Arc<str>,
    changes: watch::Sender<Changes>,
    /// The newest version of the protocol that is spoken.
    newest: ProtocolVersion,
}

/// How often each list has changed.
#[derive(Debug, Clone, Copy, Default)]
struct Changes {
    tools: u64,
    prompts: u64,
}

impl Server {
    async fn send_logs(&self, context: &RequestContext<RoleServer>) {
        let modern = context
            .protocol_version()
            .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str());
        if modern && context.meta.log_level().is_none() {
            return;
        }
        for text in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(text));
            // A client that has disconnected needs no log.
            let _ = context.peer.notify_logging_message(message).await;
            tokio::time::sleep(NOTIFICATION_INTERVAL).await;
        }
    }

    async fn send_progress(&self, context: &RequestContext<RoleServer>) {
        let Some(token) = context.meta.get_progress_token() else { return };
        for progress in [0.0, 50.0, 100.0] {
            let update = ProgressNotificationParam::new(token.clone(), progress).with_total(100.0);
            // A client that has disconnected needs no progress.
            let _ = context.peer.notify_progress(update).await;
            tokio::time::sleep(NOTIFICATION_INTERVAL).await;
        }
    }

    async fn perform(&self, deed: ToolAction, context: &RequestContext<RoleServer>) {
        match deed {
            ToolAction::Logging => self.send_logs(context).await,
            ToolAction::Progress => self.send_progress(context).await,
            ToolAction::Reconnection => tokio::time::sleep(NOTIFICATION_INTERVAL * 2).await,
            ToolAction::ToolsChanged => self.changes.send_modify(|changes| changes.tools += 1),
            ToolAction::PromptsChanged => self.changes.send_modify(|changes| changes.prompts += 1),
        }
    }

    async fn ask_client(
        &self,
        asks: &QuestionRounds,
        carried: CallState,
        context: &RequestContext<RoleServer>,
    ) -> Result<AskOutcome, ErrorData> {
        ask(asks, carried, &self.secret, context).await
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("conformance-server", env!("CARGO_PKG_VERSION")))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::known_up_to(&self.newest))
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        if self.newest.has_initialize() {
            // To a server that was written before it, the method is like any unknown one.
            return Err(ErrorData::method_not_found::<DiscoverRequestMethod>());
        }
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.offer.tool(name).map(|offered| offered.tool.clone())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.offer.tools.iter().map(|offered| offered.tool.clone());
        let mut tools: Vec<_> = tools.collect();

        let changes = self.changes.borrow().tools;
        if let Some(first) = tools.first_mut().filter(|_| changes > 0) {
            first.description = Some(describe_change(changes).into());
        }
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(offered) = self.offer.tool(&request.name) else {
            let text = format!("there is no tool {}", request.name);
            return Err(ErrorData::invalid_params(text, None));
        };

        match &offered.behavior {
            ToolBehavior::Answer(answer) => {
                let mut answer = answer.clone();
                answer.result_type = Some(ResultType::COMPLETE);
                Ok(answer.into())
            }
            ToolBehavior::Does(deed) => {
                self.perform(*deed, &context).await;
                Ok(CallToolResult::success(vec![ContentBlock::text("It is done.")]).into())
            }
            ToolBehavior::Asks(asks) => {
                let carried = CallState {
                    responses: request.input_responses,
                    state: request.request_state,
                    arguments: request.arguments.unwrap_or_default(),
                };
                match self.ask_client(asks, carried, &context).await? {
                    AskOutcome::Wait(result) => Ok(result.into()),
                    AskOutcome::Answered(responses) => {
                        let responses = Value::from_iter(responses);
                        let text = ContentBlock::text(format!("{} {responses}", asks.says));
                        Ok(CallToolResult::success(vec![text]).into())
                    }
                }
            }
        }
    }

    async fn list_prompts(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let prompts = self.offer.prompts.iter().map(|offered| offered.prompt.clone());
        let mut prompts: Vec<_> = prompts.collect();

        let changes = self.changes.borrow().prompts;
        if let Some(first) = prompts.first_mut().filter(|_| changes > 0) {
            first.description = Some(describe_change(changes));
        }
        Ok(ListPromptsResult::with_all_items(prompts))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let Some(offered) = self.offer.prompt(&request.name) else {
            let text = format!("there is no prompt {}", request.name);
            return Err(ErrorData::invalid_params(text, None));
        };

        let arguments = request.arguments.unwrap_or_default();
        let messages = offered.messages(&arguments);
        if let Some(asks) = &offered.asks {
            let responses = request.input_responses;
            let state = request.request_state;
            let carried = CallState { responses, state, arguments };
            if let AskOutcome::Wait(result) = self.ask_client(asks, carried, &context).await? {
                return Ok(result.into());
            }
        }

        Ok(GetPromptResult::new(messages).into())
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let resources = self.offer.resources.iter().map(|offered| offered.resource.clone());
        Ok(ListResourcesResult::with_all_items(resources.collect()))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(self.offer.templates.clone()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match self.offer.contents(&request.uri) {
            Some(contents) => Ok(ReadResourceResult::new(vec![contents]).into()),
            None => Err(ErrorData::resource_not_found(
                "there is no such resource",
                Some(json!({"uri": request.uri})),
            )),
        }
    }

    async fn subscribe(
        &self,
        _request: SubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // No resource ever changes, so there is nothing to remember.
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let begun = request.argument.value;
        let words = ["paris", "park", "party"].map(str::to_owned);
        let values = words.into_iter().filter(|word| word.starts_with(&begun)).collect();
        let values = CompletionInfo::with_all_values(values);
        Ok(CompleteResult::new(values.map_err(|error| ErrorData::internal_error(error, None))?))
    }

    async fn set_level(
        &self,
        _request: SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.changes.subscribe();
        let mut reported = *changes.borrow_and_update();
        loop {
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return Ok(()) },
                () = context.cancelled() => return Ok(()),
            }

            let now = *changes.borrow_and_update();
            let sink = context.sink();
            // rmcp sends only what the subscription asks for; the rest is no error here.
            if now.tools != reported.tools {
                let _ = sink.notify_tool_list_changed().await;
            }
            if now.prompts != reported.prompts {
                let _ = sink.notify_prompt_list_changed().await;
            }
            reported = now;
        }
    }
}

/// A description of what has changed so often: clients that look need not believe a report that
/// nothing comes of.
fn describe_change(times: u64) -> String {
    format!("Has changed {times} times")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: conformance-server PORT [initialize] | stdio";
    let port = arguments.next().context(usage)?;
    let newest = match arguments.next().as_deref() {
        None => ProtocolVersion::LATEST,
        Some("initialize") => ProtocolVersion::LATEST_WITH_INITIALIZE,
        Some(_) => anyhow::bail!(usage),
    };

    let server = Server {
        offer: Arc::new(Offer::read().context("offer.json")?),
        secret: uuid::Uuid::new_v4().to_string().into(),
        changes: watch::Sender::default(),
        newest,
    };

    if port == "stdio" {
        let running = server.serve(rmcp::transport::stdio()).await?;
        running.waiting().await?;
        return Ok(());
    }

    serve_http(server, port.parse().context("the port is not a number")?).await
}

async fn serve_http(server: Server, port: u16) -> anyhow::Result<()> {
    let config = StreamableHttpServerConfig::default().enforce_origin_validation();
    let config =
        config.with_allowed_origins(["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"]);
    let stop = config.cancellation_token.clone();
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, config);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    let router = axum::Router::new().fallback_service(service);
    let ended = async move {
        // The process that started this one holds the other end; how it is closed does not matter.
        let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
        stop.cancel();
    };

    tokio::select! {
        served = axum::serve(listener, router) => served.context("serving"),
        () = ended => Ok(()),
    }
}
