use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use toolbus_fetch::FetchConfig;
use toolbus_http::tool_api::{SendWebhook as _, WebhookError, WebhookRequest};

use super::WebhookSender;

fn request(url: &str) -> WebhookRequest {
    WebhookRequest {
        url: url.parse().expect("an address"),
        headers: vec![("x-toolbus-timestamp", "1".to_owned())],
        body: "{}".into(),
        timeout: Duration::from_secs(10),
    }
}

#[tokio::test]
async fn addresses_within_are_refused() {
    let sender = WebhookSender::new(FetchConfig::default()).expect("a sender");
    for url in ["http://127.0.0.1:1/", "http://169.254.169.254/latest/", "http://[::1]/"] {
        let sent = sender.send(request(url)).await;
        assert!(matches!(sent, Err(WebhookError::Refused(_))), "{url}: {sent:?}");
    }
}

#[tokio::test]
async fn a_redirect_within_is_not_followed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let allowed = format!("127.0.0.1:{port}").parse().expect("a host");
    let config = FetchConfig { allowed_hosts: vec![allowed], ..FetchConfig::default() };
    let sender = WebhookSender::new(config).expect("a sender");

    let url = format!("http://127.0.0.1:{port}/hook");
    let answering = async {
        let (mut connection, _) = listener.accept().await.expect("a connection");
        let mut head = vec![0; 4_096];
        let read = connection.read(&mut head).await.expect("a request");
        let answer =
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n";
        connection.write_all(answer.as_bytes()).await.expect("an answer");
        String::from_utf8_lossy(&head[..read]).to_ascii_lowercase()
    };
    let (sent, head) = tokio::join!(sender.send(request(&url)), answering);
    assert_eq!(sent.expect("an answer"), 302);
    assert!(head.starts_with("post /hook") && head.contains("x-toolbus-timestamp: 1"), "{head}");
}
