//! Servers in OpenRouter's place: one that follows the published description, and checks what it is
//! sent, and one that says whatever a test wants.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::Url;

/// The key that is taken.
pub(crate) const KEY: &str = "sk-or-v1-5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee5ec2e7c0ffee";
/// The hash of the one key that there is.
pub(crate) const HASH: &str = "f01d52606dc8f0a8303a7b5cc3fa07109c2e346cec7c0a16b40de462992ce943";
/// The one generation that there is.
pub(crate) const GENERATION: &str = "gen-3bhGkxlo4XFrqiabUM7NDtwDzWwG";

pub(crate) const CREDITS: &str = include_str!("answers/credits.json");
pub(crate) const CURRENT_KEY: &str = include_str!("answers/key.json");
pub(crate) const KEYS: &str = include_str!("answers/keys.json");
pub(crate) const ONE_KEY: &str = include_str!("answers/one_key.json");
pub(crate) const MODELS: &str = include_str!("answers/models.json");
pub(crate) const ONE_GENERATION: &str = include_str!("answers/generation.json");

/// The names that the description has for the query of `/models`.
const MODELS_QUERY: [&str; 27] = [
    "arch",
    "category",
    "context",
    "distillable",
    "input_modalities",
    "limit",
    "max_age_days",
    "max_agentic_index",
    "max_coding_index",
    "max_intelligence_index",
    "max_output_price",
    "max_price",
    "max_tool_success_rate",
    "min_age_days",
    "min_agentic_index",
    "min_coding_index",
    "min_intelligence_index",
    "min_output_price",
    "min_price",
    "min_tool_success_rate",
    "model_authors",
    "offset",
    "output_modalities",
    "providers",
    "q",
    "sort",
    "supported_parameters",
];

/// A request as it came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) headers: BTreeMap<String, String>,
}

/// What is said in answer.
pub(crate) enum Say {
    /// These bytes, and then the connection ends.
    Bytes(Vec<u8>),
    /// These bytes, and then nothing for as long as the connection lives.
    AndHang(Vec<u8>),
    /// These bytes again and again, until nobody takes them any more.
    Forever(Vec<u8>, Vec<u8>),
}

type Answer = dyn Fn(&Asked) -> Say + Send + Sync;

/// A running server. It ends when this is dropped.
pub(crate) struct Upstream {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
    _tasks: JoinSet<()>,
}

impl Upstream {
    /// One that says what `answer` does.
    pub(crate) async fn saying(answer: impl Fn(&Asked) -> Say + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/api/v1", listener.local_addr().unwrap());
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (all, answer): (_, Arc<Answer>) = (Arc::clone(&asked), Arc::new(answer));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&all), Arc::clone(&answer)));
            }
        });
        Self { url, asked, _tasks: tasks }
    }

    /// One that follows the description.
    pub(crate) async fn by_the_book() -> Self {
        Self::saying(|asked| Say::Bytes(by_the_book(asked))).await
    }

    /// What was asked since the last look.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock())
    }
}

/// An answer with this status, these headers and this body.
pub(crate) fn answer(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let mut head = format!("HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\n", body.len());
    for (name, value) in headers {
        head += &format!("{name}: {value}\r\n");
    }
    [head.as_bytes(), b"connection: close\r\n\r\n", body].concat()
}

/// An answer as JSON.
pub(crate) fn json_answer(status: u16, body: impl AsRef<[u8]>) -> Vec<u8> {
    answer(status, &[("content-type", "application/json")], body)
}

async fn serve(mut stream: TcpStream, all: Arc<Mutex<Vec<Asked>>>, answer: Arc<Answer>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = stream.read_u8().await else { return };
        head.push(byte);
    }

    let asked = Asked::read(&String::from_utf8(head).unwrap());
    all.lock().push(asked.clone());
    let (bytes, after) = match answer(&asked) {
        Say::Bytes(bytes) => (bytes, None),
        Say::AndHang(bytes) => (bytes, Some(Vec::new())),
        Say::Forever(bytes, again) => (bytes, Some(again)),
    };

    let _ = stream.write_all(&bytes).await;
    match after {
        None => {}
        Some(again) if again.is_empty() => {
            // Until the other end has had enough.
            let _ = stream.read_u8().await;
        }
        Some(again) => while stream.write_all(&again).await.is_ok() {},
    }

    let _ = stream.shutdown().await;
    let _ = tokio::time::timeout(Duration::from_secs(1), stream.read_u8()).await;
}

impl Asked {
    fn read(head: &str) -> Self {
        let mut lines = head.split("\r\n");
        let mut first = lines.next().unwrap().split(' ');
        let (method, target) = (first.next().unwrap(), first.next().unwrap());
        let url = Url::parse(&format!("http://host{target}")).unwrap();
        let headers = lines.filter_map(|line| line.split_once(':'));
        Self {
            method: method.to_owned(),
            path: target.split('?').next().unwrap().to_owned(),
            query: url.query_pairs().map(|(k, v)| (k.into_owned(), v.into_owned())).collect(),
            headers: headers.map(|(k, v)| (k.to_lowercase(), v.trim().to_owned())).collect(),
        }
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }
}

fn by_the_book(asked: &Asked) -> Vec<u8> {
    match look_up(asked) {
        Ok(body) => json_answer(200, body),
        Err((status, message)) => {
            let error = json!({"error": {"code": status, "message": message}});
            json_answer(status, error.to_string())
        }
    }
}

fn look_up(asked: &Asked) -> Result<String, (u16, &'static str)> {
    if asked.method != "GET" {
        return Err((405, "Method not allowed"));
    }

    if asked.header("authorization") != format!("Bearer {KEY}") {
        return Err((401, "User not found."));
    }

    if asked.headers.contains_key("content-length")
        || asked.headers.contains_key("transfer-encoding")
    {
        return Err((400, "A GET has no body"));
    }

    let path = asked.path.strip_prefix("/api/v1").ok_or((404, "Not Found"))?;
    let only = |names: &[&str]| {
        let known = asked.query.keys().all(|name| names.contains(&name.as_str()));
        if known { Ok(()) } else { Err((400, "Unknown parameter")) }
    };

    match path {
        "/models" => only(&MODELS_QUERY).map(|()| models(&asked.query)),
        "/generation" => {
            only(&["id"])?;
            match asked.query.get("id").map(String::as_str) {
                Some(GENERATION) => Ok(ONE_GENERATION.to_owned()),
                Some(_) => Err((404, "Generation not found")),
                None => Err((400, "Missing id")),
            }
        }
        _ => {
            only(&[])?;
            match path {
                "/credits" => Ok(CREDITS.to_owned()),
                "/key" => Ok(CURRENT_KEY.to_owned()),
                "/keys" => Ok(KEYS.to_owned()),
                _ if path == format!("/keys/{HASH}") => Ok(ONE_KEY.to_owned()),
                _ if path.starts_with("/keys/") => Err((404, "API key not found")),
                _ => Err((404, "Not Found")),
            }
        }
    }
}

/// Without a query the list as it is; else what the query leaves of it.
fn models(query: &BTreeMap<String, String>) -> String {
    if query.is_empty() {
        return MODELS.to_owned();
    }
    let list: Value = serde_json::from_str(MODELS).unwrap();
    let q = query.get("q").map(|q| q.to_lowercase()).unwrap_or_default();
    let found: Vec<_> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|model| model["id"].as_str().unwrap().contains(&q))
        .collect();
    let number =
        |name: &str, default: usize| query.get(name).map_or(default, |text| text.parse().unwrap());
    let page: Vec<_> = found.iter().skip(number("offset", 0)).take(number("limit", 500)).collect();
    json!({"data": page, "total_count": found.len(), "links": {"next": null}}).to_string()
}
