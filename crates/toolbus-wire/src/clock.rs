//! The wall clock: the one function by which every moment that goes over the wire is read.
//!
//! With the feature `shifted-clock`, which only test programs ask for, a variable of the
//! environment puts the clock of a process wrong. A program that is shipped has no such hook.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The variable that says by how many milliseconds the clock of this process is ahead (`120000`) or
/// behind (`-120000`). Anything that is not a number counts as 0.
#[cfg(feature = "shifted-clock")]
pub const SHIFT_VARIABLE: &str = "CHAOS_CLOCK_SHIFT_MS";

/// Time since 1970 by this machine's wall clock, which may be wrong, and may jump. Zero where the
/// clock stands before 1970.
#[must_use]
pub fn unix_now() -> Duration {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    #[cfg(feature = "shifted-clock")]
    let now = shift(now);
    now
}

#[cfg(feature = "shifted-clock")]
fn shift(now: Duration) -> Duration {
    let shift = std::env::var(SHIFT_VARIABLE).ok().and_then(|text| text.parse::<i64>().ok());
    let shift = shift.unwrap_or_default();
    let amount = Duration::from_millis(shift.unsigned_abs());
    if shift < 0 { now.saturating_sub(amount) } else { now.saturating_add(amount) }
}
