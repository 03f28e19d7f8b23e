//! `doctor`: whether all is well here, and what mends what is not.
//!
//! Each check is that of the part that it is about, and all of them run at the same time. What a
//! fleet on a broker does elsewhere is not tried here: there the broker is asked who is on it, and
//! the bridges which servers they have.

mod changed_defaults;
mod clock;
mod policy;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join, join_all};
use toolbus_config::{ClockReading, Finding, FindingState, on_one_line};
use toolbus_mcp::ServerCredentials;
use toolbus_mcp::config::Entry;
use toolbus_mcp::doctor as mcp_doctor;
use toolbus_mcp::supervisor::Supervisor;
use toolbus_models::ModelDeps;
use toolbus_models::doctor::ModelChecks;
use toolbus_rabbitmq::doctor as broker_doctor;
use toolbus_runtime::doctor::{self, CHECK_TIMEOUT, Check, DoctorOptions, within};
use toolbus_runtime::health::Health;
use toolbus_runtime::service::{Context, Exit};
use toolbus_store::LazyStore;
use toolbus_toolkits::shell::Isolation;
use toolbus_tools::CredentialSource;
use toolbus_vault::LazyVault;
use toolbus_wire::name::AgentName;
use toolbus_wire::queue;

use super::one_shot::{NeededServers, OneShot};
use crate::agent::read_profile;
use crate::bus_policy;
use crate::folder_trust;
use crate::http_clients::HttpClients;
use crate::policy_reload::SettingsSource;
use crate::settings::Settings;
use crate::state;
use crate::terminal::Terminal;
use crate::toolkits::{ToolkitDeps, Toolkits};

/// How long the sandbox may take to be tried: as long as its slowest step, and some more.
const SANDBOX_TIMEOUT: Duration = Duration::from_secs(20);
/// How long servers of bridges are waited for that are being connected.
const BRIDGE_TIMEOUT: Duration = Duration::from_secs(15);
const BRIDGE: &str = "mcp-bridge";

/// `doctor`.
pub(crate) fn run(
    options: &DoctorOptions,
    source: &SettingsSource,
    supervisor: Supervisor,
) -> Exit {
    let SettingsSource { program, common, own } = source;
    doctor::run(program, common, own.clone(), options, |mut settings: Settings, context| {
        settings.mcp.supervisor = Some(supervisor);
        settings.hide_secrets(source.file());
        settings.mcp.caller_tells_mistakes = true;
        examine(settings, context)
    })
}

async fn examine(mut settings: Settings, context: Context) -> Vec<Finding> {
    // It reads a file or two, and nothing else goes on yet.
    let untrusted = folder_trust::drop_untrusted_silently(&mut settings);
    let is_embedded = settings.bus.url.is_none();
    let (list, entries) = match (is_embedded, untrusted) {
        (false, _) => (Vec::new(), Vec::new()),
        (true, None) => mcp_doctor::examine_list(&settings.mcp),
        (true, Some(file)) => {
            let detail = format!("{} is not used: this folder is not trusted", file.display());
            let mend = "--trust-folder, TOOLBUS_TRUST_FOLDER=1, or name the file by --mcp-config";
            (vec![Finding::note("mcp.json", detail).mended_by(mend)], Vec::new())
        }
    };

    let changed = changed_defaults::describe(&settings, &entries);
    let store = state::store(&settings);
    let vault = store.as_ref().and_then(|store| state::vault(&settings, store));
    let stop = context.shutdown.requested().clone();
    let servers = async {
        match is_embedded {
            true => {
                let servers = examine_servers(&settings, vault.clone(), &context, entries);
                (vec![embedded()], servers.await)
            }
            false => examine_fleet(&settings, &context).await,
        }
    };
    let others = examine_others(&settings, store.as_ref(), vault.clone());
    let ((broker, servers), others) = join(servers, stop.run_until_cancelled(others)).await;
    if let Some(store) = store {
        store.close().await;
    }

    let Some(Others { before, after }) = others else { return Vec::new() };
    [broker, before, list, servers, after, changed].concat()
}

fn embedded() -> Finding {
    Finding::ok("broker", "none is set: the whole fleet runs embedded in this process")
}

/// What is found beside broker and MCP servers, as it stands before and after them.
struct Others {
    before: Vec<Finding>,
    after: Vec<Finding>,
}

async fn examine_others(
    settings: &Settings,
    store: Option<&LazyStore>,
    vault: Option<LazyVault>,
) -> Others {
    let is_embedded = settings.bus.url.is_none();
    let checks: Vec<Check<'_>> = vec![
        Box::pin(examine_sandbox(settings, is_embedded)),
        Box::pin(within("toolkits", CHECK_TIMEOUT, examine_toolkits(settings))),
        Box::pin(within("keys", CHECK_TIMEOUT, examine_keys(settings, vault.clone()))),
    ];
    let checking = join(join_all(checks), examine_ports(settings));
    let asking = join(examine_store(store), examine_models(settings, vault));
    let ((checked, ports), ((store, store_clock), (models, model_clocks))) =
        join(checking, asking).await;

    let clocks: Vec<_> = store_clock.into_iter().chain(model_clocks).collect();
    let mut before = vec![store, policy::describe(&settings.policy)];
    before.extend(checked.into_iter().flatten());
    let mut after = models;
    after.extend(clock::describe(&clocks, !is_embedded));
    after.extend(ports);
    Others { before, after }
}

async fn examine_store(store: Option<&LazyStore>) -> (Finding, Option<ClockReading>) {
    let Some(store) = store else {
        let none = Finding::note("store", "no state is kept: this user has no state folder")
            .mended_by("set store (TOOLBUS_STORE), or XDG_STATE_HOME");
        return (none, None);
    };
    let examined = tokio::time::timeout(CHECK_TIMEOUT, store.examine()).await;
    examined.unwrap_or_else(|_| {
        let detail = format!("{} does not answer", store.location());
        (Finding::wrong("store", detail).mended_by("correct store (TOOLBUS_STORE)"), None)
    })
}

/// Scripts of a fleet on a broker run elsewhere.
async fn examine_sandbox(settings: &Settings, is_embedded: bool) -> Vec<Finding> {
    if !is_embedded {
        return Vec::new();
    }
    let trying = toolbus_sandbox::doctor::examine(&settings.scripts);
    within("sandbox", SANDBOX_TIMEOUT, trying).await
}

async fn examine_toolkits(settings: &Settings) -> Vec<Finding> {
    let toolkits = Toolkits::start(settings, &Health::new(), ToolkitDeps::default()).await;
    let mut findings = toolkits.examine();
    if settings.bash.enabled && settings.bash.isolation == Isolation::None {
        let detail = "commands of models run with all rights of this program: bash.isolation = \
                      \"none\"";
        findings
            .push(Finding::note("toolkit bash", detail).mended_by(
                "bash.isolation = \"sandbox\", unless this machine is a sandbox itself",
            ));
    }
    findings
}

/// Looks for the keys and files that the settings name.
async fn examine_keys(settings: &Settings, vault: Option<LazyVault>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match settings.grants.load_signer() {
        Ok(None) => {}
        Ok(Some(_)) => findings.push(Finding::ok("grants", "the key is there")),
        Err(error) => findings.push(
            Finding::wrong("grants", on_one_line(&error)).mended_by("correct the section grants"),
        ),
    }
    findings.extend(bus_policy::examine(settings));

    if let Some(key) = settings.vault.key() {
        findings.push(key.examine().await);
    }

    if settings.http.has_tokens() {
        let source = vault.as_ref().map(|vault| vault as &dyn CredentialSource);
        findings.push(match HttpClients::read(&settings.http, source).await {
            Ok(_) => Finding::ok("http tokens", "every client has one"),
            Err(mistakes) => {
                let told: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
                let mend = "correct http.tokens, or put there what it names";
                Finding::wrong("http tokens", told.join("; ")).mended_by(mend)
            }
        });
    }

    if let Some(folder) = &settings.agent.profile {
        findings.push(match read_profile(folder) {
            Ok(_) => Finding::ok("profile", format!("{} can be read", folder.display())),
            Err(error) => {
                Finding::wrong("profile", on_one_line(&error)).mended_by("correct agent.profile")
            }
        });
    }
    findings
}

async fn examine_models(
    settings: &Settings,
    vault: Option<LazyVault>,
) -> (Vec<Finding>, Vec<ClockReading>) {
    let credentials = vault.map(|vault| Arc::new(vault) as Arc<dyn CredentialSource>);
    let checks = {
        let environment = |name: &str| std::env::var(name).ok();
        ModelChecks::new(&settings.models, &ModelDeps { environment: &environment, credentials })
    };

    let examined = checks.run().await;
    let clocks = examined.iter().filter_map(|model| model.clock.clone()).collect();
    (examined.into_iter().map(|model| model.finding).collect(), clocks)
}

async fn examine_ports(settings: &Settings) -> Vec<Finding> {
    let health = ("health.address", &settings.health.address);
    let http = ("http.address", &settings.http.address);
    let face = ("mcp_face.address", &settings.mcp_face.address);
    let ports = [health, http, face];
    let ports = match settings.shares_port() {
        true => &ports[..2],
        false => &ports[..],
    };

    doctor::check_ports(ports).await
}

/// Connects each MCP server that runs in this process. At a terminal it shows which are waited for.
async fn examine_servers(
    settings: &Settings,
    vault: Option<LazyVault>,
    context: &Context,
    entries: Vec<Entry>,
) -> Vec<Finding> {
    let mut mcp = settings.mcp.clone();
    mcp.credentials = vault.map(|vault| ServerCredentials(Arc::new(vault)));
    mcp_doctor::examine_servers(&mcp, &entries, async |pool| {
        let stop = context.shutdown.requested();
        let settled = stop.run_until_cancelled(pool.wait_settled());
        let names = || mcp_doctor::waiting(pool);
        Terminal::show_waiting("doctor", context.quiet, names, settled).await;
    })
    .await
}

/// Looks who is on the broker, and which servers the bridges there have.
async fn examine_fleet(settings: &Settings, context: &Context) -> (Vec<Finding>, Vec<Finding>) {
    // Checked when the settings were read.
    let agent = AgentName::parse(&settings.name).unwrap_or_else(|_| AgentName::standard());
    let services = [
        broker_doctor::Service {
            name: "scripts-manager",
            subscription: queue::SCRIPTS_MANAGER_INVOKE.to_owned(),
            needed_for: "scripts",
        },
        broker_doctor::Service {
            name: BRIDGE,
            subscription: queue::mcp_bridge_invoke(&agent),
            needed_for: "calls of MCP servers",
        },
    ];
    let name = context.identity.connection_name();
    let asking = broker_doctor::examine(&settings.bus, name, &services);
    let broker = within("broker", CHECK_TIMEOUT, asking).await;

    let is_bridge = |found: &Finding| found.name == BRIDGE && found.state == FindingState::Ok;
    let servers = match broker.iter().any(is_bridge) {
        true => list_announced(settings, context).await,
        false => Vec::new(),
    };
    (broker, servers)
}

async fn list_announced(settings: &Settings, context: &Context) -> Vec<Finding> {
    let one_shot = match OneShot::start(settings, context, NeededServers::All).await {
        Ok(one_shot) => one_shot,
        Err(error) => return vec![Finding::wrong("mcp servers", on_one_line(&error))],
    };
    one_shot.wait_for_servers(NeededServers::All, BRIDGE_TIMEOUT).await;
    let servers = one_shot.toolbus().directory().servers();
    let findings = servers.iter().map(|server| {
        let tools = server.tool_names.len();
        mcp_doctor::describe_announced(&server.server_name, tools, server.unavailable.as_deref())
    });
    let findings = findings.collect();
    one_shot.stop().await;
    findings
}
