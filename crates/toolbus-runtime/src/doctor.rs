//! `doctor`: looks at what a program needs around it, and says what is the matter and what mends
//! it.
//!
//! What is looked at is the program's affair; here is what every `doctor` has in common: settings
//! that are wrong are findings like any other, no port is served, nothing is logged unless somebody
//! asks for it, and the exit code says whether something is wrong.

#[cfg(test)]
mod tests;

use std::fmt::Write as _;
use std::io::Write as _;
use std::pin::Pin;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use clap::Args;
use clap::builder::styling::{AnsiColor, Style};
use futures_util::future::join_all;
use toolbus_config::build_features;
use toolbus_config::shared_settings::HealthSettings;
use toolbus_config::{
    Environment, Errors, Finding, FindingState, ListenAddress, Loaded, Setting, on_one_line,
};

use crate::arguments::CommonArguments;
use crate::health::ask_readiness;
use crate::http;
use crate::service::{self, BoxError, Context, Exit, FrameSettings, Program, ServiceSettings};

/// Longest detail of a line that is printed, in characters.
const DETAIL_CHARS_MAX: usize = 600;
/// How long a check may take that says nothing else.
pub const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Most sources of settings that are named.
const SOURCES_NAMED_MAX: usize = 8;

const OK: Style = AnsiColor::Green.on_default();
const NOTE: Style = AnsiColor::Yellow.on_default();
const WRONG: Style = AnsiColor::Red.on_default().bold();

/// Options of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorOptions {
    /// Print JSON: a list of what was looked at, each with name, state, detail and mend
    #[arg(long)]
    pub json: bool,
}

/// A check that is under way.
pub type Check<'a> = Pin<Box<dyn Future<Output = Vec<Finding>> + Send + 'a>>;

/// Looks at the settings of a program, and where they are sound has `check` look at the rest.
/// Prints what was found. The exit code is 1 where something is wrong.
pub fn run<S, F, W>(
    program: &Program,
    arguments: &CommonArguments,
    own: Vec<Setting>,
    options: &DoctorOptions,
    check: F,
) -> Exit
where
    S: ServiceSettings,
    F: FnOnce(S, Context) -> W,
    W: Future<Output = Vec<Finding>> + Send + 'static,
{
    let environment = Environment::of_process();
    let as_json = options.json;
    let build = build_features::examine(program.name, program.left_out);
    let loaded = match service::configure::<S>(program, arguments, own, &environment) {
        Ok(loaded) => loaded,
        Err(errors) => {
            let mut findings = findings_of_mistakes(&errors);
            findings.splice(0..0, build);
            return print(&findings, as_json);
        }
    };

    let mut findings = findings_of_settings(&loaded);
    findings.extend(build);
    let Loaded { settings, warnings: _, .. } = loaded;
    let quiet = arguments.quiet;
    let frame = settings.frame();
    let mut log = frame.log.clone();
    // What goes wrong is told by the findings.
    if arguments.log.is_none() {
        log.filter = "off".parse().ok();
    }
    // A service that runs has the port.
    let no_health = HealthSettings::default();
    let frame = FrameSettings { log: &log, health: &no_health, ..frame };

    let started = service::start_frame(program, frame, quiet, &environment);
    service::run_frame(started, move |context| {
        let stop = context.shutdown.requested().clone();
        let checking = check(settings, context);
        async move {
            findings.extend(checking.await);
            // Cut off, it says how it ends and nothing else.
            if stop.is_cancelled() {
                return Ok::<_, BoxError>(Exit::FAILURE);
            }
            Ok(print(&findings, as_json))
        }
    })
}

/// Gives a check this long; one that takes longer is wrong.
pub async fn within(
    name: &'static str,
    limit: Duration,
    check: impl Future<Output = Vec<Finding>>,
) -> Vec<Finding> {
    let checked = tokio::time::timeout(limit, check).await;
    checked.unwrap_or_else(|_| {
        let detail = format!("it did not answer within {} s", limit.as_secs());
        vec![Finding::wrong(name, detail)]
    })
}

/// Looks whether a port can be opened, or is that of a service of these settings which runs
/// already. `setting` is its name.
async fn check_port(setting: &'static str, address: &ListenAddress) -> Finding {
    let name = format!("port {address}");
    match http::check_port(address).await {
        Ok(()) => Finding::ok(name, format!("free for {setting}")),
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            let is_ours = is_of_toolbus(address.clone()).await;
            match is_ours {
                true => Finding::ok(name, "in use, by a service of Toolbus that runs"),
                false => Finding::wrong(name, "in use by another program")
                    .mended_by(format!("end that program, or set {setting} to another port")),
            }
        }
        Err(error) => Finding::wrong(name, format!("it cannot be opened: {error}"))
            .mended_by(format!("set {setting} to an address of this machine")),
    }
}

/// The same for each of these settings that has an address.
pub async fn check_ports(ports: &[(&'static str, &Option<ListenAddress>)]) -> Vec<Finding> {
    let checks = ports.iter().filter_map(|(setting, address)| {
        let address = address.as_ref()?;
        Some(check_port(setting, address))
    });
    join_all(checks).await
}

/// Whether what answers at a port is one of ours.
async fn is_of_toolbus(address: ListenAddress) -> bool {
    let asking = tokio::task::spawn_blocking(move || ask_readiness(&address));
    matches!(asking.await, Ok(Ok(readiness)) if readiness.is_of_toolbus)
}

fn findings_of_mistakes(errors: &Errors) -> Vec<Finding> {
    let mend = "write it as docs/configuration.md has it";
    let mistakes = errors.iter();
    let mut findings: Vec<_> = mistakes
        .map(|mistake| Finding::wrong("settings", mistake.to_string()).mended_by(mend))
        .collect();
    findings.push(Finding::note("the rest", "not looked at: the settings are wrong"));
    findings
}

fn findings_of_settings<S: ServiceSettings>(loaded: &Loaded<S>) -> Vec<Finding> {
    let sources = loaded.sources();
    let detail = match sources.len() {
        0 => "all have their defaults: no file, variable or option sets any".to_owned(),
        count if count <= SOURCES_NAMED_MAX => format!("from {}", sources.join(", ")),
        count => {
            let named = sources[..SOURCES_NAMED_MAX].join(", ");
            format!("from {named} and {} more", count - SOURCES_NAMED_MAX)
        }
    };

    let warnings = loaded.warnings.iter();
    let warnings = warnings.map(|warning| Finding::note("settings", warning.clone()));
    std::iter::once(Finding::ok("settings", detail)).chain(warnings).collect()
}

/// Prints the findings, and says by the exit code whether something is wrong.
fn print(findings: &[Finding], as_json: bool) -> Exit {
    let stdout = std::io::stdout();
    let text = match as_json {
        true => match serde_json::to_string_pretty(findings) {
            Ok(text) => text + "\n",
            Err(error) => {
                crate::report::print_error(on_one_line(&error));
                return Exit::FAILURE;
            }
        },
        false => render(findings, AutoStream::choice(&stdout) != ColorChoice::Never),
    };
    // Whoever closed our standard output wants no more of it.
    let _ = stdout.lock().write_all(text.as_bytes());

    let is_wrong = |finding: &Finding| finding.state == FindingState::Wrong;
    if findings.iter().any(is_wrong) { Exit::FAILURE } else { Exit::SUCCESS }
}

/// One line for each finding, and one below it that says what mends it.
fn render(findings: &[Finding], has_color: bool) -> String {
    let width = findings.iter().map(|finding| finding.name.chars().count()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for Finding { name, state, detail, mend } in findings {
        let name = shown(name);
        let detail = shown(detail);
        let word = in_color(format!("{:5}", state.as_str()), *state, has_color);
        let _ = writeln!(text, "{name:width$}  {word}  {detail}");
        if let Some(mend) = mend {
            let _ = writeln!(text, "{:width$}         -> {}", "", shown(mend));
        }
    }

    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let (state, summary) = match (count(FindingState::Wrong), count(FindingState::Note)) {
        (0, 0) => (FindingState::Ok, "all is well".to_owned()),
        (0, notes) => (FindingState::Ok, format!("nothing is wrong, {notes} to note")),
        (1, _) => (FindingState::Wrong, "one thing is wrong".to_owned()),
        (wrong, _) => (FindingState::Wrong, format!("{wrong} things are wrong")),
    };
    let _ = writeln!(text, "\n{}", in_color(summary, state, has_color));
    text
}

fn in_color(word: String, state: FindingState, has_color: bool) -> String {
    let style = match state {
        FindingState::Ok => OK,
        FindingState::Note => NOTE,
        FindingState::Wrong => WRONG,
    };
    if has_color { format!("{style}{word}{style:#}") } else { word }
}

/// A text on one line, bounded, without what a terminal would obey: it may have others' words.
fn shown(text: &str) -> String {
    let is_hidden = |c: char| matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let plain = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut shown: String = plain.filter(|c| !is_hidden(*c)).take(DETAIL_CHARS_MAX + 1).collect();
    if let Some((end, _)) = shown.char_indices().nth(DETAIL_CHARS_MAX) {
        shown.truncate(end);
        shown.push('…');
    }
    shown
}
