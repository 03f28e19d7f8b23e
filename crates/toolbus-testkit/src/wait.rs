//! Waiting for a state. Level-triggered: the state is looked at again and again, so that it does
//! not matter when it came about, and no test needs a sleep of a guessed length.

use std::fmt::Debug;
use std::future::Future;
use std::panic::Location;
use std::time::Duration;

use tokio::time::Instant;

/// Time between two looks: short compared with every limit in use, long compared with a look.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Looks until the look succeeds and returns what it found.
///
/// # Panics
/// When the limit has passed, with the error of the last look. A look that is under way at the
/// limit is given up.
#[track_caller]
pub fn eventually<T, E: Debug>(
    limit: Duration,
    mut look: impl AsyncFnMut() -> Result<T, E>,
) -> impl Future<Output = T> {
    let caller = Location::caller();
    async move {
        let end = Instant::now() + limit;
        let mut last = None;
        loop {
            match tokio::time::timeout_at(end, look()).await {
                Ok(Ok(found)) => return found,
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
            if Instant::now() + POLL_INTERVAL >= end {
                match last {
                    Some(error) => panic!("{caller}: not within {limit:?}: {error:?}"),
                    None => panic!("{caller}: not within {limit:?}: the first look never ended"),
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}

/// Looks throughout the window and panics as soon as a look fails. For something that must not
/// happen, where no later event shows that its time has passed: this is the one place where a
/// test lets real time go by, so keep the window short.
///
/// # Panics
/// When a look fails, with its error.
#[track_caller]
pub fn quiet_for<E: Debug>(
    window: Duration,
    mut look: impl AsyncFnMut() -> Result<(), E>,
) -> impl Future<Output = ()> {
    let caller = Location::caller();
    async move {
        let start = Instant::now();
        loop {
            // The last look is after the whole window.
            let is_last = start.elapsed() >= window;
            if let Err(error) = look().await {
                panic!("{caller}: not quiet after {:?}: {error:?}", start.elapsed());
            }
            if is_last {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL.min(window.saturating_sub(start.elapsed()))).await;
        }
    }
}
