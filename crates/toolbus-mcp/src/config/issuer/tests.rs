//! What is one issuer, and where it says so.

use super::*;

fn issuer(text: &str) -> Issuer {
    Issuer::parse(text).expect("an issuer")
}

#[test]
fn names_are_compared_to_the_letter() {
    let tenant = issuer("https://login.example.org/tenant");
    assert!(tenant.is_named_by("https://login.example.org/tenant"));
    assert!(issuer("https://login.example.org").is_named_by("https://login.example.org/"));

    for other in [
        "https://login.example.org/tenant/",
        "https://login.example.org/Tenant",
        "https://login.example.org/tenant?a=b",
        "https://login.example.org",
        "https://login.example.org.evil.example/tenant",
        "https://login.example.org@evil.example/tenant",
        "http://login.example.org/tenant",
        "https://login.example.org:8443/tenant",
        "",
    ] {
        assert!(!tenant.is_named_by(other), "{other}");
    }
}

#[test]
fn metadata_is_where_the_standards_have_it() {
    let urls = |text: &str| -> Vec<String> {
        issuer(text).metadata_urls().iter().map(Url::to_string).collect()
    };

    assert_eq!(
        urls("https://a.example"),
        [
            "https://a.example/.well-known/oauth-authorization-server",
            "https://a.example/.well-known/openid-configuration",
        ]
    );
    assert_eq!(
        urls("https://a.example/t/"),
        [
            "https://a.example/.well-known/oauth-authorization-server/t",
            "https://a.example/.well-known/openid-configuration/t",
            "https://a.example/t/.well-known/openid-configuration",
        ]
    );
}

#[test]
fn a_person_sees_host_port_and_path() {
    assert_eq!(issuer("https://a.example/").to_string(), "a.example");
    assert_eq!(issuer("https://a.example:8443/t/").to_string(), "a.example:8443/t");
    let long = format!("https://a.example/{}", "x".repeat(1_000));
    assert_eq!(issuer(&long).to_string().len(), SHOWN_BYTES_MAX);
}
