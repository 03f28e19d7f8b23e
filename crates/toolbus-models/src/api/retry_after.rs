//! How long an API says to wait.

use std::time::{Duration, SystemTime};

use reqwest::header::{HeaderMap, RETRY_AFTER};

/// Longest wait that an API is believed to mean; a longer one is cut to this.
const RETRY_AFTER_BACKOFF_MAX: Duration = Duration::from_hours(24);

/// Reads `retry-after-ms`, which some APIs send, else `Retry-After`, which is seconds or a date;
/// `None` where it is neither.
pub(crate) fn read_retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let millis = text("retry-after-ms").and_then(|text| text.parse::<f64>().ok());
    let wait = millis.and_then(|millis| Duration::try_from_secs_f64(millis / 1e3).ok());
    let wait = wait.or_else(|| {
        let text = text(RETRY_AFTER.as_str())?;
        match text.parse::<f64>() {
            Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
            Err(_) => {
                let at = httpdate::parse_http_date(text).ok()?;
                Some(at.duration_since(now).unwrap_or_default())
            }
        }
    });
    Some(wait?.min(RETRY_AFTER_BACKOFF_MAX))
}

#[cfg(test)]
mod tests;
