//! Webhooks of jobs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolbus_http::tool_api::{
    SendWebhook, SignedWebhook, ToolApiConfig, WEBHOOK_SIGNATURE, WEBHOOK_TIMESTAMP, WebhookConfig,
    WebhookError, WebhookRequest, verify_webhook,
};
use toolbus_testkit::state::StatePlace;

use crate::bench::{Bench, CLIENT, LIMIT, config, until};

/// A receiver that answers with these statuses in turn, and then not at all.
struct Receiver {
    statuses: Mutex<Vec<u16>>,
    received: Mutex<Vec<WebhookRequest>>,
}

impl Receiver {
    fn new(statuses: &[u16]) -> Arc<Self> {
        let statuses = Mutex::new(statuses.iter().rev().copied().collect());
        Arc::new(Self { statuses, received: Mutex::default() })
    }
}

impl SendWebhook for Receiver {
    fn send(&self, request: WebhookRequest) -> BoxFuture<'_, Result<u16, WebhookError>> {
        self.received.lock().push(request);
        let status = self.statuses.lock().pop();
        async move {
            match status {
                Some(status) => Ok(status),
                None => std::future::pending().await,
            }
        }
        .boxed()
    }
}

fn quick() -> ToolApiConfig {
    let webhooks = WebhookConfig {
        retry_backoff: Duration::from_millis(10),
        send_timeout: Duration::from_millis(200),
        waiting_max: 2,
        ..WebhookConfig::default()
    };
    ToolApiConfig { webhooks, ..config() }
}

/// A job with a webhook: its path.
async fn queue(bench: &Bench, key: &str) -> String {
    let body = json!({
        "tool_name": "echo",
        "params": {"text": "hello"},
        "webhook_url": "https://receiver.example/hook",
    });
    let data = bench.post(key, "/v1/jobs", body).await.data();
    format!("/v1/jobs/{}", data["job_id"].as_str().unwrap())
}

async fn webhook_of(bench: &Bench, key: &str, path: &str) -> Value {
    until(async || !bench.get(key, path).await.data()["webhook"].is_null()).await;
    bench.get(key, path).await.data()["webhook"].clone()
}

#[tokio::test]
async fn cx_e11_the_end_of_a_job_is_told_and_signed() {
    for place in StatePlace::all().await {
        let receiver = Receiver::new(&[503, 200]);
        let bench = Bench::with(&place, quick(), Some(receiver.clone()));
        let issued = bench.key(json!({"name": "hooked"})).await;
        let (key, secret) =
            (issued["key"].as_str().unwrap(), issued["webhook_secret"].as_str().unwrap());
        let path = queue(&bench, key).await;
        assert_eq!(webhook_of(&bench, key, &path).await, "delivered");

        let received = receiver.received.lock().clone();
        assert_eq!(received.len(), 2, "it is tried again");
        let request = &received[1];
        let header = |name: &str| {
            let found = request.headers.iter().find(|(header, _)| *header == name);
            found.map(|(_, value)| value.clone()).unwrap()
        };
        let (timestamp, signature) = (header(WEBHOOK_TIMESTAMP), header(WEBHOOK_SIGNATURE));
        let signed =
            SignedWebhook { timestamp: &timestamp, signature: &signature, body: &request.body };
        let now = timestamp.parse().unwrap();
        assert!(verify_webhook(secret, &signed, now, 300));
        assert!(!verify_webhook("another", &signed, now, 300));
        let body: Value = serde_json::from_str(&request.body).unwrap();
        assert_eq!(body["event"], "job.completed");
        assert_eq!(body["job"]["result"]["result"], "hello");
        bench.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn a_receiver_that_never_answers_delays_no_job() {
    let receiver = Receiver::new(&[]);
    let bench = Bench::with(&StatePlace::sqlite(), quick(), Some(receiver.clone()));
    let issued = bench.key(json!({"name": "hooked"})).await;
    let key = issued["key"].as_str().unwrap();
    let mut paths = Vec::new();
    for _ in 0..8 {
        paths.push(queue(&bench, key).await);
    }
    for path in &paths {
        until(async || bench.get(key, path).await.data()["status"] == "completed").await;
    }
    // Two are tried, and what does not fit is dropped.
    let mut states = Vec::new();
    for path in &paths {
        states.push(webhook_of(&bench, key, path).await);
    }
    assert!(states.contains(&json!("failed")), "{states:?}");
    assert!(states.iter().all(|state| state == "failed" || state == "dropped"), "{states:?}");

    let began = Instant::now();
    bench.api.drain(Duration::from_secs(1)).await;
    assert!(began.elapsed() < LIMIT);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let receiver = Receiver::new(&[302, 200]);
    let bench = Bench::with(&StatePlace::sqlite(), quick(), Some(receiver.clone()));
    let issued = bench.key(json!({"name": "hooked"})).await;
    let key = issued["key"].as_str().unwrap();
    let path = queue(&bench, key).await;
    assert_eq!(webhook_of(&bench, key, &path).await, "failed");
    assert_eq!(receiver.received.lock().len(), 1);
    bench.api.drain(LIMIT).await;
}

#[tokio::test]
async fn an_address_that_is_none_is_refused() {
    let bench = Bench::with(&StatePlace::sqlite(), quick(), Some(Receiver::new(&[])));
    let issued = bench.key(json!({"name": "hooked"})).await;
    let key = issued["key"].as_str().unwrap();
    for url in ["file:///etc/passwd", "nonsense", "https://user:password@example.com/", ""] {
        let body = json!({"tool_name": "fail", "webhook_url": url});
        bench.post(key, "/v1/jobs", body).await.expect(400, "INVALID_REQUEST");
    }
    let body = json!({"tool_name": "fail", "webhook_url": "https://example.com/"});
    // It is for jobs, and signed for keys.
    bench.post(key, "/v1/execute_tool", body.clone()).await.expect(400, "INVALID_REQUEST");
    bench.post(CLIENT, "/v1/jobs", body).await.expect(400, "INVALID_REQUEST");
}
