#![allow(clippy::unwrap_used, reason = "a test may panic")]

use http::{HeaderMap, Uri};

use super::{ApiSettings, Visitors};
use crate::Principal;

fn visitors(tokens: &[(&str, &str)]) -> Visitors {
    let tokens = tokens.iter().map(|(name, token)| ((*name).to_owned(), (*token).to_owned()));
    Visitors::new(ApiSettings {
        allowed_hosts: vec!["agent.example.com".to_owned(), "other:8080".to_owned()],
        allowed_origins: vec!["https://chat.example.com".to_owned()],
        tokens: tokens.collect(),
        client_ids: [("alice".to_owned(), "c1".to_owned())].into(),
    })
}

fn admit(visitors: &Visitors, headers: &[(&'static str, &str)]) -> Result<Principal, String> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(*name, value.parse().unwrap());
    }
    let admitted = visitors.admit(&Uri::from_static("/v1/turns"), &map);
    admitted.map_err(|error| error.code().to_owned())
}

#[test]
fn hosts_are_those_that_are_named() {
    let visitors = visitors(&[]);
    for host in ["localhost", "127.0.0.1:80", "[::1]:8800", "agent.example.com:1", "other:8080"] {
        assert!(admit(&visitors, &[("host", host)]).is_ok(), "{host}");
    }
    for host in ["evil.example.com", "other", "other:81", "", "localhost.evil.com", "[::2]:1"] {
        assert_eq!(admit(&visitors, &[("host", host)]).unwrap_err(), "host_not_allowed", "{host}");
    }
    assert_eq!(admit(&visitors, &[]).unwrap_err(), "host_not_allowed");
}

#[test]
fn origins_are_those_that_are_named() {
    let visitors = visitors(&[]);
    let admitted = |origin| admit(&visitors, &[("host", "localhost"), ("origin", origin)]);
    for origin in ["https://chat.example.com", "http://localhost:3000", "http://127.0.0.1"] {
        assert!(admitted(origin).is_ok(), "{origin}");
    }
    for origin in ["https://evil.example.com", "null", "", "http://localhost.evil.com"] {
        assert_eq!(admitted(origin).unwrap_err(), "origin_not_allowed", "{origin}");
    }
}

#[test]
fn clients_are_known_by_their_tokens() {
    let visitors = visitors(&[("alice", "s3cret"), ("bob", "other")]);
    let admitted = |value| admit(&visitors, &[("host", "localhost"), ("authorization", value)]);
    assert_eq!(&*admitted("Bearer s3cret").unwrap().name, "alice");
    assert_eq!(&*admitted("bearer other").unwrap().name, "bob");
    for value in ["Bearer s3cre", "Basic s3cret", "s3cret", "Bearer", ""] {
        assert_eq!(admitted(value).unwrap_err(), "unauthorized", "{value}");
    }
    assert_eq!(admit(&visitors, &[("host", "localhost")]).unwrap_err(), "unauthorized");
}
