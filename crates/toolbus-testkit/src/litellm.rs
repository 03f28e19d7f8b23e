//! A proxy that nobody here wrote and that speaks the APIs of models: LiteLLM's. It has answers of
//! its own, and translates between the APIs of OpenAI and Anthropic.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::ensure;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::process::Process;

const START_TIMEOUT: Duration = Duration::from_secs(120);
/// What starts it; its own program has the name of the folder in it that it was made in.
const RUN: &str = "from litellm import run_server; run_server()";

/// A running proxy. Killed at drop.
#[derive(Debug)]
pub struct LiteLlm {
    process: Process,
    address: SocketAddr,
    http: reqwest::Client,
    _folder: TempDir,
}

impl LiteLlm {
    /// The key that it wants.
    pub const KEY: &str = "sk-key-of-the-proxy";

    /// Starts a proxy with these models, which are the JSON of its `model_list`. `None` where it
    /// has not been fetched and may be missing.
    ///
    /// # Panics
    /// When it does not start, or it is missing and `TOOLBUS_REQUIRE_REAL` is `1`.
    pub async fn start(model_list: &str) -> Option<Self> {
        let program = crate::parts::folder("litellm")?.join("bin/python");
        let launched = Self::launch(program, model_list).await;
        Some(launched.unwrap_or_else(|error| panic!("no LiteLLM: {error:?}")))
    }

    async fn launch(program: PathBuf, model_list: &str) -> anyhow::Result<Self> {
        let [port] = crate::ports::free()?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let folder = TempDir::with_prefix("toolbus-litellm-")?;
        let config = folder.path().join("config.yaml");
        // What is JSON is YAML as well.
        let text = format!(
            r#"{{"model_list": {model_list}, "general_settings": {{"master_key": "{}"}},
                "litellm_settings": {{"num_retries": 0}}}}"#,
            Self::KEY
        );
        std::fs::write(&config, text)?;

        let mut command = Command::new(program);
        command.args(["-c", RUN, "--host", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--telemetry", "False", "--config"]).arg(&config);
        // It would look for prices on the network, three times.
        command.env("LITELLM_LOCAL_MODEL_COST_MAP", "True").env("NO_PROXY", "127.0.0.1");
        command.current_dir(folder.path()).stdin(Stdio::null());
        let process = Process::spawn("litellm", &mut command, folder.path())?;
        let mut proxy = Self { process, address, http: crate::http_client()?, _folder: folder };

        let end = Instant::now() + START_TIMEOUT;
        while !proxy.is_live().await {
            let status = proxy.process.exit_status();
            ensure!(status.is_none(), "ended: {status:?}\n{}", proxy.process.logs());
            ensure!(Instant::now() < end, "not ready\n{}", proxy.process.logs());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(proxy)
    }

    async fn is_live(&self) -> bool {
        let answer = self.http.get(format!("{}/health/liveliness", self.url())).send().await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }

    /// Where it is, without a path.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it wrote.
    #[must_use]
    pub fn logs(&self) -> String {
        self.process.logs()
    }
}
