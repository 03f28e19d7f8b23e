//! Which addresses are public, and what a name is resolved to.

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

#[tokio::test]
async fn a_name_with_private_addresses_only_is_refused() {
    let error = PublicOnlyResolver.resolve("localhost".parse().unwrap()).await.err();
    let error = error.expect("refused");
    assert!(error.downcast_ref::<PrivateAddress>().is_some(), "{error}");

    let url = Url::parse("http://localhost:1/").unwrap();
    assert_eq!(check_resolved(&url).await, Err(PrivateAddress));
}
