//! The supervisor: what starts, holds and watches a script from inside the place where it runs, and
//! the manager's side of it.
//!
//! It is a program for the interpreter that runs the script, the first process of a sandbox or of a
//! pod ([`Place::program`]), and speaks frames and lines over its standard streams ([`protocol`]).
//! A [`Session`] hands it a script and reads how the script ended. What makes the place, and ends
//! it when the supervisor does not, is each runner's own.

mod output_files;
mod program;
pub mod protocol;
mod requests;
pub mod seccomp;
mod session;
mod texts;

pub use program::Place;
pub use requests::Requests;
pub use session::{
    CLOCK_GRACE, HANDOVER_TIMEOUT, Session, SessionEnd, SupervisorInput, SupervisorLink,
    SupervisorOutput, Transcript,
};
