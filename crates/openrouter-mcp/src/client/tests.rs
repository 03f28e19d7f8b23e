use super::*;

#[test]
fn retry_after_is_seconds_or_a_date_and_bounded() {
    let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:00 GMT").unwrap();
    let check = |text: &'static str, expected: Option<u64>| {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
        assert_eq!(parse_retry_after(&headers, now).map(|wait| wait.as_secs()), expected, "{text}");
    };
    check("30", Some(30));
    check(" 0 ", Some(0));
    check("Sun, 06 Nov 1994 08:49:37 GMT", Some(37));
    check("Sun, 06 Nov 1994 08:00:00 GMT", Some(0));
    check("18446744073709551615", Some(24 * 3600));
    check("99999999999999999999999", None);
    check("-1", None);
    check("soon", None);
    check("", None);
}

/// The program's promise is that it can only read, so nothing else may get at an HTTP client.
#[test]
fn no_other_file_has_an_http_client() {
    fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
    let files = files(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    let mut seen = 0;
    for path in files.iter().filter(|path| !path.ends_with("client/tests.rs")) {
        let source = std::fs::read_to_string(path).unwrap();
        let clients = ["reqwest::Client", "reqwest::{", "TcpStream", "hyper::", "reqwest::get"];
        let found: Vec<_> = clients.iter().filter(|client| source.contains(**client)).collect();
        if path.ends_with("src/client.rs") {
            seen += found.len();
            let writes = [".post(", ".put(", ".patch(", ".delete(", ".request(", "Method"];
            assert!(!writes.iter().any(|write| source.contains(write)), "client.rs can write");
        } else {
            assert!(found.is_empty(), "{}: {found:?}", path.display());
        }
    }
    assert_eq!(seen, 1, "the look itself is right");
}
