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
use toolbus_store::sqlx;
use toolbus_testkit::state::StatePlace;

use crate::bench::{ADMIN, Bench, CLIENT, LIMIT, config, until};

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
        sending_max: 2,
        attempts_max: 3,
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
    for path in &paths {
        assert_eq!(webhook_of(&bench, key, path).await, "failed");
    }
    assert_eq!(receiver.received.lock().len(), 8 * 3);

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

#[tokio::test]
async fn a_webhook_survives_its_process() {
    for place in StatePlace::all().await {
        let deaf = Receiver::new(&[]);
        let slow = WebhookConfig { send_timeout: LIMIT, ..quick().webhooks };
        let config = ToolApiConfig { webhooks: slow, ..quick() };
        let first = Bench::with(&place, config, Some(deaf.clone()));
        let issued = first.key(json!({"name": "hooked"})).await;
        let key = issued["key"].as_str().unwrap();
        let path = queue(&first, key).await;
        until(async || !deaf.received.lock().is_empty()).await;
        // The process ends in the middle of a try.
        first.api.drain(Duration::ZERO).await;
        assert!(first.get(key, &path).await.data()["webhook"].is_null());
        // Its lease runs out.
        sql(&first, "UPDATE http_jobs SET webhook_due_ms = 0 WHERE webhook_due_ms IS NOT NULL")
            .await;

        let receiver = Receiver::new(&[200]);
        let second = Bench::with(&place, quick(), Some(receiver.clone()));
        assert_eq!(webhook_of(&second, key, &path).await, "delivered");
        let body: Value = serde_json::from_str(&receiver.received.lock()[0].body).unwrap();
        assert_eq!(body["job"]["result"]["result"], "hello");
        second.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn of_several_processes_one_delivers() {
    for place in StatePlace::all().await {
        let receiver = Receiver::new(&[200; 30]);
        let benches: Vec<_> =
            (0..3).map(|_| Bench::with(&place, quick(), Some(receiver.clone()))).collect();
        let issued = benches[0].key(json!({"name": "hooked"})).await;
        let key = issued["key"].as_str().unwrap();
        let mut paths = Vec::new();
        for number in 0..12 {
            paths.push(queue(&benches[number % 3], key).await);
        }
        for path in &paths {
            assert_eq!(webhook_of(&benches[0], key, path).await, "delivered");
        }
        assert_eq!(receiver.received.lock().len(), 12);
        for bench in &benches {
            bench.api.drain(LIMIT).await;
        }
    }
}

/// A bench whose webhooks fail, and are tried again after a second.
fn failing(place: &StatePlace) -> (Bench, Arc<Receiver>) {
    let receiver = Receiver::new(&[503; 9]);
    let mut config = quick();
    config.webhooks.retry_backoff = Duration::from_secs(1);
    (Bench::with(place, config, Some(receiver.clone())), receiver)
}

#[tokio::test]
async fn a_webhook_that_is_too_old_is_given_up() {
    for place in StatePlace::all().await {
        let (bench, receiver) = failing(&place);
        let issued = bench.key(json!({"name": "hooked"})).await;
        let key = issued["key"].as_str().unwrap();
        let path = queue(&bench, key).await;
        until(async || !receiver.received.lock().is_empty()).await;
        sql(&bench, "UPDATE http_jobs SET ended_ms = ended_ms - 3600001").await;
        assert_eq!(webhook_of(&bench, key, &path).await, "failed");
        assert_eq!(receiver.received.lock().len(), 1);
        bench.api.drain(LIMIT).await;
    }
}

/// A new key of the same name does not sign the webhooks of the revoked key.
#[tokio::test]
async fn a_webhook_of_a_revoked_key_is_given_up() {
    for place in StatePlace::all().await {
        let (bench, receiver) = failing(&place);
        let issued = bench.key(json!({"name": "hooked"})).await;
        queue(&bench, issued["key"].as_str().unwrap()).await;
        until(async || !receiver.received.lock().is_empty()).await;
        bench.delete(ADMIN, &format!("/v1/keys/{}", issued["id"].as_str().unwrap())).await.data();
        bench.key(json!({"name": "hooked"})).await;

        until(async || {
            let store = bench.store.open().await.unwrap();
            let state: Option<String> = sqlx::query_scalar("SELECT webhook_state FROM http_jobs")
                .fetch_one(store.readers())
                .await
                .unwrap();
            state.as_deref() == Some("failed")
        })
        .await;
        assert_eq!(receiver.received.lock().len(), 1);
        bench.api.drain(LIMIT).await;
    }
}

#[tokio::test]
async fn secrets_are_sealed_and_go_with_their_keys() {
    for place in StatePlace::all().await {
        let bench = Bench::with(&place, quick(), Some(Receiver::new(&[])));
        let issued = bench.key(json!({"name": "hooked"})).await;
        let secret = issued["webhook_secret"].as_str().unwrap();
        // Another of the same name is not given out, and leaves nothing behind.
        let taken = bench.post(ADMIN, "/v1/keys", json!({"name": "hooked"})).await;
        taken.expect(400, "INVALID_REQUEST");

        let store = bench.store.open().await.unwrap();
        let sealed = sqlx::query_scalar::<_, Vec<u8>>("SELECT sealed FROM vault_credentials");
        let sealed = sealed.fetch_all(store.readers()).await.unwrap();
        assert_eq!(sealed.len(), 1);
        let has_it =
            |bytes: &[u8]| bytes.windows(secret.len()).any(|part| part == secret.as_bytes());
        assert!(!has_it(&sealed[0]));
        if let Some(folder) = place.folder() {
            for file in std::fs::read_dir(folder).unwrap() {
                assert!(!has_it(&std::fs::read(file.unwrap().path()).unwrap()));
            }
        }

        bench.delete(ADMIN, &format!("/v1/keys/{}", issued["id"].as_str().unwrap())).await.data();
        let left = sqlx::query_scalar::<_, i64>("SELECT COUNT(*) FROM vault_credentials");
        assert_eq!(left.fetch_one(store.readers()).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn without_a_vault_there_are_no_webhooks() {
    let bench = Bench::without_vault(&StatePlace::sqlite(), Receiver::new(&[]));
    let issued = bench.key(json!({"name": "hooked"})).await;
    assert!(issued["webhook_secret"].is_null());
    let body = json!({"tool_name": "fail", "webhook_url": "https://example.com/"});
    let key = issued["key"].as_str().unwrap();
    let refused = bench.post(key, "/v1/jobs", body).await.expect(400, "INVALID_REQUEST");
    assert!(refused.body["error"]["message"].as_str().unwrap().contains("vault"));
}

/// Changes what is in the store, as time or another process would.
async fn sql(bench: &Bench, text: &'static str) {
    let store = bench.store.open().await.unwrap();
    let change = store.write(move |transaction| {
        Box::pin(async move {
            sqlx::query(text).execute(transaction.connection()).await?;
            Ok(())
        })
    });
    change.await.unwrap();
}
