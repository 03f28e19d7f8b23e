use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::routing::post;

use super::*;

/// Far more than the system takes on its own.
const LARGE: usize = 32 << 20;

/// Refuses what comes to `/refuse` without reading it, and reads what comes to `/read`.
async fn server() -> (Server, TcpStream) {
    let router = Router::new()
        .route("/refuse", post(async || StatusCode::PAYLOAD_TOO_LARGE))
        .route("/read", post(async |body: Body| to_bytes(body, LARGE).await.unwrap()));
    let limits = Limits { connections_max: 1, lifetime: None };
    let server = serve(&"127.0.0.1:0".parse().unwrap(), router, limits).await.unwrap();
    let client = TcpStream::connect(server.address()).await.unwrap();
    (server, client)
}

async fn ask(client: &mut TcpStream, path: &str, length: usize) -> io::Result<()> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    client.write_all(head.as_bytes()).await?;
    client.write_all(&vec![b'x'; length]).await
}

async fn rest(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn who_is_refused_hears_it_after_all_it_sent_and_that_the_connection_ends() {
    let (_server, mut client) = server().await;
    ask(&mut client, "/refuse", LARGE).await.unwrap();
    let answer = rest(client).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn who_sends_without_end_is_cut_off() {
    let (_server, mut client) = server().await;
    let sending = async { while ask(&mut client, "/refuse", LARGE).await.is_ok() {} };
    tokio::time::timeout(60 * LINGER, sending).await.expect("it is cut off");
}

#[tokio::test]
async fn a_connection_lasts_while_all_of_each_request_is_read() {
    let (server, mut client) = server().await;
    for _ in 0..3 {
        ask(&mut client, "/read", 5).await.unwrap();
    }
    ask(&mut client, "/read", 0).await.unwrap();
    client.shutdown().await.unwrap();
    let answers = rest(client).await;
    assert_eq!(answers.matches("\r\n\r\nxxxxx").count(), 3, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 4, "{answers}");
    assert!(!answers.contains("close"), "{answers}");
    assert!(server.drain(Duration::from_secs(60)).await);
}
