//! The toolkits of the settings: which are on, why others are not, and what they offer.
//!
//! A toolkit is on where its section of the settings says so, or has what it needs. One that is on
//! and does not work here, such as commands without a sandbox, is left out and reported; the agent
//! runs without it. Invariant: no reason holds a key.

#[cfg(feature = "google")]
mod google;
mod key_place;
mod status;

use std::sync::Arc;

use toolbus::ToolbusBuilder;
#[cfg(not(all(feature = "google", feature = "linkedin")))]
use toolbus_config::build_features::{BuildFeature, LeftOut};
use toolbus_config::{Finding, Mistakes};
use toolbus_memory::WorkingMemory;
use toolbus_query::Engine;
use toolbus_runtime::health::{Health, Need, State};
use toolbus_toolkits::CredentialPlaces;
use toolbus_toolkits::anthropic_usage::{self, RegisterError};
use toolbus_toolkits::files::{self, Files};
#[cfg(feature = "linkedin")]
use toolbus_toolkits::linkedin::{self, LinkedIn};
use toolbus_toolkits::rest::{
    self, AuthType, Imported, Rest, RestDeps, RestEndpoint, RestSettings,
};
use toolbus_toolkits::shell::{self, Shell};
use toolbus_toolkits::web::{self, Web, WebDeps};
use toolbus_tools::registry;
use toolbus_tools::{Guide, Registry};
use toolbus_vault::LazyVault;

use crate::settings::Settings;
use crate::state::KeptState;
#[cfg(feature = "google")]
pub(crate) use google::deps as google_deps;
#[cfg(feature = "google")]
use google::toolkit as google_toolkit;
use key_place::KeyPlace;
pub(crate) use status::{ToolStatus, ToolkitStatus};

/// Every toolkit of the settings.
pub(crate) struct Toolkits {
    toolkits: Vec<Toolkit>,
}

/// What toolkits work with.
#[derive(Default)]
pub(crate) struct ToolkitDeps {
    /// Keeps long pages.
    pub(crate) memory: Option<WorkingMemory>,
    /// Has keys.
    pub(crate) vault: Option<LazyVault>,
}

/// One toolkit.
struct Toolkit {
    name: &'static str,
    offered: Result<OfferedToolkit, Off>,
    /// Where the keys are that its tools need, by the tools' names.
    keys: Vec<(String, KeyPlace)>,
    /// Who has its tools, as globs.
    principals: Vec<String>,
    /// Parts of it that do not work here, and why.
    problems: Vec<(String, String)>,
}

/// A toolkit that is on.
struct OfferedToolkit {
    guide: Guide,
    register: RegisterTools,
}

/// Registers the tools of a toolkit.
type RegisterTools = Box<dyn FnOnce(&Registry) -> Result<(), registry::Error> + Send>;

/// Why a toolkit is off.
enum Off {
    /// The settings do not ask for it.
    NotConfigured(String),
    /// They do, and it does not work here.
    Unusable(String),
}

/// Adds what is wrong with the settings of toolkits.
pub(crate) fn check(settings: &Settings, mistakes: &mut Mistakes<'_>) {
    settings.files.check(mistakes);
    settings.bash.check(mistakes);
    settings.web.check(mistakes);
    settings.rest.check(mistakes);
    settings.linkedin.check(mistakes);
    settings.anthropic_usage.check(mistakes);
    settings.google.check(mistakes);

    if settings.bash.enabled && settings.files.working_directory.is_none() {
        mistakes.add("bash.enabled", "commands need a folder: set files.working_directory");
    }
}

impl ToolkitDeps {
    /// Those that there are.
    pub(crate) fn of(state: Option<&KeptState>) -> Self {
        let Some(state) = state else { return Self::default() };
        Self { memory: Some(state.memory.clone()), vault: state.vault.clone() }
    }

    /// Where keys are looked for.
    pub(crate) fn credentials(&self) -> CredentialPlaces {
        let vault = self.vault.clone().map(|vault| Arc::new(vault) as _);
        CredentialPlaces { vault, ..CredentialPlaces::of_process() }
    }
}

impl Toolkits {
    /// Makes those that are on ready to be called. What does not work here is logged, and a
    /// component of the health that is down.
    pub(crate) async fn start(settings: &Settings, health: &Health, deps: ToolkitDeps) -> Self {
        let (files, commands) = (&settings.files, &settings.bash);
        let toolkits = vec![
            Toolkit::new("files", open_files(settings))
                .for_principals(files.principals_or_default(&[])),
            Toolkit::new("bash", start_shell(settings).await)
                .for_principals(files.principals_or_default(&commands.readable_paths)),
            web_toolkit(settings, &deps),
            rest_toolkit(settings, &deps).await,
            Toolkit::new("linkedin", open_linkedin(settings))
                .for_principals(settings.linkedin.principals.clone()),
            usage_toolkit(settings, &deps)
                .for_principals(settings.anthropic_usage.principals.clone()),
            google_toolkit(settings, &deps).for_principals(settings.google.principals.clone()),
        ];

        for Toolkit { name, offered, problems, .. } in &toolkits {
            for (part, reason) in problems {
                tracing::warn!(toolkit = name, part, reason, "a part of a toolkit does not work");
                let component = health.component(&format!("{name}: {part}"), Need::Optional);
                component.set(State::down(reason));
            }
            if let Err(Off::Unusable(reason)) = offered {
                tracing::warn!(toolkit = name, reason, "a toolkit does not work here");
                let component = health.component(name, Need::Optional);
                component.set(State::down(reason));
            }
        }
        Self { toolkits }
    }

    /// The same agent with their tools and guides.
    pub(crate) fn offer(self, mut builder: ToolbusBuilder) -> ToolbusBuilder {
        let offered = self.toolkits.into_iter().filter_map(|toolkit| toolkit.offered.ok());
        for OfferedToolkit { guide, register } in offered {
            builder = builder.guide(guide).remote_tools(move |registry, _| register(registry));
        }
        builder
    }

    /// What is the matter with those that the settings ask for.
    pub(crate) fn examine(&self) -> Vec<Finding> {
        let on = self.toolkits.iter().filter(|toolkit| toolkit.offered.is_ok());
        let on: Vec<_> = on.map(|toolkit| toolkit.name).collect();
        let mut findings = match on.is_empty() {
            true => Vec::new(),
            false => vec![Finding::ok("toolkits", format!("on: {}", on.join(", ")))],
        };

        for Toolkit { name, offered, problems, .. } in &self.toolkits {
            let wrong = |reason: &str| {
                Finding::wrong(format!("toolkit {name}"), reason)
                    .mended_by(format!("correct the section {name} of the settings"))
            };
            if let Err(Off::Unusable(reason)) = offered {
                findings.push(wrong(reason));
            }
            findings
                .extend(problems.iter().map(|(part, reason)| wrong(&format!("{part}: {reason}"))));
        }
        findings
    }

    /// Says of each whether it is on, and why not. Keys in the vault are looked for.
    pub(crate) async fn describe(self, vault: Option<&LazyVault>) -> Vec<ToolkitStatus> {
        let mut statuses = Vec::new();
        for toolkit in self.toolkits {
            statuses.push(toolkit.describe(vault).await);
        }
        statuses
    }
}

impl Toolkit {
    fn new(name: &'static str, offered: Result<OfferedToolkit, Off>) -> Self {
        let principals = status::everybody();
        Self { name, offered, keys: Vec::new(), principals, problems: Vec::new() }
    }

    /// The same toolkit, whose tools these principals have.
    fn for_principals(self, principals: Vec<String>) -> Self {
        Self { principals, ..self }
    }

    async fn describe(mut self, vault: Option<&LazyVault>) -> ToolkitStatus {
        let principals = std::mem::take(&mut self.principals);
        self.describe_tools(vault).await.for_principals(principals)
    }

    async fn describe_tools(self, vault: Option<&LazyVault>) -> ToolkitStatus {
        let registry = Registry::new();
        let registered = match self.offered {
            Ok(offered) => (offered.register)(&registry).map_err(|error| error.to_string()),
            Err(Off::NotConfigured(reason) | Off::Unusable(reason)) => Err(reason),
        };
        if let Err(reason) = registered {
            return ToolkitStatus::off(self.name, reason);
        }

        let registered = registry.snapshot();
        let registered = registered.tools().iter().map(|entry| entry.tool.name.to_string());
        let mut names: Vec<String> = registered.collect();
        // With `search_format = "lines"` there is no search without a key.
        let unregistered = self.keys.iter().map(|(tool, _)| tool);
        let unregistered: Vec<_> = unregistered.filter(|tool| !names.contains(tool)).collect();
        names.extend(unregistered.into_iter().cloned());

        let mut tools = Vec::new();
        for name in names {
            let key = self.keys.iter().find(|(tool, _)| *tool == name);
            let reason = match key {
                Some((_, place)) => place.describe_missing(vault).await,
                None => None,
            };
            tools.push(ToolStatus { name, on: reason.is_none(), reason });
        }
        tools.extend(self.problems.into_iter().map(|(part, reason)| ToolStatus {
            name: part,
            on: false,
            reason: Some(reason),
        }));
        ToolkitStatus::of_tools(self.name, tools)
    }
}

impl OfferedToolkit {
    fn new(
        guide: Guide,
        register: impl FnOnce(&Registry) -> Result<(), registry::Error> + Send + 'static,
    ) -> Self {
        Self { guide, register: Box::new(register) }
    }
}

impl Off {
    fn not_configured(reason: &str) -> Self {
        Self::NotConfigured(reason.to_owned())
    }

    /// Refuses a toolkit that this build leaves out. Settings that ask for it are a mistake.
    #[cfg(not(all(feature = "google", feature = "linkedin")))]
    fn left_out(feature: BuildFeature) -> Self {
        Self::NotConfigured(LeftOut(feature).to_string())
    }

    fn unusable(error: &(dyn std::error::Error + 'static)) -> Self {
        Self::Unusable(toolbus_config::on_one_line(error))
    }
}

fn open_files(settings: &Settings) -> Result<OfferedToolkit, Off> {
    if settings.files.working_directory.is_none() {
        return Err(Off::not_configured("files.working_directory is not set"));
    }
    // This program, which `main` makes a worker where it is told to.
    let engine = Engine::new("/proc/self/exe", [toolbus_query::WORKER_MODE]);
    let engine = engine.map_err(|error| Off::unusable(&error))?;
    let files = Files::open(&settings.files, engine);
    let files =
        files.map_err(|error| Off::Unusable(format!("its folders cannot be used: {error}")))?;
    Ok(OfferedToolkit::new(files::guide(), |registry| files::register(registry, files)))
}

async fn start_shell(settings: &Settings) -> Result<OfferedToolkit, Off> {
    if !settings.bash.enabled {
        return Err(Off::not_configured("bash.enabled is false"));
    }
    let directory = settings.files.real_working_directory();
    let directory = directory
        .map_err(|error| Off::Unusable(format!("the working directory cannot be used: {error}")))?;
    let shell = Shell::start(&settings.bash, &settings.scripts, &directory).await;
    let shell = shell.map_err(|error| Off::unusable(&error))?;
    // Commands reach what the tools for files do, and more.
    let shell = shell.for_audience(settings.files.audience(&settings.bash.readable_paths));
    Ok(OfferedToolkit::new(shell::guide(&shell), |registry| shell::register(registry, shell)))
}

fn web_toolkit(settings: &Settings, deps: &ToolkitDeps) -> Toolkit {
    let mut toolkit = Toolkit::new("web", open_web(settings, deps));
    let web = &settings.web;
    if let Some(variable) = web.search_provider.key_variable() {
        let place = KeyPlace {
            setting: "web.api_key".to_owned(),
            written: web.api_key.clone(),
            variable: Some(variable.to_owned()),
            provider: web.search_provider.vault_provider().to_owned(),
            put_by: None,
        };
        toolkit.keys.push(("web_search".to_owned(), place));
    }
    toolkit
}

fn open_web(settings: &Settings, deps: &ToolkitDeps) -> Result<OfferedToolkit, Off> {
    if !settings.web.enabled {
        return Err(Off::not_configured("web.enabled is false"));
    }
    let credentials = deps.credentials();
    let deps = WebDeps { memory: deps.memory.clone(), credentials, ..WebDeps::default() };
    let web = Web::new(&settings.web, deps).map_err(|error| Off::unusable(&error))?;
    Ok(OfferedToolkit::new(web::guide(), |registry| web::register(registry, web)))
}

async fn rest_toolkit(settings: &Settings, deps: &ToolkitDeps) -> Toolkit {
    let settings = &settings.rest;
    if settings.endpoints.is_empty() && settings.openapi.is_empty() {
        let off = Off::not_configured("rest.endpoints and rest.openapi have none");
        return Toolkit::new("rest", Err(off));
    }
    let deps = RestDeps { credentials: deps.credentials(), ..RestDeps::default() };
    let imported = match Imported::read(settings, &deps).await {
        Ok(imported) => imported,
        Err(error) => return Toolkit::new("rest", Err(Off::unusable(&error))),
    };

    let keys = settings.endpoints.iter().enumerate();
    let keys = keys.map(|(at, endpoint)| (endpoint, format!("rest.endpoints[{at}]")));
    let of_documents = imported.endpoints.iter().map(|endpoint| {
        let at = settings
            .openapi
            .iter()
            .position(|document| endpoint.document.as_ref() == Some(&document.name));
        (endpoint, format!("rest.openapi[{}]", at.unwrap_or_default()))
    });
    let keys = keys.chain(of_documents).filter_map(|(endpoint, setting)| {
        Some((endpoint.name.clone(), key_of_endpoint(endpoint, &setting)?))
    });
    let keys = keys.collect();
    let problems = imported.problems.iter().map(|(document, error)| {
        (format!("document {document}"), toolbus_config::on_one_line(error))
    });
    let problems = problems.collect();

    let mut settings = settings.clone();
    settings.endpoints.extend(imported.endpoints);
    Toolkit { keys, problems, ..Toolkit::new("rest", open_rest(&settings, deps)) }
}

/// Where the key of an endpoint is that needs one.
fn key_of_endpoint(endpoint: &RestEndpoint, setting: &str) -> Option<KeyPlace> {
    (endpoint.auth_type != AuthType::None).then(|| KeyPlace {
        setting: format!("{setting}.auth_credential"),
        written: endpoint.auth_credential.clone(),
        variable: endpoint.auth_env_var.clone(),
        provider: endpoint.vault_provider(),
        put_by: None,
    })
}

fn open_rest(settings: &RestSettings, deps: RestDeps) -> Result<OfferedToolkit, Off> {
    let rest = Rest::new(settings, deps).map_err(|error| Off::unusable(&error))?;
    Ok(OfferedToolkit::new(rest::guide(&rest), |registry| rest::register(registry, rest)))
}

#[cfg(not(feature = "google"))]
fn google_toolkit(_: &Settings, _: &ToolkitDeps) -> Toolkit {
    Toolkit::new("google", Err(Off::left_out(BuildFeature::Google)))
}

#[cfg(not(feature = "linkedin"))]
fn open_linkedin(_: &Settings) -> Result<OfferedToolkit, Off> {
    Err(Off::left_out(BuildFeature::Linkedin))
}

#[cfg(feature = "linkedin")]
fn open_linkedin(settings: &Settings) -> Result<OfferedToolkit, Off> {
    if !settings.linkedin.enabled {
        return Err(Off::not_configured("linkedin.enabled is false"));
    }
    let linkedin = LinkedIn::new(&settings.linkedin).map_err(|error| Off::unusable(&error))?;
    Ok(OfferedToolkit::new(linkedin::guide(), |registry| linkedin::register(registry, linkedin)))
}

fn usage_toolkit(settings: &Settings, deps: &ToolkitDeps) -> Toolkit {
    let place = KeyPlace {
        setting: "anthropic_usage.api_key".to_owned(),
        written: settings.anthropic_usage.api_key.clone(),
        variable: Some(anthropic_usage::KEY_VARIABLE.to_owned()),
        provider: anthropic_usage::VAULT_PROVIDER.to_owned(),
        put_by: None,
    };
    let offered = match place.find(deps.vault.is_some()) {
        Ok(_) => Ok(offer_usage(settings, deps)),
        Err(reason) => Err(Off::NotConfigured(reason)),
    };
    let keys = vec![(anthropic_usage::NAME.to_owned(), place)];
    Toolkit { keys, ..Toolkit::new(anthropic_usage::NAME, offered) }
}

fn offer_usage(settings: &Settings, deps: &ToolkitDeps) -> OfferedToolkit {
    let (settings, credentials) = (settings.anthropic_usage.clone(), deps.credentials());
    OfferedToolkit::new(anthropic_usage::guide(), move |registry| {
        match anthropic_usage::register(registry, &settings, &credentials) {
            Ok(_) => Ok(()),
            Err(RegisterError::Registry(error)) => Err(error),
            Err(error @ RegisterError::Http(_)) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(error, "there is no tool anthropic_usage");
                Ok(())
            }
        }
    })
}

#[cfg(test)]
mod tests;
