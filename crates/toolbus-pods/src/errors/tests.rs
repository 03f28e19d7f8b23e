//! What is told of errors.

use kube::core::Status;

use super::*;

#[derive(Debug, thiserror::Error)]
#[error("a stream cannot be had")]
struct Outer(#[source] kube::Error);

#[test]
fn what_the_cluster_says_is_told_once_and_in_its_own_words() {
    let status = Status::failure("pods \"p\" not found", "NotFound").with_code(404);
    let error = Outer(kube::Error::Api(Box::new(status)));
    assert_eq!(error_chain(&error), "a stream cannot be had: pods \"p\" not found");
    let error = kube::Error::Service("no answer".into());
    assert_eq!(error_chain(&error), "ServiceError: no answer");
}
