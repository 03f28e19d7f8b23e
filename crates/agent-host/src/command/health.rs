//! `health`: how the running service is.

use std::fmt::Write as _;
use std::time::Duration;

use reqwest::{Client, Url, redirect};
use serde_json::{Value, json};
use toolbus_config::error_chain::in_lines;
use toolbus_config::{Environment, HttpUrl, ListenAddress, on_one_line};
use toolbus_json::Limits;
use toolbus_runtime::health::{Readiness, ask_readiness};
use toolbus_runtime::service::{self, Exit};

use super::{misuse, print};
use crate::arguments::HealthOptions;
use crate::policy_reload::SettingsSource;
use crate::settings::Settings;

/// How long an HTTP API may take to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Most of an answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// What an answer may have, of an API as of a health port.
const ANSWER_LIMITS: Limits = Limits::of_bytes(ANSWER_BYTES_MAX);
/// Longest reason that is shown, in characters.
const REASON_CHARS_MAX: usize = 300;

/// How a service is.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    status: Status,
    /// What is wrong, a line each.
    reasons: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Healthy,
    Degraded,
    Unhealthy,
}

/// `health`.
pub(crate) fn check(options: HealthOptions, source: &SettingsSource) -> Exit {
    let report = match &options.url {
        Some(url) => ask_api(url),
        None => match health_address(source) {
            Ok(address) => ask_port(&address),
            Err(exit) => return exit,
        },
    };

    let text = if options.json {
        format!("{:#}\n", json!({"status": report.status.as_str(), "reasons": report.reasons}))
    } else {
        report.to_text()
    };
    print(&text);
    if report.status == Status::Unhealthy { Exit::FAILURE } else { Exit::SUCCESS }
}

/// The health port of the settings.
fn health_address(source: &SettingsSource) -> Result<ListenAddress, Exit> {
    let loaded = service::configure::<Settings>(
        &source.program,
        &source.common,
        source.own.clone(),
        &Environment::of_process(),
    );
    let loaded = loaded.map_err(|errors| misuse(in_lines(&errors).trim_end()))?;
    loaded.settings.health.address.ok_or_else(|| {
        misuse(
            "there is no health port: name the one that the service has, with --health, \
             TOOLBUS_HEALTH or `agent-host config set health.address`, or an HTTP API with --url",
        )
    })
}

fn ask_port(address: &ListenAddress) -> Report {
    match ask_readiness(address) {
        Ok(readiness) => Report::of_port(&readiness),
        Err(error) => Report::unhealthy(format!(
            "{}; a service listens there when it was started with --health {address}",
            on_one_line(&error)
        )),
    }
}

fn ask_api(url: &HttpUrl) -> Report {
    toolbus_runtime::tls::install();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return Report::unhealthy(error.to_string()),
    };
    match runtime.block_on(request_health(url)) {
        Ok(answer) => Report::of_api(&answer),
        Err(problem) => Report::unhealthy(problem),
    }
}

async fn request_health(url: &HttpUrl) -> Result<Vec<u8>, String> {
    // An address may have a password in it.
    let failed = |error: reqwest::Error| on_one_line(&error.without_url());
    let url = health_url(url).ok_or("the address is none of an HTTP API")?;
    let client = Client::builder().timeout(REQUEST_TIMEOUT).redirect(redirect::Policy::none());
    let client = client.build().map_err(failed)?;
    let mut response = client.get(url).send().await.map_err(failed)?;

    let mut answer = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if answer.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("its answer has more than {ANSWER_BYTES_MAX} bytes"));
        }
        answer.extend_from_slice(&chunk);
    }
    Ok(answer)
}

/// The address of `/v1/health`, of that of a server or of its `/v1`.
fn health_url(url: &HttpUrl) -> Option<Url> {
    let mut url = Url::parse(url.expose()).ok()?;
    let path = url.path().trim_end_matches('/').to_owned();
    let path = path.strip_suffix("/health").unwrap_or(&path);
    let path = path.strip_suffix("/v1").unwrap_or(path);
    url.set_path(&format!("{path}/v1/health"));
    Some(url)
}

impl Status {
    const ALL: [Self; 3] = [Self::Healthy, Self::Degraded, Self::Unhealthy];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Degraded => "degraded",
            Self::Unhealthy => "unhealthy",
        }
    }
}

impl Report {
    fn unhealthy(reason: String) -> Self {
        Self { status: Status::Unhealthy, reasons: vec![reason] }
    }

    /// What a health port says: components that do not serve make a service that is ready degraded.
    fn of_port(readiness: &Readiness) -> Self {
        let report = toolbus_json::from_str(&readiness.report, &ANSWER_LIMITS);
        let report: Value = report.unwrap_or_default();
        let mut reasons = Vec::new();
        for (name, component) in report["components"].as_object().into_iter().flatten() {
            let state = component["state"].as_str().unwrap_or("unknown");
            if state == "up" {
                continue;
            }
            let reason = component["reason"].as_str().map(|text| format!(": {text}"));
            reasons.push(format!("{name} is {state}{}", reason.unwrap_or_default()));
        }
        if report["stopping"] == true {
            reasons.push("it is stopping".to_owned());
        }

        let status = match readiness.is_ready {
            true if reasons.is_empty() => Status::Healthy,
            true => Status::Degraded,
            false => Status::Unhealthy,
        };
        if reasons.is_empty() && status == Status::Unhealthy {
            reasons.push("it is not ready".to_owned());
        }
        Self { status, reasons }
    }

    /// What the HTTP API says.
    fn of_api(answer: &[u8]) -> Self {
        let answer = toolbus_json::from_slice(answer, &ANSWER_LIMITS);
        let answer: Value = answer.unwrap_or_default();
        let said = answer["data"]["status"].as_str();
        let status = Status::ALL.into_iter().find(|status| said == Some(status.as_str()));
        match status {
            Some(Status::Healthy) => Self { status: Status::Healthy, reasons: Vec::new() },
            Some(Status::Degraded) => Self {
                status: Status::Degraded,
                reasons: vec!["some tools cannot be reached".to_owned()],
            },
            Some(Status::Unhealthy) => {
                Self::unhealthy("it says that it can answer no request".to_owned())
            }
            None => Self::unhealthy("what answers is no HTTP API of toolbus".to_owned()),
        }
    }

    fn to_text(&self) -> String {
        let mut text = format!("{}\n", self.status.as_str());
        for reason in &self.reasons {
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            let _ = writeln!(text, "  {reason}");
        }
        text
    }
}

#[cfg(test)]
mod tests;
