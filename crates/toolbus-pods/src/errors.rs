//! Classification of errors of the cluster, and what they mean to the caller of a script.

use toolbus_scripts::runner::Error;

/// Whether the same request may succeed a moment later.
pub(crate) fn is_transient(error: &kube::Error) -> bool {
    match error {
        // A namespace that was just made has no service account for a moment.
        kube::Error::Api(status) if status.message.contains("error looking up service account") => {
            true
        }
        // Two pods were counted against a quota at the same moment.
        kube::Error::Api(status) if status.is_conflict() => true,
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502..=504),
        error => is_unanswered(error),
    }
}

/// Whether there was no answer, so that it is unknown whether the request arrived.
pub(crate) fn is_unanswered(error: &kube::Error) -> bool {
    matches!(error, kube::Error::HyperError(_) | kube::Error::Service(_))
}

/// Whether the cluster has looked at the request and refused it, so that it had no effect.
pub(crate) fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if (400..500).contains(&status.code))
}

/// Whether the cluster says that there is no such thing.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}

/// Whether the cluster says that it is there already.
pub(crate) fn is_already_exists(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_already_exists())
}

/// Whether the cluster says that it is not as the request takes it to be.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.is_conflict())
}

/// Whether the cluster says that the namespace has as many of them as it may.
pub(crate) fn is_quota(error: &kube::Error) -> bool {
    let says_so = |message: &str| message.contains("exceeded quota");
    matches!(error, kube::Error::Api(status) if status.code == 403 && says_so(&status.message))
}

/// Why a pod could not be made.
pub(crate) fn creation_error(error: &kube::Error) -> Error {
    match error {
        kube::Error::Api(status) if is_quota(error) => {
            Error::Busy(format!("the namespace's quota is used up: {}", status.message))
        }
        kube::Error::Api(status) if status.code == 429 => {
            Error::Busy(format!("the cluster is busy: {}", status.message))
        }
        kube::Error::Api(status) if matches!(status.code, 401 | 403 | 404) => {
            Error::Unavailable(format!("the cluster refuses pods: {}", status.message))
        }
        kube::Error::Api(status) => {
            Error::Failed(format!("the cluster takes no such pod: {}", status.message))
        }
        error => Error::Unavailable(format!("the cluster does not answer: {}", error_chain(error))),
    }
}

/// An error with all its causes. Of what the cluster says only its message: the library shows the
/// whole of its status, twice.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let said = error.downcast_ref().and_then(cluster_message);
        let part = said.map_or_else(|| error.to_string(), str::to_owned);
        if !text.contains(&part) {
            let separator = if text.is_empty() { "" } else { ": " };
            text.extend([separator, &part]);
        }
        next = error.source().filter(|_| said.is_none());
    }

    text
}

fn cluster_message(error: &kube::Error) -> Option<&str> {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => Some(&status.message),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
