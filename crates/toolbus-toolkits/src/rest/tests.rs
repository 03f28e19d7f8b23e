//! What an endpoint does whatever its address was made of.

use super::*;

/// Templates are checked when endpoints are made, and the address of each request once more.
#[tokio::test]
async fn an_address_of_another_origin_gets_no_request() {
    let tool = |origin: &str| RestTool {
        template: UrlTemplate::parse("http://127.0.0.1:9/{x}").expect("a template"),
        origin: origin.to_owned(),
        method: Method::GET,
        auth: Some(Auth {
            credential: CredentialReference::Absent("it was looked for".to_owned()),
            header: AUTHORIZATION,
            prefix: "",
        }),
        body: BodyArguments::None,
        is_internal: true,
        timeout: Duration::from_secs(1),
        response_bytes_max: 1,
        fetcher: Fetcher::new(FetchConfig::default()).expect("a client"),
        permits: Arc::new(Semaphore::new(1)),
    };
    for other in ["http://127.0.0.1:90", "https://127.0.0.1:9", "http://localhost:9"] {
        let error = tool(other).call(&Map::new()).await.err();
        assert!(matches!(error, Some(RestError::OtherOrigin)), "{other}: {error:?}");
    }
    let error = tool("http://127.0.0.1:9").call(&Map::new()).await.err();
    assert!(matches!(error, Some(RestError::NoCredential(_))), "{error:?}");
}
