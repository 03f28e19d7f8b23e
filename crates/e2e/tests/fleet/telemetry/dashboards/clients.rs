//! Clients of the two programs that answer MCP clients: of the agent's face, and of openrouter-mcp.

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};
use toolbus_testkit::process::Service;

use super::Stage;
use crate::support::mcp_url;
use crate::telemetry::servers;

/// One client of a server.
struct Client(RunningService<RoleClient, ClientConfig>);

impl Client {
    async fn connect(url: &str) -> Self {
        // Being second is no error: any provider will do for a client that speaks no TLS.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = toolbus_testkit::http_client_builder().build().unwrap();
        let config = StreamableHttpClientTransportConfig::with_uri(url);
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let client =
            ClientConfig::new(ClientCapabilities::default(), Implementation::new("test", "1"));
        let lifecycle =
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
        Self(serve_client_with_lifecycle(client, transport, lifecycle).await.unwrap())
    }

    /// Calls a tool; tells whether it told of an error.
    async fn call(&self, tool: &'static str, arguments: &Value) -> bool {
        let arguments = arguments.as_object().unwrap().clone();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        self.0.call_tool(params).await.unwrap().is_error == Some(true)
    }
}

/// Calls by MCP clients: of an agent, which has a script run, and of openrouter-mcp, which reaches
/// no account and says so. Gives the latter, which is to live on.
pub(super) async fn call(stage: &Stage<'_>, agent: &Service) -> Service {
    let face = mcp_url(agent, "mcpFace").await;
    let (openrouter, url) = servers::instrumented(|launch| stage.exporting(launch)).await;
    let script = json!({"script": "print(1)"});
    for (job, url, tool, arguments, fails) in [
        ("agent-host", &face, "execute_python_script", &script, false),
        ("openrouter-mcp", &url, "get_credits", &json!({}), true),
    ] {
        let client = Client::connect(url).await;
        for count in 1..=3 {
            assert_eq!(client.call(tool, arguments).await, fails, "{job}");
            // Exported before the next one, which is seen as an increase.
            let of = format!(r#"job="{job}",mcp_method_name="tools/call""#);
            let calls = format!("sum(mcp_server_operation_duration_seconds_count{{{of}}})");
            stage.shown(&format!("{calls} >= {count}")).await;
        }
    }
    openrouter
}
