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
