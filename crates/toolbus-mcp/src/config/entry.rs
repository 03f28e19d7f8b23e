//! One entry of `mcp.json`: a server, how it is reached, and which of its tools are allowed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::auth::{self, Grant};
use super::credential::{self, find_credentials};
use super::members::{MemberFindings, Members};
use super::sandbox::{self, Isolation};
use super::template::{CredentialSlot, CredentialValues, HasGrant};
use super::{Mistake, Variables};
use toolbus_wire::message::Secret;

use crate::eraser::Eraser;
use crate::server_name::ServerName;
use crate::tool_filter::ToolFilter;

/// Longest timeout that an entry may ask for, in milliseconds: one hour.
const TIMEOUT_MS_MAX: u64 = 3_600_000;
/// The least that `timeout` can mean, in milliseconds. Smaller values are seconds, of clients that
/// count in those.
const SHARED_TIMEOUT_MS_MIN: u64 = 1000;

/// How long a program may take to start that may have to be downloaded first.
const DOWNLOAD_START_TIMEOUT: Duration = Duration::from_secs(180);
/// Commands that run a program out of a package or an image, and download that first.
const PACKAGE_RUNNERS: [&str; 13] = [
    "npx", "npm", "pnpm", "pnpx", "yarn", "bun", "bunx", "deno", "uv", "uvx", "pipx", "docker",
    "podman",
];

const MEMBERS: &[&str] = &[
    "type",
    "url",
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "sandbox",
    "headers",
    "auth",
    "disabled",
    "allowedTools",
    "deniedTools",
    "timeout",
    "timeoutMs",
    "toolTimeoutMs",
    "startupTimeoutMs",
    "toolChanges",
    "session",
    REGISTERED_BY,
];
/// The member of a registration that names the agent whose it is.
pub(crate) const REGISTERED_BY: &str = "registeredBy";
/// Those that limit what a server may do. What may be a misspelling of one is a mistake.
const GUARDED_MEMBERS: &[&str] =
    &["disabled", "sandbox", "allowedTools", "deniedTools", "toolChanges", "session"];

/// Headers that the transport itself sets on every request.
const RESERVED_HEADERS: &[&str] = &[
    "accept",
    "content-type",
    "content-length",
    "transfer-encoding",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
];

/// What becomes of a tool, a prompt or an introduction that is not the one that was seen first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ToolChanges {
    /// It is taken, and the difference is logged and shown.
    #[default]
    Announce,
    /// It is hidden and refused until a person accepts it.
    Quarantine,
}

/// Whose a session with a server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SessionMode {
    /// All callers share one.
    #[default]
    Shared,
    /// Each caller has one of its own.
    Caller,
}

/// One configured server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub target: Target,
    /// What may be seen and called of it.
    pub filter: ToolFilter,
    /// How long a call may take, when the operator says so.
    pub call_timeout: Option<Duration>,
    /// The same for single tools, by their exact names; it wins over `call_timeout`.
    pub tool_timeouts: BTreeMap<String, Duration>,
    /// How long the server may take to start and to list its tools, when the operator says so.
    pub startup_timeout: Option<Duration>,
    /// What becomes of what is new or has changed, when the operator says so for this server.
    pub tool_changes: Option<ToolChanges>,
    /// Whether its callers share one session.
    pub session: SessionMode,
    /// The agent that has registered the server, as its request named it.
    pub registered_by: Option<String>,
    /// Values that variables of the environment have put into the entry and that are credentials.
    credentials: Vec<Secret>,
    /// The places that credentials of the vault go into when the server is connected.
    slots: Vec<CredentialSlot>,
}

/// What reading one entry has given.
pub(super) struct EntryReading {
    /// The entry, or everything that is wrong with it.
    pub(super) entry: Result<Entry, Vec<Mistake>>,
    /// What was ignored.
    pub(super) warnings: Vec<Mistake>,
}

/// How a server is reached: by starting it or over HTTP, or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// As a child process that speaks on its standard input and output.
    Launch(Launch),
    /// Over HTTP.
    Endpoint(Endpoint),
    /// Not at all, for the operator has disabled it.
    Disabled,
}

/// A command that is started.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program, looked up on the child's `PATH`.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Environment variables on top of the few that every child gets.
    pub environment: BTreeMap<String, Secret>,
    /// A file of more such variables, which is read at each start. Those of `environment` win.
    pub environment_file: Option<PathBuf>,
    /// The folder that it is started in, when not that of this process.
    pub folder: Option<PathBuf>,
    /// Isolation of the server from this machine.
    pub sandbox: Isolation,
}

/// An HTTP address.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// `http` or `https`, without user and password.
    pub url: Url,
    /// Sent with every request; every value is marked as sensitive.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// How the token is obtained that is sent as well.
    pub grant: Option<Grant>,
    /// What the operator says that the server speaks.
    pub protocol: Protocol,
}

/// Which of the HTTP transports a server speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// To be found out: streamable HTTP, and the transport of 2024-11-05 for servers that do not
    /// take it.
    Auto,
    /// Streamable HTTP and nothing else.
    StreamableHttp,
    /// HTTP with server-sent events, the transport of 2024-11-05, or so the entry says. Existing
    /// files call streamable HTTP by this name too, so it is found out as well.
    Sse,
}

impl Protocol {
    /// Whether a server that does not take streamable HTTP is tried with the older transport.
    pub(crate) fn falls_back(self) -> bool {
        self != Self::StreamableHttp
    }
}

impl Entry {
    /// Reads one entry. Also for servers that are registered at run time.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(
        name: &str,
        members: Map<String, Value>,
        variables: Variables<'_>,
    ) -> Result<Self, Vec<Mistake>> {
        Self::read(name, members, variables).entry
    }

    /// Reads one entry, and says what of it was ignored.
    pub(super) fn read(
        name: &str,
        members: Map<String, Value>,
        variables: Variables<'_>,
    ) -> EntryReading {
        let mut members = Members::new(name, members, variables);
        let server_name = ServerName::parse_unreserved(name);
        if let Err(error) = &server_name {
            members.add_mistake("", error.to_string());
        }

        let is_disabled = members.take_flag("disabled") == Some(true);
        let (entry, findings) = match server_name.ok() {
            // What else it says need not make sense: its variables may not be set any more.
            name if is_disabled => (name.map(Self::disabled), members.finish()),
            name => Self::read_enabled(name, members),
        };

        let MemberFindings { mut mistakes, warnings, credentials, templates } = findings;
        let has_grant = match entry.as_ref().map(|entry| &entry.target) {
            Some(Target::Endpoint(Endpoint { grant: Some(_), .. })) => HasGrant::Yes,
            _ => HasGrant::No,
        };
        let mut slots = Vec::new();
        for (path, template) in templates {
            match CredentialSlot::new(&path, template, has_grant) {
                Ok(slot) => slots.push(slot),
                Err(what) => mistakes.push(Mistake {
                    server: Some(name.to_owned()),
                    member: Some(path),
                    what: what.to_owned(),
                }),
            }
        }

        let entry = entry.map(|entry| Self { credentials, slots, ..entry });
        EntryReading { entry: entry.filter(|_| mistakes.is_empty()).ok_or(mistakes), warnings }
    }

    fn read_enabled(
        name: Option<ServerName>,
        mut members: Members<'_>,
    ) -> (Option<Self>, MemberFindings) {
        let target = read_target(&mut members);
        let allowed = members.take_texts_if_any("allowedTools");
        let filter = ToolFilter::new(allowed, members.take_texts("deniedTools"));
        let call_timeout = read_call_timeout(&mut members);
        let tool_timeouts = members.take_milliseconds_by_name("toolTimeoutMs", TIMEOUT_MS_MAX);
        let startup_timeout = members.take_milliseconds("startupTimeoutMs", TIMEOUT_MS_MAX);
        let tool_changes = read_tool_changes(&mut members);
        let session = read_session_mode(&mut members);
        let registered_by = members.take_text(REGISTERED_BY);
        members.warn_of_unknown(MEMBERS, GUARDED_MEMBERS);

        let milliseconds = |(tool, ms)| (tool, Duration::from_millis(ms));
        let entry = name.zip(target).map(|(name, target)| Self {
            name,
            target,
            filter,
            call_timeout: call_timeout.map(Duration::from_millis),
            tool_timeouts: tool_timeouts.into_iter().map(milliseconds).collect(),
            startup_timeout: startup_timeout.map(Duration::from_millis),
            tool_changes,
            session,
            registered_by,
            credentials: Vec::new(),
            slots: Vec::new(),
        });
        (entry, members.finish())
    }

    fn disabled(name: ServerName) -> Self {
        Self {
            name,
            target: Target::Disabled,
            filter: ToolFilter::default(),
            call_timeout: None,
            tool_timeouts: BTreeMap::new(),
            startup_timeout: None,
            tool_changes: None,
            session: SessionMode::Shared,
            registered_by: None,
            credentials: Vec::new(),
            slots: Vec::new(),
        }
    }

    /// How long the server may take to start and to list its tools, where `default` is what others
    /// may take. A program that may have to be downloaded first has longer.
    pub(crate) fn startup_limit(&self, default: Duration) -> Duration {
        let by_target = match &self.target {
            Target::Launch(launch) if launch.may_download() => default.max(DOWNLOAD_START_TIMEOUT),
            _ => default,
        };
        self.startup_timeout.unwrap_or(by_target)
    }

    /// Whether an agent may replace or remove this registration. Of one whose agent is not known,
    /// any may.
    pub(crate) fn may_be_changed_by(&self, agent: Option<&str>) -> bool {
        self.registered_by.is_none() || self.registered_by.as_deref() == agent
    }

    /// Whether the operator has disabled the server.
    pub(crate) fn is_disabled(&self) -> bool {
        matches!(self.target, Target::Disabled)
    }

    /// How long the operator lets a call of `tool` take.
    #[must_use]
    pub fn timeout_of(&self, tool: &str) -> Option<Duration> {
        self.tool_timeouts.get(tool).copied().or(self.call_timeout)
    }

    /// Whether the older HTTP transport is tried with a server that does not take the newer one.
    pub(crate) fn falls_back(&self) -> bool {
        matches!(&self.target, Target::Endpoint(endpoint) if endpoint.protocol.falls_back())
    }

    /// The names of the credentials of the vault that it is connected with, each once.
    pub(crate) fn vault_credentials(&self) -> BTreeSet<&str> {
        self.slots.iter().flat_map(CredentialSlot::names).collect()
    }

    /// How the server is reached, with these credentials of the vault in their places.
    ///
    /// # Errors
    /// When one cannot stand where it is to. Its value is not told.
    pub(crate) fn target_with(&self, values: &CredentialValues) -> Result<Target, String> {
        let mut target = self.target.clone();
        for slot in &self.slots {
            slot.fill_in(&mut target, values)?;
        }
        Ok(target)
    }

    /// The eraser of this server's secrets, for everything that it says.
    pub(crate) fn eraser(&self) -> Eraser {
        let (mut values, mut credentials) = match &self.target {
            Target::Launch(launch) => launch.secrets(),
            Target::Endpoint(endpoint) => (endpoint.secrets().collect(), endpoint.credentials()),
            Target::Disabled => return Eraser::default(),
        };

        values.extend(self.credentials.iter().cloned());
        credentials.extend(self.credentials.iter().cloned());
        Eraser::new(values).with_credentials(credentials)
    }
}

impl Launch {
    /// Values of its environment, with the credentials among its arguments; and those of all that
    /// are credentials.
    fn secrets(&self) -> (Vec<Secret>, Vec<Secret>) {
        let of_arguments = credential::find_in_arguments(&self.arguments);
        let environment = self.environment.iter();
        let of_environment =
            environment.flat_map(|(name, value)| find_credentials(name, value.expose()));

        let credentials = of_environment.chain(of_arguments.iter().cloned()).collect();
        let values = self.environment.values().cloned().chain(of_arguments).collect();
        (values, credentials)
    }
}

impl Launch {
    /// Whether the command may download the program before it starts it.
    fn may_download(&self) -> bool {
        let program = Path::new(&self.command).file_name().and_then(|name| name.to_str());
        program.is_some_and(|program| PACKAGE_RUNNERS.contains(&program))
    }
}

impl Endpoint {
    /// Header values, for `Bearer x` the `x` too, the query of the address, and long parts of its
    /// path: some services take those for a key, and many repeat the path in their errors.
    fn secrets(&self) -> impl Iterator<Item = Secret> {
        const PATH_PART_MIN: usize = 16;
        let of_headers = self.headers.iter().filter_map(|(_, value)| value.to_str().ok());
        let of_path = self.url.path().split('/').filter(|part| part.len() >= PATH_PART_MIN);

        let texts = of_headers
            .flat_map(|text| [Some(text), text.split_once(' ').map(|(_, credential)| credential)])
            .chain([
                self.url.query(),
                self.grant.as_ref().and_then(Grant::secret).map(Secret::expose),
            ])
            .chain(of_path.map(Some));

        texts.flatten().map(|text| Secret::from(text.to_owned()))
    }

    /// Those of them that are credentials.
    fn credentials(&self) -> Vec<Secret> {
        let mut found: Vec<Secret> = Vec::new();
        for (name, value) in &self.headers {
            if let Ok(value) = value.to_str() {
                found.extend(find_credentials(name.as_str(), value));
            }
        }

        for pair in self.url.query().into_iter().flat_map(|query| query.split('&')) {
            let (name, value) = pair.split_once('=').unwrap_or(("", pair));
            found.extend(find_credentials(name, value));
        }

        found.extend(self.url.path().split('/').flat_map(|part| find_credentials("", part)));
        found.extend(self.grant.as_ref().and_then(Grant::secret).cloned());
        found
    }
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("command", &self.command)
            .field("arguments", &format_args!("{} of them", self.arguments.len()))
            .field("environment", &self.environment.keys())
            .field("environment_file", &self.environment_file)
            .field("folder", &self.folder)
            .field("sandbox", &self.sandbox)
            .finish()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Endpoint")
            .field("origin", &self.url.origin().ascii_serialization())
            .field("headers", &names)
            .field("grant", &self.grant)
            .field("protocol", &self.protocol)
            .finish()
    }
}

fn read_target(members: &mut Members<'_>) -> Option<Target> {
    let kind = members.take_text("type").map(|kind| kind.to_ascii_lowercase());
    let url = members.take_expanded("url");
    let command = members.take_expanded("command");
    let arguments = members.take_expanded_texts("args");
    let environment = members.take_secrets("env");
    let environment_file = members.take_path("envFile");
    let folder = members.take_path("cwd");
    let sandbox = sandbox::read_sandbox(members, folder.as_deref());
    let mut headers = read_headers(members);
    let auth = members.take_object("auth");

    let protocol = match kind.as_deref() {
        None | Some("auto") => Some(Protocol::Auto),
        Some("http" | "streamable-http" | "streamablehttp") => Some(Protocol::StreamableHttp),
        Some("sse") => Some(Protocol::Sse),
        Some("stdio") => None,
        Some(_) => {
            members.add_mistake("type", "has to be stdio, http, streamable-http, sse or auto");
            return None;
        }
    };

    match (url, command, protocol) {
        (Some(_), Some(_), _) => {
            members.add_mistake("", "has both url and command; a server is reached by one of them");
            None
        }
        (None, None, _) => {
            members.add_mistake("", "has neither url nor command");
            None
        }
        (Some(_), None, None) => {
            members.add_mistake("type", "stdio goes with command, not with url");
            None
        }
        (None, Some(_), Some(_)) if kind.as_ref().is_some_and(|kind| kind != "auto") => {
            members.add_mistake("type", "command goes with stdio only");
            None
        }
        (Some(url), None, Some(protocol)) => {
            refuse_if(members, !arguments.is_empty(), "args", "goes with command, not with url");
            refuse_if(members, !environment.is_empty(), "env", "goes with command, not with url");
            refuse_if(
                members,
                environment_file.is_some(),
                "envFile",
                "goes with command, not with url",
            );
            refuse_if(members, folder.is_some(), "cwd", "goes with command, not with url");
            let is_isolated = !matches!(sandbox, Isolation::AsSet | Isolation::Off);
            refuse_if(members, is_isolated, "sandbox", "goes with command, not with url");
            let url = parse_address(members, &url)?;
            let grant = auth.and_then(|auth| auth::read_auth(members, auth, &url, &mut headers));
            Some(Target::Endpoint(Endpoint { url, headers, grant, protocol }))
        }
        (None, Some(command), _) => {
            refuse_if(members, !headers.is_empty(), "headers", "goes with url, not with command");
            refuse_if(members, auth.is_some(), "auth", "goes with url, not with command");
            check_variables(members, &environment);
            Some(Target::Launch(Launch {
                command,
                arguments,
                environment,
                environment_file,
                folder,
                sandbox,
            }))
        }
    }
}

/// Reads `timeoutMs`, or `timeout`, which most clients have in milliseconds and some in seconds.
fn read_call_timeout(members: &mut Members<'_>) -> Option<u64> {
    let own = members.take_milliseconds("timeoutMs", TIMEOUT_MS_MAX);
    let shared = members.take_milliseconds("timeout", TIMEOUT_MS_MAX);

    match (own, shared) {
        (Some(_), Some(_)) => members.add_mistake("timeout", "goes without timeoutMs"),
        (None, Some(ms)) if ms < SHARED_TIMEOUT_MS_MIN => {
            let what = format!(
                "is in milliseconds; {ms}, less than a second, is ignored. For seconds, write \
                 {ms}000"
            );
            members.add_warning("timeout", what);
            return None;
        }
        _ => {}
    }
    own.or(shared)
}

fn read_tool_changes(members: &mut Members<'_>) -> Option<ToolChanges> {
    match members.take_text("toolChanges")?.as_str() {
        "announce" => Some(ToolChanges::Announce),
        "quarantine" => Some(ToolChanges::Quarantine),
        _ => {
            members.add_mistake("toolChanges", "has to be announce or quarantine");
            None
        }
    }
}

fn read_session_mode(members: &mut Members<'_>) -> SessionMode {
    match members.take_text("session").as_deref() {
        None | Some("shared") => SessionMode::Shared,
        Some("caller") => SessionMode::Caller,
        Some(_) => {
            members.add_mistake("session", "has to be shared or caller");
            SessionMode::Shared
        }
    }
}

fn refuse_if(members: &mut Members<'_>, refused: bool, member: &str, what: &str) {
    if refused {
        members.add_mistake(member, what);
    }
}

fn parse_address(members: &mut Members<'_>, text: &str) -> Option<Url> {
    let what = match Url::parse(text) {
        Ok(url) if !matches!(url.scheme(), "http" | "https") => {
            "has to begin with http:// or https://".to_owned()
        }
        Ok(url) if !url.username().is_empty() || url.password().is_some() => {
            "has a user or a password in it; put an Authorization into headers".to_owned()
        }
        Ok(url) => return Some(url),
        Err(error) => format!("is not a URL: {error}"),
    };

    members.add_mistake("url", what);
    None
}

fn read_headers(members: &mut Members<'_>) -> Vec<(HeaderName, HeaderValue)> {
    let mut headers = Vec::new();
    for (name, value) in members.take_secrets("headers") {
        let path = format!("headers.{name}");
        let folded = name.to_ascii_lowercase();
        if RESERVED_HEADERS.contains(&folded.as_str()) || folded.starts_with("mcp-param-") {
            members.add_mistake(&path, "is set by the transport itself");
            continue;
        }

        match (HeaderName::try_from(&name), HeaderValue::try_from(value.expose())) {
            (Ok(name), Ok(mut value)) => {
                value.set_sensitive(true);
                headers.push((name, value));
            }
            (Err(_), _) => members.add_mistake(&path, "is not the name of a header"),
            (_, Err(_)) => members.add_mistake(&path, "has a character that no header may have"),
        }
    }

    headers
}

fn check_variables(members: &mut Members<'_>, environment: &BTreeMap<String, Secret>) {
    for (name, value) in environment {
        if name.is_empty() || name.contains(['=', '\0']) || value.expose().contains('\0') {
            members.add_mistake(&format!("env.{name}"), "is no environment variable");
        }
    }
}
