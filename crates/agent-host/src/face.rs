//! The MCP face of this agent, on a port of its own or on that of the HTTP interface.

use std::net::SocketAddr;
use std::time::Duration;

use toolbus::Toolbus;
use toolbus_config::ListenAddress;
use toolbus_face::{CONNECTIONS_MAX, Face, FaceDeps, FaceSettings};
use toolbus_runtime::http;

use crate::face_settings::McpFaceSettings;
use crate::http_clients::HttpClients;

/// What holds for the port.
const LIMITS: http::Limits = http::Limits { connections_max: CONNECTIONS_MAX, lifetime: None };

/// A face that MCP clients can reach.
pub struct FaceServer {
    face: Face,
    server: http::Server,
}

/// The port of the face could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve MCP at {address}")]
pub struct Error {
    address: ListenAddress,
    #[source]
    source: std::io::Error,
}

impl FaceServer {
    /// Checks that the port of the settings can be opened, where they name one.
    ///
    /// # Errors
    /// When the address is in use, not of this machine, or its name does not resolve.
    pub async fn check_port(settings: &McpFaceSettings) -> Result<(), Error> {
        let Some(address) = &settings.address else { return Ok(()) };
        let checked = http::check_port(address).await;
        checked.map_err(|source| Error { address: address.clone(), source })
    }

    /// Opens the face of an agent for these clients, where the settings have an address for it.
    ///
    /// # Errors
    /// When the address is in use, not of this machine, or its name does not resolve.
    pub(crate) async fn open(
        settings: &McpFaceSettings,
        clients: &HttpClients,
        toolbus: &Toolbus,
    ) -> Result<Option<Self>, Error> {
        let Some(address) = &settings.address else { return Ok(None) };
        let face = open_face(settings, clients, toolbus);

        match http::serve(address, face.router(), LIMITS).await {
            Ok(server) => Ok(Some(Self { face, server })),
            Err(source) => Err(Error { address: address.clone(), source }),
        }
    }

    /// The address that is really listened on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Takes no more calls, waits up to `grace` for those that run, and closes every connection.
    pub async fn close(self, grace: Duration) {
        self.face.drain(grace).await;
        self.server.close().await;
        self.face.close().await;
    }
}

/// The face of an agent, to be served at some port.
pub(crate) fn open_face(
    settings: &McpFaceSettings,
    clients: &HttpClients,
    toolbus: &Toolbus,
) -> Face {
    let visitors = FaceSettings {
        api: settings.api_settings(clients),
        cors: settings.cors,
        ..FaceSettings::default()
    };
    let deps = FaceDeps {
        agent: toolbus.name().clone(),
        invoker: toolbus.invoker().clone(),
        directory: toolbus.directory().clone(),
    };
    Face::new(&visitors, deps)
}
