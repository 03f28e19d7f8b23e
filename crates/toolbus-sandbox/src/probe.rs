//! Whether the sandbox works here, proved by running a script that looks around in it.
//!
//! There is no weaker sandbox to fall back to: what is missing is said, with what to do about it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use toolbus_scripts::runner::{Ending, Error, Outcome, Run, Script};
use toolbus_scripts::supervisor::seccomp::Network;

/// The canary script, which reports what it finds in the sandbox.
pub(crate) static CANARY: &str = include_str!("canary.py");

/// What the canary must print.
const FACTS: &str = "\
uid 65534 65534 65534
capabilities 0 0 0 0 0
no new privileges 1
filter 2
routes 0
processes 1 2
foreign variables
descriptors 0 1 2
internet socket refused
namespace refused
root refused
usr refused
tracing refused
";

/// What a sandbox with a network cannot say in these words.
const NETWORK_FACTS: [&str; 2] = ["routes ", "internet socket "];

/// Where distributions put bubblewrap; permissions to make user namespaces are bound to this path.
const BWRAP: &str = "/usr/bin/bwrap";
/// The first release that can forbid further user namespaces.
const BWRAP_OLDEST: [u32; 2] = [0, 8];
/// The first release that counts the processes of each user namespace apart.
const KERNEL_OLDEST: [u32; 2] = [5, 14];
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
const CANARY_TIMEOUT: Duration = Duration::from_secs(10);

/// Why scripts cannot be run here, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unavailable {
    /// There is no bubblewrap.
    #[error(
        "bubblewrap was not found at {path}: install the package `bubblewrap` with the system's \
         package manager (`apt-get install bubblewrap`, `dnf install bubblewrap`)"
    )]
    BubblewrapMissing {
        /// Where it was looked for last.
        path: PathBuf,
    },
    /// The bubblewrap that is there cannot do what the recipe needs.
    #[error(
        "{path} is too old or does not work ({found}): bubblewrap 0.8 or later is needed, here or \
         at a path that is configured"
    )]
    BubblewrapOld {
        /// Where it is.
        path: PathBuf,
        /// What it said of its version.
        found: String,
    },
    /// The kernel is too old.
    #[error("the kernel {found} is too old: Linux 5.14 or later is needed")]
    Kernel {
        /// Its release.
        found: String,
    },
    /// There is no usable Python.
    #[error("no usable Python interpreter: {reason}: install Python 3.8 or later as `python3`")]
    Interpreter {
        /// What went wrong with the one that was tried.
        reason: String,
    },
    /// A setting makes no sense.
    #[error("the setting `{name}` is wrong: {reason}")]
    Setting {
        /// Its name.
        name: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The sandbox could not be started.
    #[error("the sandbox does not start: {reason}: {advice}")]
    Start {
        /// What bubblewrap or the kernel said.
        reason: String,
        /// What to do about it.
        advice: &'static str,
    },
    /// The sandbox starts and does not hold what it promises.
    #[error("the sandbox is not tight: expected `{expected}`, found `{found}`")]
    Leak {
        /// The fact that was expected.
        expected: String,
        /// What was found in its place.
        found: String,
    },
}

impl From<io::Error> for Unavailable {
    fn from(error: io::Error) -> Self {
        Self::Start { reason: error.to_string(), advice: advice_for(&error.to_string()) }
    }
}

/// Refuses kernels that lack what the recipe relies on.
pub(crate) fn check_kernel() -> Result<(), Unavailable> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let found = release.trim().to_owned();
    if parse_version(&found).is_some_and(|version| version >= KERNEL_OLDEST) {
        Ok(())
    } else {
        Err(Unavailable::Kernel { found })
    }
}

/// Finds a bubblewrap that is new enough.
pub(crate) async fn find_bwrap(configured: Option<&Path>) -> Result<PathBuf, Unavailable> {
    let candidates = [Some(Path::new(BWRAP)), configured].into_iter().flatten();
    let mut problem = Unavailable::BubblewrapMissing { path: PathBuf::from(BWRAP) };

    for path in candidates {
        match bwrap_version(path).await {
            Ok(found) if parse_version(&found).is_some_and(|version| version >= BWRAP_OLDEST) => {
                return Ok(path.to_path_buf());
            }
            Ok(found) => problem = Unavailable::BubblewrapOld { path: path.to_path_buf(), found },
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                if matches!(problem, Unavailable::BubblewrapMissing { .. }) {
                    problem = Unavailable::BubblewrapMissing { path: path.to_path_buf() };
                }
            }
            Err(error) => {
                let found = error.to_string();
                problem = Unavailable::BubblewrapOld { path: path.to_path_buf(), found };
            }
        }
    }

    Err(problem)
}

async fn bwrap_version(path: &Path) -> io::Result<String> {
    let mut command = Command::new(path);
    command.arg("--version").env_clear().stdin(Stdio::null()).kill_on_drop(true);
    // A signal for our group, such as Ctrl-C, is ours to act on.
    command.process_group(0);
    let answer = tokio::time::timeout(VERSION_TIMEOUT, command.output())
        .await
        .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
    let text = String::from_utf8_lossy(&answer.stdout);
    Ok(text.trim().trim_start_matches("bubblewrap ").chars().take(80).collect())
}

/// Parses the major and minor version number at the beginning of a text.
fn parse_version(text: &str) -> Option<[u32; 2]> {
    let mut numbers = text.split(|char: char| !char.is_ascii_digit());
    Some([numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?])
}

/// The canary script and a run for it.
pub(crate) fn canary_script() -> (Script, Run) {
    let script = Script {
        source: CANARY.to_owned(),
        input: String::new(),
        timeout: CANARY_TIMEOUT,
        packages: Vec::new(),
        files: Vec::new(),
        prelude: None,
    };
    (script, Run::alone(""))
}

/// Checks what the canary reported against the expected facts.
pub(crate) fn check_canary(
    outcome: Result<Outcome, Error>,
    network: Network,
) -> Result<(), Unavailable> {
    let start = |reason: String| Unavailable::Start { advice: advice_for(&reason), reason };
    let outcome = outcome.map_err(|error| match error {
        Error::Failed(reason) => start(reason),
        other => start(other.to_string()),
    })?;
    if outcome.ending != Ending::Exited(0) {
        let said = outcome.output.text.trim().lines().last().unwrap_or_default().to_owned();
        return Err(start(format!("the probing script ended with {:?}: {said}", outcome.ending)));
    }

    let is_of_network = |fact: &str| NETWORK_FACTS.iter().any(|begin| fact.starts_with(begin));
    let mut found = outcome.stdout.text.lines();
    for expected in FACTS.lines() {
        let found = found.next().unwrap_or_default().trim_end();
        if network == Network::Allowed && is_of_network(expected) {
            continue;
        }

        if found != expected {
            return Err(Unavailable::Leak {
                expected: expected.to_owned(),
                found: found.to_owned(),
            });
        }
    }

    Ok(())
}

/// Advice for the operator when user namespaces cannot be created.
fn advice_for(reason: &str) -> &'static str {
    let is_set = |path: &str, value: &str| {
        fs::read_to_string(path).is_ok_and(|content| content.trim() == value)
    };
    let contained =
        ["/.dockerenv", "/run/.containerenv"].iter().any(|path| Path::new(path).exists())
            || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();

    let denied = ["ermission", "ermitted", "uid map", "namespace", "RTM_NEWADDR"]
        .iter()
        .any(|word| reason.contains(word));

    if contained && denied {
        "containers forbid what the sandbox needs by their seccomp profile: run scripts in pods \
         (`--runner kubernetes`), or this container with a profile that allows user namespaces"
    } else if is_set("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        "AppArmor restricts user namespaces (Ubuntu 24.04 and later): install an AppArmor profile \
         for /usr/bin/bwrap that contains `userns,`, such as bwrap-userns-restrict of the package \
         `apparmor-profiles`"
    } else if is_set("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "user namespaces are switched off: set the sysctl kernel.unprivileged_userns_clone to 1"
    } else if is_set("/proc/sys/user/max_user_namespaces", "0") {
        "user namespaces are switched off: set the sysctl user.max_user_namespaces above 0"
    } else {
        "see what bubblewrap says when it is called by hand"
    }
}

#[cfg(test)]
mod tests;
