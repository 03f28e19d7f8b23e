//! Readiness from states, and what a real HTTP client gets.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

async fn server(health: &Health) -> HealthServer {
    crate::tls::install();
    serve(&"127.0.0.1:0".parse().unwrap(), health.clone()).await.unwrap()
}

async fn answer(server: &HealthServer, path: &str) -> (u16, Value) {
    let url = format!("http://{}{path}", server.address());
    let response = reqwest::get(url).await.unwrap();
    let status = response.status().as_u16();
    (status, serde_json::from_str(&response.text().await.unwrap()).unwrap_or(Value::Null))
}

#[test]
fn ready_means_that_every_required_component_serves() {
    let health = Health::new();
    assert!(!health.is_ready(), "nobody has said what it needs");
    let bus = health.component("bus", Need::Required);
    let search = health.component("search", Need::Optional);
    assert!(!health.is_ready(), "a component that has not worked yet");
    bus.set(State::Up);
    assert!(health.is_ready(), "an optional one is not needed");
    search.set(State::down("no index"));
    assert!(health.is_ready(), "not even when it is down");
    bus.set(State::degraded("the broker blocks publishers"));
    assert!(health.is_ready(), "a degraded one serves");
    bus.clone().set(State::down("connection refused"));
    assert!(!health.is_ready());
    bus.set(State::Up);
    health.stop();
    assert!(!health.is_ready(), "nothing is ready that stops");
}

#[test]
fn reasons_are_kept_short() {
    let health = Health::new();
    health.component("bus", Need::Required).set(State::down("ä".repeat(1000)));
    let reason = health.readiness()["components"]["bus"]["reason"].as_str().unwrap().to_owned();
    assert_eq!(reason.chars().count(), REASON_CHARS_MAX + 1);
}

#[tokio::test]
async fn readiness_over_http_names_what_is_missing() {
    let health = Health::new();
    let bus = health.component("bus", Need::Required);
    let server = server(&health).await;
    bus.set(State::down("connection refused"));
    let expected = json!({
        "ready": false,
        "stopping": false,
        "components": {
            "bus": { "state": "down", "reason": "connection refused", "required": true },
        },
    });
    assert_eq!(answer(&server, "/readyz").await, (503, expected));
    assert_eq!(answer(&server, "/healthz").await.0, 200);
    bus.set(State::Up);
    assert_eq!(answer(&server, "/readyz").await.0, 200);
    assert_eq!(answer(&server, "/elsewhere").await.0, 404);
}

#[tokio::test]
async fn the_status_shows_what_the_service_says_of_itself() {
    let health = Health::new();
    health.component("bus", Need::Required).set(State::Up);
    let server = server(&health).await;
    assert_eq!(answer(&server, "/status").await.1["details"], Value::Null);
    let inner = health.clone();
    health.describe(move || json!({ "servers": ["time"], "ready": inner.is_ready() }));
    let (status, report) = answer(&server, "/status").await;
    assert_eq!(status, 200);
    assert_eq!(report["details"], json!({ "servers": ["time"], "ready": true }));
    assert_eq!(report["ready"], true);
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let first = server(&Health::new()).await;
    let address = first.address().to_string();
    let error = serve(&address.parse().unwrap(), Health::new()).await.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot serve health at {address}"));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("in use"), "{source}");
}

#[tokio::test]
async fn no_host_means_every_address_of_the_machine() {
    let server = serve(&":0".parse().unwrap(), Health::new()).await.unwrap();
    assert!(TcpStream::connect(("127.0.0.1", server.address().port())).await.is_ok());
}

#[tokio::test]
async fn closing_closes_the_port_and_its_connections() {
    let server = server(&Health::new()).await;
    let address = server.address();
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    assert!(idle.read(&mut [0; 1024]).await.unwrap() > 0);
    server.close().await;
    assert_eq!(idle.read(&mut [0; 1024]).await.unwrap(), 0);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn clients_that_send_nothing_or_too_much_are_cut_off() {
    let server = server(&Health::new()).await;
    let mut large = TcpStream::connect(server.address()).await.unwrap();
    let head = format!("GET /healthz HTTP/1.1\r\nx: {}\r\n\r\n", "a".repeat(64 * 1024));
    // The server may close before all of it is written.
    let _ = large.write_all(head.as_bytes()).await;
    let mut answer = Vec::new();
    let _ = large.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");

    let silent = async {
        let mut silent = TcpStream::connect(server.address()).await.unwrap();
        silent.read_to_end(&mut Vec::new()).await
    };
    tokio::time::timeout(Duration::from_secs(20), silent).await.unwrap().unwrap();
}

#[test]
fn that_a_process_has_been_ready_stays_so() {
    let health = Health::new();
    let (bus, tools) =
        (health.component("bus", Need::Required), health.component("tools", Need::Required));
    bus.set(State::Up);
    assert!(!health.has_been_ready());
    tools.set(State::Up);
    assert!(health.has_been_ready());
    bus.set(State::down("gone"));
    health.stop();
    assert!(health.has_been_ready());
}

/// What a probe of the port says, off the runtime's threads, for it blocks.
async fn probed(address: String) -> Result<(), String> {
    let address = address.parse().unwrap();
    let asked = tokio::task::spawn_blocking(move || probe(&address)).await.unwrap();
    asked.map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_probe_tells_whether_the_process_is_ready() {
    let health = Health::new();
    let bus = health.component("bus", Need::Required);
    crate::tls::install();
    for host in ["127.0.0.1", "", "0.0.0.0"] {
        bus.set(State::down("connection refused"));
        let server = serve(&format!("{host}:0").parse().unwrap(), health.clone()).await.unwrap();
        let address = format!("{host}:{}", server.address().port());
        let error = probed(address.clone()).await.unwrap_err();
        assert!(error.starts_with("not ready: {"), "{error}");
        assert!(error.contains("connection refused"), "{error}");
        bus.set(State::Up);
        assert_eq!(probed(address.clone()).await, Ok(()));
        server.close().await;
        let error = probed(address.clone()).await.unwrap_err();
        assert_eq!(error, format!("the health port {address} does not answer"));
    }
}

#[tokio::test]
async fn a_probe_takes_no_other_server_for_the_health_port() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n").await.unwrap();
    };
    let (said, ()) = tokio::join!(probed(address.clone()), other);
    assert_eq!(said, Err(format!("the health port {address} does not answer")));
}
