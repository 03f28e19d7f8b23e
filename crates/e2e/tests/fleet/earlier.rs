//! A fleet of an earlier commit is upgraded and rolled back in place, with calls in flight.
//!
//! `cargo xtask accept upgrade` builds the earlier programs and runs these tests; a run of all
//! tests excludes them. Each effect has a unique number and writes its start and end into a ledger
//! outside of every program. The tests compare the ledgers with the results that callers received.

mod api;
mod effects;
mod embedded;
mod on_a_broker;
mod tally;

use std::path::PathBuf;

use toolbus_testkit::process::Launch;

/// Variable with the folder of the programs of the earlier commit.
const PROGRAMS: &str = "TOOLBUS_TEST_EARLIER";

/// The commit of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Earlier,
    Current,
}

/// The way a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Ends gracefully: SIGTERM, and its calls end within the grace period.
    Stop,
    /// Ends by SIGKILL.
    Kill,
}

impl Version {
    fn launch(self, program: &str) -> Launch {
        match self {
            Self::Current => Launch::new(program),
            Self::Earlier => Launch::in_folder(&earlier_programs(), program),
        }
    }

    fn other(self) -> Self {
        match self {
            Self::Earlier => Self::Current,
            Self::Current => Self::Earlier,
        }
    }
}

fn earlier_programs() -> PathBuf {
    let folder = std::env::var_os(PROGRAMS).map(PathBuf::from);
    folder.unwrap_or_else(|| panic!("{PROGRAMS} is not set: run cargo xtask accept upgrade"))
}
