//! Which addresses are public, and which are those of clouds.

use super::*;

#[test]
fn only_addresses_of_the_internet_are_public() {
    let check = |address: &str, expected: bool| {
        let parsed: IpAddr = address.parse().expect("an address");
        assert_eq!(is_public(parsed), expected, "{address}");
    };

    for public in [
        "93.184.215.14",
        "8.8.8.8",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "169.253.1.1",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:4860:4860::8888",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ] {
        check(public, true);
    }

    for private in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "100.64.0.1",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b::10.0.0.1",
        "64:ff9b:1::8.8.8.8",
        "2002:7f00:1::",
        "2002:a9fe:a9fe::",
        "2001::1",
        "2001:db8::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "5f00::1",
        "100::1",
    ] {
        check(private, false);
    }
}

#[test]
fn addresses_of_clouds_are_known_in_every_form() {
    let check = |address: &str, expected: bool| {
        let parsed: IpAddr = address.parse().expect("an address");
        assert_eq!(is_metadata(parsed), expected, "{address}");
        assert!(!expected || !is_public(parsed), "{address}");
    };
    for metadata in [
        "169.254.169.254",
        "169.254.170.2",
        "100.100.100.200",
        "192.0.0.192",
        "168.63.129.16",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "2002:a9fe:a9fe::",
        "64:ff9b:1::a9fe:a9fe",
        "64:ff9b:1:2:3:4:a9fe:a9fe",
        "::ffff:0:a9fe:a9fe",
        "::169.254.169.254",
        "::ffff:168.63.129.16",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:c1::a9fe:a9fe",
        "fd00:42::42",
        "fd00:a9fe:a9fe::1",
        "fe80::1",
        "fe80::a9fe:a9fe",
    ] {
        check(metadata, true);
    }
    for other in [
        "127.0.0.1",
        "10.0.0.1",
        "8.8.8.8",
        "100.64.0.1",
        "::1",
        "::",
        "fd00::1",
        "fd20:ce::1",
        "fd20:ce:1::254",
        "fd00:42::43",
        "::ffff:10.0.0.1",
        "64:ff9b:1::a00:1",
    ] {
        check(other, false);
    }
}

#[tokio::test]
async fn names_of_clouds_are_known_and_are_not_public() {
    for name in [
        "metadata.google.internal",
        "METADATA.google.internal.",
        "metadata.goog",
        "a.metadata.goog",
        "api.metadata.cloud.ibm.com",
        "metadata.packet.net",
    ] {
        assert!(is_metadata_name(name), "{name}");
        // Nobody is asked for their addresses.
        assert_eq!(lookup_public(name).await.expect("it is not looked up"), None, "{name}");
        let url = Url::parse(&format!("http://{name}/")).expect(name);
        assert_eq!(check_resolved(&url).await, Err(NotPublic), "{name}");
    }
    for name in ["metadata", "google.internal", "mymetadata.goog", "metadata.goog.example"] {
        assert!(!is_metadata_name(name), "{name}");
    }
}

#[tokio::test]
async fn a_name_with_private_addresses_only_is_refused() {
    assert_eq!(lookup_public("localhost").await.expect("it resolves"), None);
    let url = Url::parse("http://localhost:1/").unwrap();
    assert_eq!(check_resolved(&url).await, Err(NotPublic));
}

#[test]
fn literals_are_read_in_every_spelling() {
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f000001/",
        "http://2130706433/",
        "http://0177.0.0.1/",
        "http://0/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://\u{ff11}27.0.0.1/",
        "http://169.254.169.254./",
    ] {
        let parsed = Url::parse(url).expect(url);
        assert_eq!(check_literal(&parsed), Err(NotPublic), "{url} is {parsed}");
    }
}
