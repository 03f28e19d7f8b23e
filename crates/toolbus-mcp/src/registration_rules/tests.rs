//! What may be registered by each setting.

use serde_json::{Value, json};

use super::*;
use crate::config::Variables;

fn entry(members: Value) -> Entry {
    let Value::Object(members) = members else { panic!("no object") };
    Entry::parse("x", members, Variables::Refused).expect("an entry")
}

fn check(rules: &RegistrationRules, url: &str) -> Result<(), RegistrationRefusal> {
    rules.check(&entry(json!({"type": "http", "url": url})))
}

#[test]
fn nothing_may_be_registered_at_first() {
    let rules = RegistrationRules::default();
    assert!(rules.is_off());
    assert_eq!(check(&rules, "https://a.example/mcp"), Err(RegistrationRefusal::Off));
    assert_eq!(rules.check(&entry(json!({"command": "a"}))), Err(RegistrationRefusal::Program));
}

#[test]
fn an_allow_list_is_of_hosts_over_https() {
    let rules = RegistrationRules {
        addresses: AddressRegistration::AllowList,
        hosts: vec!["mcp.a.example".to_owned(), "*.B.example".to_owned()],
        ..RegistrationRules::default()
    };

    for allowed in
        ["https://mcp.a.example/mcp", "https://MCP.a.example.:8443/", "https://x.y.b.example/"]
    {
        assert_eq!(check(&rules, allowed), Ok(()), "{allowed}");
    }
    for refused in [
        "https://a.example/",
        "https://b.example/",
        "https://xb.example/",
        "https://mcp.a.example.evil.example/",
        "https://evil.example/mcp.a.example",
        "https://evil.example/#mcp.a.example",
    ] {
        assert_eq!(check(&rules, refused), Err(RegistrationRefusal::Host), "{refused}");
    }
    assert_eq!(check(&rules, "http://mcp.a.example/"), Err(RegistrationRefusal::Insecure));
}

#[test]
fn addresses_that_are_not_public_are_refused_even_where_any_host_is_allowed() {
    let rules =
        RegistrationRules { addresses: AddressRegistration::Any, ..RegistrationRules::default() };
    assert_eq!(check(&rules, "http://a.example/mcp"), Ok(()));
    assert_eq!(check(&rules, "https://93.184.215.14/mcp"), Ok(()));

    let private = Err(RegistrationRefusal::Private(http::PrivateAddress));
    for url in ["http://169.254.169.254/", "http://[::ffff:10.0.0.1]/", "https://2130706433/"] {
        assert_eq!(check(&rules, url), private, "{url}");
    }
    let rules = RegistrationRules { private_addresses: PrivateAddresses::Allowed, ..rules };
    assert_eq!(check(&rules, "http://169.254.169.254/"), Ok(()));
}
