//! The supervisor of a stdio server: a small process between this one and the server, which takes
//! the server and every descendant of it along when it ends, when it is asked to, and when this
//! process is gone, however that came about.
//!
//! It is the same program started again: `main` calls [`enter`] before anything else, and that
//! either turns the process into a supervisor or says that the program may begin. An embedder of
//! this crate whose `main` does not do that names a program that does, with
//! [`Supervisor::program`]; without any, servers are started directly. So no program is ever
//! started again that did not say it expects this.
//!
//! This half says how a supervisor is started and what it reports; [`main_loop`] is its life.
//! Between the two: the first argument [`MARK`], then the id of the process that it belongs to,
//! then the server's command and arguments. The server's environment comes with [`VARIABLE_PREFIX`]
//! before every name, so that nothing in it (`LD_PRELOAD`, say) applies to the supervisor itself.
//! The supervisor ends as its server did, by the same code or signal.

use std::ffi::{OsStr, OsString};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::{Command, ExitCode, ExitStatus};

use rustix::process::{DumpableBehavior, set_dumpable_behavior};

use crate::config::Launch;

mod main_loop;
mod process_tree;

#[cfg(not(target_os = "linux"))]
compile_error!("supervisors are made of Linux's subreapers, process descriptors and /proc");

/// The first argument of a process that is to be a supervisor.
const MARK: &str = "--supervise-mcp-server";
/// The name of supervisors in lists of processes. Not by the program's own name: killing all
/// processes of that name must not take the supervisors along.
const NAME: &str = "toolbus-mcp-supervisor";
/// The prefix of the name of every variable that is the server's.
const VARIABLE_PREFIX: &str = "TOOLBUS_MCP_SERVER_";
/// The exit code of a supervisor that could not start its server. Servers may use it too, so it is
/// believed together with [`NOT_STARTED`] only.
const NOT_STARTED_CODE: u8 = 125;
/// The text that such a supervisor writes to its standard error, before the system's number of the
/// error.
const NOT_STARTED: &str = "the server was not started: error ";

/// The program that supervisors are started from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    program: PathBuf,
}

/// Begins a program: call it first in `main`, before there are threads, a runtime or settings.
///
/// In a process that was started to be a supervisor it returns when everything below that has
/// ended, and breaks with the exit code for `main`. In any other it continues with what
/// [`crate::server_pool::PoolConfig::supervisor`] wants.
///
/// Either way, other processes of the same user can no longer read this one's memory, environment
/// and open files, attach to it, or have it dump its core. For a program that is not root's, its
/// own `/proc/self/environ`, `/proc/self/mem` and whatever else is only for the owner to open are
/// then closed to itself as well.
pub fn enter() -> ControlFlow<ExitCode, Supervisor> {
    refuse_inspection();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == MARK) {
        return ControlFlow::Break(main_loop::run(arguments));
    }
    // Not the path that this program was started by: there may be a newer one by now.
    ControlFlow::Continue(Supervisor::program("/proc/self/exe"))
}

/// Keeps other processes of this user from looking into this one: a server is started as the same
/// user, and this process and its supervisors hold the credentials of all servers. What is executed
/// from here can be inspected as usual.
fn refuse_inspection() {
    // Fails only for a value that the kernel does not know.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

impl Supervisor {
    /// Supervisors by another program, whose `main` calls [`enter`]. This crate brings one,
    /// `toolbus-mcp-supervisor`.
    #[must_use]
    pub fn program(path: impl Into<PathBuf>) -> Self {
        Self { program: path.into() }
    }

    /// A command that starts a server under a supervisor. `environment` is the server's, in all.
    pub(crate) fn command<'a>(
        &self,
        launch: &Launch,
        environment: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    ) -> Command {
        use std::os::unix::process::CommandExt as _;

        let mut command = Command::new(&self.program);
        command
            .arg0(NAME)
            .arg(MARK)
            .arg(std::process::id().to_string())
            .arg(&launch.command)
            .args(&launch.arguments)
            .env_clear();

        for (name, value) in environment {
            let mut prefixed = OsString::from(VARIABLE_PREFIX);
            prefixed.push(name);
            command.env(prefixed, value);
        }
        command
    }
}

/// Why the server of a supervisor that ended like this was not started, if it was not. Its own
/// words count for no more than the number of an error: the server could have written them.
pub(crate) fn why_not_started(status: ExitStatus, last_words: &str) -> Option<io::Error> {
    if status.code() != Some(i32::from(NOT_STARTED_CODE)) {
        return None;
    }

    let number = last_words.strip_prefix(NOT_STARTED)?.parse().ok()?;
    Some(io::Error::from_raw_os_error(number))
}
