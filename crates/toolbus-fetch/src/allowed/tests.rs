//! What entries of an allow-list mean.

use super::*;

fn allows(entry: &str, url: &str) -> bool {
    let entry: AllowedHost = entry.parse().expect(entry);
    entry.matches(&Url::parse(url).expect(url))
}

#[test]
fn entries_match_what_they_name_and_nothing_else() {
    for (entry, url) in [
        ("intranet", "http://intranet/"),
        ("INTRANET", "http://intranet.:8080/"),
        ("intranet:8080", "http://intranet:8080/x"),
        ("intranet:443", "https://intranet/"),
        ("*.corp.example", "http://a.b.corp.example/"),
        ("127.0.0.1", "http://127.1:99/"),
        ("127.0.0.1:99", "http://127.0.0.1:99/"),
        ("10.0.0.0/8", "http://10.255.1.2/"),
        ("10.0.0.0/8", "http://[::ffff:10.1.1.1]/"),
        ("::1", "http://[::1]/"),
        ("[::1]:80", "http://[::1]/"),
        ("fd00::/8", "http://[fd12::1]/"),
    ] {
        assert!(allows(entry, url), "{entry} {url}");
    }
    for (entry, url) in [
        ("intranet", "http://intranet.evil.example/"),
        ("intranet", "http://xintranet/"),
        ("intranet:8080", "http://intranet/"),
        ("*.corp.example", "http://corp.example/"),
        ("*.corp.example", "http://evilcorp.example/"),
        ("127.0.0.1:99", "http://127.0.0.1:98/"),
        ("10.0.0.0/8", "http://11.0.0.1/"),
        ("10.0.0.0/8", "http://10.0.0.1.example/"),
        ("fd00::/8", "http://[fe80::1]/"),
    ] {
        assert!(!allows(entry, url), "{entry} {url}");
    }
}

#[test]
fn names_lead_to_networks_that_are_allowed_with_all_ports() {
    let allows = |entry: &str| {
        let entry: AllowedHost = entry.parse().expect(entry);
        entry.allows_address("10.1.2.3".parse().expect("an address"))
    };
    assert!(allows("10.0.0.0/8") && allows("10.1.2.3"));
    assert!(!allows("10.1.2.3:80") && !allows("10.1.2.4") && !allows("intranet"));
}

#[test]
fn a_network_does_not_allow_the_metadata_of_clouds_in_it() {
    for (network, url) in [
        ("fd00::/8", "http://[fd00:ec2::254]/"),
        ("fd00::/8", "http://[fd20:ce::254]/"),
        ("fc00::/7", "http://[fd00:42::42]/"),
        ("100.64.0.0/10", "http://100.100.100.200/"),
        ("160.0.0.0/4", "http://169.254.169.254/"),
        ("160.0.0.0/4", "http://168.63.129.16/"),
    ] {
        assert!(!allows(network, url), "{network} {url}");
        let entry: AllowedHost = network.parse().expect(network);
        let address = literal_of(&Url::parse(url).expect(url)).expect("an address");
        assert!(!entry.allows_address(address), "{network} {url}");
    }
    for (entry, url) in [
        ("169.254.0.0/16", "http://169.254.169.254/"),
        ("169.254.169.254", "http://169.254.169.254/"),
        ("fd20:ce::254", "http://[fd20:ce::254]/"),
        ("100.100.100.200:80", "http://100.100.100.200/"),
        ("fe80::/10", "http://[fe80::a9fe:a9fe]/"),
    ] {
        assert!(allows(entry, url), "{entry} {url}");
    }
}

#[test]
fn what_is_no_entry_is_refused() {
    for text in [
        "",
        " ",
        "http://x/",
        "10.0.0.0/33",
        "10.0.0.0/0",
        "::/129",
        "a b",
        "x:99999",
        "*.10.0.0.1",
    ] {
        assert!(text.parse::<AllowedHost>().is_err(), "{text}");
    }
}
