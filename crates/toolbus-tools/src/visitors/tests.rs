#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;

use http::Request;
use http::request::Parts;

use super::{ApiSettings, Visitors};
use crate::Principal;

/// Where requests of this machine come from.
const HERE: &str = "127.0.0.1:40000";

fn visitors(tokens: &[(&str, &str)]) -> Visitors {
    let tokens = tokens.iter().map(|(name, token)| ((*name).to_owned(), (*token).to_owned()));
    Visitors::new(ApiSettings {
        allowed_hosts: vec!["agent.example.com".to_owned(), "other:8080".to_owned()],
        allowed_origins: vec!["https://chat.example.com".to_owned()],
        tokens: tokens.collect(),
        client_ids: [("alice".to_owned(), "c1".to_owned())].into(),
    })
}

fn request(headers: &[(&'static str, &str)], peer: Option<&str>) -> Parts {
    let mut request = Request::get("/v1/turns");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    if let Some(peer) = peer {
        request = request.extension(peer.parse::<SocketAddr>().unwrap());
    }
    request.body(()).unwrap().into_parts().0
}

fn admit(visitors: &Visitors, headers: &[(&'static str, &str)]) -> Result<Principal, String> {
    let admitted = visitors.admit(&request(headers, Some(HERE)));
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

/// What a program writes into `Host` is its own affair: from elsewhere, the names of this machine
/// are names like any other.
#[test]
fn local_names_are_for_requests_of_this_machine() {
    let visitors = visitors(&[]);
    let is_admitted =
        |host: &str, peer: Option<&str>| visitors.admit(&request(&[("host", host)], peer)).is_ok();
    for peer in [HERE, "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
        assert!(is_admitted("localhost", Some(peer)), "{peer}");
    }
    let elsewhere = ["192.0.2.7:1", "172.17.0.1:1", "[2001:db8::1]:1", "[::ffff:192.0.2.7]:1"];
    for peer in elsewhere.map(Some).into_iter().chain([None]) {
        for host in ["localhost", "localhost:8800", "127.0.0.1", "[::1]:8800"] {
            assert!(!is_admitted(host, peer), "{host} from {peer:?}");
        }
        assert!(is_admitted("agent.example.com", peer), "{peer:?}");
    }

    // Where they are listed, everybody may use them.
    let listed = ApiSettings { allowed_hosts: vec!["localhost".to_owned()], ..Default::default() };
    let published = request(&[("host", "localhost:8800")], Some("172.17.0.1:1"));
    assert!(Visitors::new(listed).admit(&published).is_ok());
}

#[test]
fn an_address_is_listed_with_or_without_its_brackets() {
    for listed in ["2001:db8::1", "[2001:db8::1]", "[2001:DB8::1]:8800", " 2001:db8::1 "] {
        let hosts = vec![listed.to_owned()];
        let visitors = Visitors::new(ApiSettings { allowed_hosts: hosts, ..Default::default() });
        let request = request(&[("host", "[2001:db8::1]:8800")], None);
        assert!(visitors.check_host(&request).is_ok(), "{listed}");
    }
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
