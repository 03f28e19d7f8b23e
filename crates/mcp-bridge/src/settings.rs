//! The settings of `mcp-bridge`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::shared_settings::{
    BusSettings, HealthSettings, LogSettings, ShutdownSettings, TelemetrySettings,
};
use toolbus_config::{Alias, Mistakes, Secret};
use toolbus_mcp::settings::McpSettings;
use toolbus_runtime::service::{FrameSettings, ServiceSettings};
use toolbus_store::{LazyStore, Location, LocationError};
use toolbus_tools::grant::settings::GrantCheckSettings;
use toolbus_vault::LazyVault;
use toolbus_vault::settings::VaultSettings;
use toolbus_wire::name::AgentName;

/// Names that settings are read from as well.
pub const ALIASES: &[Alias] = &[
    Alias::new("McpBridge__AgentName", "agents"),
    Alias::new("McpBridge__ConfigPath", "mcp.config"),
    Alias {
        name: "McpBridge__DefaultTimeoutMs",
        key: "mcp.call_timeout",
        translate: to_milliseconds,
    },
    Alias {
        name: "McpBridge__MaxTimeoutMs",
        key: "mcp.call_timeout_max",
        translate: to_milliseconds,
    },
];

/// Settings of `mcp-bridge`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What to call this instance in logs and traces.
    pub name: Option<String>,
    /// The agents to tell which servers there are. The first names the queues.
    #[schemars(length(min = 1, max = 64))]
    pub agents: Vec<String>,
    /// The bus to join.
    pub bus: BusSettings,
    /// The servers.
    pub mcp: McpSettings,
    /// Whose requests are taken.
    pub grants: GrantCheckSettings,
    /// Where the vault is: `sqlite:PATH`, or `postgres://USER:PASSWORD@HOST:PORT/DATABASE` where
    /// several hosts share it. When not set: the file `toolbus/state.db` in the user's state folder
    /// (`XDG_STATE_HOME`, else `~/.local/state`). It is opened when a server needs it.
    pub store: Option<Secret>,
    /// The vault: credentials that entries of `mcp.json` name by `${vault:NAME}`, sealed in the
    /// store. `agent-host vault` puts them there.
    pub vault: VaultSettings,
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
            name: None,
            agents: vec![AgentName::standard().to_string()],
            bus: BusSettings::default(),
            mcp: McpSettings::default(),
            grants: GrantCheckSettings::default(),
            store: None,
            vault: VaultSettings::default(),
            health: HealthSettings::default(),
            log: LogSettings::default(),
            telemetry: TelemetrySettings::default(),
            shutdown: ShutdownSettings::default(),
        }
    }
}

impl toolbus_config::Settings for Settings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.check_agents(mistakes);
        if self.bus.url.is_none() {
            mistakes.add("bus.url", "a bridge needs a broker: --bus or TOOLBUS_BUS names it");
        }
        self.grants.check(mistakes);
        self.vault.check(mistakes);
        match self.location() {
            Err(error) => mistakes.add("store", error.to_string()),
            Ok(None) if self.vault.key().is_some() => {
                mistakes.add("store", "the vault needs a place, and this user has no state folder");
            }
            Ok(_) => {}
        }
    }
}

impl Settings {
    fn location(&self) -> Result<Option<Location>, LocationError> {
        Location::or_default(self.store.as_ref().map(Secret::expose))
    }

    /// Hides the files that hold secrets of these settings, and the settings file itself, from
    /// servers behind a shield.
    pub(crate) fn hide_secrets(&mut self, file: Option<PathBuf>) {
        let mut paths = toolbus_config::secret_paths(self);
        let location = self.location().ok().flatten();
        paths.extend(location.iter().flat_map(Location::files));
        paths.extend(file);
        self.mcp.secret_paths = paths;
    }

    /// The vault and the store that it is in, where there is a key for it.
    pub(crate) fn vault(&self) -> Option<(LazyVault, LazyStore)> {
        let key = self.vault.key()?;
        // Checked when the settings were read.
        let store = LazyStore::new(self.location().ok().flatten()?, &[toolbus_vault::MIGRATIONS]);
        Some((LazyVault::new(store.clone(), key), store))
    }

    fn check_agents(&self, mistakes: &mut Mistakes<'_>) {
        for agent in &self.agents {
            if let Err(error) = AgentName::parse(agent) {
                mistakes.add("agents", format!("'{agent}': {error}"));
            }
        }
    }
}

/// The same settings for what needs no broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct OfflineSettings {
    settings: Settings,
    /// None: a bridge that runs has the port.
    #[serde(skip)]
    health: HealthSettings,
}

impl OfflineSettings {
    /// The servers.
    #[must_use]
    pub fn mcp(&self) -> &McpSettings {
        &self.settings.mcp
    }
}

impl toolbus_config::Settings for OfflineSettings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        self.settings.check_agents(mistakes);
    }
}

impl ServiceSettings for OfflineSettings {
    fn frame(&self) -> FrameSettings<'_> {
        FrameSettings { health: &self.health, ..self.settings.frame() }
    }
}

impl ServiceSettings for Settings {
    fn frame(&self) -> FrameSettings<'_> {
        FrameSettings {
            name: self.name.as_deref(),
            health: &self.health,
            log: &self.log,
            telemetry: &self.telemetry,
            shutdown: &self.shutdown,
        }
    }
}

/// The C# bridge's times are numbers of milliseconds.
fn to_milliseconds(text: &str) -> Result<String, String> {
    Ok(format!("{}ms", text.trim()))
}
