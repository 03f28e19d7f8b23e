//! What is the matter with the MCP servers of the settings, for `doctor`: the file that lists them,
//! the programs that start them, and each server, which is connected as a bridge does it.

use std::collections::BTreeSet;
use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use toolbus_config::{ChangedDefault, Finding, on_one_line};

use crate::config::{Config, Entry, Isolation, Launch, Mistake, StdioIsolation, Target};
use crate::failure::Failure;
use crate::server::ServerState;
use crate::server_pool::{ServerPool, ServerStatus};
use crate::settings::McpSettings;
use crate::transport::shield::Shield;

const LIST: &str = "mcp.json";
/// How long servers may take to end.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Commands that download and start what a package index has, what each comes with, and how that is
/// had.
const PACKAGE_RUNNERS: [(&str, &str); 2] =
    [("uvx", "uv"), ("npx", "Node.js 20 or later, with npm")];

/// The changed default for servers that are programs.
pub const SHIELDED_SERVERS: ChangedDefault = ChangedDefault {
    setting: "mcp.stdio_isolation",
    since: "2026-11-29",
    change: "MCP servers that are programs run behind a shield, where bubblewrap works: they do \
             not see the state folder, files of secrets and other processes",
    former: "mcp.stdio_isolation = \"off\", or \"sandbox\": \"off\" in the entry of a server",
};

/// Returns true if one of these servers is a program that runs behind a shield by default, because
/// neither the settings nor its entry set the isolation.
#[must_use]
pub fn has_shielded_servers(settings: &McpSettings, entries: &[Entry]) -> bool {
    let is_left_to_settings = |entry: &Entry| {
        matches!(&entry.target, Target::Launch(Launch { sandbox: Isolation::AsSet, .. }))
    };
    settings.stdio_isolation == StdioIsolation::default() && entries.iter().any(is_left_to_settings)
}

/// Looks at the file that lists the servers, and at the programs that start them. What it lists is
/// returned, as far as it makes sense.
#[must_use]
pub fn examine_list(settings: &McpSettings) -> (Vec<Finding>, Vec<Entry>) {
    let file = settings.list_file();
    let shown = file.display();
    let Config { servers, mistakes, warnings } = match settings.list() {
        Ok(list) => list,
        Err(error) => {
            let mend = format!("correct {shown}, or name another with --mcp-config (mcp.config)");
            let finding = Finding::wrong(LIST, on_one_line(&error)).mended_by(mend);
            return (vec![finding], Vec::new());
        }
    };

    let of_list = match file.exists() {
        true => Finding::ok(LIST, format!("{shown} lists {}", count(servers.len(), "server"))),
        false => Finding::ok(LIST, "there is none here, so no MCP servers run"),
    };
    let mut findings = vec![of_list];
    let mend = format!("correct it in {shown}: docs/mcp-json.md has every member");
    let wrong = mistakes.iter();
    findings.extend(wrong.map(|mistake| describe_mistake(Finding::wrong, mistake, &mend)));
    let notes = warnings.iter();
    findings.extend(notes.map(|warning| describe_mistake(Finding::note, warning, &mend)));
    findings.push(find_package_runners(&servers));
    findings.extend(examine_isolation(settings.stdio_isolation, &servers));
    (findings, servers)
}

fn describe_mistake(
    finding: impl FnOnce(String, String) -> Finding,
    mistake: &Mistake,
    mend: &str,
) -> Finding {
    let name = mistake.server.as_ref().map_or_else(|| LIST.to_owned(), |name| title(name));
    let what = match &mistake.member {
        Some(member) => format!("{member}: {}", mistake.what),
        None => mistake.what.clone(),
    };
    finding(name, what).mended_by(mend)
}

/// Reports the isolation of servers that are programs, if there are any. Blocks while it tries
/// bubblewrap.
fn examine_isolation(of_all: StdioIsolation, servers: &[Entry]) -> Option<Finding> {
    let name = "mcp isolation";
    let (mut shielded, mut open) = (0, Vec::new());
    for entry in servers {
        let Target::Launch(launch) = &entry.target else { continue };
        match (&launch.sandbox, of_all) {
            (Isolation::Sandbox(_), _) => {}
            (Isolation::Off, _) | (Isolation::AsSet, StdioIsolation::Off) => {
                open.push(entry.name.as_str());
            }
            (Isolation::Shield, _) | (Isolation::AsSet, StdioIsolation::Shield) => shielded += 1,
        }
    }

    let reach = "can read every file of this user, keys and state of Toolbus included, and the \
                 environments of each other";
    if shielded > 0 && !Shield::works() {
        let what = count(shielded, "server");
        let detail = format!("bubblewrap does not work here, so {what} without a shield {reach}");
        let finding = Finding::note(name, detail);
        return Some(finding.mended_by(
            "install bubblewrap (apt-get install bubblewrap) and let this user make user \
             namespaces; in a container, docs/security.md#without-a-shield",
        ));
    }
    if !open.is_empty() {
        let detail = format!("without a shield, as is set, {} {reach}", open.join(", "));
        let mend = "remove \"sandbox\": \"off\" from their entries, or mcp.stdio_isolation";
        return Some(Finding::note(name, detail).mended_by(mend));
    }
    let detail = format!("{} behind a shield of bubblewrap", count(shielded, "server"));
    (shielded > 0).then(|| Finding::ok(name, detail))
}

/// Looks for the programs that most MCP servers are started by.
fn find_package_runners(servers: &[Entry]) -> Finding {
    let name = "programs";
    let mut found = Vec::new();
    let mut missing = Vec::new();
    for (program, comes_with) in PACKAGE_RUNNERS {
        match find_program(program) {
            Some(path) => found.push(path.display().to_string()),
            None => missing.push((program, comes_with)),
        }
    }

    let of = |(program, comes_with): &(&str, &str)| format!("{program} comes with {comes_with}");
    let is_wanted = |(program, _): &&(&str, &str)| servers.iter().any(|e| is_run_by(e, program));
    if let Some(wanted) = missing.iter().find(is_wanted) {
        let server = servers.iter().find(|entry| is_run_by(entry, wanted.0));
        let server = server.map(|entry| entry.name.as_str()).unwrap_or_default();
        let detail = format!("{} is not in PATH, and the MCP server {server} wants it", wanted.0);
        return Finding::wrong(name, detail).mended_by(of(wanted));
    }
    if missing.is_empty() {
        return Finding::ok(name, found.join(", "));
    }
    let names: Vec<_> = missing.iter().map(|(program, _)| *program).collect();
    let detail = format!("not in PATH: {}; no MCP server here wants it", names.join(", "));
    Finding::note(name, detail).mended_by(missing.iter().map(of).collect::<Vec<_>>().join("; "))
}

/// Whether the server is started by a program of this name, which `PATH` is to find.
fn is_run_by(entry: &Entry, program: &str) -> bool {
    matches!(&entry.target, Target::Launch(Launch { command, .. }) if command == program)
}

fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// The servers of a pool that are still being connected.
#[must_use]
pub fn waiting(pool: &ServerPool) -> Vec<String> {
    let is_waiting = |status: &ServerStatus| {
        matches!(status.state, ServerState::Starting(_) | ServerState::Configured)
    };
    let waiting = pool.list().into_iter().filter(is_waiting);
    waiting.map(|status| status.name.as_str().to_owned()).collect()
}

/// Starts the servers of these entries, which are those of the settings, has `wait` wait until they
/// are connected or could not be, says what became of each, and ends them.
pub async fn examine_servers(
    settings: &McpSettings,
    entries: &[Entry],
    wait: impl AsyncFnOnce(&ServerPool),
) -> Vec<Finding> {
    if entries.is_empty() {
        return Vec::new();
    }
    let began_at = Instant::now();
    let pool = match settings.start_servers() {
        Ok(pool) => pool,
        Err(error) => return vec![Finding::wrong("mcp servers", on_one_line(&error))],
    };
    wait(&pool).await;
    let findings = describe_servers(&pool, entries, began_at.elapsed());
    pool.close(CLOSE_GRACE).await;
    findings
}

/// Says what became of each server of a pool that was started this long ago, from these entries.
fn describe_servers(pool: &ServerPool, entries: &[Entry], elapsed: Duration) -> Vec<Finding> {
    let mut findings = Vec::new();
    for status in pool.list() {
        let entry = entries.iter().find(|entry| entry.name == status.name);
        findings.push(describe_server(&status, entry, elapsed));
        let notices = status.notices.iter().collect::<BTreeSet<_>>();
        let accept = format!("mcp-bridge accept {} shows and accepts it", status.name);
        let of_notice = |notice: &&String| {
            let is_held_back = notice.contains("held back");
            let finding = Finding::note(title(status.name.as_str()), notice.as_str());
            if is_held_back { finding.mended_by(accept.clone()) } else { finding }
        };
        findings.extend(notices.iter().map(of_notice));
    }
    findings
}

fn describe_server(status: &ServerStatus, entry: Option<&Entry>, elapsed: Duration) -> Finding {
    let name = title(status.name.as_str());
    match &status.state {
        ServerState::Connected { since, tools, protocol } => {
            let took = elapsed.saturating_sub(*since).as_secs_f64();
            let tools = count(*tools, "tool");
            Finding::ok(name, format!("{tools}, connected in {took:.1} s (MCP {protocol})"))
        }
        ServerState::Failed { failure, .. } => {
            let said = failure.last_words().map(|words| format!("; it wrote last: \"{words}\""));
            let detail = format!("not connected: {failure}{}", said.unwrap_or_default());
            Finding::wrong(name, detail).mended_by(mend_of(failure, status, entry))
        }
        ServerState::Disabled => Finding::ok(name, "disabled by its entry"),
        ServerState::Standby => Finding::ok(name, "another bridge has it"),
        ServerState::Configured | ServerState::Starting(_) | ServerState::Stopped => {
            Finding::wrong(name, "it is still being connected")
                .mended_by("give it more time with startupTimeoutMs of its entry")
        }
    }
}

fn mend_of(failure: &Failure, status: &ServerStatus, entry: Option<&Entry>) -> String {
    let name = status.name.as_str();
    let target = entry.map(|entry| &entry.target);

    match target {
        _ if failure.needs_login => format!("mcp-bridge login {name}"),
        _ if failure.needs_credential => format!("agent-host vault set mcp:{name} CREDENTIAL"),
        _ if failure.is_timeout => {
            "give it more time with startupTimeoutMs of its entry, or mcp.connect_timeout; run it \
             by hand to see what it waits for"
                .to_owned()
        }
        Some(Target::Launch(Launch { command, .. })) if failure.is_of_start => {
            let runner = PACKAGE_RUNNERS.iter().find(|(program, _)| command == program);
            match runner {
                Some((_, comes_with)) => format!("install {comes_with}"),
                None if is_program(Path::new(command)) => format!(
                    "install what runs {command:?}: the program that its first line names is not \
                     there"
                ),
                None => format!("install {command:?}, or correct `command` of its entry"),
            }
        }
        Some(Target::Launch(_)) => {
            "run the command of its entry by hand, and see what it says".to_owned()
        }
        _ => "see whether it runs there, and correct `url`, `headers` or `auth` of its entry"
            .to_owned(),
    }
}

/// Says what the bridges on a broker have made of a server.
#[must_use]
pub fn describe_announced(name: &str, tools: usize, unavailable: Option<&str>) -> Finding {
    match unavailable {
        None => Finding::ok(title(name), format!("{}, at a bridge", count(tools, "tool"))),
        Some(why) => Finding::wrong(title(name), format!("its bridge has not connected it: {why}"))
            .mended_by("mcp-bridge doctor, with the bridge's settings"),
    }
}

fn title(server: &str) -> String {
    format!("mcp {server}")
}

fn count(count: usize, of: &str) -> String {
    match count {
        1 => format!("1 {of}"),
        count => format!("{count} {of}s"),
    }
}
