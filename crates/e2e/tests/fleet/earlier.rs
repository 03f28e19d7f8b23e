//! A fleet of an earlier commit is upgraded and rolled back in place, with calls in flight.
//!
//! `cargo xtask accept upgrade` builds the earlier programs and runs these tests; a run of all
//! tests leaves them out. Effects have unique numbers and leave their starts and ends in ledgers
//! outside of every program, which are compared with what callers were told.

mod api;
mod effects;
mod embedded;
mod on_a_broker;
mod tally;

use std::path::PathBuf;

use toolbus_testkit::process::Launch;

/// Names the folder with the programs of the earlier commit.
const PROGRAMS: &str = "TOOLBUS_TEST_EARLIER";

/// The commit that a program is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    Earlier,
    Current,
}

/// How a program comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// It is asked to stop, and ends its calls within its grace.
    Stop,
    /// It is killed.
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
