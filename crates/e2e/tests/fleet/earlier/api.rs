//! A client of the HTTP API of a host of either commit.

use anyhow::ensure;
use serde_json::{Value, json};
use toolbus_testkit::process::Service;

/// Token of the client that issues keys.
pub(super) const ADMIN: &str = "c4nary-of-an-admin";

/// Settings that serve the API, with an unlimited plan.
pub(super) const SETTINGS: &str = r#"
[discovery]
enabled = true
[http]
address = "127.0.0.1:0"
[http.tokens]
root = "c4nary-of-an-admin"
[http.plans.wide]
per_minute = 100000
per_month = 10000000
[http.tool_api]
enabled = true
admins = ["root"]
token_plan = "wide"
default_plan = "wide"
jobs_max = 2
open_jobs_max = 1000
"#;

#[derive(Debug, Clone)]
pub(super) struct Api {
    client: reqwest::Client,
    base: String,
}

impl Api {
    pub(super) async fn of(service: &Service) -> Self {
        let (_, status) = service.look("/status").await.unwrap();
        let status: Value = serde_json::from_str(&status).unwrap();
        let base = format!("http://{}/v1", status["details"]["http"].as_str().unwrap());
        Self { client: toolbus_testkit::http_client_builder().build().unwrap(), base }
    }

    /// Issues a key that can call tools.
    pub(super) async fn new_key(&self, name: &str) -> String {
        let body = json!({"name": name, "kind": "test", "role": "executor"});
        let request = self.client.post(format!("{}/keys", self.base)).bearer_auth(ADMIN);
        let response = request.json(&body).send().await.unwrap();
        let made: Value = response.json().await.unwrap();
        made["data"]["key"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
    }

    /// Submits a job whose effect takes this long, and returns its id. Returns an error if the host
    /// did not acknowledge the job.
    pub(super) async fn submit(&self, token: &str, call: &str, ms: u64) -> anyhow::Result<String> {
        let params = json!({"call": call, "ms": ms});
        let body = json!({"tool_name": "ledger/effect", "params": params, "timeout": 300_000});
        let request = self.client.post(format!("{}/jobs", self.base)).bearer_auth(token);
        let response = request.json(&body).send().await?;
        let status = response.status();
        let answer: Value = response.json().await?;
        ensure!(status == 202, "{status}: {answer}");
        Ok(answer["data"]["job_id"].as_str().unwrap_or_default().to_owned())
    }

    /// Returns the state of a job that this client owns.
    pub(super) async fn state_of(&self, token: &str, job: &str) -> anyhow::Result<String> {
        let request = self.client.get(format!("{}/jobs/{job}", self.base)).bearer_auth(token);
        let response = request.send().await?;
        let status = response.status();
        let answer: Value = response.json().await?;
        ensure!(status == 200, "{status}: {answer}");
        Ok(answer["data"]["status"].as_str().unwrap_or_default().to_owned())
    }
}
