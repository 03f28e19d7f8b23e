//! The settings of `openrouter-mcp`.

use std::num::NonZeroU16;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolbus_config::shared_settings::{
    HealthSettings, LogSettings, ShutdownSettings, TelemetrySettings,
};
use toolbus_config::{Alias, ByteSize, HttpUrl, ListenAddress, Mistakes, Secret, TimeSpan};
use toolbus_runtime::http::visitors;
use toolbus_runtime::service::{FrameSettings, ServiceSettings};

/// Names that settings are read from as well.
pub const ALIASES: &[Alias] = &[
    Alias::new("OpenRouter__ApiKey", "openrouter.api_key"),
    Alias::new("OpenRouter__BaseUrl", "openrouter.base_url"),
    Alias::new("OPENROUTER_API_KEY", "openrouter.api_key"),
    Alias::new("OPENROUTER_API_KEY_FILE", "openrouter.api_key_file"),
];

/// Settings of `openrouter-mcp`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What to call this instance in logs and traces.
    pub name: Option<String>,
    /// Where clients come to. Not used with `--stdio`.
    pub http: HttpSettings,
    /// The account, and how it is asked.
    pub openrouter: OpenRouterSettings,
    /// The health port.
    pub health: HealthSettings,
    /// Logs.
    pub log: LogSettings,
    /// Traces, metrics and logs for a collector.
    pub telemetry: TelemetrySettings,
    /// How to stop.
    pub shutdown: ShutdownSettings,
}

/// Where clients come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HttpSettings {
    /// Where MCP clients are served over streamable HTTP, at the paths `/` and `/mcp`; `/health`
    /// beside them says that the process lives. Clients need no credentials: whoever reaches
    /// the address can read what the account says of itself.
    pub address: ListenAddress,
    /// Whether that may be so at an address that other machines can reach. There it has to be said:
    /// a network policy or a proxy then keeps out who is not meant to come.
    pub anonymous: bool,
    /// Names that clients may reach this machine by, with or without a port, such as
    /// `openrouter-mcp`; a request for another one is refused. `localhost`, `127.0.0.1` and `[::1]`
    /// always may, from this machine. Needed where the address is not one of those.
    #[schemars(length(max = 64))]
    pub allowed_hosts: Vec<String>,
    /// Web pages that may call tools, by their origins, such as `https://chat.example.com`; a
    /// request from another one is refused. Those of this machine always may.
    #[schemars(length(max = 64))]
    pub allowed_origins: Vec<String>,
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            address: "127.0.0.1:8080".parse().expect("it is an address"),
            anonymous: false,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
        }
    }
}

/// The account, and how it is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct OpenRouterSettings {
    /// The account's key; `list_api_keys` and `get_api_key` need a management key. Without one the
    /// tools are there, and say that it is missing.
    pub api_key: Option<Secret>,
    /// The file that the key is in, instead. It is read for each call, so a key that is rotated
    /// holds from the next call on.
    pub api_key_file: Option<PathBuf>,
    /// Where OpenRouter's API is.
    pub base_url: HttpUrl,
    /// How long one answer may take, from the first byte of the request to the last of the answer.
    pub timeout: TimeSpan,
    /// Largest answer that is passed on. The list of all models has about 1 MiB.
    pub answer_max: ByteSize,
    /// Most calls at a time; more are refused as busy.
    #[schemars(range(min = 1, max = 1000))]
    pub concurrency: NonZeroU16,
}

impl Default for OpenRouterSettings {
    fn default() -> Self {
        Self {
            api_key: None,
            api_key_file: None,
            base_url: "https://openrouter.ai/api/v1".parse().expect("it is a URL"),
            timeout: TimeSpan::seconds(30),
            answer_max: ByteSize::mebibytes(8),
            concurrency: NonZeroU16::new(16).expect("16 is not zero"),
        }
    }
}

/// Bounds of settings that the schema cannot say.
const TIMEOUT_MAX: TimeSpan = TimeSpan::seconds(600);
const ANSWER_MAX: ByteSize = ByteSize::mebibytes(64);

impl toolbus_config::Settings for Settings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        let HttpSettings { address, anonymous, allowed_hosts, allowed_origins } = &self.http;
        visitors::check("http", Some(address), allowed_hosts, allowed_origins, mistakes);
        if !anonymous {
            visitors::check_open("http", Some(address), None, mistakes);
        }
        self.openrouter.check(mistakes);
    }
}

impl OpenRouterSettings {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        let has_key = self.api_key.as_ref().is_some_and(|key| !key.expose().trim().is_empty());
        if has_key && self.api_key_file.is_some() {
            let what = "openrouter.api_key is set too, and only one of them can hold";
            mistakes.add("openrouter.api_key_file", what);
        }

        // What a URL may hold beside scheme, host, port and path would be lost or leak.
        let url = self.base_url.expose();
        let authority = url.split("://").nth(1).and_then(|rest| rest.split('/').next());

        if url.contains(['?', '#']) || authority.is_some_and(|authority| authority.contains('@')) {
            let what = "it may have no user, password, query or fragment: the key is set by itself";
            mistakes.add("openrouter.base_url", what);
        }

        if self.timeout == TimeSpan::default() || self.timeout > TIMEOUT_MAX {
            mistakes.add("openrouter.timeout", format!("it is not from 1ms to {TIMEOUT_MAX}"));
        }

        if self.answer_max == ByteSize::default() || self.answer_max > ANSWER_MAX {
            mistakes.add("openrouter.answer_max", format!("it is not from 1B to {ANSWER_MAX}"));
        }
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
