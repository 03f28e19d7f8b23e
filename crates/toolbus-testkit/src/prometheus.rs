//! A metrics store that nobody here wrote: Prometheus, which takes metrics by OTLP, scrapes a
//! broker, and answers queries.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(60);

/// A running store. Killed, with its data, at drop.
#[derive(Debug)]
pub struct Prometheus {
    process: Process,
    address: SocketAddr,
    http: reqwest::Client,
    began: u64,
    _folder: TempDir,
}

/// What a query gave: a series for each set of labels.
pub type Series = Vec<Value>;

impl Prometheus {
    /// Starts a store that scrapes, every second, what a RabbitMQ says of itself at this address,
    /// and has these files of rules. `None` where it has not been fetched and may be missing.
    ///
    /// # Panics
    /// When it does not start, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
    pub async fn start(broker: &str, rules: &[PathBuf]) -> Option<Self> {
        let program = crate::parts::folder("prometheus")?.join("prometheus");
        let launched = Self::launch(program, broker, rules).await;
        Some(launched.unwrap_or_else(|error| panic!("no Prometheus: {error:?}")))
    }

    async fn launch(program: PathBuf, broker: &str, rules: &[PathBuf]) -> anyhow::Result<Self> {
        let [port] = crate::ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-prometheus-")?;
        let settings = folder.path().join("prometheus.json");
        let targets = json!([{"targets": [broker]}]);
        let families = ["queue_coarse_metrics", "queue_consumer_count"];
        // JSON is YAML, which is what Prometheus reads.
        let text = json!({
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": rules,
            // What several processes send does not arrive in order.
            "storage": {"tsdb": {"out_of_order_time_window": "10m"}},
            "scrape_configs": [
                {"job_name": "rabbitmq", "static_configs": targets},
                {
                    "job_name": "rabbitmq-queues",
                    "metrics_path": "/metrics/detailed",
                    "params": {"family": families},
                    "static_configs": targets,
                },
            ],
        });

        fs::write(&settings, text.to_string())?;
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", settings.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--web.enable-otlp-receiver")
            .stdin(Stdio::null());
        let process =
            Process::spawn_with("prometheus", &mut command, folder.path(), Some(folder.path()))?;
        let http = crate::http_client()?;
        let mut store =
            Self { process, address, http, began: unix_seconds_now()?, _folder: folder };
        let end = Instant::now() + START_TIMEOUT;

        while !store.is_ready().await {
            let status = store.process.exit_status();
            ensure!(status.is_none(), "ended: {status:?}\n{}", store.process.logs());
            ensure!(
                Instant::now() < end,
                "not ready in {START_TIMEOUT:?}\n{}",
                store.process.logs()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }

        Ok(store)
    }

    async fn is_ready(&self) -> bool {
        let answer = self.http.get(format!("http://{}/-/ready", self.address)).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// What `OTEL_EXPORTER_OTLP_METRICS_ENDPOINT` is to be.
    pub fn endpoint(&self) -> String {
        format!("http://{}/api/v1/otlp/v1/metrics", self.address)
    }

    /// What a query gave at each second from the store's start until now; no series when it gave
    /// nothing at any.
    ///
    /// # Errors
    /// When the query is wrong, or the store does not answer.
    pub async fn ever(&self, query: &str) -> anyhow::Result<Series> {
        let start = self.began.to_string();
        let end = unix_seconds_now()?.to_string();
        let form = [("query", query), ("start", &start), ("end", &end), ("step", "1")];
        self.series("query_range", &form).await
    }

    /// What a query gives now.
    ///
    /// # Errors
    /// As [`Prometheus::ever`].
    pub async fn now(&self, query: &str) -> anyhow::Result<Series> {
        self.series("query", &[("query", query)]).await
    }

    /// The groups of rules that it has read.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn rule_groups(&self) -> anyhow::Result<Series> {
        let answer = self.api("rules", &[]).await?;
        Ok(answer["groups"].as_array().cloned().unwrap_or_default())
    }

    /// The names of the metrics that a query is about.
    ///
    /// # Errors
    /// When the query is wrong, or the store does not answer.
    pub async fn names_in(&self, query: &str) -> anyhow::Result<Vec<String>> {
        let tree = self.api("parse_query", &[("query", query)]).await?;
        let mut names = Vec::new();
        collect_names(&tree, &mut names);
        Ok(names)
    }

    /// The names of all metrics that it has.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn metrics(&self) -> anyhow::Result<Vec<String>> {
        let names = self.api("label/__name__/values", &[]).await?;
        Ok(serde_json::from_value(names)?)
    }

    async fn series(&self, path: &str, form: &[(&str, &str)]) -> anyhow::Result<Series> {
        let data = self.api(path, form).await.with_context(|| format!("{form:?}"))?;
        Ok(data["result"].as_array().cloned().unwrap_or_default())
    }

    async fn api(&self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<Value> {
        let mut url = reqwest::Url::parse(&format!("http://{}/api/v1/{path}", self.address))?;
        url.query_pairs_mut().extend_pairs(query);
        let mut answer: Value = self.http.get(url).send().await?.json().await?;
        ensure!(answer["status"] == "success", "Prometheus: {}", answer["error"]);
        Ok(answer["data"].take())
    }
}

/// Selectors are the nodes that have a name and matchers.
fn collect_names(tree: &Value, names: &mut Vec<String>) {
    if let (Some(name), true) = (tree["name"].as_str(), tree["matchers"].is_array()) {
        names.push(name.to_owned());
        return;
    }
    let members = tree.as_object().into_iter().flatten().map(|(_, member)| member);
    for member in members.chain(tree.as_array().into_iter().flatten()) {
        collect_names(member, names);
    }
}

fn unix_seconds_now() -> anyhow::Result<u64> {
    Ok(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs())
}
