//! Timeouts and retries of requests to the cluster.
//!
//! Both ends of a connection keep it while it is quiet, and the API server, or what is before it,
//! closes it at some moment, perhaps the very one at which a request is sent over it. That request
//! has no answer then, and it is unknown whether it arrived. The client library makes it again only
//! where it was not sent at all.
//!
//! Invariants: no request lasts longer than [`REQUEST_TIMEOUT`], with all its repetitions; what is
//! repeated here does no harm when it arrives twice. A change that must be made once is not: its
//! caller finds out what became of it.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::errors;

/// How long the cluster may take to answer.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Attempts of a request that is not answered, and the pause between them.
const ATTEMPTS_MAX: u32 = 3;
const RETRY_BACKOFF: Duration = Duration::from_millis(100);

/// Limits a request to [`REQUEST_TIMEOUT`].
pub(crate) async fn with_timeout<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    timeout(REQUEST_TIMEOUT, request).await.unwrap_or_else(|_| Err(timeout_error(REQUEST_TIMEOUT)))
}

/// Limits a request to [`REQUEST_TIMEOUT`], and retries it while it has no answer.
pub(crate) async fn with_retry<T, F>(mut request: impl FnMut() -> F) -> Result<T, kube::Error>
where
    F: Future<Output = Result<T, kube::Error>>,
{
    with_timeout(async {
        for _ in 1..ATTEMPTS_MAX {
            match request().await {
                Err(error) if errors::is_unanswered(&error) => {
                    tracing::debug!(error = %errors::error_chain(&error), "retrying a request to the cluster");
                }
                answer => return answer,
            }
            sleep(RETRY_BACKOFF).await;
        }
        request().await
    })
    .await
}

/// Limits a request to a deadline.
pub(crate) async fn until_deadline<T>(
    by: Instant,
    asking: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, kube::Error> {
    let start = Instant::now();
    timeout_at(by, asking).await.unwrap_or_else(|_| Err(timeout_error(start.elapsed())))
}

/// The error of a cluster that took too long.
fn timeout_error(limit: Duration) -> kube::Error {
    kube::Error::Service(format!("no answer within {limit:.1?}").into())
}
