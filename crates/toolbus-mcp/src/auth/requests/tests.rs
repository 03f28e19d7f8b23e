//! Which addresses may be asked.

use super::*;

#[test]
fn only_https_or_this_machine_for_a_server_on_it() {
    let check = |url: &str, for_remote: bool, for_local: bool| {
        let url = Url::parse(url).expect("a URL");
        assert_eq!(is_allowed_address(&url, false), for_remote, "{url} for a remote server");
        assert_eq!(is_allowed_address(&url, true), for_local, "{url} for a local server");
    };
    check("https://login.example.org/token", true, true);
    check("http://login.example.org/token", false, false);
    check("http://127.0.0.1:9/token", false, true);
    check("http://[::1]:9/token", false, true);
    check("http://localhost/token", false, true);
    check("https://localhost/token", false, true);
    check("http://169.254.169.254/latest/meta-data", false, false);
    check("http://127.0.0.1.example.org/", false, false);
    check("file:///etc/passwd", false, false);
    check("javascript:alert(1)", false, false);
}

#[tokio::test]
async fn metadata_leads_a_server_of_an_agent_to_no_private_address() {
    let clients = HttpClients::public_only().expect("a client");
    let server = Url::parse("https://mcp.example.org/mcp").expect("a URL");
    let requests = OAuthRequests::new(&clients, &server, None);
    for address in
        ["https://10.0.0.1/token", "https://[fd00:ec2::254]/", "https://169.254.169.254/"]
    {
        let url = Url::parse(address).expect("a URL");
        let error = requests.get_document(url).await.expect_err(address);
        assert!(
            error.downcast_ref::<crate::http::PrivateAddress>().is_some(),
            "{address}: {error}"
        );
    }
}
