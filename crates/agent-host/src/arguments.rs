//! The command line.

mod grants;
mod mcp;
mod operate;
mod policy;
mod search;

use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, Args, Parser, Subcommand, ValueEnum};
use toolbus_config::TimeSpan;
use toolbus_policy::{parse_owner, parse_principal};
use toolbus_runtime::arguments::{
    CommonArguments, GLOBAL_OPTIONS, MemberArguments, ServiceArguments,
};
use toolbus_runtime::command_line;
use toolbus_runtime::doctor::DoctorOptions;
use toolbus_runtime::service::Exit;
use toolbus_tools::Principal;
use toolbus_tools::id::{SessionId, ToolId};
use toolbus_tools::observe::CallStatus;

pub use grants::{GrantsCommand, GrantsOptions};
pub use mcp::{McpAdd, McpCommand, McpOptions};
pub use operate::{ConfigCommand, ConfigOptions, ConfigSet, HealthOptions};
pub use policy::{Matrix, Policy, PolicyCommand, Show, Why};
pub use search::{DiscoverOptions, SearchOptions};

/// Gives LLM agents their hands: lists tools, runs them, and serves them.
///
/// Without a broker (--bus) the whole fleet runs embedded in this process: Python in a local
/// sandbox, and the MCP servers of mcp.json. With one, this process is a member of the fleet.
#[derive(Debug, Parser)]
#[command(name = "agent-host", version, max_term_width = 100, arg_required_else_help = true)]
// Every command can be run on the bus, and as the agent of this name.
#[command(mut_args(make_global))]
#[command(mut_arg("name", |name| name.help(NAME_HELP)))]
pub struct Arguments {
    /// Options of every program.
    #[command(flatten)]
    pub common: CommonArguments,

    /// Options of what joins the bus.
    #[command(flatten)]
    pub member: MemberArguments,

    /// MCP servers to run when embedded; not used with --bus. Without it mcp.json of the current
    /// folder, where there is one [env: TOOLBUS_MCP__CONFIG]
    #[arg(long, value_name = "FILE")]
    pub mcp_config: Option<PathBuf>,

    /// Use mcp.json of the current folder without asking whether the folder is trusted
    /// [env: TOOLBUS_TRUST_FOLDER]
    #[arg(long)]
    pub trust_folder: bool,

    /// What to do; not needed with --print-config.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// Help for `--name`.
const NAME_HELP: &str =
    "Name of the agent; its topics and queues carry it [default: RockBot] [env: TOOLBUS_NAME]";

/// Every option before the command also stands behind it.
fn make_global(option: Arg) -> Arg {
    option.global(true).help_heading(GLOBAL_OPTIONS)
}

/// The exit of a command line that does not say what to do.
pub(crate) fn missing_command() -> Exit {
    let mut command = command_line::command::<Arguments>();
    let what = "'agent-host' requires a subcommand but one was not provided";
    let _ = command.error(ErrorKind::MissingSubcommand, what).print();
    Exit::MISUSE
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// List the tools that there are
    Tools(Tools),
    /// List the toolkits that the settings switch on and off, with their tools
    ///
    /// Of what is off the reason is printed. A key that is missing is named by its setting or
    /// variable; no key is shown.
    Toolkits(ToolkitsOptions),
    /// Run one tool and print what it returns
    ///
    /// Exit code: 0 when the tool succeeds; 1 when it fails, with the code and the message on
    /// standard error; 2 when the call itself is written wrongly.
    Invoke(Invoke),
    /// Find tools by what they are for
    ///
    /// Those of this agent and of every MCP server that it knows, ranked by how near they are to
    /// the query and by what is known of them. Exit code: 0 when some are found; 1 when none is; 2
    /// when it is asked for wrongly.
    Search(SearchOptions),
    /// List what the MCP servers and toolkits offer, by server
    Discover(DiscoverOptions),
    /// Run the tool of an MCP server, by SERVER/TOOL, and print what it returns
    ///
    /// As invoke does, under the tool's own name: an MCP server's tool is the call itself, not an
    /// argument of mcp_invoke_tool. A name without a server will do where one server alone has it.
    Exec(Invoke),
    /// Talk with the agent
    ///
    /// Ctrl-C ends the turn that is under way, and Ctrl-D the chat. A line that begins with / is
    /// a command; /help lists them.
    Chat(Chat),
    /// Say something to the agent, and print its answer
    ///
    /// The agent is a model (section models of the settings) that calls the tools that there are.
    /// What it says goes to standard output while it says it, and what it does to standard error,
    /// where that is a terminal. Exit code: 0 when it answered; 1 when it could not, with the
    /// reason on standard error; 2 when it is asked wrongly, or there is no model.
    Ask(Ask),
    /// List the agent's sessions, and show what was said in one
    Sessions(SessionsOptions),
    /// List what the agent is to do later, and show, cancel or run it
    Schedules(SchedulesOptions),
    /// List the other agents that this one knows
    ///
    /// Those that have announced themselves on the bus, as far as a process at the same store has
    /// heard them, and those of the settings.
    Agents(AgentsOptions),
    /// Show and change the list of MCP servers, and try them
    ///
    /// The list is the file that --mcp-config or mcp.config names, else mcp.json of the current
    /// folder. An mcp-bridge that reads the same file follows it. Exit code: 0 when it is done; 1
    /// when it cannot be, or a server does not work; 2 when it is asked for wrongly.
    Mcp(McpOptions),
    /// Serve the agent's tools on the bus until stopped
    Serve(Serve),
    /// Show what the policy of the settings says
    Policy(Policy),
    /// Show and answer calls that wait for approval, of any process at the same store
    ///
    /// Arguments of calls are shown as they are, with what is secret in them.
    Approvals(Approvals),
    /// Show the last calls of the audit log, of any process at the same store
    ///
    /// A line has the time in UTC, how the call ended and how long it took, the door that it came
    /// in by, who called, the tool, the digest of the arguments, and the error.
    Audit(Audit),
    /// Show, save and remove large results that are kept apart
    ///
    /// Exit code: 0 when it is done; 1 when it cannot be, such as when there is no such artifact; 2
    /// when it is asked for wrongly.
    Artifacts(ArtifactsOptions),
    /// Show and change the credentials of tools and MCP servers; no value is ever shown
    ///
    /// They are sealed in the store (setting store) with the key that vault.key_file or
    /// vault.key_command gives. Exit code: 0 when it is done; 1 when it cannot be, such as with the
    /// wrong key; 2 when it is asked for wrongly, or there is no vault.
    Vault(Vault),
    /// Manage the keys that sign requests to workers
    ///
    /// Exit code: 0 on success; 1 on failure; 2 on a usage error.
    Grants(GrantsOptions),
    /// Log in at a service that tools use, in a browser
    ///
    /// The address to open is printed, and what comes back is kept in the vault, for tools alone. A
    /// browser on another machine ends at an address that it cannot open: paste that here. Exit
    /// code: 0 when it is done; 1 when nobody logged in, or the service refuses; 2 when it is asked
    /// for wrongly, or there is no client or no vault for it.
    Login(LoginOptions),
    /// Log out of a service: its tokens are revoked and removed from the vault
    Logout(LogoutOptions),
    /// Show and change the settings
    ///
    /// Exit code: 0 when it is done; 1 when the file cannot be read or written; 2 when a setting is
    /// asked for wrongly.
    Config(ConfigOptions),
    /// Ask how the running service is: healthy, degraded or unhealthy
    ///
    /// By its health port, which --health, TOOLBUS_HEALTH or the settings name, or with --url by
    /// the HTTP API. Exit code: 0 when it is healthy or degraded; 1 when it is unhealthy or nobody
    /// answers; 2 when it is not known whom to ask.
    Health(HealthOptions),
    /// Look whether all is well here, and say what mends what is not
    ///
    /// The settings, the broker, the store, the sandbox of scripts, each MCP server, each model and
    /// the ports: all of it is tried at the same time, and takes as long as the slowest MCP server
    /// may take to connect. Exit code: 0 when nothing is wrong; 1 when something is.
    Doctor(DoctorOptions),
    /// Show the embedded fleet at work, step by step
    Demo,
}

/// `login`.
#[derive(Debug, Args)]
pub struct LoginOptions {
    /// The service
    #[arg(value_name = "SERVICE")]
    pub service: LoginService,

    /// Confirm on another device, by a code, instead of in a browser that comes back here
    ///
    /// Google itself has no device log in for Gmail and Calendar.
    #[arg(long)]
    pub device: bool,

    /// For this product alone; all of the service without it
    #[arg(long, value_name = "PRODUCT")]
    pub only: Option<GoogleProduct>,

    /// How long to wait for the person
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub timeout: TimeSpan,
}

/// `logout`.
#[derive(Debug, Args)]
pub struct LogoutOptions {
    /// The service
    #[arg(value_name = "SERVICE")]
    pub service: LoginService,
}

/// A service that a person logs in at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LoginService {
    /// Gmail and Calendar
    Google,
}

/// A product of Google.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GoogleProduct {
    /// Mail
    Gmail,
    /// The calendar
    Calendar,
}

/// `chat`.
#[derive(Debug, Args)]
pub struct Chat {
    /// The session to go on with; a new one without it
    #[arg(long, value_name = "NAME", value_parser = parse_session)]
    pub session: Option<SessionId>,

    /// The model, by its name in the settings; that of agent.tier without it
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
}

/// `ask`.
#[derive(Debug, Args)]
pub struct Ask {
    /// What to say, or - to read it from standard input
    #[arg(value_name = "TEXT")]
    pub text: String,

    /// The session that it is said in, to go on with it later; a new one without it
    #[arg(long, value_name = "NAME", value_parser = parse_session)]
    pub session: Option<SessionId>,

    /// The model, by its name in the settings; that of agent.tier without it
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Print the answer as JSON, with the session and what it took
    #[arg(long)]
    pub json: bool,
}

/// `sessions`.
#[derive(Debug, Args)]
pub struct SessionsOptions {
    /// The session to show; all are listed without it
    #[arg(value_name = "NAME", value_parser = parse_session)]
    pub session: Option<SessionId>,

    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// At most so many, at most 10000
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub limit: u32,
}

/// `agents`.
#[derive(Debug, Args)]
pub struct AgentsOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `schedules`.
#[derive(Debug, Args)]
pub struct SchedulesOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: SchedulesCommand,
}

/// What to do with scheduled tasks.
#[derive(Debug, Subcommand)]
pub enum SchedulesCommand {
    /// List the tasks of everybody, with the time that each runs next, in UTC
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a task, and what became of the times that it was due
    Show {
        /// The task
        #[arg(value_name = "NAME")]
        task: String,
    },
    /// Cancel a task; a run that is under way goes on
    Cancel {
        /// The task
        #[arg(value_name = "NAME")]
        task: String,
    },
    /// Have a task run as soon as an agent serves and is free, beside its schedule
    Run {
        /// The task
        #[arg(value_name = "NAME")]
        task: String,
    },
}

/// `approvals`.
#[derive(Debug, Args)]
pub struct Approvals {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,

    /// What to do.
    #[command(subcommand)]
    pub command: ApprovalsCommand,
}

/// What to do with approvals. An id may be cut to its first characters.
#[derive(Debug, Subcommand)]
pub enum ApprovalsCommand {
    /// List the calls that wait for approval
    List {
        /// Also those that have been answered, or are over
        #[arg(long)]
        all: bool,

        /// At most so many: the last ones
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        limit: u32,
    },
    /// Show all that is known of one call; of long arguments the digest, the beginning and the end
    Show {
        /// The approval
        id: String,
        /// Writes the arguments to this file, whole
        #[arg(long, value_name = "FILE")]
        arguments_to: Option<PathBuf>,
    },
    /// Let a call run
    Approve {
        /// The approval
        id: String,

        /// With these arguments, as JSON, in the place of its own
        #[arg(long, value_name = "JSON", conflicts_with = "remember")]
        arguments: Option<String>,

        /// How far that holds: once, or also for calls to come, of the same session, of the same
        /// tool, or of the same tool with the same arguments [default: once; tool where the rule
        /// asks once per tool]
        #[arg(long, value_name = "HOW", value_parser = ["once", "session", "tool", "arguments"])]
        remember: Option<String>,

        /// Of a call that a chain makes: so many more calls of the same tool in the same chain
        #[arg(long, value_name = "COUNT", conflicts_with_all = ["arguments", "remember"])]
        chain_calls: Option<u32>,

        /// What the arguments of those calls have, as JSON; `*` in a text stands for any characters
        #[arg(long, value_name = "JSON", requires = "chain_calls")]
        matching: Option<String>,

        /// Time for which the answer covers later calls, such as 8h [default:
        /// approvals.remember_for; a year where the rule asks once per tool]
        #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
        remember_for: Option<Duration>,

        /// Why, for who looks at it later
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// Do not let a call run
    Deny {
        /// The approval
        id: String,

        /// Why, for the caller
        #[arg(long, value_name = "TEXT")]
        note: Option<String>,
    },
    /// List the answers that hold for calls to come
    Remembered,
    /// Take such an answer back
    Revoke {
        /// The remembered answer
        id: String,
    },
}

/// `audit`.
#[derive(Debug, Args)]
pub struct Audit {
    /// Print JSON
    #[arg(long)]
    pub json: bool,

    /// At most so many: the last ones, at most 10000
    #[arg(long, value_name = "NUMBER", default_value_t = 100)]
    pub limit: u32,

    /// Those of this run
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,

    /// Those that ended so: ok, error, denied or timeout
    #[arg(long, value_name = "STATUS", value_parser = parse_status)]
    pub status: Option<CallStatus>,

    /// Those that were about this tool, such as mcp:github/create_issue
    #[arg(long, value_name = "ID", value_parser = |text: &str| ToolId::parse(text))]
    pub tool: Option<ToolId>,
}

/// `artifacts`.
#[derive(Debug, Args)]
pub struct ArtifactsOptions {
    /// What to do.
    #[command(subcommand)]
    pub command: ArtifactsCommand,
}

/// What to do with artifacts. They are those of every session.
#[derive(Debug, Subcommand)]
pub enum ArtifactsCommand {
    /// Print what is kept, the newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,

        /// At most so many, at most 10000
        #[arg(long, value_name = "NUMBER", default_value_t = 100)]
        limit: u32,
    },
    /// Write the bytes of one into a new file, or to standard output
    Save {
        /// The artifact, such as art_5f0c1e
        artifact: String,

        /// The file, which must not be there; `-` is standard output
        file: PathBuf,
    },
    /// Remove one before its time
    Remove {
        /// The artifact, such as art_5f0c1e
        artifact: String,
    },
}

/// `vault`.
#[derive(Debug, Args)]
pub struct Vault {
    /// What to do.
    #[command(subcommand)]
    pub command: VaultCommand,
}

/// What to do with the vault.
#[derive(Debug, Subcommand)]
pub enum VaultCommand {
    /// Put a credential into the vault, in place of the one that is there
    ///
    /// The value is what standard input holds, without the line end behind it. At a terminal it is
    /// asked for, and not shown while it is typed.
    ///
    /// A local tool finds it with its calls. An MCP server that names it in mcp.json, as
    /// ${vault:NAME}, has it the next time that it is connected.
    Set(CredentialName),
    /// List what there is: for whom, under which name and how old, without the values
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a credential
    Remove(CredentialName),
    /// Seal every credential with another key
    ///
    /// All of them or none. After that the settings have to name the new key; programs that run
    /// fetch it when they next need a credential, from where their settings say.
    ChangeKey(ChangeKey),
}

/// A credential.
#[derive(Debug, Args)]
pub struct CredentialName {
    /// Who provides the tools that it is for: mcp:SERVER for an MCP server, or what stands before
    /// the / in the id of a tool
    #[arg(value_name = "PROVIDER")]
    pub provider: String,

    /// The name that it is asked for by
    // Not called `name`: that is an option of every program, which would be taken for this.
    #[arg(value_name = "NAME")]
    pub credential: String,

    /// For this tool of the provider only
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,

    /// Only for calls of this caller, such as claimed:alice; `set` resolves token:toolbus-keys/NAME
    /// to the key that has this name now, and `list` shows the id of the key
    #[arg(long, value_name = "PRINCIPAL", value_parser = parse_owner_argument)]
    pub user: Option<Principal>,
}

/// `vault change-key`.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ChangeKey {
    /// The file that holds the new key: 64 hexadecimal digits, such as `openssl rand -hex 32`
    /// prints; nobody but its owner may read it
    #[arg(long, value_name = "FILE")]
    pub new_key_file: Option<PathBuf>,

    /// The command that prints the new key; everything behind this option is the program and its
    /// arguments
    #[arg(long, value_name = "COMMAND", num_args = 1.., allow_hyphen_values = true)]
    pub new_key_command: Option<Vec<String>>,
}

/// `serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Options of every service.
    #[command(flatten)]
    pub service: ServiceArguments,

    /// Also serve them to MCP clients at this address, such as 127.0.0.1:8800: the agent's own at
    /// the path /mcp, those of one MCP server at /mcp/NAME or /NAME/mcp [env:
    /// TOOLBUS_MCP_FACE__ADDRESS]
    #[arg(long, value_name = "ADDRESS")]
    pub mcp: Option<String>,
    /// Also take turns of the agent over HTTP at this address, such as 127.0.0.1:8810, at the path
    /// /v1/turns [env: TOOLBUS_HTTP__ADDRESS]
    #[arg(long, value_name = "ADDRESS")]
    pub http: Option<String>,
    /// Serve the search over tools instead, to the one MCP client that started this program, on
    /// standard input and output
    #[arg(long, conflicts_with_all = ["mcp", "http"])]
    pub mcp_search: bool,
}

/// `tools`.
#[derive(Debug, Args)]
pub struct Tools {
    /// Print JSON, with the schema of each tool
    #[arg(long)]
    pub json: bool,
}

/// `toolkits`.
#[derive(Debug, Args)]
pub struct ToolkitsOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `invoke`.
#[derive(Debug, Args)]
pub struct Invoke {
    /// Name of the tool
    // Not called `name`: that is an option of every program, which would be taken for this.
    #[arg(value_name = "NAME")]
    pub tool: String,

    /// Arguments of the tool: as NAME=VALUE, once for each; or all of them as JSON; or - to read
    /// that from standard input
    ///
    /// A VALUE is text where the tool takes text, and otherwise JSON where it is such.
    #[arg(value_name = "ARGUMENTS")]
    pub arguments: Vec<String>,

    /// How long to wait, such as 30s or 2m; the tool's own time when not given
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub timeout: Option<Duration>,

    /// Print the outcome as JSON, errors too
    #[arg(long)]
    pub json: bool,

    /// Save the files that the tool gives back, such as pictures, in this folder; none that is
    /// there is overwritten
    #[arg(long, value_name = "FOLDER")]
    pub save: Option<PathBuf>,
}

/// The session of this name: `abc` is `session/abc`.
pub(crate) fn parse_session(text: &str) -> Result<SessionId, String> {
    let name = if text.contains('/') { text.to_owned() } else { format!("session/{text}") };
    SessionId::parse(name).map_err(|error| error.to_string())
}

fn parse_status(text: &str) -> Result<CallStatus, String> {
    let named = CallStatus::ALL.into_iter().find(|status| status.as_str() == text);
    let names = CallStatus::ALL.map(CallStatus::as_str).join(", ");
    named.ok_or_else(|| format!("it is one of {names}"))
}

fn parse_principal_argument(text: &str) -> Result<Principal, String> {
    parse_principal(text).map_err(|error| error.to_string())
}

/// Parses a principal, with the id of its key where `vault list` shows one.
fn parse_owner_argument(text: &str) -> Result<Principal, String> {
    parse_owner(text).map_err(|error| error.to_string())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let time = text.parse::<TimeSpan>().map_err(|error| error.to_string())?.duration();
    if time.is_zero() { Err("it needs some time".to_owned()) } else { Ok(time) }
}
