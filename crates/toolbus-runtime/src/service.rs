//! The frame of a program: how it starts, how it stops, and what its exit code says.
//!
//! Start: configuration (all mistakes at once) → telemetry → health port, not ready → the work.
//! Configuration comes before logs because it says what is logged; it waits for nothing. Stop: not
//! ready → stop asked for → running work gets the grace → what is left is told to end now → health
//! port → telemetry last. A second signal ends the process at once.
//!
//! A failure has one face. Before the program serves anything it is plain text, at a terminal and
//! elsewhere, as a mistake in the settings is: whoever started the program looks there. Once a
//! service has been ready it is one line of its log, in the format of the log.
//!
//! Exit codes: 0 success, 1 failure or work cut off, 2 misuse or a mistake in the configuration,
//! 128 and the signal's number when a signal ended a command, or was repeated.

mod shutdown;
mod supervise;

#[cfg(test)]
mod tests;

use std::error::Error as StdError;
use std::io::Write;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{ExitCode, Termination};
use std::time::Duration;

use tokio::runtime::Runtime;
use tracing::level_filters::LevelFilter;
use uuid::Uuid;

use crate::arguments::CommonArguments;
use crate::health::{self, Health, HealthServer};
use crate::report;
use crate::telemetry::{self, Identity, Telemetry};
use toolbus_config::build_features::{self, BuildFeature};
use toolbus_config::shared_settings::{
    HealthSettings, LogFormat, LogSettings, SHARED_ALIASES, ShutdownSettings, TelemetrySettings,
};
use toolbus_config::{
    Alias, Environment, Errors, Loaded, Origin, Setting, Settings, SettingsFile, Sources,
};

pub use shutdown::Shutdown;
use supervise::{Ended, FailureFormat, OsSignals, Supervisor};

/// How long the last flush of telemetry may take.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a command that was interrupted may take to end.
const COMMAND_GRACE: Duration = Duration::from_secs(5);
/// What sets the log filter of this one process. Other origins (the settings file, and
/// `TOOLBUS_LOG__FILTER`, which charts set) mean the services that share them, so a command that
/// does one thing and ends does not go by those.
const FILTERS_OF_ONE_PROCESS: [&str; 4] = ["--log", "--quiet", "TOOLBUS_LOG", "RUST_LOG"];
/// How long leftover blocking work may keep the process from ending.
const RUNTIME_END_TIMEOUT: Duration = Duration::from_millis(500);

/// A program of the fleet.
#[derive(Debug, Clone, Copy)]
pub struct Program {
    /// Its name, as its binary is called.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// How it behaves towards the person who started it.
    pub role: Role,
    /// Names its settings are also read from, besides [`SHARED_ALIASES`].
    pub aliases: &'static [Alias],
    /// Optional parts that its build leaves out. A service logs them when it starts, and `doctor`
    /// reports them.
    pub left_out: &'static [BuildFeature],
}

/// What kind of program it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Runs until it is told to stop; logs from `info` up.
    Service,
    /// Does one thing and ends; logs from `warn` up, and a signal is told by the exit code.
    Command,
    /// A command that talks with a person: an interrupt (Ctrl-C) is for the work to hear, which
    /// ends only what it does just then.
    Conversation,
}

/// Settings with the sections that the frame itself reads.
pub trait ServiceSettings: Settings {
    /// Those sections.
    fn frame(&self) -> FrameSettings<'_>;
}

/// The sections of the settings that the frame reads.
#[derive(Debug, Clone, Copy)]
pub struct FrameSettings<'a> {
    /// What the operator calls this instance.
    pub name: Option<&'a str>,
    /// The health port.
    pub health: &'a HealthSettings,
    /// Logs.
    pub log: &'a LogSettings,
    /// Exports.
    pub telemetry: &'a TelemetrySettings,
    /// How to stop.
    pub shutdown: &'a ShutdownSettings,
}

/// What the frame gives to the work.
#[derive(Debug, Clone)]
pub struct Context {
    /// Who this process is; its `instance` is unique.
    pub identity: Identity,
    /// When to stop, and where to track tasks.
    pub shutdown: Shutdown,
    /// Where components report.
    pub health: Health,
    /// Where the health port really is, when there is one.
    pub health_address: Option<SocketAddr>,
    /// Whether nothing but errors is to be said on standard error.
    pub quiet: bool,
}

/// The exit code of a program: an [`ExitCode`] that can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit(pub u8);

impl Exit {
    /// All is well.
    pub const SUCCESS: Self = Self(0);
    /// It did not work.
    pub const FAILURE: Self = Self(1);
    /// It was asked for in a wrong way.
    pub const MISUSE: Self = Self(2);
}

/// So that `main` can return it.
impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.into()
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.0)
    }
}

/// Any error, as the work may end in.
pub type BoxError = Box<dyn StdError + Send + Sync>;

type Work = Pin<Box<dyn Future<Output = Result<Exit, BoxError>> + Send>>;

/// Runs a program from its arguments to its exit code. `own` are the settings that the program's
/// own arguments make; `work` ends when it is done, or soon after a stop is asked for.
pub fn run<S, F, W, E>(
    program: &Program,
    arguments: &CommonArguments,
    own: Vec<Setting>,
    work: F,
) -> Exit
where
    S: ServiceSettings,
    F: FnOnce(S, Context) -> W,
    W: Future<Output = Result<Exit, E>> + Send + 'static,
    E: Into<BoxError>,
{
    if arguments.print_config {
        return print_config::<S>(program, arguments, own);
    }

    let environment = Environment::of_process();
    let loaded = match configure::<S>(program, arguments, own, &environment) {
        Ok(loaded) => loaded,
        Err(errors) => return misuse(&errors),
    };

    let filter_origin = loaded.origin("log.filter");
    let Loaded { settings, warnings, .. } = loaded;
    let frame = settings.frame();
    let log = log_settings(program.role, frame.log, &filter_origin);
    let frame = FrameSettings { log: &log, ..frame };

    let started = start_frame(program, frame, arguments.quiet, &environment).inspect(|_| {
        warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        if !program.left_out.is_empty() {
            let left_out = build_features::list(program.left_out);
            tracing::info!(left_out, "running a build without all optional parts");
        }
    });
    run_frame(started, |context| work(settings, context))
}

/// Starts all that surrounds the work of a program.
pub(crate) fn start_frame(
    program: &Program,
    settings: FrameSettings<'_>,
    quiet: bool,
    environment: &Environment,
) -> Result<ProcessFrame, BoxError> {
    Launch { program, settings }.start(quiet, environment)
}

/// Runs the work in what was started, to the exit code.
pub(crate) fn run_frame<W, E>(
    started: Result<ProcessFrame, BoxError>,
    work: impl FnOnce(Context) -> W,
) -> Exit
where
    W: Future<Output = Result<Exit, E>> + Send + 'static,
    E: Into<BoxError>,
{
    match started {
        Ok(frame) => {
            let context = frame.context.clone();
            frame.run(move || {
                let work = work(context);
                Box::pin(async move { work.await.map_err(Into::into) })
            })
        }
        Err(error) => {
            report::print_error_chain(&*error);
            Exit::FAILURE
        }
    }
}

/// Prints the effective settings of a program, as [`run`] does with `--print-config`.
pub fn print_config<S: ServiceSettings>(
    program: &Program,
    arguments: &CommonArguments,
    own: Vec<Setting>,
) -> Exit {
    let loaded = match configure::<S>(program, arguments, own, &Environment::of_process()) {
        Ok(loaded) => loaded,
        Err(errors) => return misuse(&errors),
    };

    // Whoever closed our standard output wants no more of it.
    let _ = std::io::stdout().write_all(loaded.print().as_bytes());
    if !arguments.quiet {
        loaded.warnings.iter().for_each(report::print_warning);
    }
    Exit::SUCCESS
}

/// Asks the process that serves the health port of the same settings whether it is ready.
pub fn probe<S: ServiceSettings>(
    program: &Program,
    arguments: &CommonArguments,
    own: Vec<Setting>,
) -> Exit {
    let loaded = match configure::<S>(program, arguments, own, &Environment::of_process()) {
        Ok(loaded) => loaded,
        Err(errors) => return misuse(&errors),
    };
    let Some(address) = &loaded.settings.frame().health.address else {
        report::print_error("--probe needs a health port: name it with --health or TOOLBUS_HEALTH");
        return Exit::MISUSE;
    };

    match health::probe(address) {
        Ok(()) => Exit::SUCCESS,
        Err(error) => {
            report::print_error_chain(&error);
            Exit::FAILURE
        }
    }
}

fn misuse(errors: &Errors) -> Exit {
    report::print_error_chain(errors);
    Exit::MISUSE
}

/// The settings of the log that hold for a program of this role.
fn log_settings(role: Role, settings: &LogSettings, filter_origin: &Origin) -> LogSettings {
    let is_of_this_process = match filter_origin {
        Origin::Named(name) => FILTERS_OF_ONE_PROCESS.contains(&name.as_str()),
        Origin::Default | Origin::File { .. } => false,
    };
    let mut settings = settings.clone();
    if role != Role::Service && !is_of_this_process {
        settings.filter = None;
    }
    settings
}

/// Reads a program's settings from its arguments, `environment` and its file.
///
/// # Errors
///
/// With every mistake of any of them.
pub fn configure<S: ServiceSettings>(
    program: &Program,
    arguments: &CommonArguments,
    own: Vec<Setting>,
    environment: &Environment,
) -> Result<Loaded<S>, Errors> {
    configure_with(program, arguments.file(environment), of_arguments(arguments, own), environment)
}

/// What a program's arguments set.
fn of_arguments(arguments: &CommonArguments, own: Vec<Setting>) -> Vec<Setting> {
    let mut all = arguments.settings();
    all.extend(own);
    all
}

/// Reads the same settings with `file` in the place of the program's own.
///
/// # Errors
/// With every mistake of any of them.
pub fn configure_file<S: ServiceSettings>(
    program: &Program,
    arguments: &CommonArguments,
    own: Vec<Setting>,
    file: SettingsFile,
) -> Result<Loaded<S>, Errors> {
    configure_with(program, file, of_arguments(arguments, own), &Environment::of_process())
}

fn configure_with<S: ServiceSettings>(
    program: &Program,
    file: SettingsFile,
    arguments: Vec<Setting>,
    environment: &Environment,
) -> Result<Loaded<S>, Errors> {
    let aliases = [SHARED_ALIASES, program.aliases].concat();
    let loaded = toolbus_config::load::<S>(Sources {
        file,
        aliases: &aliases,
        derived: toolbus_config::shared_settings::rabbitmq_url(environment).into_iter().collect(),
        environment,
        arguments,
    });

    match loaded {
        Ok(loaded) => {
            let export = loaded.settings.frame().telemetry;
            Errors::of(telemetry::find_mistakes(export, environment)).map(|()| loaded)
        }
        Err(errors) => {
            // What the settings say of telemetry is not known; the environment alone is.
            let endpoint = environment.value("OTEL_EXPORTER_OTLP_ENDPOINT");
            let export = TelemetrySettings {
                endpoint: endpoint.and_then(|text| text.parse().ok()),
                ..TelemetrySettings::default()
            };
            Err(errors.and(telemetry::find_mistakes(&export, environment)))
        }
    }
}

/// What a process starts from.
struct Launch<'a> {
    program: &'a Program,
    settings: FrameSettings<'a>,
}

/// All that surrounds the work, started.
pub(crate) struct ProcessFrame {
    role: Role,
    grace: Duration,
    runtime: Runtime,
    telemetry: Telemetry,
    health: Option<HealthServer>,
    context: Context,
}

impl Launch<'_> {
    fn start(&self, quiet: bool, environment: &Environment) -> Result<ProcessFrame, BoxError> {
        let Self { program, settings } = self;
        let (default_level, default_format, grace) = match program.role {
            Role::Service => {
                (LevelFilter::INFO, LogFormat::Json, settings.shutdown.grace.duration())
            }
            Role::Command | Role::Conversation => {
                (LevelFilter::WARN, LogFormat::Human, COMMAND_GRACE)
            }
        };

        let identity = Identity {
            program: program.name,
            version: program.version,
            instance: Uuid::new_v4().simple().to_string(),
            name: settings.name.map(str::to_owned),
        };
        crate::tls::install();

        let telemetry = telemetry::start(&telemetry::Options {
            identity: &identity,
            log: settings.log,
            default_level,
            default_format,
            export: settings.telemetry,
            environment,
        })?;
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;

        let registry = Health::new();
        let serve = settings.health.address.as_ref();
        let health = serve
            .map(|address| runtime.block_on(health::serve(address, registry.clone())))
            .transpose()?;

        let context = Context {
            identity,
            shutdown: Shutdown::new(),
            health: registry,
            health_address: health.as_ref().map(HealthServer::address),
            quiet,
        };

        let role = program.role;
        Ok(ProcessFrame { role, grace, runtime, telemetry, health, context })
    }
}

impl ProcessFrame {
    fn run(self, work: impl FnOnce() -> Work) -> Exit {
        let Self { role, grace, runtime, telemetry, health, context } = self;
        let logs_for_people = telemetry.is_human();

        let (exit, forced) = runtime.block_on(async {
            let signals = match OsSignals::listen(role) {
                Ok(signals) => signals,
                Err(error) => {
                    let failed = Ended::Failed(error.into(), None);
                    return (failed.exit(role, FailureFormat::Text), false);
                }
            };

            let Identity { version, instance, .. } = &context.identity;
            let health_address = context.health_address.map(tracing::field::display);
            tracing::info!(version, instance, health_address, "service started");

            let mut supervisor = Supervisor::new(work(), signals, &context, grace);
            let ended = supervisor.run().await;
            let (forced, failed) = (ended.is_forced(), ended.is_failure());

            let is_logged =
                role == Role::Service && !logs_for_people && context.health.has_been_ready();
            let format = if is_logged { FailureFormat::LogLine } else { FailureFormat::Text };
            let exit = ended.exit(role, format);
            if !forced {
                supervisor.or_signal(close_health(health)).await;
                if !failed {
                    tracing::info!("service stopped");
                }
                supervisor.or_signal(telemetry.shutdown(FLUSH_TIMEOUT)).await;
            }
            (exit, forced)
        });

        if forced {
            runtime.shutdown_background();
        } else {
            runtime.shutdown_timeout(RUNTIME_END_TIMEOUT);
        }
        exit
    }
}

async fn close_health(health: Option<HealthServer>) {
    if let Some(health) = health {
        health.close().await;
    }
}
