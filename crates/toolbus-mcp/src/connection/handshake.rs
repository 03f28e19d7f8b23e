//! Handshakes with servers: over which transport, in which revision of the protocol, and what a
//! server says of itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientLifecycleMode, Peer, RunningService, serve_client_with_lifecycle};
use rmcp::transport::Transport;
use toolbus_config::on_one_line;
use toolbus_wire::json::RawJson;

use super::client_handler::ClientRequestHandler;
use super::lifecycle::add_child_exit;
use super::start_watch::StartWatch;
use super::{SandboxDemand, ServerAccess, SharedDeps};
use crate::config::{Endpoint, Launch, StdioIsolation, Target, find_credentials};
use crate::eraser::shorten_text;
use crate::failure::Failure;
use crate::lookup::URI_BYTES_MAX;
use crate::transport::environment_file;
use crate::transport::intercept::InterceptedTransport;
use crate::transport::process::{ChildMonitor, ServerProcess, SpawnDeps};
use crate::transport::sandbox::{SandboxView, SandboxedLaunch, Sandboxes, why_not_started};
use crate::transport::shield::Shield;
use crate::transport::stdio::StdioTransport;
use crate::transport::streamable_http;

/// Longest text of a server about itself that is kept, in bytes.
const IDENTITY_BYTES_MAX: usize = 64 << 10;
/// Longest revision of the protocol that is kept, in bytes; every span names it.
const PROTOCOL_BYTES_MAX: usize = 64;

/// How the handshake begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handshake {
    /// By asking what the server speaks; one of the older era is then initialized.
    Discover,
    /// By initializing. For servers that an unknown request breaks.
    Initialize,
    /// By opening the event stream of the older HTTP transport, and initializing.
    OlderHttp,
}

impl Handshake {
    /// Its name in logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Discover => "discover",
            Self::Initialize => "initialize",
            Self::OlderHttp => "older HTTP",
        }
    }
}

/// One attempt to start a server: how it is reached, how it begins, and who follows it.
#[derive(Clone, Copy)]
pub(crate) struct StartAttempt<'a> {
    /// With the credentials of the vault in it.
    pub(crate) target: &'a Target,
    pub(crate) handshake: Handshake,
    pub(crate) watch: &'a StartWatch,
}

impl Handshake {
    pub(crate) fn is_older_http(self) -> bool {
        self == Self::OlderHttp
    }
}

/// What a server says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct ServerIdentity {
    pub(crate) name: Option<String>,
    pub(crate) title: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) instructions: Option<String>,
    pub(crate) website_url: Option<String>,
    /// Its pictures, as MCP has them.
    pub(crate) icons: Option<RawJson>,
    pub(crate) protocol: String,
}

/// rmcp's side of a connection, after the handshake.
pub(super) type McpSession = RunningService<RoleClient, ClientRequestHandler>;

/// Starts the server as a child process and shakes hands with it.
pub(super) async fn start_child(
    launch: &Launch,
    access: &ServerAccess,
    deps: &SharedDeps,
    handler: ClientRequestHandler,
    attempt: StartAttempt<'_>,
) -> Result<(McpSession, Arc<ChildMonitor>), Failure> {
    let server = handler.server.clone();
    let environment = child_environment(launch, access, deps).await?;
    let command = &launch.command;
    let SandboxedLaunch { launch, environment, is_behind_bubblewrap } =
        confine(launch, access, deps, &server, environment).await?;
    let spawn = SpawnDeps {
        server: &server,
        environment: &environment,
        eraser: access.eraser.clone(),
        tracker: &deps.tracker,
        supervisor: deps.supervisor.as_ref(),
        is_behind_bubblewrap,
    };
    let (process, pipes) =
        ServerProcess::start(&launch, spawn).map_err(|error| Failure::start(command, &error))?;
    tracing::debug!(server, pid = process.id(), "started MCP server");

    let child = process.monitor();
    attempt.watch.set_child(&child);
    let wire = Arc::clone(&handler.wire);
    let stdio = StdioTransport::new(&server, wire, process, pipes);
    let transport = InterceptedTransport::new(stdio, Arc::clone(&handler.wire));
    match shake_hands(transport, handler, attempt.handshake).await {
        Ok(session) => Ok((session, child)),
        Err(failure) => {
            let failure = add_child_exit(failure, &child).await;
            let why = match is_behind_bubblewrap {
                true => child.last_words().and_then(|words| why_not_started(command, &words)),
                false => None,
            };
            let why = child.why_not_started().or(why);
            let not_started = why.map(|error| Failure::start(command, &error));
            Err(not_started.unwrap_or(failure))
        }
    }
}

/// Returns the command to start, wrapped in a sandbox or a shield if the entry or the settings ask
/// for one.
async fn confine(
    launch: &Launch,
    access: &ServerAccess,
    deps: &SharedDeps,
    server: &str,
    environment: Vec<(OsString, OsString)>,
) -> Result<SandboxedLaunch, Failure> {
    let mut demand = access.sandbox.clone();
    let (launch, server) = (launch.clone(), server.to_owned());
    let (sandboxes, shield) = (deps.sandboxes.clone(), deps.shield.clone());

    let making = tokio::task::spawn_blocking(move || {
        if let SandboxDemand::Preferred(_, otherwise) = &demand
            && !Sandboxes::work()
        {
            tracing::warn!(server, "starting what an agent registered without a sandbox");
            demand = match otherwise {
                StdioIsolation::Shield => SandboxDemand::Shield,
                StdioIsolation::Off => SandboxDemand::None,
            };
        }
        if matches!(demand, SandboxDemand::Shield) && !Shield::works() {
            demand = SandboxDemand::None;
        }

        let (wrapped, what) = match demand {
            SandboxDemand::None => return Ok(SandboxedLaunch::bare(launch, environment)),
            SandboxDemand::Shield => (shield.wrap(&launch, environment), "shield"),
            SandboxDemand::Required(policy) => {
                let wrapped = shield.hidden_paths().and_then(|hidden| {
                    let view = SandboxView { home: Some(&server), hidden: &hidden };
                    sandboxes.wrap(&launch, &policy, view, environment)
                });
                (wrapped, "sandbox")
            }
            SandboxDemand::Preferred(policy, _) => {
                // A registered program has no mounts in which a secret could be.
                let view = SandboxView { home: None, hidden: &[] };
                (sandboxes.wrap(&launch, &policy, view, environment), "sandbox")
            }
        };
        wrapped.map_err(|error| Failure::new(format!("it can have no {what}: {error}")))
    });
    making.await.unwrap_or_else(|_| Err(Failure::new("it cannot be started")))
}

/// What a child finds in its environment beside the variables of its entry. Fails where its folder
/// or its file of variables cannot be used.
async fn child_environment(
    launch: &Launch,
    access: &ServerAccess,
    deps: &SharedDeps,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let folder = launch.folder.clone();
    let file = launch.environment_file.clone();
    if folder.is_none() && file.is_none() {
        return Ok(deps.environment.clone());
    }

    let reading = tokio::task::spawn_blocking(move || {
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(Failure::new(format!("its cwd {folder:?} is no folder")));
        }
        let Some(file) = file else { return Ok(BTreeMap::new()) };
        environment_file::read(&file)
            .map_err(|error| Failure::new(format!("its envFile {file:?}: {}", on_one_line(&error))))
    });

    let variables = reading.await.unwrap_or_else(|_| Err(Failure::new("it cannot be started")))?;
    let credentials =
        variables.iter().flat_map(|(name, value)| find_credentials(name, value.expose()));
    access.eraser.set_file_values(variables.values().cloned().collect(), credentials.collect());

    let own = variables.iter().map(|(name, value)| (name.into(), value.expose().into()));
    Ok(deps.environment.iter().cloned().chain(own).collect())
}

/// Shakes hands with a server over HTTP.
pub(super) async fn dial_endpoint(
    endpoint: &Endpoint,
    access: &ServerAccess,
    handler: ClientRequestHandler,
    handshake: Handshake,
) -> Result<McpSession, Failure> {
    let wire = Arc::clone(&handler.wire);

    if handshake.is_older_http() {
        let opening = streamable_http::open_older(&access.http, endpoint, &wire);
        let opened = Box::pin(opening).await;
        let sse = opened.map_err(|error| Failure::from_stream_error(error, &handler.eraser))?;
        shake_hands(InterceptedTransport::new(sse, wire), handler, handshake).await
    } else {
        let http = streamable_http::open(&access.http, endpoint, &wire)
            .map_err(|error| Failure::new(error.to_string()))?;
        shake_hands(InterceptedTransport::new(http, wire), handler, handshake).await
    }
}

async fn shake_hands<T>(
    transport: InterceptedTransport<T>,
    handler: ClientRequestHandler,
    handshake: Handshake,
) -> Result<McpSession, Failure>
where
    T: Transport<RoleClient> + 'static,
{
    let eraser = handler.eraser.clone();
    let lifecycle = match handshake {
        Handshake::Initialize | Handshake::OlderHttp => ClientLifecycleMode::Initialize,
        Handshake::Discover => ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::LATEST],
            legacy_version: Some(ProtocolVersion::LATEST_WITH_INITIALIZE),
        },
    };

    // Boxed: it is large, and part of every future that connects.
    Box::pin(serve_client_with_lifecycle(handler, transport, lifecycle))
        .await
        .map_err(|error| Failure::handshake(&error, &eraser))
}

/// Reads what the server says about itself, within the limits.
pub(super) fn read_identity(peer: &Peer<RoleClient>) -> ServerIdentity {
    let Some(info) = peer.peer_info() else { return ServerIdentity::default() };
    let bounded = |text: &Option<String>| {
        text.as_deref().map(|text| shorten_text(text, IDENTITY_BYTES_MAX).into_owned())
    };

    let mut identity = ServerIdentity {
        instructions: bounded(&info.instructions),
        protocol: shorten_text(info.protocol_version.as_str(), PROTOCOL_BYTES_MAX).into_owned(),
        ..ServerIdentity::default()
    };
    if let Some(program) = &info.server_info {
        identity.name = bounded(&Some(program.name.clone()));
        identity.title = bounded(&program.title);
        identity.version = bounded(&Some(program.version.clone()));
        identity.description = bounded(&program.description);
        let is_short = |url: &String| url.len() <= URI_BYTES_MAX;
        identity.website_url = program.website_url.clone().filter(is_short);
        identity.icons = program.icons.as_ref().map(RawJson::of);
    }
    identity
}
