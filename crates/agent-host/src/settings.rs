//! The settings of `agent-host`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::shared_settings::{
    BusSettings, HealthSettings, LogSettings, ShutdownSettings, TelemetrySettings,
};
use toolbus_config::{Alias, Mistakes, Secret, Setting};
use toolbus_mcp::settings::McpSettings;
use toolbus_models::settings::ModelSettings;
use toolbus_policy::PolicySettings;
use toolbus_runtime::service::{FrameSettings, ServiceSettings};
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_store::Location;
use toolbus_toolkits::anthropic_usage::AnthropicUsageSettings;
use toolbus_toolkits::files::FilesSettings;
use toolbus_toolkits::rest::RestSettings;
use toolbus_toolkits::shell::BashSettings;
use toolbus_toolkits::web::WebSettings;
use toolbus_toolkits::{GoogleSettings, LinkedInSettings};
use toolbus_tools::grant::settings::GrantSettings;
use toolbus_vault::settings::VaultSettings;
use toolbus_wire::name::AgentName;

use crate::a2a_settings::A2aSettings;
use crate::agent_settings::AgentSettings;
use crate::approval_settings::ApprovalSettings;
use crate::arguments::{Arguments, Command};
use crate::artifact_settings::ArtifactSettings;
use crate::audit_settings::AuditSettings;
use crate::chain_settings::ChainSettings;
use crate::discovery_settings::DiscoverySettings;
use crate::face_settings::{FaceTokens, McpFaceSettings};
use crate::http_settings::HttpSettings;
use crate::schedule_settings::ScheduleSettings;
use crate::subagent_settings::{SubagentSettings, WispSettings};
use crate::{state, toolkits};

/// Names that settings are read from as well.
pub const ALIASES: &[Alias] =
    &[Alias::new("Agent__Name", "name"), Alias::new("McpBridge__ConfigPath", "mcp.config")];

/// Settings of `agent-host`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The agent's name: 1 to 64 letters, digits, `_` and `-`. Its topics and queues carry it.
    pub name: String,
    /// The bus. Without a URL the fleet runs embedded in this process.
    pub bus: BusSettings,
    /// How scripts run when embedded.
    pub scripts: ScriptsSettings,
    /// Which MCP servers run when embedded.
    pub mcp: McpSettings,
    /// Who may call which tool, and how often.
    pub policy: PolicySettings,
    /// What tells workers on the bus that a request has passed the gates.
    pub grants: GrantSettings,
    /// The agent's tools for MCP clients, while it serves.
    pub mcp_face: McpFaceSettings,
    /// The agent for programs, over HTTP, while it serves.
    pub http: HttpSettings,
    /// Where state is kept that outlives the process: `sqlite:PATH`, or
    /// `postgres://USER:PASSWORD@HOST:PORT/DATABASE` where several hosts share it. When not set:
    /// the file `toolbus/state.db` in the user's state folder (`XDG_STATE_HOME`, else
    /// `~/.local/state`). It is opened when something needs it.
    pub store: Option<Secret>,
    /// How calls are approved that a rule wants to be approved.
    pub approvals: ApprovalSettings,
    /// The audit log: a row in the store for every call.
    pub audit: AuditSettings,
    /// Artifacts: large results, which callers get by reference.
    pub artifacts: ArtifactSettings,
    /// Chains: programs over tools that a model writes.
    pub chains: ChainSettings,
    /// Models, which answer for the agent.
    pub models: ModelSettings,
    /// The agent: a model that calls tools until it has an answer.
    pub agent: AgentSettings,
    /// Other agents on the bus: the agent knows them, gives them tasks, and does theirs.
    pub a2a: A2aSettings,
    /// Tools for files in a working directory, where one is set.
    pub files: FilesSettings,
    /// The tool `bash`: commands of a shell in that directory.
    pub bash: BashSettings,
    /// Tools for the web: searches and pages.
    pub web: WebSettings,
    /// HTTP endpoints that are tools.
    pub rest: RestSettings,
    /// Tools for jobs on LinkedIn.
    pub linkedin: LinkedInSettings,
    /// The tool `anthropic_usage`: reports of an organization's use of Anthropic's API, where there
    /// is a key.
    pub anthropic_usage: AnthropicUsageSettings,
    /// Tools for Gmail and Calendar of one Google account, where there is a client of its OAuth.
    /// `agent-host login google` logs in.
    pub google: GoogleSettings,
    /// What the agent is to do later, while it serves.
    pub schedules: ScheduleSettings,
    /// Subagents, among which the agent splits its work.
    pub subagents: SubagentSettings,
    /// Wisps: pipelines of steps that the agent has run in one call.
    pub wisps: WispSettings,
    /// The vault: credentials for tools, and for MCP servers that run embedded, sealed in the
    /// store.
    pub vault: VaultSettings,
    /// How tools are found by what they are for.
    pub discovery: DiscoverySettings,
    /// Whether the `mcp.json` of the current folder is used without asking, though nobody named it.
    /// When not set, a person at a terminal is asked once for each folder and content of the file;
    /// without a terminal the file is left out.
    pub trust_folder: bool,
    /// Whether each tool of an MCP server is a tool of its own as well, named `server__tool`,
    /// beside `mcp_invoke_tool`.
    pub direct_tools: bool,
    /// The health port.
    pub health: HealthSettings,
    /// Logs.
    pub log: LogSettings,
    /// Traces, metrics and logs for a collector.
    pub telemetry: TelemetrySettings,
    /// How to stop.
    pub shutdown: ShutdownSettings,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            name: AgentName::standard().to_string(),
            bus: BusSettings::default(),
            scripts: ScriptsSettings::default(),
            mcp: McpSettings::default(),
            policy: PolicySettings::standard(),
            grants: GrantSettings::default(),
            mcp_face: McpFaceSettings::default(),
            http: HttpSettings::default(),
            store: None,
            approvals: ApprovalSettings::default(),
            audit: AuditSettings::default(),
            artifacts: ArtifactSettings::default(),
            chains: ChainSettings::default(),
            models: ModelSettings::default(),
            agent: AgentSettings::default(),
            a2a: A2aSettings::default(),
            schedules: ScheduleSettings::default(),
            subagents: SubagentSettings::default(),
            wisps: WispSettings::default(),
            files: FilesSettings::default(),
            bash: BashSettings::default(),
            web: WebSettings::default(),
            rest: RestSettings::default(),
            linkedin: LinkedInSettings::default(),
            anthropic_usage: AnthropicUsageSettings::default(),
            google: GoogleSettings::default(),
            vault: VaultSettings::default(),
            discovery: DiscoverySettings::default(),
            trust_folder: false,
            direct_tools: false,
            health: HealthSettings::default(),
            log: LogSettings::default(),
            telemetry: TelemetrySettings::default(),
            shutdown: ShutdownSettings::default(),
        }
    }
}

impl Settings {
    /// Hides the files that hold secrets or state of these settings, and the settings file itself,
    /// from MCP servers behind a shield.
    pub(crate) fn hide_secrets(&mut self, file: Option<PathBuf>) {
        let mut paths = toolbus_config::secret_paths(self);
        let location = state::location(self).ok().flatten();
        paths.extend(location.iter().flat_map(Location::files));
        let artifacts = self.artifacts.place.as_ref().filter(|place| !place.contains("://"));
        paths.extend(artifacts.map(PathBuf::from));
        paths.extend(file);
        self.mcp.secret_paths = paths;
    }

    /// Whether the MCP face is served at the port of the HTTP interface: where both have the same
    /// address, unless the system is to choose a port for each.
    pub(crate) fn shares_port(&self) -> bool {
        let (face, http) = (&self.mcp_face.address, &self.http.address);
        face.is_some() && face == http && face.as_ref().is_some_and(|face| face.port() != 0)
    }
}

impl toolbus_config::Settings for Settings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        if let Err(error) = AgentName::parse(&self.name) {
            mistakes.add("name", error.to_string());
        }
        self.scripts.check(mistakes);
        let tokens = FaceTokens { exist: self.http.has_tokens(), are_of_port: self.shares_port() };
        self.mcp_face.check("mcp_face", tokens, mistakes);
        self.http.check("http", !self.models.endpoints.is_empty(), mistakes);
        self.policy.check("policy", mistakes);
        self.grants.check(mistakes);
        self.approvals.check("approvals", mistakes);
        self.audit.check("audit", mistakes);
        self.artifacts.check("artifacts", mistakes);
        self.chains.check("chains", mistakes);
        self.models.check("models", mistakes);
        self.agent.check("agent", mistakes);
        self.a2a.check("a2a", mistakes);
        self.schedules.check("schedules", mistakes);
        self.subagents.check("subagents", mistakes);
        self.wisps.check("wisps", mistakes);
        self.discovery.check("discovery", mistakes);
        if self.http.tool_api.enabled && !self.discovery.enabled {
            let what = "tools are found by discovery: set discovery.enabled";
            mistakes.add("http.tool_api.enabled", what);
        }
        if self.discovery.split_with_model && self.models.endpoints.is_empty() {
            let what = "a model splits tasks: name one in the section models";
            mistakes.add("discovery.split_with_model", what);
        }
        toolkits::check(self, mistakes);
        self.vault.check(mistakes);

        match state::location(self) {
            Err(error) => mistakes.add("store", error.to_string()),
            Ok(None) if self.vault.key().is_some() => {
                mistakes.add("store", "the vault needs a place, and this user has no state folder");
            }
            Ok(_) => {}
        }
    }
}

impl ServiceSettings for Settings {
    fn frame(&self) -> FrameSettings<'_> {
        FrameSettings {
            name: Some(&self.name),
            health: &self.health,
            log: &self.log,
            telemetry: &self.telemetry,
            shutdown: &self.shutdown,
        }
    }
}

/// What the options set.
pub(crate) fn of_arguments(arguments: &Arguments) -> Vec<Setting> {
    let file = arguments.mcp_config.as_ref().map(|path| path.to_string_lossy().into_owned());
    let serve = match &arguments.command {
        Some(Command::Serve(options)) => Some(options),
        _ => None,
    };
    let mcp = serve.and_then(|options| options.mcp.clone());
    let http = serve.and_then(|options| options.http.clone());
    let asked = match &arguments.command {
        Some(Command::Health(options)) => options.health.clone(),
        _ => None,
    };

    let mut settings = arguments.member.settings();
    settings.extend(serve.map(|options| options.service.settings()).unwrap_or_default());
    let own = [
        file.map(|file| Setting::text("mcp.config", file, "--mcp-config")),
        mcp.map(|address| Setting::text("mcp_face.address", address, "--mcp")),
        http.map(|address| Setting::text("http.address", address, "--http")),
        asked.map(|address| Setting::text("health.address", address, "--health")),
        arguments.trust_folder.then(|| Setting::json("trust_folder", true, "--trust-folder")),
    ];
    settings.extend(own.into_iter().flatten());
    settings
}
