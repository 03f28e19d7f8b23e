//! The peer: the same server called with the protocol's library alone.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use e2e::bench::Lane;
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, ProtocolVersion,
};
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;

use crate::hop::arguments;
use crate::server::ECHO;

/// One client, as the bridge has one: the same version of the protocol, and HTTP connections that
/// are used again.
#[derive(Clone)]
pub(crate) struct Direct {
    client: Arc<RunningService<RoleClient, ClientConfig>>,
    params: CallToolRequestParams,
}

impl Direct {
    pub(crate) async fn connect(url: &str) -> anyhow::Result<Self> {
        // reqwest panics without a process-wide provider. Another's stays if there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = toolbus_testkit::http_client_builder().build()?;
        let config = StreamableHttpClientTransportConfig::with_uri(url);
        let transport = StreamableHttpClientTransport::with_client(http, config);
        let client = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("bench", env!("CARGO_PKG_VERSION")),
        );
        let lifecycle =
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::LATEST] };
        let client = serve_client_with_lifecycle(client, transport, lifecycle).await?;
        let arguments = arguments().as_object().context("arguments are an object")?.clone();
        let params = CallToolRequestParams::new(ECHO).with_arguments(arguments);
        Ok(Self { client: Arc::new(client), params })
    }
}

impl Lane for Direct {
    async fn call(&mut self) -> anyhow::Result<()> {
        let result = self.client.call_tool(self.params.clone()).await?;
        ensure!(result.is_error != Some(true) && result.content.len() == 1, "{result:?}");
        Ok(())
    }
}
