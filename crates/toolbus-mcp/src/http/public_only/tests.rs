//! What a name is resolved to.

use super::*;

#[tokio::test]
async fn a_name_with_private_addresses_only_is_refused() {
    let error = PublicOnlyResolver.resolve("localhost".parse().unwrap()).await.err();
    let error = error.expect("refused");
    assert!(error.downcast_ref::<PrivateAddress>().is_some(), "{error}");

    let url = Url::parse("http://localhost:1/").unwrap();
    assert_eq!(check_resolved(&url).await, Err(PrivateAddress));
    let url = Url::parse("http://169.254.169.254/").unwrap();
    assert_eq!(check_literal(&url), Err(PrivateAddress));
}
