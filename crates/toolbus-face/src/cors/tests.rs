use super::is_of;

#[test]
fn an_origin_is_that_of_its_whole_name_and_port() {
    for (origin, allowed) in [
        ("https://chat.example.com", "https://chat.example.com"),
        ("https://chat.example.com", "https://Chat.example.com/"),
        ("http://localhost:6274", "http://localhost:*"),
        ("http://localhost", "http://localhost:*"),
        ("http://[::1]:80", "http://[::1]:*"),
    ] {
        assert!(is_of(origin, allowed), "{origin} {allowed}");
    }
    for (origin, allowed) in [
        ("https://chat.example.com:8443", "https://chat.example.com"),
        ("http://chat.example.com", "https://chat.example.com"),
        ("https://chat.example.com.evil.org", "https://chat.example.com"),
        ("http://localhost.evil.org", "http://localhost:*"),
        ("http://localhost:80.evil.org", "http://localhost:*"),
        ("http://localhost:", "http://localhost:*"),
        ("null", "http://localhost:*"),
        ("", "http://localhost:*"),
    ] {
        assert!(!is_of(origin, allowed), "{origin} {allowed}");
    }
}
