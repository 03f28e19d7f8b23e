//! Where a broker is, and requests to its management API.

use anyhow::{Context as _, bail};
use percent_encoding::percent_decode_str;
use reqwest::{Method, Url};
use serde_json::Value;

use super::vhost::{QueueType, Vhost};

#[cfg(test)]
mod tests;

/// The addresses of a broker's nodes, and the user that the tests log in as.
#[derive(Debug, Clone)]
pub struct Broker {
    first: Addresses,
    others: Vec<Addresses>,
}

#[derive(Debug, Clone)]
struct Addresses {
    amqp: Url,
    api: Url,
}

/// A client of one broker's management API. Belongs to the runtime it was made in.
#[derive(Debug)]
pub(crate) struct Management {
    broker: Broker,
    http: reqwest::Client,
}

impl Broker {
    /// From an AMQP URL, whose path is ignored, and the URL of the management API.
    ///
    /// # Errors
    /// When one of them is no URL or has no host.
    pub fn parse(amqp: &str, api: Option<&str>) -> anyhow::Result<Self> {
        let mut amqp = Url::parse(amqp).context("the AMQP URL")?;
        amqp.set_path("");
        let host = amqp.host_str().context("the AMQP URL has no host")?;
        let api = match api {
            Some(api) => Url::parse(api).context("the URL of the management API")?,
            None => Url::parse(&format!("http://{host}:15672"))?,
        };
        Ok(Self { first: Addresses { amqp, api }, others: Vec::new() })
    }

    /// A broker of the nodes of both.
    pub(crate) fn with(mut self, other: &Self) -> Self {
        self.others.push(other.first.clone());
        self.others.extend(other.others.iter().cloned());
        self
    }

    pub(crate) fn on_loopback(amqp_port: u16, api_port: u16) -> anyhow::Result<Self> {
        let api = format!("http://127.0.0.1:{api_port}");
        Self::parse(&format!("amqp://guest:guest@127.0.0.1:{amqp_port}"), Some(&api))
    }

    /// The AMQP URL of a virtual host of this broker; of several nodes, theirs with commas between.
    pub fn amqp_url(&self, vhost: &str) -> String {
        let urls = self.nodes().map(|node| {
            let mut url = node.amqp.clone();
            if let Ok(mut path) = url.path_segments_mut() {
                path.push(vhost);
            }
            url.into()
        });
        urls.collect::<Vec<String>>().join(",")
    }

    /// The AMQP URL of the first node without a virtual host, as `TOOLBUS_TEST_AMQP` takes it.
    pub fn amqp(&self) -> &str {
        self.first.amqp.as_str()
    }

    /// The URL of its management API, as `TOOLBUS_TEST_AMQP_API` takes it.
    pub fn api(&self) -> &str {
        self.first.api.as_str()
    }

    /// A new virtual host, deleted when the result is dropped.
    ///
    /// # Errors
    /// When the management API does not answer or refuses.
    pub async fn vhost(&self) -> anyhow::Result<Vhost> {
        Vhost::create(self.clone(), QueueType::Classic).await
    }

    /// A new virtual host whose queues are quorum queues unless they say otherwise.
    ///
    /// # Errors
    /// As [`Broker::vhost`].
    pub async fn quorum_vhost(&self) -> anyhow::Result<Vhost> {
        Vhost::create(self.clone(), QueueType::Quorum).await
    }

    fn nodes(&self) -> impl Iterator<Item = &Addresses> {
        std::iter::once(&self.first).chain(&self.others)
    }

    pub(crate) fn user(&self) -> String {
        match self.first.amqp.username() {
            "" => "guest".to_owned(),
            name => decode(name),
        }
    }

    fn password(&self) -> String {
        self.first.amqp.password().map_or_else(|| "guest".to_owned(), decode)
    }
}

impl Management {
    pub(crate) fn new(broker: Broker) -> anyhow::Result<Self> {
        Ok(Self { broker, http: crate::http_client()? })
    }

    pub(crate) fn broker(&self) -> &Broker {
        &self.broker
    }

    /// The JSON at `/api/…`, each segment of the path given unescaped; `None` for 404.
    pub(crate) async fn find(&self, path: &[&str]) -> anyhow::Result<Option<Value>> {
        let answer = self.send(Method::GET, path, None).await?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(None);
        }
        Ok(Some(expect_success(answer).await?.json().await?))
    }

    /// The JSON at `/api/…`.
    pub(crate) async fn get(&self, path: &[&str]) -> anyhow::Result<Value> {
        self.find(path).await?.with_context(|| format!("there is no {}", path.join("/")))
    }

    pub(crate) async fn put(&self, path: &[&str], body: Value) -> anyhow::Result<()> {
        expect_success(self.send(Method::PUT, path, Some(body)).await?).await.map(drop)
    }

    pub(crate) async fn post(&self, path: &[&str], body: Value) -> anyhow::Result<()> {
        expect_success(self.send(Method::POST, path, Some(body)).await?).await.map(drop)
    }

    /// Posts and returns the JSON of the answer.
    pub(crate) async fn ask(&self, path: &[&str], body: Value) -> anyhow::Result<Value> {
        Ok(expect_success(self.send(Method::POST, path, Some(body)).await?).await?.json().await?)
    }

    /// Deletes what is at the path; that it is gone already is no error.
    pub(crate) async fn delete(&self, path: &[&str]) -> anyhow::Result<()> {
        let answer = self.send(Method::DELETE, path, None).await?;
        if answer.status() == reqwest::StatusCode::NOT_FOUND {
            return Ok(());
        }
        expect_success(answer).await.map(drop)
    }

    /// Sends a request to the first node that takes connections.
    async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: Option<Value>,
    ) -> anyhow::Result<reqwest::Response> {
        let mut refusal = None;
        for node in self.broker.nodes() {
            let request = self.request(method.clone(), &node.api, path)?;
            let request = match &body {
                Some(body) => request.json(body),
                None => request,
            };
            match request.send().await {
                Err(error) if error.is_connect() => refusal = Some(error),
                outcome => {
                    return outcome.with_context(|| format!("management API: {}", path.join("/")));
                }
            }
        }

        let refusal = refusal.context("the broker has no node")?;
        Err(refusal).with_context(|| format!("management API: {}", path.join("/")))
    }

    fn request(
        &self,
        method: Method,
        api: &Url,
        path: &[&str],
    ) -> anyhow::Result<reqwest::RequestBuilder> {
        let mut url = api.clone();
        url.path_segments_mut()
            .ok()
            .context("the URL of the management API takes no path")?
            .pop_if_empty()
            .push("api")
            .extend(path);
        if method == Method::DELETE {
            // Found in the broker's own tables, for the statistics may not have it yet.
            url.set_query(Some("disable_stats=true"));
        }
        let request = self.http.request(method, url);
        Ok(request.basic_auth(self.broker.user(), Some(self.broker.password())))
    }
}

/// Undoes what a URL does to names.
fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

async fn expect_success(answer: reqwest::Response) -> anyhow::Result<reqwest::Response> {
    let status = answer.status();
    if status.is_success() {
        return Ok(answer);
    }
    let path = answer.url().path().to_owned();
    let text = answer.text().await.unwrap_or_default();
    bail!("management API: {path}: {status}: {text}")
}
